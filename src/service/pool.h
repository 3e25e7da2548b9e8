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

#include "service/message.h"
#include "service/request.h"

/* Fills an attachment of zeros from a file of the pool. The caller owns its values, on failure too. Only
 * reads `db`. Return: 0; -ENOENT if the pool has no such file; -EMSGSIZE if it is larger than max_bytes;
 * -errno. */
int pool_load(const struct service_context *context, sqlite3 *db, const char *id, size_t max_bytes,
              struct message_attachment *attachment);

#endif
