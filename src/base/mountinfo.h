/* SPDX-License-Identifier: MIT */
/*
 * The mount points of file systems, as this process sees them (proc_pid_mountinfo(5)).
 */
#ifndef INBOXFS_BASE_MOUNTINFO_H
#define INBOXFS_BASE_MOUNTINFO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MOUNTINFO_INBOXFS "fuse.inboxfs" /* the type of our mounts */

struct mount {
    char *path;    /* NULL behind the last */
    dev_t device;  /* st_dev of its files */
    int64_t owner; /* of FUSE: the user who mounted it, as the kernel knows; -1: nobody is named */
};

/* The mounts of file systems of this type, as MOUNTINFO_INBOXFS, in the order of mounting. None of them is
 * looked at, so that one that does not answer holds nobody up. 0 or -errno. */
int mountinfo_list(const char *type, struct mount **ret_mounts);

/* Returns true if a file system of this type is mounted at the path (NULL: anywhere), be it hidden under
 * another one, with this device number (0: with any). *ret_device (may be NULL) is the number of the last of
 * them. False also if /proc cannot be read. */
bool mountinfo_find(const char *type, const char *path, dev_t device, dev_t *ret_device);

/* Reads "MAJOR:MINOR", in decimal. *ret_end is behind it. */
dev_t mountinfo_read_device(const char *text, char **ret_end);

/* NULL-safe. */
void mountinfo_free(struct mount *mounts);

static inline void cleanup_mountinfo(struct mount **mounts)
{
    mountinfo_free(*mounts);
}
#define _cleanup_mountinfo_ __attribute__((cleanup(cleanup_mountinfo)))

#endif
