/* SPDX-License-Identifier: MIT */
/*
 * The content of an email (interface, GET /api/v1/email/{id}) as a folder: its texts as files, the names of
 * its attachments, and the earlier emails of its thread. The reader ignores every field whose type differs
 * from the published one.
 */
#ifndef INBOXFS_MAIL_CONTENT_FOLDER_H
#define INBOXFS_MAIL_CONTENT_FOLDER_H

#include <stddef.h>
#include <stdint.h>

enum {
    CONTENT_MAX_BYTES = 96 * 1024 * 1024, /* length of the JSON text */
    CONTENT_ATTACHMENTS_MAX = 1000,
    CONTENT_PREVIOUS_MAX = 1000,
};

enum content_kind {
    CONTENT_HEAD = 1,   /* subject and addresses for a reply, as JSON that email_head_read() reads */
    CONTENT_TEXT,       /* a file of the folder: body.txt and so on */
    CONTENT_ATTACHMENT, /* name and id; the store fetches the bytes by the id */
    CONTENT_PREVIOUS,   /* an earlier email of the thread: id and text */
};

struct content_entry {
    enum content_kind kind;
    const char *name;  /* harmless (file_name.h), without characters that change the direction of text; unique
                          within its kind, regardless of case and Unicode normalisation */
    const char *id;    /* CONTENT_ATTACHMENT, CONTENT_PREVIOUS: the service's id; else "" */
    const char *bytes; /* with a NUL after them; "" if the entry has no text */
    size_t len;        /* length of `bytes` */
    int64_t date_ms;   /* CONTENT_PREVIOUS: time of sending since 1970 UTC; 0 if unknown */
};

struct content_folder {
    struct content_entry *entries; /* owned; their texts are in `packed` */
    size_t len;
    char *packed; /* owned; what content_folder_unpack() takes, with a NUL after it */
    size_t packed_len;
    char *email_id;   /* owned; NULL if the service sent none, like `message_id`, or after an unpack */
    char *message_id; /* owned; without brackets */
};

/* Part of the key of packed folders in a cache. Raise it whenever the packed form, or the content of an
 * entry, changes, so that old folders are no longer found. */
#define CONTENT_FOLDER_VERSION "6"

/* Makes the folder from JSON text. The caller releases it. Return: 0; -EBADMSG if the text is not a JSON
 * object with at least one field of content (a metadata record has none); -EMSGSIZE if it is longer than
 * CONTENT_MAX_BYTES, nested too deep, or has too many values (json_value.h); -EILSEQ if it is not UTF-8. */
int content_folder_read(const char *json, size_t len, struct content_folder *ret_folder);

/* Makes the folder from the packed form of another one, which must have a NUL after it. Takes ownership of
 * `packed`, also on failure. Return: 0; -EBADMSG if the bytes are no such form. */
int content_folder_unpack(char *packed, size_t len, struct content_folder *ret_folder);

const struct content_entry *content_folder_find(const struct content_folder *folder, enum content_kind kind,
                                                const char *name);

void content_folder_release(struct content_folder *folder);

#endif
