/* SPDX-License-Identifier: MIT */
/*
 * This notification is made from within a request, as no other: it waits for nothing but the file's pages,
 * and those can only be waiting for a read of the same file. At a first open there has been no read. Should
 * another open of the file be answered meanwhile, and its reader be quicker, then another thread answers that
 * read: for at most one thread is here at a time.
 */
#include "fs/first_content.h"

#include <string.h>

/* What changed before it was handed over may have been told of before, too. */
static bool is_current(struct tree_handle *handle, const struct tree_data *given)
{
    struct tree_data now;
    bool is_same = tree_read(handle, given->len, 0, &now) == 0 && now.len == given->len &&
                   memcmp(now.bytes, given->bytes, now.len) == 0;
    tree_data_release(&now);
    return is_same;
}

static void give(struct fs_session *session, fuse_ino_t ino, struct tree_handle *handle)
{
    struct tree_data data;
    if (!tree_take_first_content(handle, &data))
        return;
    struct fuse_bufvec bytes = FUSE_BUFVEC_INIT(data.len);
    bytes.buf[0].mem = (void *)(uintptr_t)data.bytes; /* libfuse only reads it */
    /* Refused: then the kernel asks. */
    if (fuse_lowlevel_notify_store(session->fuse, ino, 0, &bytes, 0) == 0 && !is_current(handle, &data))
        notifier_forget_content(&session->notifier, ino);
    tree_data_release(&data);
}

void first_content_give(struct fs_session *session, fuse_ino_t ino, struct tree_handle *handle)
{
    if (atomic_flag_test_and_set(&session->is_giving))
        return;
    give(session, ino, handle);
    atomic_flag_clear(&session->is_giving);
}
