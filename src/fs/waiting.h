/* SPDX-License-Identifier: MIT */
/*
 * Requests that may wait (for the disk, the network, other requests): they are carried out by a pool of
 * threads of their own, so that those which answer everybody never wait, and a user's Ctrl-C cuts them short.
 */
#ifndef INBOXFS_FS_WAITING_H
#define INBOXFS_FS_WAITING_H

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/thread.h"
#include "tree/tree.h"

struct waiting_request;

struct waiting_room {
    struct worker_pool *pool;
    struct worker_pool *closing_pool; /* for what must not queue behind those that wait for the service */
    pthread_mutex_t lock;
    pthread_cond_t left;
    struct waiting_request *first; /* protected by lock, like all below */
    bool is_closing;               /* waits are cut short from now on */
    bool is_watching;              /* somebody looks for signals (waiting.c) */
};

/* What a request is about; each uses what it needs. Strings and bytes are borrowed. */
struct request_arguments {
    uint64_t ino;
    uint64_t new_parent;
    const char *name;
    const char *new_name;
    struct tree_handle *handle;
    const void *bytes;
    size_t len;
    off_t offset;
    unsigned int flags;
    mode_t mode;
    struct tree_change change;
};

/* How it ended, and so how it is answered. */
struct request_outcome {
    int error;
    bool has_entry;
    bool has_attributes;
    bool has_count;
    bool has_offset;
    bool must_be_seen;      /* answered when the kernel was told of what it changed (not in a folder) */
    bool must_be_announced; /* answered when watchers were told of what it brought */
    struct tree_entry entry;
    struct tree_attributes attributes;
    size_t count;
    off_t offset;
    struct tree_handle *opened;  /* or NULL */
    struct tree_dir *opened_dir; /* or NULL */
    char *target;                /* of a link; or NULL. Freed after the answer */
};

typedef void (*request_function)(struct tree *tree, const struct tree_caller *caller,
                                 const struct request_arguments *arguments, struct request_outcome *ret);

int waiting_room_init(struct waiting_room *room);
/* Cuts short all waits, those to come too. */
void waiting_room_close(struct waiting_room *room);
/* Waits for the requests under way. No more may come. */
void waiting_room_drain(struct waiting_room *room);
void waiting_room_release(struct waiting_room *room);

/* Carries out a request and answers it: here and now, or, when it `may_wait`, in the pool. */
void request_run(fuse_req_t request, bool may_wait, const struct request_arguments *arguments,
                 request_function function);
/* The same for those that close a file: however many others wait for the service, they come to their turn.
 * Barriers and renames wait for them. */
void request_run_closing(fuse_req_t request, bool may_wait, const struct request_arguments *arguments,
                         request_function function);

#endif
