/* SPDX-License-Identifier: MIT */
/*
 * A message: its values, its RFC 5322 text, which GMime writes, and the reading of such a text, written here
 * or elsewhere. Attachments are kept once: a request for one reads it out of the text.
 */
#ifndef INBOXFS_SERVICE_MESSAGE_H
#define INBOXFS_SERVICE_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#include "mail/mime.h"

enum {
    MESSAGE_REFERENCES_MAX = 50, /* of longer threads the first and the newest are kept */
};

struct message_attachment {
    char id[37];
    char *name;
    char *content_type;                    /* "type/subtype" */
    const char *encoding;                  /* Content-Transfer-Encoding, static; NULL: none */
    char content_id[MIME_CONTENT_ID_SIZE]; /* without brackets; "": none */
    char *bytes;                           /* NULL in a message that was read */
    size_t len;                            /* bytes */
};

struct message {
    char *message_id; /* "<…@…>", as are the next two */
    char *in_reply_to;
    json_t *answered;      /* all that In-Reply-To names, in_reply_to first: array of strings, or NULL */
    json_t *references;    /* the same of References */
    int64_t thread;        /* of the message that it replies to; 0: one of its own */
    int64_t forward_depth; /* how many messages are enclosed in each other */
    int64_t date_ms;
    /* An address is {"address": …, "name": …|null}; lists are arrays of them, never NULL. Owned. */
    json_t *from;
    char *sender_text; /* the value of a From without an address, in a message that was read; or NULL */
    json_t *to;
    json_t *cc;
    json_t *bcc; /* not written into the text */
    json_t *reply_to;
    char *subject;
    char *plain_text; /* or NULL */
    char *html;       /* or NULL */
    bool alternative_content;
    bool is_automatic; /* the service wrote it, and no program should answer it (RFC 3834) */
    struct message_attachment *attachments;
    size_t attachments_len;
    char *forwarded; /* a whole message in RFC 5322 text, enclosed behind the attachments; or NULL */
    size_t forwarded_len;
    char forwarded_id[37]; /* its id as an attachment */
};

/* Accepts a half-filled or zeroed message. */
void message_release(struct message *message);

/* Makes up message_id, "<random@domain>". Return: 0 or -errno. */
int message_name(struct message *message, const char *domain);

/* Returns the address with its domain in ASCII (RFC 5890); the caller frees. A domain that has no such form
 * stays as it is. NULL without memory. */
char *message_ascii_address(const char *address);

/* Writes RFC 5322 text with CRLF line ends, in 7 bits except for addresses beyond ASCII and an enclosed
 * message. An enclosed message keeps its bytes, behind a blank line if it is a body alone. It is enclosed as
 * a file if no mail server takes its bytes (a NUL, a lone CR, a line of more than 998 bytes). The caller
 * frees the text. Return: 0 or -errno. */
int message_write(const struct message *message, char **ret_raw, size_t *ret_len);

/* Appends a text of message_write() in the form that SMTP wants: lines of at most 998 bytes that end with CR
 * LF (RFC 5321 section 4.5.3.1.6). Return: 0 or the buffer's error. */
int message_write_for_relay(const char *raw, size_t len, struct strbuf *text);

/* Fills a message of zeros from RFC 5322 text. Refuses nothing: a part that it does not understand is left
 * out, or stays as it was written. Texts become UTF-8. Fields that the text lacks stay zero: message_id,
 * in_reply_to, date_ms, from, and the bodies. Bounds: DRAFT_BODY_MAX_BYTES a body, ATTACHMENTS_MAX
 * attachments (draft.h), ADDRESS_LIST_MAX addresses a list, 64 KiB of another header. The caller owns the
 * values in the message, on failure too. Return: 0; -ENOMEM or another lack of resources. */
int message_read(const char *raw, size_t len, struct message *message);

/* Reads the `index`th attachment of RFC 5322 text, in the order of message_read(); an enclosed message counts
 * as the last one if the text was written here. The caller frees the bytes. Return: 0, -ENOENT or -errno. */
int message_read_attachment(const char *raw, size_t len, size_t index, char **ret_bytes, size_t *ret_len);

/* Returns the fields that all content records of this message (interface, GET /api/v1/email/{id}) have in
 * common; NULL without memory. */
json_t *message_header(const struct message *message);

/* Returns the records of its attachments; NULL without memory. */
json_t *message_attachment_records(const struct message *message);

/* Returns all text that a search compares, case-folded by message_fold(); NULL without memory. */
char *message_search_text(const struct message *message);
char *message_fold(const char *text);

#endif
