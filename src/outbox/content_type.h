/* SPDX-License-Identifier: MIT */
/*
 * The content type of a file to upload, from its content (libmagic) and, where the content says little, from
 * its name. Each thread that asks has a content_type of its own: libmagic's handles cannot be shared.
 */
#ifndef INBOXFS_OUTBOX_CONTENT_TYPE_H
#define INBOXFS_OUTBOX_CONTENT_TYPE_H

#include <stddef.h>

struct content_type {
    void *magic; /* NULL: not opened yet, or there is no database */
    int is_opened;
};

enum {
    CONTENT_TYPE_SIZE = 128
};

/* All zeros is a content_type that was not used yet. */
void content_type_release(struct content_type *type);

/* "type/subtype", always; "application/octet-stream" when nothing is known. `bytes`: the beginning of the
 * content, some kB are enough. */
void content_type_find(struct content_type *type, const char *name, const void *bytes, size_t len,
                       char ret_type[CONTENT_TYPE_SIZE]);

#endif
