/* SPDX-License-Identifier: MIT */
/*
 * The files reply, reply-all and forward in the folder of an email: doors into outbox/. What is written to
 * one, or moved onto it, is a message there from its first byte on (outbox_create_answer() in outbox.h); the
 * door itself holds nothing, and cannot be read. Doors are not listed: what reads everything must not stop at
 * them.
 *
 * For this layer alone.
 */
#ifndef INBOXFS_TREE_REPLY_FILE_H
#define INBOXFS_TREE_REPLY_FILE_H

#include "mail/reply.h"
#include "tree/tree.h"

struct answer_door {
    uint32_t email;
    enum reply_kind kind;
};

/* What an inode of INODE_ANSWER is. */
struct answer_door answer_door_of(uint64_t ino);

/* Whether `name` in the folder `parent` (any inode) is a door. No wait. */
bool answer_door_find(struct tree *tree, uint64_t parent, const char *name, struct answer_door *ret);

/* What looking it up gives. 0, or -ENOENT: this process has just removed it, as mv(1) from another filesystem
 * and install(1) do before they create a file in its place; for all others it stays. No wait. */
int answer_door_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                       struct tree_entry *ret);
/* Removes it for this process, for some seconds. No wait. */
int answer_door_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t parent,
                       const char *name);

/* False: its email is not there. No wait. */
bool answer_door_get(struct tree *tree, const struct answer_door *door, struct tree_entry *ret);

/* What is to be known before anything can be handed in here: `answers` (reply_make() in reply.h), and a name
 * for the message; the caller frees both. Waits for the email's content: errors as in store_content.h. */
int answer_door_prepare(struct tree *tree, const struct tree_caller *caller, const struct answer_door *door,
                        char **ret_answers, char **ret_name);

#endif
