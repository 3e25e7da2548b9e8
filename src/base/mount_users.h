/* SPDX-License-Identifier: MIT */
/*
 * The processes that keep a file system from being unmounted, and those that have it mounted in a mount
 * namespace of their own (a container). Only root sees all that of other users' processes. The file system
 * itself is never asked, so that one that does not answer holds nobody up.
 */
#ifndef INBOXFS_BASE_MOUNT_USERS_H
#define INBOXFS_BASE_MOUNT_USERS_H

#include <stdbool.h>
#include <sys/types.h>

enum {
    MOUNT_USER_COMMAND_BYTES = 64 /* the kernel's names are shorter but for its own threads */
};

struct mount_user {
    pid_t pid;
    char command[MOUNT_USER_COMMAND_BYTES];
    const char *how; /* "its working folder", in words; static. NULL: it has the file system mounted */
    char *path;      /* of that folder or file, or of the mount; NULL: not known. Borrowed by callbacks */
};

/* Calls `found` for each process that keeps the file system of this device number (st_dev) busy, with the
 * first reason that is seen. The number of processes, or -errno. */
int mount_users_list(dev_t device, void (*found)(void *context, const struct mount_user *user),
                     void *context);

/* Finds a process that has the file system, which is of this type (as MOUNTINFO_INBOXFS), mounted; meant for
 * one that is not mounted here any more. False: there is none, and *ret_user stays as it is. The caller frees
 * ret_user->path. */
bool mount_users_find_mounted(const char *type, dev_t device, struct mount_user *ret_user);

#endif
