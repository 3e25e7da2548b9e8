/* SPDX-License-Identifier: MIT */
/*
 * A copy of a service's data while it is used: the database as of one moment, the files of the pool that it
 * names, and the first API key. A service started on the copy goes on from that moment.
 *
 * The copy is made as TARGET.part, brought to the disk, and gets its name last: what is called TARGET is
 * whole.
 */
#ifndef INBOXFS_SERVICE_BACKUP_H
#define INBOXFS_SERVICE_BACKUP_H

/* Makes the directory `target` (0700), its files 0600. 0, or -errno with the reason in words (the caller
 * frees): -EEXIST, there is a file or directory `target`; -EBUSY, inboxfs has the data mounted. */
int backup_make(const char *data_dir, const char *target, char **ret_reason);

#endif
