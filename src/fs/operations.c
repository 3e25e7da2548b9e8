/* SPDX-License-Identifier: MIT */
/*
 * The table of operations, and what is agreed with the kernel at the start.
 */
#include "fs/operations.h"

#include <stdbool.h>

#include "fs/request_loop.h"
#include "fs/session_state.h"

static void want(struct fuse_conn_info *connection, unsigned int capability, bool is_wanted)
{
    if (is_wanted && (connection->capable & capability) != 0)
        connection->want |= capability;
    else
        connection->want &= ~capability;
}

static void op_init(void *context, struct fuse_conn_info *connection)
{
    const struct fs_session *session = context;
    connection->max_read = session->max_read;
    if (connection->max_write > REQUEST_LOOP_MAX_WRITE)
        connection->max_write = REQUEST_LOOP_MAX_WRITE;
    /* Several reads of one file at a time, and lookups and listings of one folder side by side. */
    want(connection, FUSE_CAP_ASYNC_READ, true);
    want(connection, FUSE_CAP_PARALLEL_DIROPS, true);
    /* Attributes always come with a listing: find and stat loops list first and ask later, so asking by
     * demand would decide against it. */
    want(connection, FUSE_CAP_READDIRPLUS, true);
    want(connection, FUSE_CAP_READDIRPLUS_AUTO, false);
    /* A truncating open is one request: replacing a file is seen as one thing. */
    want(connection, FUSE_CAP_ATOMIC_O_TRUNC, true);
    /* What is cached goes when size or mtime change; listings too. */
    want(connection, FUSE_CAP_AUTO_INVAL_DATA, true);
    /* Sizes must be exact and every byte here when a file is closed: the kernel may not write behind. */
    want(connection, FUSE_CAP_WRITEBACK_CACHE, false);
    /* Records are small and in memory: a pipe costs more than the copy that it saves. */
    want(connection, FUSE_CAP_SPLICE_READ, false);
    want(connection, FUSE_CAP_SPLICE_WRITE, false);
    want(connection, FUSE_CAP_SPLICE_MOVE, false);
    /* Inode numbers of drafts are good only while the kernel holds them. */
    want(connection, FUSE_CAP_EXPORT_SUPPORT, false);
    /* The kernel clears set-user-id bits itself, by a SETATTR: as root, the filesystem below would not. */
    want(connection, FUSE_CAP_HANDLE_KILLPRIV, false);
    want(connection, FUSE_CAP_IOCTL_DIR, false);
}

const struct fuse_lowlevel_ops *operations(void)
{
    static const struct fuse_lowlevel_ops table = {
        .init = op_init,
        .lookup = op_lookup,
        .forget = op_forget,
        .forget_multi = op_forget_multi,
        .getattr = op_getattr,
        .setattr = op_setattr,
        .readlink = op_readlink,
        .statfs = op_statfs,
        .mkdir = op_mkdir,
        .mknod = op_mknod,
        .symlink = op_symlink,
        .link = op_link,
        .unlink = op_unlink,
        .rmdir = op_rmdir,
        .rename = op_rename,
        .open = op_open,
        .create = op_create,
        .read = op_read,
        .write = op_write,
        .fallocate = op_fallocate,
        .lseek = op_lseek,
        .copy_file_range = op_copy_file_range,
        .flush = op_flush,
        .fsync = op_fsync,
        .release = op_release,
        .poll = op_poll,
        .opendir = op_opendir,
        .readdir = op_readdir,
        .readdirplus = op_readdirplus,
        .releasedir = op_releasedir,
        .fsyncdir = op_fsyncdir,
    };
    return &table;
}
