/* SPDX-License-Identifier: MIT */
/*
 * The directory to mount on, looked at before anything is started.
 */
#ifndef INBOXFS_MOUNTPOINT_H
#define INBOXFS_MOUNTPOINT_H

/* Makes sure that it is a directory that can be mounted on. A mount there whose daemon died ("Transport
 * endpoint is not connected") is unmounted. 0 or -errno, said on the log: -EBUSY when a living inboxfs is
 * mounted there. */
int mountpoint_prepare(const char *path);

#endif
