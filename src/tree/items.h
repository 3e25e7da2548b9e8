/* SPDX-License-Identifier: MIT */
/*
 * Moves between the outbox's folders and others. A draft that is moved into outbox/ or attachments/, or onto
 * a reply file, is *handed in*: it is an item of the outbox from then on, and no draft. An item that is moved
 * into drafts/ is *taken out*. For this layer alone; all wait for the disk.
 */
#ifndef INBOXFS_TREE_ITEMS_H
#define INBOXFS_TREE_ITEMS_H

#include "tree/tree.h"

/* One of outbox/, attachments/, sent/ and failed/. */
uint64_t items_folder_ino(enum outbox_folder folder);
bool items_is_folder(uint64_t ino);

/* The place that a draft is handed in to. */
struct hand_in {
    enum outbox_folder folder; /* where `answers` is NULL; outbox/ or attachments/ */
    const char *name;
    unsigned int flags;  /* of rename(2); 0 or RENAME_NOREPLACE */
    const char *answers; /* of a reply: reply_make() in reply.h */
};
/* Hands in the draft called `name` in a folder of drafts/. 0, -ENOENT, -EBUSY (somebody writes to it),
 * -EISDIR, -ELOOP, -EMLINK, -EBADMSG (it is no message), -EINTR and what outbox.h says. */
int items_hand_in(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                  const struct hand_in *to);

/* Makes the message of an open file at the first write to it. */
struct item_maker {
    /* Called until it succeeds, by one thread at a time. `bytes`: what is written at the start; NULL: nothing
     * is written yet, or not there. */
    int (*make)(struct item_maker *maker, const struct tree_caller *caller, const void *bytes, size_t len,
                struct outbox_handle **ret_file, struct outbox_stat *ret_stat);
    void (*free)(struct item_maker *maker);
};
/* A file for writing, of which the kernel knows no size. Takes the maker, also when this fails. 0 or
 * -ENOMEM. */
int items_open_unmade(struct tree *tree, int flags, struct item_maker *maker,
                      struct tree_handle **ret_handle);

/* Returns 0 if an item may be renamed at all; -EPERM for receipts and records of mail sent elsewhere; -EINVAL
 * for flags but RENAME_NOREPLACE. */
int items_check_rename(struct tree *tree, uint64_t folder, const char *name, unsigned int flags);
/* Takes an item out, into the folder of this descriptor: as outbox_take_out() in outbox.h. */
int items_take_out(struct tree *tree, uint64_t folder, const char *name, int dir_fd, const char *new_name,
                   unsigned int flags);

#endif
