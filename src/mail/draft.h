/* SPDX-License-Identifier: MIT */
/*
 * A message as a user wrote it, in either form of the filesystem contract ("Sending"), read into what will be
 * sent. RFC 5322 text is taken apart by mime.h. `Attach: NAME` attaches a file of attachments/.
 * JSON is the send request itself, with recipients as strings and `attachments` by name allowed.
 *
 * In RFC 5322 text, To, Cc, Bcc, Reply-To, From, Subject, Attach, In-Reply-To and References count; other
 * headers (Date, Message-ID, Resent-*, X-*) are passed over. The texts are the bodies (mime_text.h), every
 * other leaf is attached, byte for byte; an attached message is such a leaf. A message that is cut off or
 * cannot be read whole is refused: a multipart without its end, a part whose headers are none, damaged
 * base64, a charset that is not followed. A charset that is unknown, or that the bytes do not fit, is passed
 * over where the bytes are valid UTF-8.
 */
#ifndef INBOXFS_MAIL_DRAFT_H
#define INBOXFS_MAIL_DRAFT_H

#include <stddef.h>

#include "mail/address.h"

enum {
    DRAFT_MAX_BYTES = 24 * 1000 * 1000,      /* a message file: 10 MB of attachments in base64, and bodies */
    DRAFT_BODY_MAX_BYTES = 8 * 1000 * 1000,  /* one body after decoding */
    DRAFT_RECIPIENTS_MAX = ADDRESS_LIST_MAX, /* To, Cc, Bcc and Reply-To together */
    DRAFT_JSON_VALUES_MAX = 10 * 1000,
    ATTACHMENTS_MAX_BYTES =
        10 * 1000 * 1000, /* of one email together, and of one file: the safe reading of 10 MB */
    ATTACHMENTS_MAX = 1000,
    DRAFT_MESSAGE_IDS_MAX = 40, /* that are taken from In-Reply-To, or from References */
};

/* An attached MIME part, to be uploaded before the message is sent. */
struct draft_part {
    char *name;         /* a valid file name (file_name.h), made up where the message gives none */
    char *content_type; /* "type/subtype" */
    char *bytes;
    size_t len;
};

struct draft {
    char *from;    /* the sending address it names; NULL: none named */
    char *request; /* the send request as JSON text, without from_address, attachments and idempotency_key.
                      attachment_ids given in JSON form stay in it */
    char **attachment_names; /* files in attachments/ */
    size_t attachment_names_len;
    struct draft_part *parts;
    size_t parts_len;
    char **message_ids; /* by which it says what it answers, the likeliest first, without brackets. None where
                           the request has existing_email_id */
    size_t message_ids_len;
    char **not_carried; /* words: what of it the request has no place for */
    size_t not_carried_len;
};

/* Reads a message. On failure *ret_reason (may be NULL on -ENOMEM; the caller frees) says in words what is
 * wrong. 0, -EBADMSG (not a message: unknown JSON field or type, bad header, bad address, no header section,
 * invalid encoding), -EDESTADDRREQ (no recipient, or one that is not an address), -EMSGSIZE (parts over
 * ATTACHMENTS_MAX_BYTES together, or a bound above passed), -ENOMEM.
 *
 * `answered` is what reply_make() (reply.h) made of the email that the message answers; NULL: it answers
 * none. The text of an answer may be a body alone: it has headers if it begins with a header section that
 * holds one of those that count, and it must have one if its first line is such a header. A field that the
 * message gives (as header, or in JSON) takes the place of what comes from the email; which email it answers,
 * and as what, does not change. */
int draft_parse(const char *bytes, size_t len, const char *answered, struct draft **ret_draft,
                char **ret_reason);

/* Looks whether the first bytes of an answer show that draft_parse() will refuse it: it is a body alone, and
 * the email names somebody who cannot be written to, or nobody, as for a forward. 0 (so far it may do),
 * -EDESTADDRREQ with *ret_reason as above, -ENOMEM. */
int draft_check_beginning(const char *bytes, size_t len, const char *answered, char **ret_reason);

/* NULL-safe. */
void draft_free(struct draft *draft);

/* The complete request: draft->request with `from` and the pool ids behind those it has (the list is left out
 * when empty); and as a reply to the email `replies_to`, where the draft has message_ids, and it is not NULL.
 * No idempotency_key: that is the service client's to add. Caller frees. 0 or -ENOMEM. */
int draft_complete_request(const struct draft *draft, const char *from, const char *replies_to,
                           const char *const *attachment_ids, size_t attachment_ids_len, char **ret_request);

/* Which messages must go out one after the other: those from one address to the same set of recipients. To
 * them, and to nobody else, the order is visible. The sequence is a digest, equal for equal senders and
 * recipients, whatever their case, order and names. `request` is a draft's. 0, -EBADMSG, -ENOMEM. */
int draft_sequence(const char *request, const char *from, char ret_sequence[65]);

#endif
