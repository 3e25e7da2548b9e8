/* SPDX-License-Identifier: MIT */
/*
 * What the service tells of mail that was sent, joined with what sent/ shows: `status` and `latest_event` in
 * the receipts of what went out from here, and a record file for each mail that was sent elsewhere. Receipts
 * are made when they are looked at, so that nothing has to be kept in step.
 */
#ifndef INBOXFS_TREE_ITEMS_H
#define INBOXFS_TREE_ITEMS_H

#include "base/map.h"
#include "tree/tree.h"

struct tree_handle;

/* A record in sent/ by name. 0, -ENOENT. */
int sent_folder_lookup(struct tree *tree, const char *name, struct tree_entry *ret);
bool sent_folder_get(struct tree *tree, uint32_t number, struct tree_entry *ret);

/* What the service calls those that are listed; the keys are the listing's. 0 or -ENOMEM. */
int sent_folder_map_ids(const struct outbox_listing *listing, struct map *ret_ids);

/* The next record from `position` on that is none of these. False: there are no more. */
bool sent_folder_next(struct tree *tree, const struct map *listed_ids, uint64_t *position,
                      const char **ret_name, struct tree_entry *ret);

/* Removes a record, for good: 0; -ENOENT: it is none. */
int sent_folder_remove(struct tree *tree, const char *name);

/* What the service calls the file of this name in sent/; NULL: nothing known. The caller frees. Once that
 * file has left sent/ by the user's doing, its record is not to take its place: sent_folder_forget(), which
 * frees it. NULL-safe. */
char *sent_folder_get_id(struct tree *tree, const char *name);
void sent_folder_forget(struct tree *tree, char *id);

/* How much longer the receipt of this item is than the outbox says. */
size_t sent_delivery_len(const struct tree *tree, const struct outbox_stat *stat);

int sent_record_open(struct tree *tree, uint32_t number, int flags, struct tree_handle **ret_handle);
int sent_receipt_open(struct tree *tree, const struct tree_caller *caller, uint64_t number, int flags,
                      struct tree_handle **ret_handle);

#endif
