/* SPDX-License-Identifier: MIT */
/*
 * A draft is a message as a user wrote it, in one of the two forms of the filesystem contract ("Sending"):
 * RFC 5322 text, where `Attach: NAME` attaches a file of attachments/, or JSON, which is the send request
 * itself, and may have recipients as strings and `attachments` by name.
 *
 * In RFC 5322 text, To, Cc, Bcc, Reply-To, From, Subject, Attach, In-Reply-To and References are read; other
 * headers (Date, Message-ID, Resent-*, X-*) are ignored. mime.h finds the leaves: texts become the bodies
 * (mime_text.h), every other leaf, such as an attached message, is attached byte for byte. A message that
 * cannot be read whole is refused: a multipart without its end, a part with invalid headers, damaged base64,
 * bytes that do not fit their charset. Bytes that are valid UTF-8 are taken as UTF-8 if their charset is
 * unknown or does not fit.
 */
#ifndef INBOXFS_MAIL_DRAFT_H
#define INBOXFS_MAIL_DRAFT_H

#include <stddef.h>

#include "mail/address.h"

enum {
    DRAFT_MAX_BYTES = 24 * 1000 * 1000, /* a whole message: its bodies, and 10 MB of attachments in base64 */
    DRAFT_BODY_MAX_BYTES = 8 * 1000 * 1000,  /* one body after decoding */
    DRAFT_RECIPIENTS_MAX = ADDRESS_LIST_MAX, /* addresses in To, Cc, Bcc and Reply-To together */
    DRAFT_JSON_VALUES_MAX = 10 * 1000,
    ATTACHMENTS_MAX_BYTES = 10 * 1000 * 1000, /* all attachments of one email together; also each file */
    ATTACHMENTS_MAX = 1000,
    DRAFT_MESSAGE_IDS_MAX = 40, /* ids read from each of In-Reply-To and References */
};

/* An attached MIME part, to be uploaded before the message is sent. */
struct draft_part {
    char *name;         /* a valid file name (file_name.h), made up if the message gives none */
    char *content_type; /* "type/subtype" */
    char *content_id;   /* without brackets; NULL if the part has none */
    char *bytes;
    size_t len;
};

struct draft {
    char *from;    /* the sending address that the message names, or NULL */
    char *request; /* the send request as JSON text, without from_address, attachments and idempotency_key.
                      The text keeps the attachment_ids of a JSON draft */
    char **attachment_names; /* files in attachments/ */
    size_t attachment_names_len;
    struct draft_part *parts;
    size_t parts_len;
    char **message_ids; /* Message-IDs that the answered message may have, the likeliest first, without
                           brackets. Empty if the request has existing_email_id */
    size_t message_ids_len;
    char **not_carried; /* descriptions of the parts of the draft that the request cannot express */
    size_t not_carried_len;
};

/* Reads a message. The caller frees the draft. On failure *ret_reason describes the error (the caller frees).
 * Return: 0; -EBADMSG for an unknown JSON field or type, a bad header or address, a missing header section or
 * an invalid encoding; -EDESTADDRREQ if there is no recipient, or `answered` names a recipient that is not an
 * address; -EMSGSIZE if the parts exceed ATTACHMENTS_MAX_BYTES together, or the message a bound above.
 *
 * `answered` is the result of reply_make() (reply.h) for the email that the message answers, or NULL. An
 * answer may be a body alone: its first lines are headers only if they form a header section with a header
 * such as To (HEADER_COUNTS in draft_mime.c). If the first line is such a header, the section must be valid.
 * Fields of the message replace those of `answered`, except existing_email_id and message_type. */
int draft_parse(const char *bytes, size_t len, const char *answered, struct draft **ret_draft,
                char **ret_reason);

/* Checks by the first bytes of an answer whether draft_parse() will refuse it for its recipients: the answer
 * is a body alone, and `answered` has no recipients (as for a forward) or an unusable one. Return: 0 if the
 * answer may still be valid; -EDESTADDRREQ with *ret_reason as above. */
int draft_check_beginning(const char *bytes, size_t len, const char *answered, char **ret_reason);

/* NULL-safe. */
void draft_free(struct draft *draft);

/* Completes draft->request with `from`, and appends the given pool ids to the request's attachment_ids. If
 * the draft has message_ids and `replies_to` is an email's id, the request becomes a reply to that email.
 * `api` adds the idempotency_key. The caller frees *ret_request. Return: 0; -EMSGSIZE if it is
 * too large. */
int draft_complete_request(const struct draft *draft, const char *from, const char *replies_to,
                           const char *const *attachment_ids, size_t attachment_ids_len, char **ret_request);

/* Computes the sequence of a message: a digest of its sender and its set of recipients, regardless of case,
 * order and names. Messages of one sequence are sent one after another, since their recipients see the order.
 * `request` is the request of a draft. */
void draft_sequence(const char *request, const char *from, char ret_sequence[65]);

#endif
