/* SPDX-License-Identifier: MIT */
/*
 * A draft while it is being read: what both forms of a message come to, before it is checked as a whole and
 * written as a request. For the draft_*.c files alone.
 */
#ifndef INBOXFS_MAIL_DRAFT_READING_H
#define INBOXFS_MAIL_DRAFT_READING_H

#include <gmime/gmime.h>
#include <stdbool.h>
#include <stddef.h>

#include "mail/address.h"
#include "mail/draft.h"

struct string_list {
    char **items;
    size_t len;
};

struct draft_reading {
    bool is_answer; /* what is missing will be taken from what it answers */
    char *from;
    struct address_list to;
    struct address_list cc;
    struct address_list bcc;
    struct address_list reply_to;
    char *subject;    /* NULL: left out, so that the service takes the original's */
    char *plain_text; /* NULL: "" */
    char *html;       /* NULL: none */
    bool alternative_content;
    char *existing_email_id; /* NULL unless message_type is reply or forward */
    char *message_type;      /* NULL: new */
    struct string_list attachment_ids;
    struct string_list attachment_names;
    struct draft_part *parts;
    size_t parts_len;
    char **ret_reason; /* borrowed */
};

/* 0 or -ENOMEM. */
int string_list_append(struct string_list *list, const char *text);

/* 0, -EBADMSG, -EMSGSIZE, -ENOMEM; the reason is given. The bytes hold no NUL. */
int draft_read_json(struct draft_reading *reading, const char *bytes, size_t len);
int draft_read_mime(struct draft_reading *reading, const char *bytes, size_t len);

/* An answer: headers and body, or a body alone; what it does not say is taken from `answered`, a request in
 * JSON. 0 or as above. */
int draft_read_answer(struct draft_reading *reading, const char *bytes, size_t len, const char *answered);

/* Whether the first line is one of the headers that count. */
bool draft_begins_with_header(const char *bytes, size_t len);

/* Whether the bytes begin with a header section that can be a message's: nothing but header lines up to a
 * blank line, one of To, Cc, Bcc, Subject and From among them (of an answer, any that counts).
 * *ret_has_type: there is a Content-Type, so that it may have parts. 0, -EBADMSG, -EMSGSIZE. */
int draft_check_header_section(struct draft_reading *reading, const char *bytes, size_t len,
                               bool *ret_has_type);

/* Takes over what the message's own headers say. Unknown ones are passed over. */
int draft_read_headers(struct draft_reading *reading, GMimeMessage *message);

/* Says that there are too many: -EMSGSIZE. */
int draft_refuse_recipients(struct draft_reading *reading);

/* Releases and empties all of it. */
void draft_reading_release(struct draft_reading *reading);

/* Appends a part; `bytes` is taken over in any case. 0 or -ENOMEM. */
int draft_append_part(struct draft_reading *reading, const char *name, const char *content_type, char *bytes,
                      size_t len);

#endif
