/* SPDX-License-Identifier: MIT */
/*
 * A draft while it is read: what both forms of a message come to (draft_json.c, draft_mime.c), before draft.c
 * checks it as a whole and writes it as a request.
 *
 * The functions that read return 0, or an errno as draft_parse() does; *ret_reason has the words then.
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
    bool is_answer;     /* what is missing will be taken from what it answers */
    bool is_from_email; /* made of an email that is answered, which may name what is no address */
    char *from;
    bool says_to; /* whom it is for, or with nobody in it: that it is for nobody */
    bool says_cc;
    struct address_list to;
    struct address_list cc;
    struct address_list bcc;
    struct address_list reply_to;
    char *subject;    /* NULL: left out, so that the service takes the original's */
    char *plain_text; /* NULL: "" */
    char *html;       /* NULL: none */
    bool alternative_content;
    char *existing_email_id;   /* NULL unless message_type is reply or forward */
    char *message_type;        /* NULL: new */
    GPtrArray *attachment_ids; /* of strings, as all of these */
    GPtrArray *attachment_names;
    GPtrArray *in_reply_to; /* Message-IDs: the first ones, */
    GPtrArray *references;  /* and the last ones */
    GPtrArray *content_ids; /* of the parts; "": none */
    GPtrArray *not_carried; /* words, as in struct draft */
    GArray *parts;          /* of struct draft_part */
    struct mime_texts texts;
    const char *message; /* borrowed, as is the next: where the text begins */
    char **ret_reason;
};

void draft_parts_free(struct draft_part *parts, size_t len);

void draft_reading_init(struct draft_reading *reading, char **ret_reason);
void draft_reading_release(struct draft_reading *reading);

/* Notes, once, what of the message the interface has no place for. */
__attribute__((format(printf, 2, 3))) void draft_note_not_carried(struct draft_reading *reading,
                                                                  const char *format, ...);

/* Says that there are too many: -EMSGSIZE. */
int draft_refuse_recipients(struct draft_reading *reading);

/* Refuses the field or header `path`; `address`: the text that is none, or NULL. */
int draft_refuse_address(const struct draft_reading *reading, const char *path, const char *address);

/* Appends the addresses of a header, or of a text that is written like one. */
int draft_read_addresses(struct draft_reading *reading, const char *path, const char *text,
                         struct address_list *list);

/* Notes that the message itself has this list, be it empty. */
void draft_note_given(struct draft_reading *reading, const struct address_list *list);

/* How many blanks and line ends the text begins with. */
size_t draft_blank_len(const char *bytes, size_t len);

/* The JSON form. The bytes hold no NUL. */
int draft_read_json(struct draft_reading *reading, const char *bytes, size_t len);

/* The RFC 5322 form, likewise. */
int draft_read_mime(struct draft_reading *reading, const char *bytes, size_t len);

/* The RFC 5322 form of an answer, which may be a body alone. */
int draft_read_answer_text(struct draft_reading *reading, const char *bytes, size_t len);

#endif
