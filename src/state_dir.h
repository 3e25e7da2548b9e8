/* SPDX-License-Identifier: MIT */
/*
 * The place of the spool, the cache and the drafts: one directory for each service and account, locked by
 * the one daemon that uses it.
 */
#ifndef INBOXFS_STATE_DIR_H
#define INBOXFS_STATE_DIR_H

#include <sys/types.h>

/* Returns the directory of a service and key, under $XDG_STATE_HOME/inboxfs (else ~/.local/state/inboxfs):
 * named after the host and digests of both, so that no account's queue is ever sent with another account's
 * key. `key` may be NULL (the local service, whose data directory identifies the account). The caller frees
 * it; NULL if neither XDG_STATE_HOME nor HOME is an absolute path. */
char *state_dir_default(const char *base_url, const char *key);

/* Makes (0700), opens and locks the directory. Waits for a daemon that is ending, up to 20 s. Returns the
 * descriptor, and in *ret_lock_fd the one that holds the lock; or -errno, which is logged; -EBUSY: another
 * daemon has the lock (the log names the daemon and its mount). */
int state_dir_open(const char *path, int *ret_lock_fd);

/* Announces to a daemon that starts meanwhile that this one will soon release the lock. */
void state_dir_announce_end(int lock_fd);

/* Announces to such a daemon where this one is mounted, for its error text. `device`: the mount's st_dev. */
void state_dir_announce_mount(int lock_fd, dev_t device, const char *mountpoint);

/* Returns the process whose mount uses the state; -1: some process uses it; 0: none does. Takes the lock for
 * a moment: a daemon that starts then tries a second time. */
long state_dir_find_mount(int dir_fd);

#endif
