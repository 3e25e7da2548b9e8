/* SPDX-License-Identifier: MIT */
/*
 * The place of the spool, the cache and the drafts: one directory for each service and account, locked by
 * the one daemon that uses it.
 */
#ifndef INBOXFS_STATE_DIR_H
#define INBOXFS_STATE_DIR_H

#include <sys/types.h>

/* The directory of a service and key, under $XDG_STATE_HOME/inboxfs (else ~/.local/state/inboxfs): named
 * after the host and digests of both, so that no account's queue ever goes out with another's key. `key` may
 * be NULL (the local service, whose data directory stands for the account). The caller frees. Return: NULL
 * if neither XDG_STATE_HOME nor HOME is an absolute path. */
char *state_dir_default(const char *base_url, const char *key);

/* Makes (0700), opens and locks it. The descriptor, and in *ret_lock_fd the one that holds the lock; or
 * -errno, said on the log: -EBUSY when another daemon has it, which is named with its mount. One that is
 * ending is waited for, up to 20 s. */
int state_dir_open(const char *path, int *ret_lock_fd);

/* Tells a daemon that starts meanwhile that this one is about to let go of the lock. */
void state_dir_announce_end(int lock_fd);

/* Tells it where this one is mounted: for words to its user. `device`: of the mount, as st_dev. */
void state_dir_announce_mount(int lock_fd, dev_t device, const char *mountpoint);

/* Returns the process whose mount uses the state; -1: some process uses it; 0: none does. The lock is tried
 * for a moment: a daemon that starts then tries a second time. */
long state_dir_find_mount(int dir_fd);

#endif
