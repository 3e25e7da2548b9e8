/* SPDX-License-Identifier: MIT */
/*
 * What is opened for the first time is mostly read next: the kernel is handed its content along with the
 * answer to the open, and need not ask for it. That spares a request a file, and another one later, since the
 * kernel asks for the attributes of what it has read again.
 */
#ifndef INBOXFS_FS_FIRST_CONTENT_H
#define INBOXFS_FS_FIRST_CONTENT_H

#include "fs/session_state.h"
#include "tree/tree.h"

/* Before the open is answered. */
void first_content_give(struct fs_session *session, fuse_ino_t ino, struct tree_handle *handle);

#endif
