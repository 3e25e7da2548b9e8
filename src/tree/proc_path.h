/* SPDX-License-Identifier: MIT */
/*
 * Files by descriptor where a system call takes only a path: an O_PATH descriptor can be opened, truncated or
 * linked by its name in /proc, and only there.
 */
#ifndef INBOXFS_TREE_PROC_PATH_H
#define INBOXFS_TREE_PROC_PATH_H

#include <stdio.h>

enum {
    PROC_PATH_MAX_BYTES = 32
};

static inline void proc_path(int fd, char ret_path[PROC_PATH_MAX_BYTES])
{
    snprintf(ret_path, PROC_PATH_MAX_BYTES, "/proc/self/fd/%d", fd);
}

#endif
