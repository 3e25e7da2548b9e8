/* SPDX-License-Identifier: MIT */
/*
 * Moves between the outbox's folders and others. A draft that is moved into outbox/ or attachments/, or onto
 * a reply file, is *handed in*: it becomes an item of the outbox, and is no longer a draft. An item that is
 * moved into drafts/ is *taken out*. Only this layer includes this header. The moves wait for the disk.
 */
#ifndef INBOXFS_TREE_ITEMS_H
#define INBOXFS_TREE_ITEMS_H

#include "tree/tree.h"

/* Returns the inode of outbox/, attachments/, sent/ or failed/. */
uint64_t items_folder_ino(enum outbox_folder folder);
bool items_is_folder(uint64_t ino);

/* The destination of a hand-in. */
struct hand_in {
    enum outbox_folder folder; /* outbox/ or attachments/; unused if `answers` is set */
    const char *name;
    unsigned int flags;  /* of rename(2); 0 or RENAME_NOREPLACE */
    const char *answers; /* from reply_make() (reply.h) if the draft is a reply, else NULL */
};
/* Hands in the draft `name` in a folder of drafts/. Return: 0; -EBUSY when the draft is open for writing or
 * being moved; -EINTR when cancelled; -errno as draft_table_find(), draft_hold() and outbox_hand_in(). */
int items_hand_in(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                  const struct hand_in *to);

/* Makes the message of an open file, at the first write to it. */
struct item_maker {
    /* Called until it succeeds, by one thread at a time. `bytes`: the bytes that are written at the start of
     * the file; NULL if the write is elsewhere in the file, or there is none yet. */
    int (*make)(struct item_maker *maker, const struct tree_caller *caller, const void *bytes, size_t len,
                struct outbox_handle **ret_file, struct outbox_stat *ret_stat);
    void (*free)(struct item_maker *maker);
};
/* Opens for writing a file whose size the kernel does not know. Takes the maker. */
void items_open_unmade(struct tree *tree, int flags, struct item_maker *maker,
                       struct tree_handle **ret_handle);

/* Checks whether an item may be renamed at all. Return: 0; -EPERM for receipts and for records of mail sent
 * elsewhere; -EINVAL for flags other than RENAME_NOREPLACE. */
int items_check_rename(struct tree *tree, uint64_t folder, const char *name, unsigned int flags);
/* Takes an item out, into the folder `dir_fd`. Return: as outbox_take_out(). */
int items_take_out(struct tree *tree, uint64_t folder, const char *name, int dir_fd, const char *new_name,
                   unsigned int flags);

#endif
