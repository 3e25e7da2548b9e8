/* SPDX-License-Identifier: MIT */
/*
 * Content records (interface, GET /api/v1/email/{id} and /outbound/{id}), their attachments and their text as
 * it went over the wire. An email is looked at from one side: as received (and valid), or as sent.
 */
#ifndef INBOXFS_SERVICE_CONTENT_H
#define INBOXFS_SERVICE_CONTENT_H

#include <jansson.h>
#include <sqlite3.h>
#include <stddef.h>

enum content_side {
    CONTENT_RECEIVED,
    CONTENT_SENT,
};

/* All: 0, -ENOENT (none of this id on that side, or not valid) or -errno. */

/* The record with its prompts and the thread before it. The caller owns *ret_record. */
int content_load(sqlite3 *db, enum content_side side, const char *id, json_t **ret_record);

/* The caller frees. */
int content_load_raw(sqlite3 *db, enum content_side side, const char *id, char **ret_raw, size_t *ret_len);

struct attachment {
    char *name;
    char *content_type;
    char *bytes;
    size_t len;
};

int content_load_attachment(sqlite3 *db, enum content_side side, const char *id, const char *attachment_id,
                            struct attachment *ret_attachment);
void attachment_release(struct attachment *attachment);

#endif
