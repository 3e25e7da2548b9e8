/* SPDX-License-Identifier: MIT */
/*
 * The changes that maildir/ follows, and whether there is one at all. For this layer alone.
 */
#ifndef INBOXFS_TREE_MAILDIR_H
#define INBOXFS_TREE_MAILDIR_H

#include "tree/tree.h"

/* The service has raw messages. */
bool maildir_is_shown(const struct tree *tree);

/* The set of emails in an inbox changed. */
void maildir_inbox_changed(struct tree *tree, uint32_t inbox);
/* The raw message of an email is this large (waits for the disk). */
void maildir_note_size(const struct tree *tree, uint32_t inbox, uint32_t email, uint64_t size);
/* An email left its inbox. */
void maildir_email_gone(struct tree *tree, uint32_t inbox, uint32_t email);
/* An email came into its inbox. */
void maildir_email_appeared(struct tree *tree, uint32_t inbox, uint32_t email);
/* tree_find_announced() of a message. */
int maildir_find_announced(struct tree *tree, uint64_t ino, char *ret_path, size_t size);
/* Tells the listener that the folder of an inbox may be another. */
void maildir_notify_box(struct tree *tree, uint32_t inbox);

#endif
