/* SPDX-License-Identifier: MIT */
/*
 * Notifying the kernel of changes in an inbox, and which emails of a very large one are listed with their
 * attributes. Only this layer includes this header.
 */
#ifndef INBOXFS_TREE_INBOXES_H
#define INBOXFS_TREE_INBOXES_H

#include "tree/tree.h"

enum {
    INBOX_LISTED_WITH_ATTRIBUTES = 100 * 1000, /* emails of any inbox, at least */
    INBOX_LOOKUPS_OF_DEMAND = 256, /* lookups, after which all emails are listed with attributes */
};

/* Stores the folder's name (NULL when the inbox is gone). Returns the former name if it was a different one,
 * else NULL. Names live as long as the store. */
const char *inboxes_exchange_name(struct tree *tree, uint32_t inbox, const char *name);

/* Notifies the kernel that mail of the inbox changed: of all files and folders that depend on mail. */
void inbox_notify_mail(struct tree *tree, uint32_t inbox);
/* Like inbox_notify_mail(), when the inbox's record may have changed, too. */
void inbox_notify(struct tree *tree, uint32_t inbox);

#endif
