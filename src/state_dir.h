/* SPDX-License-Identifier: MIT */
/*
 * The state directory holds the spool, the cache and the drafts. Each account of each service has its own,
 * which the daemon that uses the account has locked.
 */
#ifndef INBOXFS_STATE_DIR_H
#define INBOXFS_STATE_DIR_H

/* Returns the directory of a service and key, under $XDG_STATE_HOME/inboxfs (else ~/.local/state/inboxfs).
 * Its name has the host, and digests of the URL and the key, so that no account's queue is ever sent with
 * another account's key. For the local service `base_url` is the path of its data directory, and `key` is
 * NULL. The caller frees it. */
char *state_dir_default_path(const char *base_url, const char *key);

/* Logs which directories other keys of the same service have, if `path`, the default of a key, does not exist
 * yet: a user who changed the key looks for the queue and the drafts in them. */
void state_dir_log_other_keys(const char *path);

/* Makes (0700), opens and locks the directory. Waits for a daemon that is ending, up to 20 s. Returns the
 * descriptor of the directory, and a descriptor that holds the lock in *ret_lock_fd; or -errno, which is
 * logged; -EBUSY if another daemon holds the lock (the log names the daemon and its mount). */
int state_dir_open(const char *path, int *ret_lock_fd);

/* Notes in the lock file that this daemon will soon release the lock, so that a starting daemon waits. */
void state_dir_announce_end(int lock_fd);

/* Notes in the lock file where this daemon is mounted. */
void state_dir_announce_mount(int lock_fd, const char *mountpoint);

/* Returns the PID of the daemon whose mount uses the directory; -1 if a process without a visible mount uses
 * it; 0 if none does. Holds the lock for a moment, so that a starting daemon tries again. */
long state_dir_find_daemon(int dir_fd);

#endif
