/* SPDX-License-Identifier: MIT */
/*
 * The folder of an email, STEM/ beside STEM.json: its texts, attachments, raw message, and the thread before
 * it. Showing the folder itself costs nothing. Its entries are made of the email's content, and the first
 * lookup in it may wait for the service (store_content.h: errors, deadline). The content of an email does
 * not change at the service under its id, so the kernel may keep all entries. It is not notified of changes:
 * a notification would wait for the folder's lock, which a waiting request holds. Content that is fetched
 * again, from another service or by another version of this program, may have other entries, so each use of
 * a node checks that its entry still exists.
 *
 * Only this layer includes this header.
 */
#ifndef INBOXFS_TREE_EMAIL_FOLDER_H
#define INBOXFS_TREE_EMAIL_FOLDER_H

#include "store/store_content.h"
#include "tree/tree.h"

/* Returns true if `name` in the inbox is the folder of an email, and the service has content. Does not
 * wait. */
bool email_folder_find(struct tree *tree, uint32_t inbox, const char *name, struct tree_entry *ret);
/* Fills in the entry of this email's folder. */
void email_folder_fill(const struct tree *tree, const struct email_view *view, struct tree_entry *ret);

/* Opens an entry of the content for reading; NULL opens `content->bytes`. Takes the content. */
void content_open(struct tree *tree, struct store_content *content, const struct content_entry *entry,
                  int flags, struct tree_handle **ret_handle);

#endif
