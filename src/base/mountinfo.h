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
    char *path;    /* NULL at the end of the list */
    dev_t device;  /* st_dev of the mounted files */
    int64_t owner; /* uid of the user who mounted it, if it is a FUSE mount; else -1 */
};

/* Lists the mounts of a file system type (MOUNTINFO_INBOXFS) in the order of mounting; the caller frees the
 * list. Accesses no mount, since a mount may hang. Returns NULL if /proc cannot be read. */
struct mount *mountinfo_list(const char *type);

/* Returns true if a file system of this type is mounted at `path`, even if another mount hides it; false also
 * if /proc cannot be read. *ret_device (may be NULL) is the device number of the last such mount. */
bool mountinfo_find(const char *type, const char *path, dev_t *ret_device);

/* Returns the path of a folder as mountinfo_list() writes it (the caller frees); NULL, with errno, if there
 * is no such folder. Does not access a mount at the path itself, since such a mount may hang or be dead. */
char *mountinfo_real_path(const char *path);

/* NULL-safe. */
void mountinfo_free(struct mount *mounts);

static inline void cleanup_mountinfo(struct mount **mounts)
{
    mountinfo_free(*mounts);
}
#define _cleanup_mountinfo_ __attribute__((cleanup(cleanup_mountinfo)))

#endif
