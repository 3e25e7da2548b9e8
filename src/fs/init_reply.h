/* SPDX-License-Identifier: MIT */
/*
 * The answer to the kernel's first message, FUSE_INIT, which says what the filesystem can do. libfuse
 * before 3.17 has no word for the shared mappings of files that are read past the kernel's cache
 * (kernel 6.6), so that word is added to the answer on its way.
 */
#ifndef INBOXFS_FS_INIT_REPLY_H
#define INBOXFS_FS_INIT_REPLY_H

#include <stddef.h>

struct fuse_session;

/* Carries out the message of FUSE_INIT. Nobody else may read the device meanwhile. */
void init_reply_carry_out(struct fuse_session *fuse, char *message, size_t len);

#endif
