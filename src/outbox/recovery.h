/* SPDX-License-Identifier: MIT */
/*
 * From the spool's files to items in memory, after whatever end the last run came to.
 */
#ifndef INBOXFS_OUTBOX_RECOVERY_H
#define INBOXFS_OUTBOX_RECOVERY_H

struct outbox;

/* Loads all items: what was being written is interrupted, what was being sent has an unknown outcome, what
 * was accepted is queued; what is torn or foreign is set aside and logged. What failed by it is told. Before
 * any other thread knows the outbox. Waits for the disk. 0, -ENOMEM, -EPROTO (an envelope of a newer
 * version), or -errno of the folder.
 */
int recovery_run(struct outbox *outbox);

#endif
