/* SPDX-License-Identifier: MIT */
/*
 * The files and folders in drafts/ that the kernel knows of: for each an O_PATH descriptor, how often it was
 * looked up, and who has it open for writing, for a draft that is being written must not be handed in.
 * A draft stays in the table while the kernel or an open file refers to it.
 */
#ifndef INBOXFS_TREE_DRAFT_TABLE_H
#define INBOXFS_TREE_DRAFT_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/map.h"

enum draft_state {
    DRAFT_HERE,
    DRAFT_MOVING, /* being handed in: nobody may begin to write */
    DRAFT_LEFT,   /* handed in: the file is no draft any more, unless it is found in drafts/ again */
};

struct draft_node {
    char key[40];                 /* device and inode number in hexadecimal */
    int fd;                       /* O_PATH | O_NOFOLLOW */
    uint64_t references;          /* protected by the table's lock, like all below: lookups and open files */
    unsigned int writers;         /* open files that may write, until their RELEASE */
    unsigned int flushed_writers; /* of them: closed, but not yet released, as far as can be told */
    enum draft_state state;
};

struct draft_table {
    struct clock *clock; /* borrowed */
    struct draft_node root;
    dev_t device; /* of the root: nothing mounted below it is shown */
    pthread_mutex_t lock;
    pthread_cond_t writer_left;
    struct map nodes; /* protected by lock; without the root */
};

/* Takes over `root_fd`, also when it fails. 0 or -errno. */
int draft_table_init(struct draft_table *table, struct clock *clock, int root_fd);
void draft_table_release(struct draft_table *table);

/* The inode number that goes with a node, and the other way round (the root's is FIXED_DRAFTS). A number of
 * this kind is only ever taken from the kernel, which has it from here. */
uint64_t draft_node_ino(const struct draft_table *table, const struct draft_node *node);
struct draft_node *draft_table_get(struct draft_table *table, uint64_t ino);

/* The file called `name` in the folder `parent`, with one reference more, and its attributes. 0; -ENOENT;
 * -EXDEV: on another filesystem; -errno. */
int draft_table_find(struct draft_table *table, const struct draft_node *parent, const char *name,
                     struct draft_node **ret_node, struct stat *ret_stat);

/* A folder, to be listed or synced, which an O_PATH descriptor cannot: a descriptor that the caller closes,
 * or -errno. */
int draft_node_open_folder(const struct draft_node *node);

void draft_node_ref(struct draft_table *table, struct draft_node *node);
void draft_node_unref(struct draft_table *table, struct draft_node *node, uint64_t count);

/* An open file begins and ends to be one that may write. 0; -EBUSY: it is being handed in, or was. */
int draft_node_begin_write(struct draft_table *table, struct draft_node *node);
void draft_node_end_write(struct draft_table *table, struct draft_node *node, bool was_flushed);
/* A write handle's flushed state changed. */
void draft_node_set_flushed(struct draft_table *table, struct draft_node *node, bool is_flushed);

/* Keeps writers away, waiting (at most 2 s) for those that have closed and whose RELEASE is still on its way.
 * 0; -EBUSY: somebody is writing, or another move is under way; -EINTR. */
int draft_node_begin_move(struct draft_table *table, struct draft_node *node, struct cancel *cancel);
/* `has_left`: it was handed in. */
void draft_node_end_move(struct draft_table *table, struct draft_node *node, bool has_left);

#endif
