/* SPDX-License-Identifier: MIT */
/*
 * This notification is made from within a request, as no other: it waits for nothing but the file's pages,
 * and those can only be waiting for a read of the same file. At a first open there has been no read. Should
 * another open of the file be answered meanwhile, and its reader be quicker, then another thread answers that
 * read: for at most one thread is here at a time.
 */
#include "fs/first_content.h"

static void give(struct fs_session *session, fuse_ino_t ino, struct tree_handle *handle)
{
    struct tree_data data;
    struct tree_data now;
    if (!tree_take_first_content(handle, &data))
        return;
    struct fuse_bufvec bytes = FUSE_BUFVEC_INIT(data.len);
    bytes.buf[0].mem = (void *)(uintptr_t)data.bytes; /* libfuse only reads it */
    /* Refused: then the kernel asks. */
    if (fuse_lowlevel_notify_store(session->fuse, ino, 0, &bytes, 0) != 0)
        return;
    /* What changed before it was handed over may have been told of before, too. */
    bool is_current =
        tree_read(handle, data.len, 0, &now) == 0 && now.bytes == data.bytes && now.len == data.len;
    if (!is_current)
        notifier_forget_content(&session->notifier, ino);
}

void first_content_give(struct fs_session *session, fuse_ino_t ino, struct tree_handle *handle)
{
    if (atomic_flag_test_and_set(&session->is_giving))
        return;
    give(session, ino, handle);
    atomic_flag_clear(&session->is_giving);
}
