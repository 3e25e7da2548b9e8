/* SPDX-License-Identifier: MIT */
/*
 * The folder of an email: its texts as files, the names of its attachments, and the earlier emails of its
 * thread. The folder is made once, from the content of the email alone.
 */
#ifndef INBOXFS_MAIL_CONTENT_FOLDER_H
#define INBOXFS_MAIL_CONTENT_FOLDER_H

#include <stddef.h>
#include <stdint.h>

#include "mail/email_content.h"

enum content_kind {
    CONTENT_HEAD = 1,   /* subject and addresses for a reply, as JSON that email_content_from_text() reads */
    CONTENT_TEXT,       /* a file of the folder: body.txt and so on */
    CONTENT_ATTACHMENT, /* name and id; the store fetches the bytes by the id */
    CONTENT_PREVIOUS,   /* an earlier email of the thread: id and text */
};

struct content_entry {
    enum content_kind kind;
    char *name;      /* harmless (file_name.h), without characters that change the direction of text; unique
                        within its kind, regardless of case and Unicode normalisation */
    char *id;        /* CONTENT_ATTACHMENT, CONTENT_PREVIOUS: the service's id; else "" */
    char *bytes;     /* owned; NULL if the entry has no text */
    size_t len;      /* length of `bytes` */
    int64_t date_ms; /* CONTENT_PREVIOUS: time of sending since 1970 UTC; 0 if unknown */
};

struct content_folder {
    struct content_entry *entries;
    size_t len;
};

/* Makes the folder. The caller releases it. Return: 0 or -ENOMEM. */
int content_folder_from_content(const struct email_content *content, struct content_folder *ret_folder);

/* Appends an entry with copies of name and id, without bytes. The next call may move the returned entry. */
struct content_entry *content_folder_add(struct content_folder *folder, enum content_kind kind,
                                         const char *name, const char *id);

const struct content_entry *content_folder_find(const struct content_folder *folder, enum content_kind kind,
                                                const char *name);

void content_folder_release(struct content_folder *folder);

#endif
