/* SPDX-License-Identifier: MIT */
/*
 * A draft while it is read: draft_json.c and draft_mime.c fill it in from the two forms of a message, then
 * draft.c checks it as a whole and writes the request.
 *
 * The functions that read return 0, or the -errno of draft_parse() with *ret_reason.
 */
#ifndef INBOXFS_MAIL_DRAFT_READING_H
#define INBOXFS_MAIL_DRAFT_READING_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

#include "mail/address.h"
#include "mail/draft.h"
#include "mail/mime_text.h"

struct draft_reading {
    bool is_answer;     /* missing fields are taken from the answered email */
    bool is_from_email; /* reads the result of reply_make(): its lists may have an unusable text */
    char *from;
    bool has_default_to; /* `to` is that of the answered email, and the message has not replaced it yet */
    bool has_default_cc;
    struct address_list to;
    struct address_list cc;
    struct address_list bcc;
    struct address_list reply_to;
    char *subject;    /* NULL if the message has none; in an answer, the service then uses the original's */
    char *plain_text; /* NULL means "" */
    char *html;       /* NULL if there is none */
    bool alternative_content;
    char *existing_email_id;   /* NULL unless message_type is reply or forward */
    char *message_type;        /* NULL for a new message */
    GPtrArray *attachment_ids; /* array of strings, like every GPtrArray below */
    GPtrArray *attachment_names;
    GPtrArray *in_reply_to; /* the first DRAFT_MESSAGE_IDS_MAX ids of In-Reply-To */
    GPtrArray *references;  /* the last DRAFT_MESSAGE_IDS_MAX ids of References */
    GPtrArray *not_carried; /* descriptions, as in struct draft */
    GArray *parts;          /* array of struct draft_part */
    struct mime_texts texts;
    const char *message; /* the RFC 5322 text, for line numbers; borrowed, like ret_reason */
    char **ret_reason;
};

/* Refuses the message for too many recipients: -EMSGSIZE with a reason. */
int draft_refuse_recipients(struct draft_reading *reading);

/* Refuses the field or header `path` with -EBADMSG. `address` is the text that is not an address, or NULL. */
int draft_refuse_address(const struct draft_reading *reading, const char *path, const char *address);

/* Appends the addresses of a header, or of a text that is written like one. */
int draft_read_addresses(struct draft_reading *reading, const char *path, const char *text,
                         struct address_list *list);

/* Empties the list if it still holds addresses of the answered email. Call it before adding the message's
 * addresses. */
void draft_begin_list(struct draft_reading *reading, struct address_list *list);

/* Reads the JSON form. The bytes must hold no NUL; likewise below. */
int draft_read_json(struct draft_reading *reading, const char *bytes, size_t len);

int draft_read_mime(struct draft_reading *reading, const char *bytes, size_t len);

/* Reads the RFC 5322 form of an answer, which may be a body alone. */
int draft_read_answer_text(struct draft_reading *reading, const char *bytes, size_t len);

#endif
