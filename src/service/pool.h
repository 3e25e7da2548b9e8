/* SPDX-License-Identifier: MIT */
/*
 * The attachment pool: files that were uploaded and may be named by messages, any number of times. Each is a
 * file in the pool's folder, named by its id, and a row in the database; the row decides whether it exists.
 *
 * The endpoint that adds to it is endpoint_pool_add() (endpoints.h).
 */
#ifndef INBOXFS_SERVICE_POOL_H
#define INBOXFS_SERVICE_POOL_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "service/request.h"

/* Removes files without a row: what an interrupted upload left. Before anything is added. 0 or -errno. */
int pool_sweep(const struct service_context *context);

struct pool_file {
    char *name;
    char *content_type; /* "type/subtype" */
    int64_t bytes;      /* its size */
};

/* 0, -ENOENT or -errno. The caller releases *ret_file. */
int pool_find(sqlite3 *db, const char *id, struct pool_file *ret_file);
void pool_file_release(struct pool_file *file);

/* The content of a file found. The caller frees. 0 or -errno. */
int pool_read(const struct service_context *context, const char *id, char **ret_bytes, size_t *ret_len);

#endif
