/* SPDX-License-Identifier: MIT */
/*
 * An inbox: what it lists and how its own files are read and changed.
 *
 * It lists its own files, and an email as two entries: its record and the folder with what it holds.
 * .invalid/ has the mail that its rules or checks hold back, where the service tells of it; a rename between
 * it and the inbox marks an email as valid or not, and keeps its name.
 */
#ifndef INBOXFS_TREE_INBOXES_H
#define INBOXFS_TREE_INBOXES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tree/tree.h"

/* ---------------------------------------------------------------- which emails are asked for one by one */

/* A listing tells the kernel the attributes of what it names, so that nobody has to ask for them; but each
 * costs the kernel a kilobyte and two microseconds, for nothing where names are all that is wanted. So in a
 * very large inbox the first emails alone are listed with them, and the others, too, once enough have been
 * looked up to see that somebody wants them. */

enum {
    LISTED_WITH_ATTRIBUTES = 100 * 1000, /* emails, whether or not anybody asks */
    LOOKUPS_OF_DEMAND = 256,
};

/* Of the inbox in which emails were looked up last. */
struct attribute_demand { /* nothing: all zeros */
    atomic_uint_least64_t inbox_and_lookups;
};

/* An email of the inbox was looked up by its name. From any thread. */
void attribute_demand_note(struct attribute_demand *demand, uint32_t inbox);

bool attribute_demand_is_seen(const struct attribute_demand *demand, uint32_t inbox);

/* ---------------------------------------------------------------- which emails were opened since the mount:
 * a bit for each */

struct first_opens {
    pthread_mutex_t lock;
    uint64_t *words; /* protected by lock */
    size_t len;      /* protected by lock */
};

void first_opens_init(struct first_opens *opens);
void first_opens_release(struct first_opens *opens);

/* True the first time for each number. Without memory: never. */
bool first_opens_take(struct first_opens *opens, uint32_t number);

/* ---------------------------------------------------------------- listings */

/* Entries from `position` on, 0 at first; they are handed out with `base` added to the position behind them.
 */
void inbox_list(struct tree *tree, uint32_t inbox, uint64_t position, uint64_t base, tree_dir_sink sink,
                void *context);
void inbox_list_held(struct tree *tree, uint32_t inbox, uint64_t position, uint64_t base, tree_dir_sink sink,
                     void *context);

/* ---------------------------------------------------------------- .invalid/ */

/* ".invalid" */
extern const char held_folder_name[];

/* The folder itself; false: there is none. */
bool held_folder_get(struct tree *tree, uint32_t inbox, struct tree_entry *ret);

/* A name in it. 0 or -ENOENT. */
int held_folder_lookup(struct tree *tree, uint32_t inbox, const char *name, struct tree_entry *ret);

/* Whether one of the two is such a folder and the other its inbox, so that a rename is a mark. */
bool held_folder_is_move(uint64_t parent, uint64_t new_parent);
/* Waits for the network, 5 s. -EPERM: another name; the service does not move it; -EINVAL: flags but for
 * RENAME_NOREPLACE; -ENOENT, -EACCES, -EAGAIN, -EHOSTUNREACH, -EINTR. */
int held_folder_move(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                     uint64_t new_parent, const char *new_name, unsigned int flags);

#endif
