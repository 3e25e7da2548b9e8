/* SPDX-License-Identifier: MIT */
/*
 * The folder of an email, STEM/ beside STEM.json: its texts, attachments, raw message, and the thread before
 * it. The folder itself costs nothing; what is in it is known when it was first looked into, which may wait
 * for the service (store_content.h: errors, deadline). The content of an email does not change at the service
 * under its id, so the kernel may keep what it was told, and is not notified of changes: a notification would
 * meet the request that waits. Only what is fetched anew, from another service or by another version of this
 * program, may have other entries: each use of a node checks that its entry is there.
 *
 * For this layer alone.
 */
#ifndef INBOXFS_TREE_EMAIL_FOLDER_H
#define INBOXFS_TREE_EMAIL_FOLDER_H

#include "store/store_content.h"
#include "tree/tree.h"

/* What an inode of NODE_EMAIL_FOLDER is: its number is that of the email, and one of these with the place of
 * an entry in the email's struct content_folder. */
enum email_node_kind {
    EMAIL_NODE_FOLDER,      /* STEM/ */
    EMAIL_NODE_MESSAGE,     /* message.eml */
    EMAIL_NODE_ATTACHMENTS, /* attachments/ */
    EMAIL_NODE_THREAD,      /* thread/ */
    EMAIL_NODE_TEXT,        /* body.txt and so on */
    EMAIL_NODE_ATTACHMENT,  /* a file in attachments/ */
    EMAIL_NODE_EARLIER,     /* an email in thread/ that is not in the mount */
    EMAIL_NODE_LINK,        /* one that is: a symbolic link to its folder */
};

struct email_node {
    uint32_t email;
    enum email_node_kind kind;
    uint16_t index; /* EMAIL_NODE_TEXT and on */
};

uint64_t email_node_ino(const struct email_node *node);
/* `ino` is of NODE_EMAIL_FOLDER. */
struct email_node email_node_of(uint64_t ino);
/* Whether `name` in the inbox is the folder of an email, and that is shown. No wait. */
bool email_folder_find(struct tree *tree, uint32_t inbox, const char *name, struct tree_entry *ret);
/* The folder of this email. */
void email_folder_fill(const struct tree *tree, const struct email_view *view, struct tree_entry *ret);
/* Its name: without the ".json" of the email's. `size` as NAME_MAX + 1. */
void email_folder_name(const struct email_view *view, char *ret_name, size_t size);

#endif
