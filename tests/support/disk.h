/* SPDX-License-Identifier: MIT */
/*
 * The disk of a unit test. It replaces the C library's fsync() and fdatasync(), also for SQLite, and records
 * the synced files. A test can make syncs fail and the disk full. All functions may be called from any
 * thread.
 */
#ifndef INBOXFS_TESTS_SUPPORT_DISK_H
#define INBOXFS_TESTS_SUPPORT_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Undoes disk_pretend(), disk_fail_syncs() and disk_call_before_syncs(), and forgets all syncs. */
void disk_reset(void);

/* From now on a sync does not wait for the disk, which saves time. */
void disk_pretend(void);

/* Forgets all syncs so far. */
void disk_forget_syncs(void);
/* Returns how many syncs since disk_forget_syncs() were of files with `part` in their path ("" for all). */
unsigned int disk_count_syncs(const char *part);
/* Fails the test if no file or folder whose path ends with `end` was synced since disk_forget_syncs(). */
void disk_assert_synced(const char *end);
/* Returns true if the regular file `name` has the size that it had at its last sync. */
bool disk_has_newest_size(int dir_fd, const char *name);

/* From now on syncs of files with `part` in their path fail with `error`, or succeed again if it is 0. */
void disk_fail_syncs(const char *part, int error);
/* From now on the thread that syncs calls `call` before each sync; NULL for no call. */
void disk_call_before_syncs(void (*call)(int fd));

/* Until disk_empty(), a write that makes a file of this process larger than `bytes` fails with EFBIG. */
void disk_fill(size_t bytes);
void disk_empty(void);

#endif
