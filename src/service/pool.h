/* SPDX-License-Identifier: MIT */
/*
 * The attachment pool: files that were uploaded and may be named by messages, any number of times. Each is a
 * file in the pool's folder, named by its id, and a row in the database; the row counts.
 */
#ifndef INBOXFS_SERVICE_POOL_H
#define INBOXFS_SERVICE_POOL_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "service/account.h"

struct pool_file {
    char *name;
    char *content_type; /* "type/subtype" */
    int64_t bytes;      /* its size */
};

/* Stores the file durably. 0 or -errno. */
int pool_add(const struct account *account, const char *name, const char *content_type, const void *bytes,
             size_t len, char ret_id[37]);

/* 0, -ENOENT or -errno. The caller releases *ret_file. */
int pool_find(sqlite3 *db, const char *id, struct pool_file *ret_file);
void pool_file_release(struct pool_file *file);

/* The content of a file found. The caller frees. 0 or -errno. */
int pool_read(const struct account *account, const char *id, char **ret_bytes, size_t *ret_len);

/* Removes files without a row: what an interrupted upload left. Before anything is added. 0 or -errno. */
int pool_sweep(const struct account *account);

#endif
