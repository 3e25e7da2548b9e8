/* SPDX-License-Identifier: MIT */
/*
 * Unmounting, by fusermount3 in a process of its own: an unmount waits for answers of the daemon, and a
 * thread of the daemon that waits in it would keep a killed daemon from dying.
 */
#ifndef INBOXFS_FS_UNMOUNT_H
#define INBOXFS_FS_UNMOUNT_H

#include <stdbool.h>
#include <sys/types.h>

/* Waits for the kernel to write out and let go. 0, or -EBUSY: it is in use (or cannot be unmounted so). */
int unmount_cleanly(const char *mountpoint);

/* Whether the filesystem on this device (st_dev) is gone for good: mounted nowhere, and no file of it open.
 * Then the kernel drops what it had not said yet, last closes among it. False too where that cannot be seen
 * (no ustat(2): other machines than x86, some containers). */
bool unmount_is_complete(dev_t device);

#endif
