/* SPDX-License-Identifier: MIT */
/*
 * Takes over, once, what is in the spool and not in its database: the files of version 0.2, or the contents
 * of a database that is gone. The next version does without this unit.
 */
#ifndef INBOXFS_OUTBOX_MIGRATION_H
#define INBOXFS_OUTBOX_MIGRATION_H

#include <stdbool.h>

struct spool;

/* Takes over a spool of version 0.2: each item becomes a row with its name, key and state, and each content
 * without an envelope becomes an interrupted message in failed/. All of it is one transaction; the old files
 * are removed after it. Waits for the disk. Returns 0 or -errno, with *ret_reason in words (the caller
 * frees). */
int migration_run(struct spool *spool, char **ret_reason);

/* Returns true for a file that version 0.2, or an unfinished copy, left: it is to be removed. */
bool migration_is_leftover(const char *name);
/* Returns true for a file that belongs here and is no content. */
bool migration_is_own_file(const char *name);

#endif
