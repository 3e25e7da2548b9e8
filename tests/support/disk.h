/* SPDX-License-Identifier: MIT */
/*
 * The disk under a unit test: it notes what is made durable, and fails or is full when a test asks for that.
 * It stands before the C library's fsync() and fdatasync(), for SQLite too.
 * All functions may be called from any thread.
 */
#ifndef INBOXFS_TESTS_SUPPORT_DISK_H
#define INBOXFS_TESTS_SUPPORT_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Forgets what was made durable so far; the disk neither fails nor calls anybody, and writes. */
void disk_reset(void);

/* From now on nothing is really written to the disk when it is made durable, which saves time. */
void disk_pretend(void);

/* Forgets what was made durable so far. */
void disk_forget_syncs(void);
/* Returns how many times files whose path has `part` in it ("": all) were made durable since. */
unsigned int disk_count_syncs(const char *part);
/* Fails the test if no file or folder whose path ends with `end` was made durable since. */
void disk_assert_synced(const char *end);
/* Returns true if the last sync of this regular file found it as long as it is now. */
bool disk_has_newest_size(int dir_fd, const char *name);

/* From now on making durable what has `part` in its path fails with `error`; 0: it works again. */
void disk_fail_syncs(const char *part, int error);
/* From now on `call` is called before anything is made durable, by the thread that does so. NULL: nobody. */
void disk_call_before_syncs(void (*call)(int fd));

/* No file of this process grows beyond `bytes` (EFBIG), until disk_empty(). */
void disk_fill(size_t bytes);
void disk_empty(void);

#endif
