/* SPDX-License-Identifier: MIT */
/*
 * A step from one version of the database to the next. Version 0.2 kept some texts of a message as
 * attachments; this step reads such messages again, so that they show all of their text. The next version
 * deletes it.
 */
#ifndef INBOXFS_SERVICE_REREADING_H
#define INBOXFS_SERVICE_REREADING_H

#include <sqlite3.h>

/* Reads these messages again, inside a write transaction. The other attachments keep their ids. Return: 0 or
 * -errno. */
int rereading_run(sqlite3 *db);

#endif
