/* SPDX-License-Identifier: MIT */
/*
 * Where file systems are mounted, as this process sees them (proc_pid_mountinfo(5)).
 */
#ifndef INBOXFS_BASE_MOUNTINFO_H
#define INBOXFS_BASE_MOUNTINFO_H

#include <stdbool.h>

/* The mount points of file systems of this type, as "fuse.inboxfs", in the order of mounting; NULL stands
 * behind the last. None of them is looked at, so that one that does not answer holds nobody up. 0 or -errno.
 */
int mountinfo_list(const char *type, char ***ret_paths);

/* Whether a file system of this type is mounted there, be it hidden under another one. Where that cannot be
 * found out: false. */
bool mountinfo_has(const char *type, const char *path);

/* NULL-safe. */
void mountinfo_free(char **paths);

static inline void cleanup_mountinfo(char ***paths)
{
    mountinfo_free(*paths);
}
#define _cleanup_mountinfo_ __attribute__((cleanup(cleanup_mountinfo)))

#endif
