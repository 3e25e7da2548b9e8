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

/* Fills an attachment of zeros from a file of the pool; what is in it is the caller's, on failure too. `db`
 * reads. 0, -ENOENT (there is no such file), -EMSGSIZE (it is larger) or -errno. */
int pool_load(const struct service_context *context, sqlite3 *db, const char *id, size_t max_bytes,
              struct message_attachment *attachment);

#endif
