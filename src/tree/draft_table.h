/* SPDX-License-Identifier: MIT */
/*
 * The files and folders in drafts/ that the kernel knows of: the names that lead to each, how often it was
 * looked up, and who has it open for writing, for a draft that is being written must not be handed in.
 * A draft stays in the table while the kernel, an open file or a draft below it refers to it. The kernel
 * remembers as many as it likes, so a draft has a descriptor only while somebody holds it: an open file, a
 * request, or, once it has no name any more, whoever makes the kernel remember it all the same.
 */
#ifndef INBOXFS_TREE_DRAFT_TABLE_H
#define INBOXFS_TREE_DRAFT_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/wait.h"

enum {
    DRAFT_KEY_SIZE = 40
};

enum draft_state {
    DRAFT_HERE,
    DRAFT_MOVING, /* being handed in: nobody may begin to write */
    DRAFT_LEFT,   /* handed in: no draft any more; should the file come back, it comes back as another */
};

/* Where a draft is found. */
struct draft_name {
    struct draft_name *next;
    struct draft_node *parent; /* with a reference */
    char name[];
};

/* Protected by the table's lock, all but key and number, which stay, and a root, which has nothing else. */
struct draft_node {
    char key[DRAFT_KEY_SIZE];     /* device and inode number in hexadecimal */
    uint64_t number;              /* the inode's; 0: a root, which is never freed */
    struct draft_name *names;     /* a folder has one, a file as many as are known, up to a few */
    uint64_t references;          /* lookups, holders, names below it */
    int fd;                       /* O_PATH | O_NOFOLLOW, while there are holders */
    unsigned int holders;         /* and one that is no reference, once the last name is gone */
    unsigned int writers;         /* open files that may write, until their RELEASE */
    unsigned int flushed_writers; /* of them: closed, but not yet released, as far as can be told */
    enum draft_state state;
    struct draft_node *next_dead; /* while it is being freed */
};

struct draft_slot {
    struct draft_node *node; /* NULL: free */
    uint32_t generation;     /* grows when it is taken, so that no number comes back */
    uint32_t next_free;
};

struct draft_table {
    struct clock *clock; /* borrowed */
    struct draft_node root;
    dev_t device; /* of the root: nothing mounted below it is shown */
    pthread_mutex_t lock;
    pthread_cond_t writer_left;
    struct map nodes; /* protected by lock, like all below; by key, without roots and what has left */
    struct draft_slot *slots;
    uint32_t slots_len;
    uint32_t first_free;
    uint64_t changes; /* grows before and after a name may come to lead elsewhere */
};

/* Takes over `root_fd`, also when it fails. 0 or -errno. */
int draft_table_init(struct draft_table *table, struct clock *clock, int root_fd);
void draft_table_release(struct draft_table *table);

/* One more root: a folder elsewhere in which names may be looked up, too, paths among them. The descriptor is
 * borrowed. */
void draft_root_init(struct draft_node *root, int fd);

/* The node of this number, 0 being the root; NULL: no draft, or none any more. It stays for as long as the
 * kernel knows the number. */
struct draft_node *draft_table_find_number(struct draft_table *table, uint64_t number);

/* The file called `name` in the folder `parent`, with one reference more, and its attributes. 0; -ENOENT;
 * -EXDEV: on another filesystem; -errno. */
int draft_table_find(struct draft_table *table, struct draft_node *parent, const char *name,
                     struct draft_node **ret_node, struct stat *ret_stat);
void draft_node_unref(struct draft_table *table, struct draft_node *node, uint64_t count);

/* ---------------------------------------------------------------- holding */

/* A draft that is held: its descriptor is good for as long. */
struct draft_hold {
    struct draft_table *table; /* NULL: nothing is held */
    struct draft_node *node;
    int fd;
};
/* 0; -ESTALE: none of its names leads to it any more; -errno. */
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

/* unlinkat(2) and renameat2(2). */
int draft_table_remove(struct draft_table *table, struct draft_node *parent, const char *name, int flags);
int draft_table_rename(struct draft_table *table, struct draft_node *parent, const char *name,
                       struct draft_node *new_parent, const char *new_name, unsigned int flags);

/* A name that may come to lead to another file than this, or nowhere, while it is being left. */
struct draft_leaving {
    struct draft_hold hold; /* of what the name leads to; its table and node are NULL where that is nothing */
    struct draft_node *parent;
    const char *name; /* borrowed */
};
/* 0, also where there is no such file; -errno. Ended by draft_leave_end(). */
int draft_leave_begin(struct draft_table *table, struct draft_node *parent, const char *name,
                      struct draft_leaving *ret);
void draft_leave_end(struct draft_leaving *leaving, bool has_left);

/* ---------------------------------------------------------------- writers */

/* An open file begins and ends to be one that may write. 0; -EBUSY: it is being handed in, or was. */
int draft_node_begin_write(struct draft_table *table, struct draft_node *node);
void draft_node_end_write(struct draft_table *table, struct draft_node *node, bool was_flushed);
unsigned int draft_node_count_writers(struct draft_table *table, const struct draft_node *node);
/* A write handle's flushed state changed. */
void draft_node_set_flushed(struct draft_table *table, struct draft_node *node, bool is_flushed);

/* Keeps writers away, waiting (at most 2 s) for those that have closed and whose RELEASE is still on its way.
 * 0; -EBUSY: somebody is writing, or another move is under way; -EINTR. */
int draft_node_begin_move(struct draft_table *table, struct draft_node *node, struct cancel *cancel);
/* `has_left`: it was handed in. */
void draft_node_end_move(struct draft_table *table, struct draft_node *node, bool has_left);

#endif
