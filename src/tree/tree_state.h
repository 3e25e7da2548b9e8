/* SPDX-License-Identifier: MIT */
/*
 * What struct tree is made of; for the files of this layer alone.
 */
#ifndef INBOXFS_TREE_TREE_STATE_H
#define INBOXFS_TREE_TREE_STATE_H

#include <pthread.h>
#include <sys/types.h>

#include "tree/draft_table.h"
#include "tree/events.h"
#include "tree/inboxes.h"
#include "tree/maildir.h"
#include "tree/removed_names.h"
#include "tree/status.h"
#include "tree/tree.h"

/* A place in a list of what is open: a ring through its head. */
struct tree_link {
    struct tree_link *previous;
    struct tree_link *next;
};

struct tree {
    struct clock *clock;          /* borrowed */
    struct mail_service *service; /* borrowed */
    struct store *store;          /* borrowed; set once, before requests come */
    struct outbox *outbox;        /* borrowed; the same */
    char *source;
    int64_t poll_interval_ms;
    int64_t started_ms; /* realtime */
    uid_t uid;
    gid_t gid;
    struct draft_table drafts;
    struct event_log *event_log;
    struct status_file status;
    struct removed_names removed;
    struct maildir maildir;
    struct search_folder *search;
    struct first_opens first_opens;
    struct attribute_demand demand;

    pthread_mutex_t open_lock;
    struct tree_link open_handles; /* protected by open_lock */
    struct tree_link open_dirs;    /* protected by open_lock */

    pthread_mutex_t watcher_lock;
    struct tree_watcher watcher; /* protected by watcher_lock; functions are NULL while there is none */

    pthread_mutex_t names_lock;
    const char **inbox_names; /* protected by names_lock: by number, the folder name last told of */
    size_t inbox_names_len;   /* protected by names_lock */
};

/* Into one of the tree's lists of what is open, and out of it. */
void tree_link_add(struct tree *tree, struct tree_link *list, struct tree_link *link);
void tree_link_remove(struct tree *tree, struct tree_link *link);

/* Releases every open listing. */
void directory_abandon_all(struct tree *tree);

/* Words for what a user's request met, into the event log. `path` is below the mount point; `error` NULL does
 * nothing. */
void tree_report(struct tree *tree, enum event_kind kind, const char *path, const char *error);

#endif
