/* SPDX-License-Identifier: MIT */
/*
 * The kernel's requests, each turned into calls of the tree. The table is put together in operations.c; what
 * is not in it (extended attributes, locks, ioctl) is answered ENOSYS once and then left to the kernel.
 */
#ifndef INBOXFS_FS_OPERATIONS_H
#define INBOXFS_FS_OPERATIONS_H

#include <fuse_lowlevel.h>

const struct fuse_lowlevel_ops *operations(void);

/* Inodes (inode_operations.c). */
void op_lookup(fuse_req_t request, fuse_ino_t parent, const char *name);
void op_forget(fuse_req_t request, fuse_ino_t ino, uint64_t lookups);
void op_forget_multi(fuse_req_t request, size_t count, struct fuse_forget_data *forgets);
void op_getattr(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file);
void op_setattr(fuse_req_t request, fuse_ino_t ino, struct stat *stat, int to_set,
                struct fuse_file_info *file);
void op_readlink(fuse_req_t request, fuse_ino_t ino);
void op_statfs(fuse_req_t request, fuse_ino_t ino);

/* Names (name_operations.c). */
void op_mkdir(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode);
void op_mknod(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode, dev_t device);
void op_symlink(fuse_req_t request, const char *target, fuse_ino_t parent, const char *name);
void op_link(fuse_req_t request, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name);
void op_unlink(fuse_req_t request, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t request, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t request, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
               const char *new_name, unsigned int flags);

/* Open files (file_operations.c). */
void op_open(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file);
void op_create(fuse_req_t request, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *file);
void op_read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *file);
void op_write(fuse_req_t request, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
              struct fuse_file_info *file);
void op_fallocate(fuse_req_t request, fuse_ino_t ino, int mode, off_t offset, off_t len,
                  struct fuse_file_info *file);
void op_lseek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *file);
void op_copy_file_range(fuse_req_t request, fuse_ino_t ino_in, off_t offset_in,
                        struct fuse_file_info *file_in, fuse_ino_t ino_out, off_t offset_out,
                        struct fuse_file_info *file_out, size_t len, int flags);
void op_flush(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file);
void op_fsync(fuse_req_t request, fuse_ino_t ino, int is_data_only, struct fuse_file_info *file);
void op_release(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file);
void op_poll(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file, struct fuse_pollhandle *poll);

/* Listings (directory_operations.c). */
void op_opendir(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file);
void op_readdir(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *file);
void op_readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *file);
void op_releasedir(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *file);
void op_fsyncdir(fuse_req_t request, fuse_ino_t ino, int is_data_only, struct fuse_file_info *file);

#endif
