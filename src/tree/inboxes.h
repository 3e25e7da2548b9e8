/* SPDX-License-Identifier: MIT */
/*
 * Notifying the kernel of changes in an inbox, and which emails of a very large one are listed with
 * their attributes. For this layer alone.
 */
#ifndef INBOXFS_TREE_INBOXES_H
#define INBOXFS_TREE_INBOXES_H

#include "tree/tree.h"

enum {
    INBOX_LISTED_WITH_ATTRIBUTES = 100 * 1000, /* emails, whether or not anybody asks */
    INBOX_LOOKUPS_OF_DEMAND = 256,             /* after this many, all are listed with them */
};

/* Remembers the folder's name, NULL when it is gone, and returns the one it had when that was another. Names
 * live as long as the store. */
const char *inboxes_exchange_name(struct tree *tree, uint32_t inbox, const char *name);

/* Notifies the kernel of all files and folders that show when the inbox, or mail of it, last changed. */
void inbox_notify_mail(struct tree *tree, uint32_t inbox);
/* The same where its record may have changed, too. */
void inbox_notify(struct tree *tree, uint32_t inbox);

#endif
