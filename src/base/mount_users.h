/* SPDX-License-Identifier: MIT */
/*
 * Which processes keep a file system from being unmounted, and which have it mounted in a mount namespace of
 * their own (a container). Of other users' processes only root sees all that. The file system itself is never
 * asked, so that one that does not answer holds nobody up.
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

/* Whether a process has it mounted, which is of this type (as "fuse.inboxfs"); meant for what is not mounted
 * here any more. The caller frees ret_user->path. */
bool mount_users_find_mounted(const char *type, dev_t device, struct mount_user *ret_user);

#endif
