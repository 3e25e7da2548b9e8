/* SPDX-License-Identifier: MIT */
/*
 * The files and folders in drafts/ that the kernel knows. A *node* stands for one file on the disk, under all
 * its names. It has a descriptor (O_PATH), by which requests reach the file whatever its name is now, and
 * which keeps the file's inode number from being used again. So the kernel's memory costs descriptors: nodes
 * take three quarters of those that the program may open, and the lookup of another file fails with EMFILE.
 *
 * A node exists while the kernel, an open file or another *user* refers to it. The kernel refers to a node by
 * its *number*, which is made of its address.
 *
 * A file that is moved into the outbox *leaves*. The kernel may remember the file's node for long, so the
 * descriptor is closed as soon as the node has no user. If the file comes back, it gets another node. Folders
 * and links never leave, so their descriptors can be used without draft_node_begin_use().
 *
 * Under the lock of the table no file is opened, read or closed, and only the lock of a cancel is taken.
 */
#ifndef INBOXFS_TREE_DRAFT_TABLE_H
#define INBOXFS_TREE_DRAFT_TABLE_H

#include <glib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/wait.h"

enum draft_state {
    DRAFT_HERE,
    DRAFT_MOVING, /* a thread hands it in: it cannot be opened for writing */
    DRAFT_LEFT,
};

/* `lock` of the table protects all members but the first two, which are constant. `fd` does not change
 * between draft_node_begin_use() and draft_node_end_use(), and is read there without the lock. */
struct draft_node {
    ino_t ino;            /* inode number of the file on the disk */
    bool is_root;         /* drafts/, which is never freed */
    int fd;               /* opened with O_PATH | O_NOFOLLOW; -1 once the draft has left and has no users */
    uint64_t references;  /* held by the kernel (lookups) and by users */
    unsigned int users;   /* open files, and requests under way */
    unsigned int writers; /* users that may write: while there are any, the draft cannot leave */
    enum draft_state state;
};

struct draft_table {
    struct clock *clock;    /* borrowed */
    struct draft_node root; /* drafts/ */
    dev_t device;           /* st_dev of the root folder; files on other devices are hidden */
    pthread_mutex_t lock;
    pthread_cond_t writer_left; /* a node has fewer writers */
    GHashTable *nodes;          /* set of struct draft_node, without the root; protected by `lock` */
};

/* Takes ownership of `root_fd`. The caller calls draft_table_release() also after a failure. Return: 0 or
 * -errno of fstat(2). */
int draft_table_init(struct draft_table *table, struct clock *clock, int root_fd);
void draft_table_release(struct draft_table *table);

/* Returns the node with this number, the root for 0. The number must come from a request of the kernel, which
 * keeps the node alive. */
struct draft_node *draft_table_node(struct draft_table *table, uint64_t number);
uint64_t draft_node_number(const struct draft_node *node);

/* Finds the file `name` in a folder, with its attributes and one more reference, which the caller
 * gives back. Waits for the disk. Return: 0; -ENOENT; -EXDEV when the file is on another filesystem; -EMFILE
 * when nodes have too many descriptors; another -errno. */
int draft_table_find(struct draft_table *table, int folder_fd, const char *name, struct draft_node **ret_node,
                     struct stat *ret_stat);
/* Drops `count` references, and frees the node if none is left. */
void draft_node_unref(struct draft_table *table, struct draft_node *node, uint64_t count);

/* Keeps node->fd open until draft_node_end_use(), which gets the same `may_write`. Return: 0; -ESTALE when
 * the draft has left and its descriptor is closed; -EBUSY when `may_write` is true, and the draft is being
 * handed in or has left. */
int draft_node_begin_use(struct draft_table *table, struct draft_node *node, bool may_write);
void draft_node_end_use(struct draft_table *table, struct draft_node *node, bool may_write);

/* Writes the path in /proc that leads to the descriptor's file. The file of an O_PATH descriptor can be
 * opened, truncated or linked only by this path. */
enum {
    DRAFT_FD_PATH_SIZE = 32
};
void draft_fd_path(int fd, char ret_path[DRAFT_FD_PATH_SIZE]);
/* Opens the folder of an O_PATH descriptor for listing and fsync(2). Return: a descriptor, which the caller
 * closes, or -errno. */
int draft_open_folder(int fd);

/* Begins to hand the draft in: keeps new writers away, and waits at most 2 s for earlier ones, since the
 * RELEASE of a closed file may still be on its way. Return: 0; -EBUSY when writers are left, or in another
 * state than DRAFT_HERE; -EINTR when cancelled. */
int draft_node_begin_move(struct draft_table *table, struct draft_node *node, struct cancel *cancel);
/* Sets the state DRAFT_LEFT if `has_left`, else DRAFT_HERE. */
void draft_node_end_move(struct draft_table *table, struct draft_node *node, bool has_left);

#endif
