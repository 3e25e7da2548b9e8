/* SPDX-License-Identifier: MIT */
/*
 * The folder of an email, made of its content once and for all: the texts as files, the names of
 * its attachments, the emails of the thread before it. Nothing here looks at anything but the content.
 */
#ifndef INBOXFS_MAIL_CONTENT_FOLDER_H
#define INBOXFS_MAIL_CONTENT_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "mail/email_content.h"

enum content_kind {
    CONTENT_HEAD = 1,   /* who wrote what to whom: JSON that email_content_from_text() reads, for a reply */
    CONTENT_TEXT,       /* a file of the folder: body.txt and so on */
    CONTENT_ATTACHMENT, /* its name and id; the bytes are asked for by the id */
    CONTENT_PREVIOUS,   /* an earlier email of the thread: its id, and the file for it where it is not in the
                           mount */
};

struct content_entry {
    enum content_kind kind;
    char *name;  /* harmless (file_name.h), nothing in it hides what it is; of its kind no other has it, nor
                    one  that differs only in case or normalisation */
    char *id;    /* CONTENT_ATTACHMENT, CONTENT_PREVIOUS: the service's; else "" */
    char *bytes; /* owned; NULL where there is none */
    size_t len;  /* bytes */
    int64_t date_ms; /* CONTENT_PREVIOUS: when it was sent; 0: not known */
};

struct content_folder {
    struct content_entry *entries;
    size_t len;
};

/* 0 or -ENOMEM. */
int content_folder_from_content(const struct email_content *content, struct content_folder *ret_folder);

/* Appends an entry and returns it, all zeros but its kind and copies of name and id; NULL without memory. */
struct content_entry *content_folder_add(struct content_folder *folder, enum content_kind kind,
                                         const char *name, const char *id);

/* NULL: it has no such entry. */
const struct content_entry *content_folder_find(const struct content_folder *folder, enum content_kind kind,
                                                const char *name);

void content_folder_release(struct content_folder *folder);

#endif
