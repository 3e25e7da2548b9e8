/* SPDX-License-Identifier: MIT */
/*
 * What is always there: the folders and files of the root, in one table, and the text of README.
 */
#ifndef INBOXFS_TREE_ROOT_H
#define INBOXFS_TREE_ROOT_H

#include <stdbool.h>
#include <sys/stat.h>

#include "outbox/outbox.h"

enum fixed_node {
    FIXED_ROOT,
    FIXED_README,
    FIXED_STATUS,
    FIXED_EVENT_LOG, /* events.jsonl */
    FIXED_INBOXES,
    FIXED_SEARCH,
    FIXED_DRAFTS,
    FIXED_OUTBOX,
    FIXED_SENT,
    FIXED_FAILED,
    FIXED_ATTACHMENTS,
    FIXED_MAILDIR, /* shown where the service has raw messages */
    FIXED_EVENTS,  /* the stream */
    FIXED_CTL,
    FIXED_NODES, /* how many */
};

struct fixed_entry {
    const char *name; /* in the root */
    mode_t mode;      /* type and permission bits */
    bool is_hidden;   /* answers by name, but is not listed */
    bool is_lasting;  /* what is known of it changes never, or the watcher is told */
};

const struct fixed_entry *fixed_get(enum fixed_node node);

/* The node of this name in the root; FIXED_ROOT: none. */
enum fixed_node fixed_find(const char *name);

/* Whether the node is a view over the outbox, and which. `ret` may be NULL. */
bool fixed_is_outbox_folder(enum fixed_node node, enum outbox_folder *ret);

enum fixed_node fixed_of_outbox_folder(enum outbox_folder folder);

const char *readme_text(void);

#endif
