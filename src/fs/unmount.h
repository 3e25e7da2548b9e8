/* SPDX-License-Identifier: MIT */
/*
 * Unmounting, by fusermount3 in a process of its own: an unmount waits for answers of the daemon, and a
 * thread of the daemon that waits in it would keep a killed daemon from dying.
 */
#ifndef INBOXFS_FS_UNMOUNT_H
#define INBOXFS_FS_UNMOUNT_H

/* Waits for the kernel to write out and let go. 0, or -EBUSY: it is in use (or cannot be unmounted so). */
int unmount_cleanly(const char *mountpoint);

#endif
