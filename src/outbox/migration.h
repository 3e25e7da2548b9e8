/* SPDX-License-Identifier: MIT */
/*
 * Converts, once, the files of the spool that its database lacks: those of version 0.2, or the contents that
 * remain after the database was lost. The next version will not have this unit.
 */
#ifndef INBOXFS_OUTBOX_MIGRATION_H
#define INBOXFS_OUTBOX_MIGRATION_H

#include <stdbool.h>

struct spool;

/* Converts a spool of version 0.2 in one transaction: each item becomes a row with its name, key and state; a
 * content without an envelope is quarantined. If the database was lost, each content that is not empty
 * becomes an interrupted message in failed/. The caller removes the old files. Waits for the disk. Returns 0
 * or -errno, with a text for the user in *ret_reason (the caller frees it). */
int migration_run(struct spool *spool, char **ret_reason);

/* Returns true if version 0.2 or an unfinished copy left the file, which the caller removes. */
bool migration_is_leftover(const char *name);

#endif
