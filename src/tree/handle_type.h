/* SPDX-License-Identifier: MIT */
/*
 * How each kind of file is opened, read and written; for this layer alone. A kind embeds struct tree_handle
 * as its first member and fills in its table of operations.
 */
#ifndef INBOXFS_TREE_HANDLE_TYPE_H
#define INBOXFS_TREE_HANDLE_TYPE_H

#include "tree/tree.h"
#include "tree/tree_state.h"

struct handle_ops {
    enum tree_caching caching;
    bool may_wait;       /* flush and release */
    bool write_may_wait; /* write */
    /* The same now and then: asked before each write. NULL: never */
    bool (*next_write_may_wait)(struct tree_handle *handle);
    /* NULL: -EBADF */
    int (*read)(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret);
    ssize_t (*write)(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                     size_t len, off_t offset);
    /* tree_take_first_content(). NULL: false */
    bool (*take_first_content)(struct tree_handle *handle, struct tree_data *ret);
    /* NULL: there always is something */
    bool (*is_readable)(struct tree_handle *handle);
    /* NULL: -EPERM */
    int (*set_size)(struct tree_handle *handle, const struct tree_caller *caller, off_t size);
    /* NULL: -EOPNOTSUPP */
    int (*allocate)(struct tree_handle *handle, const struct tree_caller *caller, int mode, off_t offset,
                    off_t len);
    /* NULL, or -EOPNOTSUPP: all of the file is data */
    off_t (*seek)(struct tree_handle *handle, off_t offset, int whence);
    /* NULL: nothing to do */
    int (*sync)(struct tree_handle *handle, bool is_data_only);
    int (*flush)(struct tree_handle *handle, const struct tree_caller *caller);
    /* Whether a close that nobody told of may be taken for one that went well. NULL: yes */
    bool (*is_closed_well)(const struct tree_handle *handle);
    /* Frees the handle. Never NULL. */
    void (*release)(struct tree_handle *handle);
    /* The same when nobody has closed the file. NULL: release */
    void (*abandon)(struct tree_handle *handle);
};

struct tree_handle {
    const struct handle_ops *ops;
    struct tree *tree;     /* borrowed */
    int flags;             /* of open(2) */
    struct tree_link link; /* in the tree's list of handles */
};

/* A zeroed handle of a kind that is `size` bytes large, or NULL. It is free()d, until tree_open() or
 * tree_create() has handed it out. */
void *handle_new(struct tree *tree, const struct handle_ops *ops, size_t size, int flags);

/* Whether open(2) asks for reading alone. */
bool handle_is_for_reading(int flags);
/* The `release` of a handle that owns nothing. */
void tree_handle_free(struct tree_handle *handle);
/* A read from a text that outlives the reply. */
int handle_read_text(const char *text, size_t text_len, size_t len, off_t offset, struct tree_data *ret);

/* Read-only files. */
int email_open(struct tree *tree, uint32_t number, int flags, struct tree_handle **ret_handle);
int inbox_index_open(struct tree *tree, uint32_t inbox, int flags, struct tree_handle **ret_handle);
/* A text made when it is opened, which is taken; NULL: there was no memory for it. */
int text_open(struct tree *tree, int flags, char *text, size_t len, struct tree_handle **ret_handle);
int search_note_open(struct tree *tree, uint64_t ino, int flags, struct tree_handle **ret_handle);
int readme_open(struct tree *tree, int flags, struct tree_handle **ret_handle);
int status_open(struct tree *tree, int flags, struct tree_handle **ret_handle);
int event_log_open(struct tree *tree, uint64_t begin, int flags, struct tree_handle **ret_handle);
int event_stream_open(struct tree *tree, int flags, struct tree_handle **ret_handle);

/* What is in the folder of an email. Waits. */
int content_open(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                 struct tree_handle **ret_handle);

/* inbox.json. */
int inbox_record_open(struct tree *tree, const struct tree_caller *caller, uint32_t number, int flags,
                      struct tree_handle **ret_handle);

/* ctl. */
int control_open(struct tree *tree, int flags, struct tree_handle **ret_handle);

/* What is in the outbox's folders. */
int item_open(struct tree *tree, const struct tree_caller *caller, uint64_t number, enum outbox_aspect aspect,
              int flags, struct tree_handle **ret_handle);
int item_create(struct tree *tree, const struct tree_caller *caller, enum outbox_folder folder,
                const char *name, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle);

/* Doors for answers. */
int answer_open(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                struct tree_handle **ret_handle);
struct answer_door;
int answer_create(struct tree *tree, const struct answer_door *door, int flags, struct tree_entry *ret_entry,
                  struct tree_handle **ret_handle);

/* Drafts. */
int draft_open(struct tree *tree, struct draft_node *node, int flags, struct tree_handle **ret_handle);
int draft_create(struct tree *tree, struct draft_node *parent, const char *name, mode_t mode, int flags,
                 struct tree_entry *ret_entry, struct tree_handle **ret_handle);
/* The file behind a draft's handle, or -1 for a handle of another kind. */
int draft_handle_fd(const struct tree_handle *handle);

#endif
