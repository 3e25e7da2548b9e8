/* SPDX-License-Identifier: MIT */
/*
 * A message has values and an RFC 5322 text, which this service or another program wrote. The functions write
 * the text from the values, and read the values from the text. Attachments are stored only in the text.
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
    MESSAGE_REFERENCES_MAX = 50, /* Message-IDs in References: the first and the newest ones */
};

struct message_attachment {
    char id[37];
    char *name;
    char *content_type;   /* "type/subtype" */
    const char *encoding; /* Content-Transfer-Encoding; static, or NULL */
    char *content_id;     /* without brackets; NULL if it has none */
    char *bytes;          /* NULL after message_read() */
    size_t len;           /* bytes */
};

/* Pointers are owned. Message-IDs have the form "<…@…>". An address is {"address": …, "name": …|null}. */
struct message {
    char *message_id;
    json_t *in_reply_to;   /* array of the Message-IDs in In-Reply-To, or NULL */
    json_t *references;    /* array of the Message-IDs in References, or NULL */
    int64_t thread;        /* seq of the thread's first message; 0 if this message is the first */
    int64_t forward_depth; /* how deeply messages are enclosed in this one; 0 if none is */
    int64_t date_ms;
    json_t *from;
    json_t *authors;   /* array of all that From names, set by message_read(); or NULL */
    char *sender_text; /* the text in a From without an address, set by message_read(); or NULL */
    json_t *to;        /* array of addresses, like cc, bcc and reply_to */
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
    char *forwarded; /* RFC 5322 text of a message that is enclosed after the attachments; or NULL */
    size_t forwarded_len;
    char forwarded_id[37]; /* id of the enclosed message as an attachment */

    /* What is stored beside the values. */
    char *header;      /* JSON: the fields that all content records of the message have in common */
    char *search_text; /* the text in which searches look, folded by g_utf8_casefold() */
    const char *raw;   /* RFC 5322 text; borrowed, or `written` */
    size_t raw_len;
    char *written;
};

/* Accepts a half-filled or zeroed message. */
void message_release(struct message *message);

/* Sets message_id to "<random@domain>". */
void message_make_id(struct message *message, const char *domain);

/* Makes `header` and `search_text` of the values. */
void message_make_columns(struct message *message);

/* Completes a message of this service: sets its date and Message-ID, makes the columns and the text. */
void message_compose(struct message *message, const char *domain);

/* Returns the address with its domain in ASCII (RFC 5890), or unchanged if the domain has no such form. The
 * caller frees it. */
char *message_ascii_address(const char *address);

/* Returns the message as RFC 5322 text with CRLF line ends, in 7 bits except for addresses beyond ASCII and
 * an enclosed message. The bytes of an enclosed message are not changed. If mail servers would not take its
 * bytes (a NUL, a lone CR, a line of more than 998 bytes), it is enclosed as a file. The caller frees the
 * text. */
char *message_write(const struct message *message, size_t *ret_len);

/* Appends a text of message_write() in the form that SMTP wants: lines of at most 998 bytes that end with CR
 * LF (RFC 5321 section 4.5.3.1.6). Return: 0 or the buffer's error. */
int message_write_for_relay(const char *raw, size_t len, struct strbuf *text);

/* Fills a zeroed message from RFC 5322 text, which may be any bytes. Texts become UTF-8. message_id, date_ms,
 * from and the bodies stay zero if the text does not have them. A body is cut at DRAFT_BODY_MAX_BYTES, the
 * attachments at ATTACHMENTS_MAX (draft.h), a list at ADDRESS_LIST_MAX addresses, a subject at 8 KiB, a name
 * at 255 bytes. The text is borrowed until message_release(). */
void message_read(const char *raw, size_t len, struct message *message);

/* Reads the attachment with this index, in the order of message_read(); in a text of message_write(), an
 * enclosed message is the last attachment. The caller frees the bytes. Return: 0 or -ENOENT. */
int message_read_attachment(const char *raw, size_t len, size_t index, char **ret_bytes, size_t *ret_len);

json_t *message_attachment_records(const struct message *message);

/* Returns the text in which searches look. The caller frees it. */
char *message_search_text(const struct message *message);

#endif
