/* SPDX-License-Identifier: MIT */
/*
 * The files and folders in drafts/ that the kernel knows of. A *node* is one file: it has the file's inode
 * number, the folder and the name under which it was found last, and counts who has it open for writing, for
 * a draft that is being written must not be handed in. A file with several names has one node, which knows
 * one of them: the kernel looks a name up before it uses it, so that is the name that it uses next.
 *
 * A node stays while the kernel, an open file or a node below it refers to it. Its *number*, by which the
 * kernel names it, is its address; the kernel names what it has looked up and not yet forgotten, and nothing
 * else. The kernel remembers as many nodes as it likes, so a node has an O_PATH descriptor only while
 * somebody *holds* it: an open file or a request. It is opened by its path from the nearest folder above that
 * is held, and its inode number is compared. A file that was removed has no name to be opened by: its node
 * keeps the descriptor until the kernel forgets it, which the kernel does as soon as no program uses the
 * file.
 *
 * Two locks, in this order. With `names_lock` held no name is changed through the mount while a path is
 * followed: draft_table_rename() and draft_table_remove() hold it for writing, draft_hold() and
 * draft_table_find() for reading; a new name needs no lock. System calls on drafts/, which may wait for the
 * disk, are all that is called under it, besides functions of this table. A move into or out of the outbox
 * holds neither lock while it calls the outbox: only a file moves so, and no path leads through a file;
 * DRAFT_MOVING keeps writers away from a file that is being handed in. `lock` protects the nodes in memory.
 * It is held over no system call; draft_node_begin_move() gives it up while it waits for writers. Under it
 * the lock of a cancel alone is taken.
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

enum {
    DRAFT_KEY_SIZE = 24
};

enum draft_state {
    DRAFT_HERE,
    DRAFT_MOVING, /* being handed in: nobody may begin to write */
    DRAFT_LEFT,   /* handed in: no draft any more; should the file come back, it comes back as another */
};

/* Protected by the table's lock, all but is_root. */
struct draft_node {
    char key[DRAFT_KEY_SIZE];  /* the file's inode number in hexadecimal, until the file has left */
    bool is_root;              /* is open all the time, has no name, and is never freed */
    struct draft_node *parent; /* with a reference; NULL: it has no name any more */
    char *name;
    uint64_t references;  /* lookups of the kernel, holders, nodes below it */
    int fd;               /* O_PATH | O_NOFOLLOW, while there are holders */
    unsigned int holders; /* and one that never ends, once the file is removed */
    unsigned int writers; /* open files that may write, until their RELEASE */
    enum draft_state state;
};

struct draft_table {
    struct clock *clock; /* borrowed */
    struct draft_node root;
    dev_t device;                /* of the root: nothing mounted below it is shown */
    pthread_rwlock_t names_lock; /* taken before `lock` */
    pthread_mutex_t lock;
    pthread_cond_t writer_left;
    GHashTable *nodes; /* protected by lock; by key, without roots */
};

/* Takes over `root_fd`, also when it fails. 0 or -errno. */
int draft_table_init(struct draft_table *table, struct clock *clock, int root_fd);
void draft_table_release(struct draft_table *table);

/* One more root: a folder elsewhere on the same filesystem, in which paths may be looked up, too. The
 * descriptor is borrowed. */
void draft_root_init(struct draft_node *root, int fd);

/* The node that the kernel knows by this number, 0 being the root: there while a request names it. */
struct draft_node *draft_table_node(struct draft_table *table, uint64_t number);
uint64_t draft_node_number(const struct draft_node *node);

/* The file called `name` in the folder `parent`, with one reference more, and its attributes. Waits for the
 * disk. 0; -ENOENT; -EXDEV: on another filesystem; -ESTALE: as draft_hold(); -errno. */
int draft_table_find(struct draft_table *table, struct draft_node *parent, const char *name,
                     struct draft_node **ret_node, struct stat *ret_stat);
/* Gives references back, without which the node may be freed. */
void draft_node_unref(struct draft_table *table, struct draft_node *node, uint64_t count);

/* ---------------------------------------------------------------- holding */

/* A draft that is held: its descriptor is good for as long. */
struct draft_hold {
    struct draft_table *table; /* NULL: nothing is held */
    struct draft_node *node;
    int fd;
};
/* Waits for the disk. 0; -ESTALE: its name does not lead to it any more, because it was changed past the
 * mount, or it has none (the kernel then looks the path up again); -ENAMETOOLONG: its path from the folder
 * nearest above that is held has more than 4,095 bytes; -errno. */
int draft_hold(struct draft_table *table, struct draft_node *node, struct draft_hold *ret);
void draft_hold_release(struct draft_hold *hold);
#define _cleanup_draft_hold_ _cleanup_(draft_hold_release)

/* A path by which the file of a descriptor can be given to a system call that takes only paths. */
enum {
    DRAFT_FD_PATH_SIZE = 32
};
void draft_fd_path(int fd, char ret_path[DRAFT_FD_PATH_SIZE]);

/* A folder, to be listed or synced, which an O_PATH descriptor cannot: a descriptor that the caller closes,
 * or -errno. */
int draft_node_open_folder(struct draft_table *table, struct draft_node *node);

/* ---------------------------------------------------------------- changing names */

/* unlinkat(2) and renameat2(2). Both take names_lock for writing, and wait for the disk. 0 or -errno. */
int draft_table_remove(struct draft_table *table, struct draft_node *parent, const char *name, int flags);
int draft_table_rename(struct draft_table *table, struct draft_node *parent, const char *name,
                       struct draft_node *new_parent, const char *new_name, unsigned int flags);

/* For a name that is changed elsewhere (a rename into or out of the outbox): holds what it leads to; nothing
 * is held where nothing is there. 0 or -errno. */
int draft_hold_name(struct draft_table *table, struct draft_node *parent, const char *name,
                    struct draft_hold *ret);
/* The name does not lead to what is held any more. */
void draft_hold_lose_name(struct draft_hold *hold, const struct draft_node *parent, const char *name);

/* ---------------------------------------------------------------- writers */

/* An open file begins and ends to be one that may write. 0; -EBUSY: it is being handed in, or was. */
int draft_node_begin_write(struct draft_table *table, struct draft_node *node);
void draft_node_end_write(struct draft_table *table, struct draft_node *node);
unsigned int draft_node_count_writers(struct draft_table *table, const struct draft_node *node);
/* Keeps writers away, and waits (at most 2 s) for those that there are: of a file that was closed, the
 * RELEASE may still be on its way. 0; -EBUSY: somebody is writing, or another move is under way; -EINTR. */
int draft_node_begin_move(struct draft_table *table, struct draft_node *node, struct cancel *cancel);
/* `has_left`: it was handed in. */
void draft_node_end_move(struct draft_table *table, struct draft_node *node, bool has_left);

#endif
