/* SPDX-License-Identifier: MIT */
/*
 * Copies the data of a service, which may be running: the database as of one moment, the pool's files that
 * this database names, and the first API key. A service can be started on the copy.
 *
 * The copy is made as TARGET.part, synced to the disk, and then renamed, so that TARGET is always whole.
 */
#ifndef INBOXFS_SERVICE_BACKUP_H
#define INBOXFS_SERVICE_BACKUP_H

#include "service/tables.h"

/* Makes the directory `target` (0700) with files of mode 0600. `database` is that of `data_dir`. Return: 0,
 * or -errno with a reason (the caller frees it): -EEXIST if TARGET or TARGET.part is there already. */
int backup_make(struct database *database, const char *data_dir, const char *target, char **ret_reason);

#endif
