/* SPDX-License-Identifier: MIT */
/*
 * The kernel's requests, each turned into calls of the tree. What is not in the table (extended attributes,
 * locks, ioctl) is answered ENOSYS once and then left to the kernel.
 */
#ifndef INBOXFS_FS_OPERATIONS_H
#define INBOXFS_FS_OPERATIONS_H

#include <fuse_lowlevel.h>

const struct fuse_lowlevel_ops *operations(void);

#endif
