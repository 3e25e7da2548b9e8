/* SPDX-License-Identifier: MIT */
/*
 * The folder of an email, STEM/ beside STEM.json: its texts, attachments, raw message, and the thread before
 * it. The folder itself costs nothing; what is in it is known when it was first looked into, which may wait
 * for the service (store_content.h: errors, deadline). Nothing in it ever changes, so nobody is ever told of
 * it: a notification would meet the request that waits.
 *
 * For this layer alone.
 */
#ifndef INBOXFS_TREE_EMAIL_FOLDER_H
#define INBOXFS_TREE_EMAIL_FOLDER_H

#include "store/store_content.h"
#include "tree/tree.h"

/* What an inode of INODE_CONTENT is: its number is that of the email, and one of these with the place of an
 * entry in the email's struct content_folder. */
enum content_node_kind {
    CONTENT_NODE_FOLDER,      /* STEM/ */
    CONTENT_NODE_MESSAGE,     /* message.eml */
    CONTENT_NODE_ATTACHMENTS, /* attachments/ */
    CONTENT_NODE_THREAD,      /* thread/ */
    CONTENT_NODE_TEXT,        /* body.txt and so on */
    CONTENT_NODE_ATTACHMENT,  /* a file in attachments/ */
    CONTENT_NODE_EARLIER,     /* an email in thread/ that is not in the mount */
    CONTENT_NODE_LINK,        /* one that is: a symbolic link to its folder */
};

struct content_node {
    uint32_t email;
    enum content_node_kind kind;
    uint16_t index; /* CONTENT_NODE_TEXT and on */
};

uint64_t content_node_ino(const struct content_node *node);
/* `ino` is of INODE_CONTENT. */
struct content_node content_node_of(uint64_t ino);
/* Whether the content has what the inode names: numbers come from the kernel, which has them from here, but
 * what is fetched anew need not be what it was. */
bool content_has_node(const struct store_content *content, const struct content_node *node);

/* Whether `name` in the inbox is the folder of an email, and that is shown. No wait. */
bool content_find_folder(struct tree *tree, uint32_t inbox, const char *name, struct tree_entry *ret);
/* The folder of this email. */
void content_entry_of_folder(const struct tree *tree, const struct email_view *view, struct tree_entry *ret);
/* Its name: without the ".json" of the email's. `size` as NAME_MAX + 1. */
void content_folder_name(const struct email_view *view, char *ret_name, size_t size);

/* These wait, unless `tree_may_wait()` and the like say otherwise. `caller` may be NULL. */
int content_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                   struct tree_entry *ret);
int content_get_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                           struct tree_attributes *ret);
int content_read_link(struct tree *tree, const struct tree_caller *caller, uint64_t ino, char *ret_target,
                      size_t size);

/* What a listing of one of its folders needs: -ENOTDIR, or the content, which the caller gives back. */
int content_open_dir(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                     struct store_content **ret_content);
/* Entries from the `index`th on; the position behind it is `base` and its index plus one. */
void content_list(struct tree *tree, uint64_t ino, const struct store_content *content, uint64_t index,
                  uint64_t base, tree_dir_sink sink, void *context);

/* The folder that a folder is in. */
uint64_t content_parent_ino(struct tree *tree, uint64_t ino);

#endif
