/* SPDX-License-Identifier: MIT */
/*
 * Changes that maildir/ follows. Only this layer includes this header.
 */
#ifndef INBOXFS_TREE_MAILDIR_H
#define INBOXFS_TREE_MAILDIR_H

#include "tree/tree.h"

/* Returns true if maildir/ is shown: the service has raw messages, and the store knows all mail. */
bool maildir_is_shown(const struct tree *tree);

/* To be called when the set of emails in an inbox changed. */
void maildir_inbox_changed(struct tree *tree, uint32_t inbox);
/* Stores the size, in bytes, of an email's raw message. Waits for the disk. */
void maildir_note_size(const struct tree *tree, uint32_t inbox, uint32_t email, uint64_t size);
/* To be called when an email left its inbox. */
void maildir_email_gone(struct tree *tree, uint32_t inbox, uint32_t email);
/* To be called when an email appeared in its inbox. */
void maildir_email_appeared(struct tree *tree, uint32_t inbox, uint32_t email);
/* Notifies the listener that the Maildir of an inbox may have changed. */
void maildir_notify_box(struct tree *tree, uint32_t inbox);

#endif
