/* SPDX-License-Identifier: MIT */
/*
 * Notifications to the kernel of changes in an inbox, and the choice which emails of a very large inbox are
 * listed with their attributes. Only this layer includes this header.
 */
#ifndef INBOXFS_TREE_INBOXES_H
#define INBOXFS_TREE_INBOXES_H

#include "tree/tree.h"

enum {
    INBOX_LISTED_WITH_ATTRIBUTES = 100 * 1000, /* at least this many emails of any inbox */
    INBOX_LOOKUPS_OF_DEMAND = 256, /* lookups, after which all emails are listed with attributes */
};

/* Stores the folder's name (NULL if the inbox is gone). Returns the former name if it differs, else NULL.
 * Names live as long as the store. */
const char *inboxes_exchange_name(struct tree *tree, uint32_t inbox, const char *name);

/* Notifies the kernel that all files and folders that depend on the mail of the inbox changed. */
void inbox_notify_mail(struct tree *tree, uint32_t inbox);
/* Like inbox_notify_mail(); to be called if the inbox's record may have changed, too. */
void inbox_notify(struct tree *tree, uint32_t inbox);

#endif
