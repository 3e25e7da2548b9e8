/* SPDX-License-Identifier: MIT */
/*
 * A message that is sent: its values, and its writing as RFC 5322 text by GMime. Attachments are read back
 * out of that text, so that they are kept once.
 */
#ifndef INBOXFS_SERVICE_MESSAGE_H
#define INBOXFS_SERVICE_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct message_attachment {
    char id[37];
    char *name;
    char *content_type; /* "type/subtype" */
    char *bytes;
    size_t len; /* bytes */
};

struct message {
    char *message_id; /* "<…@…>", as are the next two */
    char *in_reply_to;
    json_t *references;    /* array of strings, or NULL */
    int64_t thread;        /* of the message that it replies to; 0: one of its own */
    int64_t forward_depth; /* how many messages are enclosed in each other */
    int64_t date_ms;
    /* An address is {"address": …, "name": …|null}; lists are arrays of them, never NULL. Owned. */
    json_t *from;
    json_t *to;
    json_t *cc;
    json_t *bcc; /* not written into the text */
    json_t *reply_to;
    char *subject;
    char *plain_text; /* or NULL */
    char *html;       /* or NULL */
    bool alternative_content;
    struct message_attachment *attachments;
    size_t attachments_len;
    char *forwarded; /* a whole message in RFC 5322 text, enclosed behind the attachments; or NULL */
    size_t forwarded_len;
    char forwarded_id[37]; /* its id as an attachment */
};

/* Accepts a half-filled or zeroed message. */
void message_release(struct message *message);

/* Makes up message_id, "<random@domain>". 0 or -errno. */
int message_name(struct message *message, const char *domain);

/* RFC 5322 text with CRLF line ends, 7-bit but for addresses beyond ASCII. The caller frees. 0 or -errno. */
int message_write(const struct message *message, char **ret_raw, size_t *ret_len);

/* The bytes of the `index`th attachment of a written message, the enclosed one counting as the last. The
 * caller frees. 0, -ENOENT or -errno. */
int message_read_attachment(const char *raw, size_t len, size_t index, char **ret_bytes, size_t *ret_len);

/* What the content records (interface, GET /api/v1/email/{id}) of all who see this message have in common.
 * NULL without memory. */
json_t *message_header(const struct message *message);

/* All text that a search reads, case-folded by message_fold(). NULL without memory. */
char *message_search_text(const struct message *message);
char *message_fold(const char *text);

#endif
