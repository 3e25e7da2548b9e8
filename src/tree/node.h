/* SPDX-License-Identifier: MIT */
/*
 * Nodes: the parts that all folders of the tree share. Only this layer includes this header.
 *
 * A *node* is a file, a folder or a link that users see. A node takes no memory: its inode number consists of
 * a *kind* in the low six bits and a *number* of that kind above (of an inbox, an email, an item). So inode
 * numbers stay the same while mounted, and the kernel may remember a million of them at no cost.
 *
 * The table of operations of a kind (struct node_ops) defines what can be done with its nodes; the .c file
 * of the folder defines the table. tree.c finds the table by the inode number and calls it. A new kind needs
 * a line in NODE_KINDS and a table; a new entry of the root also needs a row in root.c.
 *
 * The kernel gets an *entry* for each node. Parts of an entry are *lasting*: the kernel may keep them until
 * it is notified. A name is not lasting in a folder where requests may have to wait: its invalidation would
 * wait for the folder's lock, which such a request holds. A *handle* is an open file, a *listing* an open
 * folder; each belongs to the kind that opened it.
 */
#ifndef INBOXFS_TREE_NODE_H
#define INBOXFS_TREE_NODE_H

#include <fcntl.h>
#include <glib.h>
#include <pthread.h>

#include "mail/event.h"
#include "store/store_content.h"
#include "tree/draft_table.h"
#include "tree/removed_names.h"
#include "tree/tree.h"

/* ---------------------------------------------------------------- inode numbers */

/* The name of each kind and of its table. After a colon: what its number is (else 0). */
#define NODE_KINDS(KIND)                                                                                    \
    KIND(ROOT, root)                     /* first, so that its inode is the kernel's TREE_ROOT_INO */       \
    KIND(README, readme)                 /* README */                                                       \
    KIND(STATUS, status)                 /* status.json */                                                  \
    KIND(EVENT_LOG, event_log)           /* events.jsonl: position of its first byte in the log, plus 1 */  \
    KIND(EVENT_STREAM, event_stream)     /* events: TREE_EVENTS_INO */                                      \
    KIND(CONTROL, control)               /* ctl */                                                          \
    KIND(INBOXES, inboxes)               /* inboxes/ */                                                     \
    KIND(INBOX, inbox)                   /* inboxes/ADDRESS/: the store's number of the inbox */            \
    KIND(INBOX_RECORD, inbox_record)     /* inbox.json: as INBOX */                                         \
    KIND(INBOX_INDEX, inbox_index)       /* index.jsonl: as INBOX */                                        \
    KIND(INVALID, invalid)               /* .invalid/: as INBOX */                                          \
    KIND(EMAIL, email)                   /* the record of an email: the store's number of the email */      \
    KIND(EMAIL_FOLDER, email_folder)     /* the folder of an email, and all in it: email_folder.c */        \
    KIND(REPLY_FILE, reply_file)         /* reply, reply-all, forward: reply_file.c */                      \
    KIND(SEARCH, search)                 /* search/ */                                                      \
    KIND(QUERY, query)                   /* search/QUERY/: number of the query (search.c) */                \
    KIND(QUERY_RECORD, query_record)     /* .search.json: as QUERY */                                       \
    KIND(SEARCH_HIT, search_hit)         /* a link to an email that was found: as EMAIL */                  \
    KIND(DRAFT, draft)                   /* drafts/ and all below: the number of struct draft_node */       \
    KIND(OUTBOX_FOLDER, outbox_folder)   /* outbox/, attachments/: enum outbox_folder */                    \
    KIND(RSYNC_FOLDER, rsync_folder)     /* .~tmp~/ in outbox/ or attachments/: as OUTBOX_FOLDER */         \
    KIND(SETTLED_FOLDER, settled_folder) /* sent/, failed/: enum outbox_folder */                           \
    KIND(ITEM, item)                     /* a file in outbox/ or attachments/: the outbox's number of it */ \
    KIND(SETTLED_ITEM, item)             /* in sent/, failed/: as ITEM, but another inode: the name in      \
                                            outbox/ stays valid for some seconds, and rename(2) between two \
                                            names of one inode does nothing */                              \
    KIND(RECEIPT, receipt)               /* NAME.receipt.json: as ITEM */                                   \
    KIND(SENT_RECORD, sent_record)       /* in sent/, for mail sent elsewhere: the store's number of it */  \
    KIND(MAILDIRS, maildirs)             /* maildir/ */                                                     \
    KIND(MAILDIR, maildir)               /* maildir/ADDRESS and its folders: maildir.c */                   \
    KIND(UIDVALIDITY, uidvalidity)       /* .uidvalidity of a Maildir: as INBOX */                          \
    KIND(MAILDIR_MESSAGE, maildir_message) /* a message in cur/ or new/: as EMAIL */

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
    struct tree_config config;
    struct store *store;   /* borrowed; set by tree_attach() */
    struct outbox *outbox; /* borrowed; set by tree_attach() */
    int64_t started_ms;    /* time of tree_new(), realtime clock */
    uid_t uid;
    gid_t gid;
    struct draft_table drafts;
    struct removed_names removed;
    struct inboxes *inboxes;
    struct queries *queries;
    atomic_uint
        email_changes; /* number of changes of mail so far: an answer of search/ is as old as the last */
    struct maildir *maildir;
    struct event_log *event_log;
    struct status *status;

    pthread_mutex_t open_lock;
    GQueue open_handles; /* protected by `open_lock` */

    pthread_mutex_t listener_lock;
    struct tree_listener listener; /* protected by `listener_lock`; its functions are NULL if none is set */
};

/* Notify the tree's listener (tree.h). The caller must hold no lock. The kernel does not cache outbox/,
 * attachments/ and drafts/, so changes there need no notification. */
void notify_changed(struct tree *tree, uint64_t ino);
void notify_entry_gone(struct tree *tree, uint64_t folder_ino, const char *name);
void notify_message_appeared(struct tree *tree, uint64_t ino);
/* Announces a new file; `format` is its path below the mount point. */
__attribute__((format(printf, 2, 3))) void notify_appeared(struct tree *tree, const char *format, ...);

/* ---------------------------------------------------------------- entries */

/* Which parts of an entry are lasting. */
enum {
    LASTING_NAME = 1 << 0,
    LASTING_ATTRIBUTES = 1 << 1,
    LASTING = LASTING_NAME | LASTING_ATTRIBUTES,
};

struct timespec timespec_of_ms(int64_t ms);

/* Fills an entry in. `mode`: type and permission bits; `lasting`: LASTING_… flags. */
void entry_fill(const struct tree *tree, uint64_t ino, mode_t mode, uint64_t size, struct timespec mtime,
                unsigned int lasting, struct tree_entry *ret);
/* Like entry_fill(), with milliseconds. If `changed_ms` is 0, the time is that of the mount. */
void entry_fill_ms(const struct tree *tree, uint64_t ino, mode_t mode, uint64_t size, int64_t changed_ms,
                   unsigned int lasting, struct tree_entry *ret);

/* Like entry_fill(), for the record of an email. Its mtime is the email's date, so a change of the record
 * shows in its ctime. */
void entry_fill_record(const struct tree *tree, uint64_t ino, const struct email_view *view,
                       unsigned int lasting, struct tree_entry *ret);

/* Writes the name of an email's folder: the name of its record without ".json". `size`: NAME_MAX + 1. */
void node_email_folder_name(const struct email_view *view, char *ret_name, size_t size);

/* ---------------------------------------------------------------- operations */

enum {
    TREE_SET_WITHOUT_SIZE = TREE_SET_MODE | TREE_SET_UID | TREE_SET_GID | TREE_SET_TIMES
};

struct tree_dir;

/* For the tree's own calls: no process, and no cancel. */
extern const struct tree_caller no_caller;

struct node_ops {
    /* `init` makes the kind's part of struct tree (waits for the disk). `release` frees that part, also if
     * `init` has failed or was not called. `state_name`: a file or folder, for the message if `init` fails.
     */
    int (*init)(struct tree *tree, int state_dir_fd);
    void (*release)(struct tree *tree);
    const char *state_name;

    /* Fills the node's entry in. Return: 0; -ENOENT when it is gone; another -errno. If NULL, the node always
     * exists, and the next three members define the entry. */
    int (*get)(struct tree *tree, const struct tree_caller *caller, uint64_t ino, struct tree_entry *ret);
    mode_t mode;                                                  /* type and permission bits */
    unsigned int lasting;                                         /* LASTING_… flags */
    int64_t (*changed_ms)(const struct tree *tree, uint64_t ino); /* NULL: the time of the mount */
    /* Gives lookups back. NULL if lookups are not counted. */
    void (*forget)(struct tree *tree, uint64_t ino, uint64_t lookups);
    /* TREE_SET_… flags of changes that succeed without effect: programs that copy finally set mode, owner and
     * times, and after an error some would copy again. */
    unsigned int ignored_changes;
    /* `change` has at least one field, and none of `ignored_changes`. If NULL: sets the size of an open file;
     * -EACCES for a size without an open file that takes a size; -EPERM for other attributes. */
    int (*set_attributes)(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                          struct tree_handle *handle, const struct tree_change *change);
    /* NULL: -EISDIR for a folder, -ELOOP for a link, else -ENOENT. */
    int (*open)(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                struct tree_handle **ret_handle);
    /* NULL: -EINVAL. */
    int (*read_link)(struct tree *tree, const struct tree_caller *caller, uint64_t ino, char *ret_target,
                     size_t size);

    bool answers_at_once; /* tree_answers_at_once() */

    /* The members below are for folders. If `lookup` is NULL, the node is not a folder. */
    int (*lookup)(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                  struct tree_entry *ret);
    /* Prepares a listing: sets `state`, and base.caching if it differs from is_listing_lasting. May be NULL.
     */
    int (*open_dir)(const struct tree_caller *caller, struct tree_dir *dir);
    /* Passes the entries to dir_put(), beginning at `position`, until dir_put() returns false. If NULL, the
     * folder is empty. */
    int (*read_dir)(struct tree_dir *dir, uint64_t position);
    void (*release_dir)(struct tree_dir *dir); /* frees `state`; NULL if there is none */
    bool is_listing_lasting;
    bool has_own_dots; /* read_dir also passes "." and "..", and defines the positions */
    bool is_barrier;   /* tree_is_barrier(); also for a file */

    /* Implements tree_lookup_announced(). If NULL: -EPERM. */
    int (*lookup_announced)(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                            const char *name, struct tree_entry *ret);

    /* Changes in a folder; -EPERM if NULL. The kind of `new_folder` has the `rename` that is called. */
    int (*create)(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                  mode_t mode, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle);
    int (*make)(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                const struct tree_new_entry *what, struct tree_entry *ret);
    int (*remove_dir)(struct tree *tree, uint64_t folder, const char *name);
    int (*unlink)(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name);
    /* `flags`: RENAME_NOREPLACE or 0; in drafts/ as renameat2(2). Never returns -EXDEV, since mv(1) would
     * then copy. */
    int (*rename)(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                  uint64_t new_folder, const char *new_name, unsigned int flags);
    /* fsync(2) of the folder; returns 0 if NULL. */
    int (*sync)(struct tree *tree, const struct tree_caller *caller, uint64_t folder);
};

#define NODE_KIND_OPS(NAME, ops) extern const struct node_ops ops##_ops;
NODE_KINDS(NODE_KIND_OPS)
#undef NODE_KIND_OPS

/* Returns the operations of a node; for an invalid inode number all members are NULL. */
const struct node_ops *node_ops_of(uint64_t ino);

/* Fills the node's entry in. Return: 0; -ENOENT when the node is gone or never existed; another -errno. */
int node_get(struct tree *tree, const struct tree_caller *caller, uint64_t ino, struct tree_entry *ret);

/* ---------------------------------------------------------------- listings */

struct tree_dir {
    struct tree_handle base;
    uint64_t ino; /* inode of the folder */
    void *state;  /* owned by the folder's kind */

    /* Set while the listing is read. */
    tree_dir_sink sink;
    void *context;
    uint64_t first_position; /* what dir_put() adds to positions */
};

/* Passes an entry to the sink; `next` is the position after the entry. Returns false if the buffer is full:
 * the caller must then pass the entry again. */
bool dir_put(const struct tree_dir *dir, const char *name, const struct tree_entry *entry, uint64_t next);
/* Passes only name, shown inode number and type; the kernel looks the name up if it needs more. */
bool dir_put_name(const struct tree_dir *dir, const char *name, uint64_t shown_ino, mode_t mode,
                  uint64_t next);

/* ---------------------------------------------------------------- handles */

/* The operations of an open file. A kind of handle has struct tree_handle as its first member. */
struct handle_ops {
    enum tree_caching caching;
    /* If NULL: -EBADF. `ret` is empty at the call; the caller releases it on failure. */
    int (*read)(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret);
    ssize_t (*write)(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                     size_t len, off_t offset);
    /* Implements tree_take_first_content(). If NULL: false */
    bool (*take_first_content)(struct tree_handle *handle, struct tree_data *ret);
    bool (*is_first_content_current)(struct tree_handle *handle);
    /* If NULL: true */
    bool (*is_readable)(struct tree_handle *handle);
    /* If NULL: -EPERM */
    int (*set_size)(struct tree_handle *handle, const struct tree_caller *caller, off_t size);
    /* NULL: nothing to do */
    int (*sync)(struct tree_handle *handle, bool is_data_only);
    int (*flush)(struct tree_handle *handle, const struct tree_caller *caller);
    /* Returns true if a successful FLUSH followed the last write. If NULL: true */
    bool (*is_closed_well)(const struct tree_handle *handle);
    /* Frees the handle. Never NULL */
    void (*release)(struct tree_handle *handle);
    /* Frees the handle of a file that no program has closed. If NULL: release */
    void (*abandon)(struct tree_handle *handle);
};

/* Returns a zeroed handle of `size` bytes, to be freed by free(). */
void *handle_new(struct tree *tree, const struct handle_ops *ops, size_t size, int flags);
/* A `release` for handles that own nothing. */
void tree_handle_free(struct tree_handle *handle);

/* Returns true if the flags of open(2) ask only for reading. */
bool handle_is_for_reading(int flags);
/* Returns a buffer of this length, which `ret` owns. The caller sets ret->len. */
char *handle_read_buffer(struct tree_data *ret, size_t len);
/* Reads from a file. Return: 0 or -errno. */
int handle_read_file(int fd, size_t len, off_t offset, struct tree_data *ret);
/* Reads from a text that outlives the reply. Return: 0; -EINVAL when `offset` is negative. */
int handle_read_text(const char *text, size_t text_len, size_t len, off_t offset, struct tree_data *ret);
/* Opens a text that does not change while open. Takes ownership of `text`, also on failure. Return: 0;
 * -EACCES when `flags` allow writing; -ENOMEM when `text` is NULL. */
int handle_open_text(struct tree *tree, int flags, char *text, size_t len, struct tree_handle **ret_handle);

/* ---------------------------------------------------------------- what the files of this layer share */

/* Adds an event, which readers of events.jsonl and `events` see at once (events.c). Waits for the disk; the
 * caller must hold no lock. */
void events_add(struct tree *tree, const struct event *event);
/* Adds the event of a user's request that failed. `path` is relative to the mount point; `error` is the
 * reason in words. */
void events_report(struct tree *tree, enum event_kind kind, const char *path, const char *error);
/* Counts the event for status.json. Only events_add() calls it. */
void status_count_event(struct tree *tree, const struct event *event);

/* The files of mail programs in maildir/ are like drafts, and in the same table (drafts.c). Returns the inode
 * number that users see; `ino` is the number in the filesystem below. */
uint64_t draft_shown_ino(ino_t ino);
/* Like tree_lookup() and tree_create(), but the folder is given by its descriptor. Both wait for the disk. */
int draft_lookup_in(struct tree *tree, int folder_fd, const char *name, struct tree_entry *ret);
int draft_create_in(struct tree *tree, int folder_fd, const char *name, mode_t mode, int flags,
                    struct tree_entry *ret_entry, struct tree_handle **ret_handle);

enum {
    INBOX_LISTED_WITH_ATTRIBUTES = 100 * 1000, /* emails of an inbox that are listed so at first */
    INBOX_LOOKUPS_OF_DEMAND = 256, /* lookups in an inbox, after which it is listed with all attributes */
};
/* Notifies the kernel that all files and folders that depend on the mail of the inbox changed. */
void inbox_notify_mail(struct tree *tree, uint32_t inbox);
/* Notifies the kernel that the mail of the inbox, its record or its name changed. */
void inbox_notify(struct tree *tree, uint32_t inbox);

/* Returns true if maildir/ is shown: the service has raw messages, and the store knows all mail. */
bool maildir_is_shown(const struct tree *tree);
/* Report to maildir/ that the set of emails in an inbox changed, that an email left its inbox, and that one
 * appeared there. */
void maildir_inbox_changed(struct tree *tree, uint32_t inbox);
void maildir_email_gone(struct tree *tree, uint32_t inbox, uint32_t email);
void maildir_email_appeared(struct tree *tree, uint32_t inbox, uint32_t email);
/* Notifies the kernel that the attributes of an inbox's Maildir changed. */
void maildir_notify_box(struct tree *tree, uint32_t inbox);

/* Returns the inode of outbox/, attachments/, sent/ or failed/ (items.c). */
uint64_t items_folder_ino(enum outbox_folder folder);
bool items_is_folder(uint64_t ino);

/* Hands in the draft `name` in a folder of drafts/: it becomes an item of the outbox. Waits for the disk.
 * Return: 0; -EBUSY when the draft is open for writing or being moved; -EINTR when cancelled; -errno as
 * draft_table_find() and outbox_hand_in(). */
int items_hand_in(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                  const struct hand_in *to);
/* Moves an item out of the outbox, into the folder `dir_fd`. Waits for the disk. Return: as
 * outbox_take_out(); -EPERM for records of mail sent elsewhere. */
int items_take_out(struct tree *tree, uint64_t folder, const char *name, int dir_fd, const char *new_name,
                   unsigned int flags);
/* Opens a reply file for writing; answer_make() makes the item at the first write. Takes ownership of
 * `answer`. */
struct answer;
void items_open_answer(struct tree *tree, int flags, struct answer *answer, struct tree_handle **ret_handle);
/* Makes the item (reply_file.c). To be called until it succeeds, by one thread at a time. `bytes`: the bytes
 * that are written at the start of the file; NULL if the call is not for such a write. Waits for the email's
 * content. Return: 0; -EDESTADDRREQ when the bytes show that the answer has no recipient; the errors of
 * store_content.h and outbox_create(). */
int answer_make(struct answer *answer, const struct tree_caller *caller, const void *bytes, size_t len,
                struct outbox_handle **ret_file);
/* NULL-safe. */
void answer_free(struct answer *answer);

/* Returns the inode of a reply file, `ino` below; 0 if `name` is no reply file's name (reply_file.c). */
uint64_t reply_file_ino(uint32_t email, const char *name);
/* Looks a reply file up in `folder`, the inode of the email's folder. Does not wait. Return: 0; -ENOENT when
 * the email is gone, or when this thread has just removed the file, as mv(1) from another filesystem and
 * install(1) do before they create one in its place. */
int reply_file_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                      uint64_t ino, struct tree_entry *ret);
/* unlink(2): hides the file from this thread for some seconds. Does not wait. Return: as
 * reply_file_lookup(). */
int reply_file_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                      uint64_t ino);
/* open(2) with O_CREAT, after an unlink. Does not wait. */
int reply_file_create(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                      struct tree_entry *ret_entry, struct tree_handle **ret_handle);
/* Hands in the draft `name` as the answer that this file stands for. Waits for the email's content. Return:
 * as items_hand_in(), and the errors of store_content.h. */
int reply_file_hand_in(struct tree *tree, const struct tree_caller *caller, uint64_t folder, const char *name,
                       uint64_t ino);

/* Returns true if `name` in the inbox is the folder of an email, and the service has content. Does not wait
 * (email_folder.c). */
bool email_folder_find(struct tree *tree, uint32_t inbox, const char *name, struct tree_entry *ret);
/* Fills in the entry of this email's folder. */
void email_folder_fill(const struct tree *tree, const struct email_view *view, struct tree_entry *ret);
/* Opens an entry of the content for reading; NULL opens `content->bytes`. Takes ownership of the reference to
 * `content`. */
void content_open(struct tree *tree, struct store_content *content, const struct content_entry *entry,
                  int flags, struct tree_handle **ret_handle);

#endif
