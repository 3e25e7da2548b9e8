/* SPDX-License-Identifier: MIT */
/*
 * The files and folders in drafts/ that the kernel knows. A *node* stands for one file. It has the file's
 * inode number, the folder and name of its last lookup, and the number of open files that may write, because
 * a draft that is being written must not be handed in. A file with several names has one node, which stores
 * the name that was looked up last: the kernel looks up each name before its use, so it uses that name next.
 *
 * A node stays while the kernel, an open file or a node below it refers to it. The *number* of a node, by
 * which the kernel refers to it, is its address; the kernel refers only to nodes that it has looked up and
 * not yet forgotten. The kernel may remember any number of nodes, so a node has an O_PATH descriptor only
 * while an open file or a request *holds* it. The descriptor is opened by a path from the nearest held folder
 * above, and the inode number is compared. A removed file has no path: its node keeps the descriptor until
 * the kernel forgets the node, which it does as soon as no program uses the file.
 *
 * Two locks, in this order. `names_lock` keeps names from being changed through the mount while a path is
 * followed: draft_table_rename() and draft_table_remove() hold it for writing, draft_hold() and
 * draft_table_find() for reading; making a new name needs no lock. Under names_lock only functions of this
 * table and system calls on drafts/ are called; the latter may wait for the disk. A move into or out of the
 * outbox holds neither lock while it calls the outbox: only files are moved so, and no path leads through a
 * file. DRAFT_MOVING keeps writers away from a file that is being handed in. `lock` protects the nodes in
 * memory. Under `lock` no system call is made, and no other lock is taken except that of a cancel;
 * draft_node_begin_move() releases `lock` while it waits for writers.
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
    DRAFT_MOVING, /* being handed in: opening it for writing fails */
    DRAFT_LEFT,   /* handed in, so no longer a draft; if the file comes back, it gets a new node */
};

/* All members but is_root are protected by the table's lock. */
struct draft_node {
    ino_t ino;                 /* of the file on the disk; constant */
    bool is_root;              /* a root is always open, has no name, and is never freed */
    struct draft_node *parent; /* a counted reference; NULL if the node has no name */
    char *name;
    uint64_t references;  /* number of kernel lookups, holders and child nodes */
    int fd;               /* opened with O_PATH | O_NOFOLLOW; -1 without holders */
    unsigned int holders; /* a removed file keeps one holder until the node is freed */
    unsigned int writers; /* number of open files that may write and had no RELEASE */
    enum draft_state state;
};

struct draft_table {
    struct clock *clock; /* borrowed */
    struct draft_node root;
    dev_t device;                /* st_dev of the root folder; files on other devices are hidden */
    pthread_rwlock_t names_lock; /* taken before `lock` */
    pthread_mutex_t lock;
    pthread_cond_t writer_left;
    GHashTable *nodes; /* set of struct draft_node, without roots; protected by lock */
};

/* Takes over `root_fd`, also on failure. Return: 0 or -errno of fstat(2). */
int draft_table_init(struct draft_table *table, struct clock *clock, int root_fd);
void draft_table_release(struct draft_table *table);

/* Makes another root: a folder elsewhere on the same filesystem, in which names can be looked up. `fd` is
 * borrowed. */
void draft_root_init(struct draft_node *root, int fd);

/* Returns the node with this number; 0 is the root. The caller's request must name the node, which keeps it
 * alive. */
struct draft_node *draft_table_node(struct draft_table *table, uint64_t number);
uint64_t draft_node_number(const struct draft_node *node);
/* Writes the path from the root to the node, "" for the root. Return: 0; -ESTALE when the node or a folder
 * above has no name; -ENAMETOOLONG. */
int draft_node_path(struct draft_table *table, struct draft_node *node, char ret_path[PATH_MAX]);

/* Finds the file `name` in the folder `parent`, with its attributes and one more reference, which the caller
 * gives back. Waits for the disk. Return: 0; -ENOENT when there is no such file; -EXDEV when it is on
 * another filesystem; -ESTALE and -ENAMETOOLONG as draft_hold() of the folder; -ENOMEM; another -errno. */
int draft_table_find(struct draft_table *table, struct draft_node *parent, const char *name,
                     struct draft_node **ret_node, struct stat *ret_stat);
/* Drops `count` references; frees the node with the last. */
void draft_node_unref(struct draft_table *table, struct draft_node *node, uint64_t count);

/* ---------------------------------------------------------------- holding */

/* A held draft: `fd` stays open until draft_hold_release(). */
struct draft_hold {
    struct draft_table *table; /* NULL if nothing is held */
    struct draft_node *node;
    int fd;
};
/* Holds a node. Waits for the disk. Return: 0; -ESTALE when the node's name does not lead to it any more,
 * because it was removed, or changed past the mount (the kernel then looks the path up again); -ENAMETOOLONG
 * when the path from the nearest held folder above has more than 4,095 bytes; another -errno. */
int draft_hold(struct draft_table *table, struct draft_node *node, struct draft_hold *ret);
void draft_hold_release(struct draft_hold *hold);
#define _cleanup_draft_hold_ _cleanup_(draft_hold_release)

/* Writes a path to the descriptor's file, for system calls that take only paths. */
enum {
    DRAFT_FD_PATH_SIZE = 32
};
void draft_fd_path(int fd, char ret_path[DRAFT_FD_PATH_SIZE]);

/* Opens a folder for listing and fsync(2), which an O_PATH descriptor does not allow. Return: a descriptor
 * (the caller closes it), or -errno as draft_hold() and open(2). */
int draft_node_open_folder(struct draft_table *table, struct draft_node *node);

/* ---------------------------------------------------------------- changing names */

/* These call unlinkat(2) and renameat2(2), hold names_lock for writing, and wait for the disk. Return: 0;
 * -EXDEV when a name leads to another filesystem; -errno as draft_hold() and of the system call. */
int draft_table_remove(struct draft_table *table, struct draft_node *parent, const char *name, int flags);
int draft_table_rename(struct draft_table *table, struct draft_node *parent, const char *name,
                       struct draft_node *new_parent, const char *new_name, unsigned int flags);

/* Holds the known node that a name leads to, before the name is changed elsewhere (by a rename into or out
 * of the outbox); holds nothing if there is none. Return: 0 or -errno as draft_table_rename(). */
int draft_hold_name(struct draft_table *table, struct draft_node *parent, const char *name,
                    struct draft_hold *ret);
/* Records that the name does not lead to the held node any more. */
void draft_hold_lose_name(struct draft_hold *hold, const struct draft_node *parent, const char *name);

/* ---------------------------------------------------------------- writers */

/* Count the open files that may write. Return: 0; -EBUSY when the draft is being, or was, handed in. */
int draft_node_begin_write(struct draft_table *table, struct draft_node *node);
void draft_node_end_write(struct draft_table *table, struct draft_node *node);
unsigned int draft_node_count_writers(struct draft_table *table, const struct draft_node *node);
/* Keeps new writers away, and waits at most 2 s for present ones: the RELEASE of a closed file may still
 * be on its way. Return: 0; -EBUSY when writers are left or another move is under way; -EINTR when
 * cancelled. */
int draft_node_begin_move(struct draft_table *table, struct draft_node *node, struct cancel *cancel);
/* Ends a move. Allows writers again unless `has_left` (the draft was handed in). */
void draft_node_end_move(struct draft_table *table, struct draft_node *node, bool has_left);

#endif
