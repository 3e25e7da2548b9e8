/* SPDX-License-Identifier: MIT */
/*
 * The files and folders in drafts/ that the kernel knows. A *node* stands for one file on the disk. It has
 * the file's inode number, the folder and name of its last lookup, and the number of open files that may
 * write, because a draft that is being written must not be handed in. A file with several names has one node,
 * with the name that was looked up last: the kernel looks up a name before each use.
 *
 * A node exists while the kernel, an open file or a node below it refers to it. The kernel refers to a node
 * by its *number*, which is made of its address. The kernel may remember any number of nodes, so a node has a
 * descriptor (O_PATH) only while an open file or a request *holds* it. draft_hold() opens the node by the
 * path from the nearest held folder above, and compares the inode number. A removed file has no path: its
 * node is held until the kernel forgets the node, which it does as soon as no program uses the file.
 *
 * Locks, in this order:
 * - `names_lock` keeps names from being changed through the mount while a path is followed. Only
 *   draft_table_rename() and draft_table_remove() hold it for writing. Under it only functions of this table
 *   and system calls on drafts/ are called, which may wait for the disk. A new name needs no lock. Nor does a
 *   move into or out of the outbox: only files are moved so, and no path leads through a file.
 * - `lock` protects the nodes. Under it no system call is made, and only the lock of a cancel is taken.
 */
#ifndef INBOXFS_TREE_DRAFT_TABLE_H
#define INBOXFS_TREE_DRAFT_TABLE_H

#include <glib.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/wait.h"

enum draft_state {
    DRAFT_HERE,
    DRAFT_MOVING, /* a thread hands it in: it cannot be opened for writing */
    DRAFT_LEFT,   /* was handed in; if the file comes back to drafts/, it gets another node */
};

/* `lock` of the table protects all members but the first two, which are constant. */
struct draft_node {
    ino_t ino;                 /* inode number of the file on the disk */
    bool is_root;              /* a root is always open, has no name, and is never freed */
    struct draft_node *parent; /* a counted reference; NULL if the node has no name */
    char *name;                /* name in `parent`; may be a path if `parent` is a root */
    uint64_t references;       /* held by the kernel (lookups), by holders and by child nodes */
    int fd;                    /* opened with O_PATH | O_NOFOLLOW; -1 if there is no holder */
    unsigned int holders;      /* a removed file has one more, until the node is freed */
    unsigned int writers;      /* open files that may write, and that the kernel has not released */
    enum draft_state state;
};

struct draft_table {
    struct clock *clock;    /* borrowed */
    struct draft_node root; /* drafts/ */
    dev_t device;           /* st_dev of the root folder; files on other devices are hidden */
    pthread_rwlock_t names_lock;
    pthread_mutex_t lock;
    pthread_cond_t writer_left; /* a node has fewer writers */
    GHashTable *nodes;          /* set of struct draft_node, without roots; protected by `lock` */
};

/* Takes ownership of `root_fd`. The caller calls draft_table_release() also after a failure. Return: 0 or
 * -errno of fstat(2). */
int draft_table_init(struct draft_table *table, struct clock *clock, int root_fd);
void draft_table_release(struct draft_table *table);

/* Makes another root: a folder on the same filesystem in which names can be looked up. Borrows `fd`. */
void draft_root_init(struct draft_node *root, int fd);

/* Returns the node with this number, the root for 0. The number must come from a request of the kernel, which
 * keeps the node alive. */
struct draft_node *draft_table_node(struct draft_table *table, uint64_t number);
uint64_t draft_node_number(const struct draft_node *node);
/* Writes the path from the root to the node, "" for the root. Return: 0; -ESTALE when the node or a folder
 * above has no name; -ENAMETOOLONG. */
int draft_node_path(struct draft_table *table, struct draft_node *node, char ret_path[PATH_MAX]);

/* Finds the file `name` in the folder `parent`, with its attributes and one more reference, which the caller
 * gives back. Waits for the disk. Return: 0; -ENOENT; -EXDEV when the file is on another filesystem; -errno
 * as draft_hold() of the folder and fstatat(2). */
int draft_table_find(struct draft_table *table, struct draft_node *parent, const char *name,
                     struct draft_node **ret_node, struct stat *ret_stat);
/* Drops `count` references, and frees the node if none is left. */
void draft_node_unref(struct draft_table *table, struct draft_node *node, uint64_t count);

/* ---------------------------------------------------------------- holding */

/* A held draft: `fd` stays open until draft_hold_release(). */
struct draft_hold {
    struct draft_table *table; /* NULL if nothing is held */
    struct draft_node *node;
    int fd;
};
/* Holds a node. Waits for the disk. Return: 0; -ESTALE when the node has no name, or its name does not lead
 * to it any more, because a program changed names past the mount (the kernel then looks the path up again);
 * -ENAMETOOLONG when the path from the nearest held folder above has more than 4,095 bytes; another -errno.
 */
int draft_hold(struct draft_table *table, struct draft_node *node, struct draft_hold *ret);
void draft_hold_release(struct draft_hold *hold);
#define _cleanup_draft_hold_ _cleanup_(draft_hold_release)

/* Writes the path in /proc that leads to the descriptor's file. The file of an O_PATH descriptor can be
 * opened, truncated or linked only by this path. */
enum {
    DRAFT_FD_PATH_SIZE = 32
};
void draft_fd_path(int fd, char ret_path[DRAFT_FD_PATH_SIZE]);

/* Opens a folder for listing and fsync(2). Return: a descriptor, which the caller closes, or -errno as
 * draft_hold() and open(2). */
int draft_node_open_folder(struct draft_table *table, struct draft_node *node);

/* ---------------------------------------------------------------- changing names */

/* unlinkat(2) and renameat2(2). Wait for the disk. Return: 0; -EXDEV when a name leads to another filesystem;
 * -errno as draft_hold() and of the system call. */
int draft_table_remove(struct draft_table *table, struct draft_node *parent, const char *name, int flags);
int draft_table_rename(struct draft_table *table, struct draft_node *parent, const char *name,
                       struct draft_node *new_parent, const char *new_name, unsigned int flags);

/* Holds the node that a name leads to, before the outbox changes the name; holds nothing if the kernel does
 * not know the file. Return: 0 or -errno as draft_table_rename(). */
int draft_hold_name(struct draft_table *table, struct draft_node *parent, const char *name,
                    struct draft_hold *ret);
/* Records that the name does not lead to the held node any more. Does nothing if nothing is held, or if the
 * node has another name. */
void draft_hold_lose_name(struct draft_hold *hold, const struct draft_node *parent, const char *name);

/* ---------------------------------------------------------------- writers */

/* Count the open files that may write. Return: 0; -EBUSY in another state than DRAFT_HERE. */
int draft_node_begin_write(struct draft_table *table, struct draft_node *node);
void draft_node_end_write(struct draft_table *table, struct draft_node *node);
/* Begins to hand the draft in: keeps new writers away, and waits at most 2 s for earlier ones, since the
 * RELEASE of a closed file may still be on its way. Return: 0; -EBUSY when writers are left, or in another
 * state than DRAFT_HERE; -EINTR when cancelled. */
int draft_node_begin_move(struct draft_table *table, struct draft_node *node, struct cancel *cancel);
/* Sets the state DRAFT_LEFT if `has_left`, else DRAFT_HERE. */
void draft_node_end_move(struct draft_table *table, struct draft_node *node, bool has_left);

#endif
