/* SPDX-License-Identifier: MIT */
/*
 * Checks of the mount point, and the removal of a dead mount.
 */
#include "mountpoint.h"

#include <dirent.h>
#include <errno.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "fs/session.h"

static int unmount_dead(const char *path)
{
    int error = fs_mountpoint_detach(path);
    if (error != 0)
        log_error("a dead mount is in the way on %s and cannot be removed: try fusermount3 -uz %s", path,
                  path);
    else
        log_warning("removed a dead mount from %s", path);
    return error;
}

static bool is_inboxfs_mount(const char *path)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    if (mounts == NULL)
        return false;
    bool found = false;
    const struct mntent *entry;
    while ((entry = getmntent(mounts)) != NULL)
        if (strcmp(entry->mnt_dir, path) == 0)
            found = strcmp(entry->mnt_type, "fuse.inboxfs") == 0;
    endmntent(mounts);
    return found;
}

static bool is_empty(const char *path)
{
    DIR *directory = opendir(path);
    if (directory == NULL)
        return true;
    unsigned int entries = 0;
    while (entries < 3 && readdir(directory) != NULL)
        entries++;
    closedir(directory);
    return entries < 3; /* "." and ".." */
}

int mountpoint_prepare(const char *path)
{
    struct stat status;
    if (fs_mountpoint_is_dead(path)) {
        int error = unmount_dead(path);
        if (error != 0)
            return error;
    }
    int error = stat(path, &status) == 0 ? 0 : -errno;
    if (error == 0 && !S_ISDIR(status.st_mode))
        error = -ENOTDIR;
    if (error != 0) {
        log_error("cannot mount on %s: %s", path, strerror(-error));
        return error;
    }
    if (is_inboxfs_mount(path)) {
        log_error("an inboxfs is mounted on %s already: fusermount3 -u %s ends it", path, path);
        return -EBUSY;
    }
    if (!is_empty(path))
        log_warning("%s is not empty: what it holds is hidden meanwhile", path);
    return 0;
}
