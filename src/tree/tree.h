/* SPDX-License-Identifier: MIT */
/*
 * The file tree that a user sees, with no FUSE in it: which inode is which, who may do what where, what a
 * read answers. Its parts stand in the files beside this one: node.h (inodes and attributes), handle.h (open
 * files), directory.h (listings), change.h (names and attributes changed). All may be called from any thread
 * at once.
 *
 * The daemon wires it in this order: tree_new(), the listeners into store_open() and outbox_open(),
 * tree_attach(), then a session is mounted on it.
 */
#ifndef INBOXFS_TREE_TREE_H
#define INBOXFS_TREE_TREE_H

#include <stdint.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "mail/event.h"
#include "mail/mail_service.h"
#include "outbox/outbox.h"
#include "store/store.h"

struct tree;

struct tree_config {
    struct clock *clock;          /* borrowed */
    struct mail_service *service; /* borrowed; asked for capabilities and counters alone */
    int state_dir_fd;             /* borrowed; holds the folder "drafts" and the file "events.jsonl" */
    const char *source;           /* the service as shown to the user: its base URL, never a key; copied */
    int64_t poll_interval_ms;     /* shown in status.json */
};

/* Opens drafts/ and the event log (waits for the disk). 0 or -errno; *ret_reason in words (caller frees). */
int tree_new(const struct tree_config *config, struct tree **ret_tree, char **ret_reason);

/* Who is to be told by the store and the outbox. Usable as soon as there is a tree, until tree_free(). */
struct store_listener tree_store_listener(struct tree *tree);
struct outbox_listener tree_outbox_listener(struct tree *tree);
struct event_listener tree_event_listener(struct tree *tree);

/* Hands the tree what it shows (both borrowed). Once, before anything but the listeners is used. */
void tree_attach(struct tree *tree, struct store *store, struct outbox *outbox);

/* Told of what the kernel may have cached and is no longer true, from any thread, with no lock held. Must not
 * block or call back. Never called for outbox/, attachments/ and drafts/, which are not cached. */
struct tree_watcher {
    void (*folder_changed)(void *context, uint64_t folder_ino);
    void (*entry_gone)(void *context, uint64_t folder_ino, const char *name);
    void (*content_changed)(void *context, uint64_t ino);
    void (*stream_grew)(void *context); /* readers of `events` have something to read */
    /* A file appeared that no user put there: in an inbox (not what was there before the first sync), in
     * sent/ or failed/. `path` is below the mount point. */
    void (*appeared)(void *context, const char *path);
    void *context;
};
/* NULL: nobody any more; when it returns, the one before is not called again. */
void tree_set_watcher(struct tree *tree, const struct tree_watcher *watcher);

/* After the session, the store's refresher and the outbox have ended; all handles must be released. Writes
 * what the event log still holds to the disk. NULL-safe. */
void tree_free(struct tree *tree);

DEFINE_CLEANUP_FREE(tree)

#endif
