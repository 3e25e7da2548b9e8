/* SPDX-License-Identifier: MIT */
/*
 * Answers to the kernel, and the one place where the tree's -errno becomes the kernel's. Each request gets
 * exactly one of these.
 */
#ifndef INBOXFS_FS_REPLY_H
#define INBOXFS_FS_REPLY_H

#include <fuse_lowlevel.h>

#include "tree/tree.h"

/* `error`: 0 or -errno. */
void reply_status(fuse_req_t request, int error);
/* The entry's lookup is given back when the kernel does not want it any more. */
void reply_entry(fuse_req_t request, const struct tree_entry *entry);
void reply_attributes(fuse_req_t request, const struct tree_attributes *attributes);
/* Releases the data. */
void reply_data(fuse_req_t request, struct tree_data *data);
/* Handles are released when the kernel does not want them any more (the open was interrupted). */
void reply_open(fuse_req_t request, struct tree_handle *handle);
void reply_open_dir(fuse_req_t request, struct tree_dir *dir);
void reply_create(fuse_req_t request, const struct tree_entry *entry, struct tree_handle *handle,
                  struct fuse_file_info *file);

void fill_entry(const struct tree_entry *entry, struct fuse_entry_param *ret);

#endif
