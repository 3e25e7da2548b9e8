/* SPDX-License-Identifier: MIT */
/*
 * The life of content that is being written: when it begins anew, when a close makes it durable, what its
 * last close leads to.
 */
#ifndef INBOXFS_OUTBOX_WRITER_H
#define INBOXFS_OUTBOX_WRITER_H

#include <sys/types.h>

#include "outbox/item.h"

struct outbox;

/* Whether an item in this state may be opened for writing: 0, -EBUSY (handed in), -EACCES (settled), -ENOENT.
 * The lock is held. */
int writer_may_open_locked(const struct item *item);

/* Before the first change of content that is closed (held, an attachment handed in): from now on it is being
 * written, durably. Content that messages bind goes to an item of its own; `keep_bytes` of it stay. Waits for
 * the disk. 0, or of writer_may_open_locked(), or of the disk. */
int writer_begin(struct outbox *outbox, struct item *item, off_t keep_bytes);

/* Makes what was written durable. Waits for the disk. */
int writer_sync(struct outbox *outbox, struct item *item, int data_fd);

/* Looks at how the task that closes the file ends. One that is killed interrupts the item. One that fails
 * does so where its process wrote to it, or where nobody closes the file after it: the last call says how the
 * last holder ended. */
void writer_judge(struct outbox *outbox, struct item *item, pid_t pid);

/* The last close: hands in, holds, or fails what was written. The item is claimed and in ITEM_WRITING. Waits
 * for the disk. */
void writer_finish(struct outbox *outbox, struct item *item);

#endif
