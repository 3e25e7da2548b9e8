/* SPDX-License-Identifier: MIT */
/*
 * A step from one version of the database to the next: messages whose texts were kept as attachments by
 * version 0.2 are read again from what came, so that they show all of their text. Goes with the next version.
 */
#ifndef INBOXFS_SERVICE_REREADING_H
#define INBOXFS_SERVICE_REREADING_H

#include <sqlite3.h>

/* Reads them again, inside a write transaction. Attachments that stay keep their ids. 0 or -errno. */
int rereading_run(sqlite3 *db);

#endif
