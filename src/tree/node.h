/* SPDX-License-Identifier: MIT */
/*
 * Nodes: what the folders of the tree have in common. For this layer alone.
 *
 * A node is a file, a folder or a link that the user sees. Nothing is allocated for it: its inode number says
 * what it is, by a *kind* in the low six bits and a *number* of that kind above (which inbox, which email,
 * which item). So numbers stay the same while mounted, and the kernel may remember a million of them at no
 * cost.
 *
 * The table of operations of its kind (struct node_ops) says what can be done with a node; the file of its
 * folder fills it in. tree.c finds the table by the number and calls it. A new kind of node is a line in
 * NODE_KINDS and its table; what is in the root has a row in root.c, too.
 *
 * An *entry* is what the kernel learns of a node. Parts of it are *lasting*: the kernel may keep them until
 * it is notified. A name is not lasting in a folder where requests may have to wait: its invalidation would
 * wait for the folder's lock, which such a request holds.
 * A *handle* is an open file, a *listing* an open folder; each belongs to the kind that opened it.
 */
#ifndef INBOXFS_TREE_NODE_H
#define INBOXFS_TREE_NODE_H

#include <fcntl.h>
#include <glib.h>
#include <pthread.h>

#include "tree/draft_table.h"
#include "tree/removed_names.h"
#include "tree/tree.h"

/* ---------------------------------------------------------------- inode numbers */

/* The names of a kind and of its operations, and what its number is; where that is not said, it is 0. */
#define NODE_KINDS(KIND)                                                                                      \
    KIND(ROOT, root)                     /* first, so that its inode is the kernel's TREE_ROOT_INO */         \
    KIND(README, readme)                 /* README */                                                         \
    KIND(STATUS, status)                 /* status.json */                                                    \
    KIND(EVENT_LOG, event_log)           /* events.jsonl: where in the log it begins, and 1 (events.c) */     \
    KIND(EVENT_STREAM, event_stream)     /* events */                                                         \
    KIND(CONTROL, control)               /* ctl */                                                            \
    KIND(INBOXES, inboxes)               /* inboxes/ */                                                       \
    KIND(INBOX, inbox)                   /* inboxes/ADDRESS/: the store's of the inbox */                     \
    KIND(INBOX_FILE, inbox_file)         /* inbox.json and its like: the same, and a row of inboxes.c */      \
    KIND(INVALID, invalid)               /* .invalid/: the store's of the inbox */                            \
    KIND(EMAIL, email)                   /* an email's record: the store's of the email */                    \
    KIND(EMAIL_FOLDER, email_folder)     /* the folder of an email, and all in it: email_folder.h */          \
    KIND(REPLY_FILE, reply_file)         /* reply, reply-all, forward: reply_file.c */                        \
    KIND(SEARCH, search)                 /* search/ */                                                        \
    KIND(QUERY, query)                   /* search/QUERY/: the query's (search.c) */                          \
    KIND(QUERY_RECORD, query_record)     /* .search.json, what was asked: the query's */                      \
    KIND(SEARCH_HIT, search_hit)         /* a link to an email that was found: the store's of the email */    \
    KIND(DRAFT, draft)                   /* drafts/ and all below: the number of struct draft_node */         \
    KIND(OUTBOX_FOLDER, outbox_folder)   /* outbox/, attachments/: enum outbox_folder */                      \
    KIND(RSYNC_FOLDER, rsync_folder)     /* .~tmp~/ in one of these: the same */                              \
    KIND(SETTLED_FOLDER, settled_folder) /* sent/, failed/: enum outbox_folder */                             \
    KIND(ITEM, item)                     /* a file in outbox/ or attachments/: the outbox's of the item */    \
    KIND(SETTLED_ITEM, settled_item)     /* the same in sent/ and failed/. Another inode, since its name in   \
                                            outbox/ goes on answering for some seconds, and rename(2) between \
                                            two names of one inode does nothing */                            \
    KIND(RECEIPT, receipt)               /* NAME.receipt.json: the outbox's of the item */                    \
    KIND(SENT_RECORD, sent_record)       /* in sent/, of mail sent elsewhere: the store's of sent mail */     \
    KIND(MAILDIRS, maildirs)             /* maildir/ */                                                       \
    KIND(MAILDIR, maildir)               /* maildir/ADDRESS and its folders: maildir.c */                     \
    KIND(UIDVALIDITY, uidvalidity)       /* .uidvalidity of a Maildir: the store's of the inbox */            \
    KIND(MAILDIR_MESSAGE, maildir_message) /* the store's of the email */

#define NODE_KIND_ENUM(NAME, ops) NODE_##NAME,
enum node_kind {
    NODE_NOTHING,
    NODE_KINDS(NODE_KIND_ENUM) NODE_KIND_COUNT,
};
#undef NODE_KIND_ENUM

enum {
    NODE_KIND_BITS = 6
};

static inline uint64_t node_ino(enum node_kind kind, uint64_t number)
{
    return number << NODE_KIND_BITS | (uint64_t)kind;
}

static inline enum node_kind node_kind(uint64_t ino)
{
    return (enum node_kind)(ino & ((1U << NODE_KIND_BITS) - 1));
}

static inline uint64_t node_number(uint64_t ino)
{
    return ino >> NODE_KIND_BITS;
}

/* ---------------------------------------------------------------- the tree */

struct tree {
    struct clock *clock;          /* borrowed */
    struct mail_service *service; /* borrowed */
    struct store *store;          /* borrowed; set once, before requests come */
    struct outbox *outbox;        /* borrowed; the same */
    char *source;
    char *account; /* NULL: none was named */
    int64_t poll_interval_ms;
    int64_t started_ms; /* realtime */
    uid_t uid;
    gid_t gid;
    struct tree_ownership shown_as;
    struct draft_table drafts;
    struct removed_names removed;
    struct inboxes *inboxes;
    struct queries *queries;
    struct maildir *maildir;
    struct event_log *event_log;
    struct status *status;

    pthread_mutex_t open_lock;
    GQueue open_handles; /* protected by open_lock */
    GQueue open_dirs;    /* protected by open_lock */

    pthread_mutex_t listener_lock;
    struct tree_listener listener; /* protected by listener_lock; functions are NULL while there is none */
};

/* To the tree's listener (tree.h). No lock may be held. Every folder needs it but outbox/, attachments/
 * and drafts/, of which the kernel keeps nothing. */
void notify_changed(struct tree *tree, uint64_t ino);
void notify_entry_gone(struct tree *tree, uint64_t folder_ino, const char *name);
void notify_stream_grew(struct tree *tree);
void notify_message_appeared(struct tree *tree, uint64_t ino);
/* `format` makes the path below the mount point. */
__attribute__((format(printf, 2, 3))) void notify_appeared(struct tree *tree, const char *format, ...);

/* ---------------------------------------------------------------- entries */

/* Which parts of an entry are lasting. */
enum {
    LASTING_NAME = 1 << 0,
    LASTING_ATTRIBUTES = 1 << 1,
    LASTING = LASTING_NAME | LASTING_ATTRIBUTES,
};

/* Makes a timespec of milliseconds since 1970. */
struct timespec timespec_of_ms(int64_t ms);

/* `mode`: type and permission bits; `lasting`: of LASTING_…. */
void entry_fill(const struct tree *tree, uint64_t ino, mode_t mode, uint64_t size, struct timespec mtime,
                unsigned int lasting, struct tree_entry *ret);
/* The same of a node that did not change since the mount, or where the time is not known: `changed_ms` 0. */
void entry_fill_ms(const struct tree *tree, uint64_t ino, mode_t mode, uint64_t size, int64_t changed_ms,
                   unsigned int lasting, struct tree_entry *ret);

/* The record of an email, received or sent: its content changes, its date does not, so the ctime tells. */
void entry_fill_record(const struct tree *tree, uint64_t ino, const struct email_view *view,
                       unsigned int lasting, struct tree_entry *ret);

/* Writes the name of an email's folder: that of its record, without ".json". `size`: NAME_MAX + 1. */
void node_email_folder_name(const struct email_view *view, char *ret_name, size_t size);

/* ---------------------------------------------------------------- operations */

struct tree_dir;

/* `caller` may be NULL where nothing but get, lookup, open_dir and read_link is called. */
struct node_ops {
    /* A kind's part of struct tree: made with the tree (waits for the disk) and released with it, also where
     * `init` has failed or was not called. `state_name` begins the words of its errors. */
    int (*init)(struct tree *tree, int state_dir_fd);
    void (*release)(struct tree *tree);
    const char *state_name;

    /* Fills the node's entry in. 0; -ENOENT: it is gone; -errno. NULL: the next three say it, and the node is
     * always there. */
    int (*get)(struct tree *tree, const struct tree_caller *caller, uint64_t ino, struct tree_entry *ret);
    mode_t mode;                                                  /* type and permission bits */
    unsigned int lasting;                                         /* of LASTING_… */
    int64_t (*changed_ms)(const struct tree *tree, uint64_t ino); /* NULL: when it was mounted */
    /* Gives lookups back. NULL: nothing is counted. */
    void (*forget)(struct tree *tree, uint64_t ino, uint64_t lookups);
    /* NULL: -EPERM, but for a size alone as node_set_size() has it. `change` has a field at least. */
    int (*set_attributes)(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                          struct tree_handle *handle, const struct tree_change *change);
    /* NULL: -EISDIR of a folder, -ELOOP of a link, else -ENOENT. */
    int (*open)(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                struct tree_handle **ret_handle);
    /* NULL: -EINVAL. */
    int (*read_link)(struct tree *tree, const struct tree_caller *caller, uint64_t ino, char *ret_target,
                     size_t size);

    bool answers_at_once; /* tree_answers_at_once() */

    /* From here on: of folders alone. lookup NULL: the node is no folder. */
    int (*lookup)(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                  struct tree_entry *ret);
    /* Prepares a listing: sets `state`, and what is not to be as it is made; NULL: nothing to do. */
    int (*open_dir)(const struct tree_caller *caller, struct tree_dir *dir);
    /* Hands out the entries from `position` on by dir_put(), until that is false. NULL: it is empty. */
    int (*read_dir)(struct tree_dir *dir, uint64_t position);
    void (*release_dir)(struct tree_dir *dir);              /* frees its state. NULL: it has none */
    uint64_t (*parent)(struct tree *tree, uint64_t folder); /* what ".." is. NULL: the root */
    bool is_listing_lasting;
    bool has_own_dots; /* read_dir hands out "." and "..", and positions are its own */
    bool is_barrier;   /* fsync(2) waits there until what was handed in is settled (tree_is_barrier()) */

    /* Returns true if inotify watchers learn of what appears in the folder (tree_is_announced()). NULL: no.
     */
    bool (*is_announced)(uint64_t folder);
    /* `lookup` of what appeared, for the watch helper; it waits for nothing. NULL: `lookup` does it. */
    int (*lookup_announced)(struct tree *tree, uint64_t folder, const char *name, struct tree_entry *ret);

    /* Changes in a folder. NULL: -EPERM. `new_folder` is the one that `rename` belongs to. */
    int (*create)(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                  mode_t mode, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle);
    int (*make)(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                const struct tree_new *what, struct tree_entry *ret);
    int (*remove_dir)(struct tree *tree, uint64_t folder, const char *name);
    int (*unlink)(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name);
    int (*rename)(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                  uint64_t new_folder, const char *new_name, unsigned int flags);
    /* fsync(2) of the folder. NULL: 0. */
    int (*sync)(struct tree *tree, const struct tree_caller *caller, uint64_t folder);
};

#define NODE_KIND_OPS(NAME, ops) extern const struct node_ops ops##_ops;
NODE_KINDS(NODE_KIND_OPS)
#undef NODE_KIND_OPS

/* The `is_announced` of folders in which all that appears is announced. */
bool node_is_announced(uint64_t folder);

/* The operations of a node; of what is none, all are NULL. */
const struct node_ops *node_ops_of(uint64_t ino);

/* Fills the node's entry in. 0; -ENOENT: it is gone, or was never there; -errno. */
int node_get(struct tree *tree, const struct tree_caller *caller, uint64_t ino, struct tree_entry *ret);

/* Changes attributes where the size alone can be set, through an open file: the result is that file's;
 * without one `size_error`; of other attributes -EPERM. */
int node_set_size(const struct tree_caller *caller, struct tree_handle *handle,
                  const struct tree_change *change, int size_error);

/* Returns true if the flags of a rename are RENAME_NOREPLACE or none: no others are known but to drafts. */
bool node_takes_rename_flags(unsigned int flags);
/* The error of a rename that a folder does not allow: -EINVAL for flags but RENAME_NOREPLACE, else -EPERM;
 * never -EXDEV, upon which mv(1) would copy. */
int node_refuse_rename(unsigned int flags);

/* ---------------------------------------------------------------- listings */

struct tree_dir {
    struct tree *tree;
    uint64_t ino; /* of the folder */
    const struct node_ops *ops;
    bool is_lasting; /* the kernel may keep it until it is notified */
    void *state;     /* the folder's */
    GList link;      /* in the tree's list of listings */

    /* While it is read: where entries go, and what is added to positions. */
    tree_dir_sink sink;
    void *context;
    uint64_t first_position;
};

/* Hands an entry out; `next` is the position behind it. False: the buffer is full, and the entry is to come
 * again. */
bool dir_put(const struct tree_dir *dir, const char *name, const struct tree_entry *entry, uint64_t next);
/* The same of an entry of which the kernel learns name, inode number as shown, and type alone: it looks the
 * name up if it wants to know more. */
bool dir_put_name(const struct tree_dir *dir, const char *name, uint64_t shown_ino, mode_t mode,
                  uint64_t next);

/* ---------------------------------------------------------------- handles */

/* The operations of an open file. A kind of handle embeds struct tree_handle as its first member. */
struct handle_ops {
    enum tree_caching caching;
    bool is_control; /* tree_handle_is_control() */
    /* NULL: -EBADF. `ret` is empty before, and released where this fails */
    int (*read)(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret);
    ssize_t (*write)(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                     size_t len, off_t offset);
    /* tree_take_first_content(). NULL: false */
    bool (*take_first_content)(struct tree_handle *handle, struct tree_data *ret);
    bool (*is_first_content_current)(struct tree_handle *handle);
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
    /* Returns true if a close without a FLUSH may be taken for one that went well. NULL: yes */
    bool (*is_closed_well)(const struct tree_handle *handle);
    /* Frees the handle. Never NULL. */
    void (*release)(struct tree_handle *handle);
    /* The same of a file that no program has closed. NULL: release */
    void (*abandon)(struct tree_handle *handle);
};

struct tree_handle {
    const struct handle_ops *ops;
    struct tree *tree; /* borrowed */
    int flags;         /* of open(2) */
    GList link;        /* in the tree's list of handles */
};

/* A zeroed handle of a kind that is `size` bytes large, or NULL. It is free()d, until tree_open() or
 * tree_create() has handed it out. */
void *handle_new(struct tree *tree, const struct handle_ops *ops, size_t size, int flags);
/* The `release` of a handle that owns nothing. */
void tree_handle_free(struct tree_handle *handle);

/* Returns true if open(2) asks for reading alone. */
bool handle_is_for_reading(int flags);
static inline bool handle_is_writable(const struct tree_handle *handle)
{
    return (handle->flags & O_ACCMODE) != O_RDONLY;
}
/* A buffer of this length for what is read, which the reply frees; the caller sets ret->len. NULL: there is
 * no memory for it. */
char *handle_read_buffer(struct tree_data *ret, size_t len);
/* A read from a text that outlives the reply. */
int handle_read_text(const char *text, size_t text_len, size_t len, off_t offset, struct tree_data *ret);
/* Opens a text that is read as it was at the open, and takes it; NULL: there was no memory for it. */
int handle_open_text(struct tree *tree, int flags, char *text, size_t len, struct tree_handle **ret_handle);

#endif
