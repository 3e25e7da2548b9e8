/* SPDX-License-Identifier: MIT */
/*
 * The file tree that a user sees, without FUSE: its inodes, permissions, and contents. Other layers include
 * only this header. All functions may be called from any thread at any time; errors are -errno.
 *
 * The daemon connects the tree in this order: tree_new(); the listeners go into store_open() and
 * outbox_open(); tree_attach(); then a session mounts it.
 */
#ifndef INBOXFS_TREE_TREE_H
#define INBOXFS_TREE_TREE_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/wait.h"
#include "mail/event.h"
#include "mail/mail_service.h"
#include "outbox/outbox.h"
#include "store/store.h"

struct tree;

/* The owner and permissions that all files are shown with (tree_show_as()). The default of each is -1. */
struct tree_ownership {
    int64_t uid;   /* default: the user of the daemon */
    int64_t gid;   /* default: the group of the daemon */
    int64_t umask; /* permission bits that no file has; default: files have modes of their own */
};

struct tree_config {
    struct clock *clock;          /* borrowed */
    struct mail_service *service; /* borrowed; used for capabilities and counters only */
    int state_dir_fd;             /* borrowed; holds the folder "drafts" and the file "events.jsonl" */
    const char *source;           /* base URL of the service, shown to users, without a key; borrowed */
    const char *account;          /* name in the configuration, or NULL; shown in status.json; borrowed */
    int64_t poll_interval_ms;     /* shown in status.json */
    struct tree_ownership shown_as;
};

/* Opens drafts/ and the event log. Waits for the disk. Return: 0; -ENOMEM; or -errno of the disk.
 * *ret_reason (caller frees) may be set on failure. */
int tree_new(const struct tree_config *config, struct tree **ret_tree, char **ret_reason);

/* Return the listeners that the store and the outbox call after changes. Valid until tree_free(). */
struct store_listener tree_store_listener(struct tree *tree);
struct event_listener tree_event_listener(struct tree *tree);

/* Gives the tree the store and the outbox (both borrowed). To be called once, before anything but the
 * listeners is used. */
void tree_attach(struct tree *tree, struct store *store, struct outbox *outbox);

/* The tree calls these functions when something changed that the kernel may have cached; from any thread,
 * with only the listener's lock held. They must not block, nor call the tree. They are not called for
 * outbox/, attachments/ and drafts/, which the kernel does not cache. */
struct tree_listener {
    /* The inode's attributes, content or listing changed, or TREE_EVENTS_INO has something to read. If
     * `gone_name` is not NULL, only this entry of the folder is gone. */
    void (*changed)(void *context, uint64_t ino, const char *gone_name);
    /* A file appeared in an inbox (after the first sync), in sent/ or in failed/, and no user created it.
     * `path` is below the mount point. */
    void (*appeared)(void *context, const char *path);
    /* A message appeared in a Maildir that a user has looked at; tree_find_announced() finds its path. */
    void (*message_appeared)(void *context, uint64_t ino);
    void *context;
};
/* Sets the listener; NULL removes it. After the return, the previous listener is not called any more. */
void tree_set_listener(struct tree *tree, const struct tree_listener *listener);

/* Frees the tree, after the session, the store's sync and the outbox have ended and all handles are
 * released. Writes the rest of the event log to the disk. NULL-safe. */
void tree_free(struct tree *tree);

DEFINE_CLEANUP_FREE(tree)

/* ---------------------------------------------------------------- names and attributes */

/* Answers come from memory, or for drafts from the filesystem below. A function that may wait for something
 * else says so. */

enum {
    TREE_ROOT_INO = 1,
    TREE_EVENTS_INO = 5, /* the stream `events` */
};

/* The program that makes a request, and the cancel that ends its waits. A pointer to it is never NULL. */
struct tree_caller {
    pid_t pid;             /* id of the calling thread; 0 if unknown */
    struct cancel *cancel; /* may be NULL */
};

struct tree_attributes {
    struct stat stat; /* st_ino is the number that users see */
    bool is_lasting;  /* valid until the listener is called; otherwise only at this moment */
};

struct tree_entry {
    uint64_t ino; /* refers to the node in later calls; 0 in a listing if the name must be looked up first */
    bool is_name_lasting; /* the name leads to this inode until the listener is called */
    struct tree_attributes attributes;
};

/* Looks a name up; counts as one lookup, to be given back with tree_forget(). Return: 0; -ENOENT when there
 * is no such entry; -ENOTDIR when `parent` is not a folder; in drafts/ -errno of draft_table_find(). May wait
 * in the folder of an email, a query or a Maildir. */
int tree_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                struct tree_entry *ret);
void tree_forget(struct tree *tree, uint64_t ino, uint64_t lookups);

/* Applies the mount's options to attributes: owner, group, and umask. With a umask, all users get the owner's
 * permissions, except those that the umask forbids; links do not change. The tree returns attributes without
 * these options. */
void tree_show_as(const struct tree *tree, struct stat *attributes);

/* Return: 0; -ENOENT when the node is gone; the error of a wait for the service. */
int tree_get_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                        struct tree_attributes *ret);

/* statvfs(2) of the filesystem that holds drafts and spool. */
int tree_get_statistics(struct tree *tree, struct statvfs *ret);

/* Returns true if no lookup, listing, open, read, release or request for attributes of the node waits for
 * more than one read of the disk, or if it returns -EINTR instead when the caller's cancel is set. Depends
 * only on the node's kind, so the call costs nothing. */
bool tree_answers_at_once(uint64_t ino);

/* ---------------------------------------------------------------- handles */

/* tree_open(), tree_create() and tree_open_dir() make a handle, and tree_release() frees it. Several threads
 * may use a handle at once; no call may follow tree_release(). */

/* How long the kernel may keep the content or the listing. */
enum tree_caching {
    TREE_CACHE_NONE,    /* the kernel sends every read, regardless of the size */
    TREE_CACHE_OPEN,    /* until the next open, or until size or mtime change */
    TREE_CACHE_LASTING, /* until the listener is called */
    TREE_CACHE_STREAM,  /* not at all. The content begins with events after the open. Offsets matter: shells
                           and head(1) seek back if they read too much. After a read of 0 bytes, the reader
                           waits for the listener. Only one thread at a time may read */
};

struct tree_handle {
    const struct handle_ops *ops;
    struct tree *tree; /* borrowed */
    int flags;         /* flags of open(2) */
    enum tree_caching caching;
    GList link; /* element of tree->open_handles */
};

/* ---------------------------------------------------------------- listings */

/* A listing can be continued from a position. Position 0 is the start, and lists the current entries. */

/* Opens a listing, to be freed by tree_release(). Return: 0; -ENOTDIR; the error of a wait. */
int tree_open_dir(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                  struct tree_handle **ret_dir);

/* Receives an entry; `next` is the position after the entry. Returns false if the buffer is full: the next
 * call of tree_read_dir() passes the entry again. If entry->ino is 0, the name must be looked up first, and
 * only type and st_ino are valid. An entry does not count as a lookup. */
typedef bool (*tree_dir_sink)(void *context, const char *name, const struct tree_entry *entry, uint64_t next);

/* Passes entries to the sink, beginning at `position`, until the sink returns false or the folder ends. Only
 * one thread at a time may call this function. */
int tree_read_dir(struct tree_handle *handle, uint64_t position, tree_dir_sink sink, void *context);

/* ---------------------------------------------------------------- open files */

/* The result of a read: valid until the handle is released, or until `owned` is freed. */
struct tree_data {
    const void *bytes;
    size_t len;
    void *owned; /* memory that has `bytes`; NULL if the handle has the memory */
};
void tree_data_release(struct tree_data *data);

/* Opens a node; `flags` as open(2), with O_TRUNC. Return: 0; -EACCES when a read-only file is opened for
 * writing; -EISDIR; -ELOOP for a link; -ENOENT; -ENOMEM; the error of a wait. */
int tree_open(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
              struct tree_handle **ret_handle);

/* open(2) with O_CREAT of a new name. Counts as a lookup. Return: 0; -EPERM in folders that take no new
 * files; -errno. */
int tree_create(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                mode_t mode, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle);

int tree_read(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret);
/* Gets the whole content of a file at its first open, if it is short and the kernel may keep it until the
 * listener is called. Returns true at most once for each file. */
bool tree_take_first_content(struct tree_handle *handle, struct tree_data *ret);
/* Returns false if the content has changed since tree_take_first_content(). */
bool tree_is_first_content_current(struct tree_handle *handle);
/* Returns false for a stream without new events, else true. */
bool tree_is_readable(struct tree_handle *handle);
/* Return: the number of bytes written, or -errno. */
ssize_t tree_write(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                   size_t len, off_t offset);
/* fsync(2). */
int tree_sync_file(struct tree_handle *handle, bool is_data_only);
/* Handles close(2) of a descriptor; the error goes to the program. */
int tree_flush(struct tree_handle *handle, const struct tree_caller *caller);
/* Frees the handle, after the last close(2). */
void tree_release(struct tree_handle *handle);
/* Releases the open files after the mount has ended for good: programs have closed the files, though the
 * kernel may not have sent the release. A message whose last write was not flushed is left to
 * tree_abandon_handles(). */
void tree_close_handles(struct tree *tree);
/* Frees all open files and listings. A message that was being written does not count as closed. Call after
 * outbox_stop(). */
void tree_abandon_handles(struct tree *tree);

/* ---------------------------------------------------------------- names made, removed and renamed */

/* Changes by users; docs/FILESYSTEM.md lists what each folder allows. */

struct tree_new_entry {
    mode_t mode;        /* type and permission bits; 0 for a new name (link) of `ino` */
    const char *target; /* target of a new symbolic link */
    uint64_t ino;
};
/* mkdir(2), mknod(2) of a file, FIFO or socket, symlink(2) and link(2) in drafts/; in inboxes/, mkdir(2)
 * creates an inbox and waits for the network. The entry counts as a lookup. Return: 0; -EPERM in other
 * folders; another -errno. */
int tree_make(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
              const struct tree_new_entry *what, struct tree_entry *ret);
/* Writes the target of a symbolic link, with a NUL. Waits as tree_get_attributes(). Return: 0; -EINVAL when
 * the node is not a link; another -errno. */
int tree_read_link(struct tree *tree, const struct tree_caller *caller, uint64_t ino, char *ret_target,
                   size_t size);

int tree_remove_dir(struct tree *tree, uint64_t parent, const char *name);
/* unlink(2). With a file in sent/, failed/ or attachments/, its receipt is removed, too; for some seconds the
 * caller's thread can still remove the receipt, without effect. */
int tree_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name);

/* renameat2(2). A move from drafts/ to a folder of the outbox hands in a draft, and a move back takes out an
 * item: both wait (outbox.h). Never returns -EXDEV, since mv(1) would then copy. */
int tree_rename(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                uint64_t new_parent, const char *new_name, unsigned int flags);

enum {
    TREE_SET_MODE = 1 << 0,
    TREE_SET_UID = 1 << 1,
    TREE_SET_GID = 1 << 2,
    TREE_SET_SIZE = 1 << 3,
    TREE_SET_TIMES = 1 << 4,
};
struct tree_change {
    unsigned int fields; /* TREE_SET_… */
    mode_t mode;
    uid_t uid;
    gid_t gid;
    off_t size;
    struct timespec times[2]; /* as utimensat(2): access, modification */
};
/* Changes attributes, through the open file `handle` or (NULL) by name. Return: 0; -EPERM for attributes,
 * -EACCES for a size, when the node does not allow the change; another -errno. */
int tree_set_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                        struct tree_handle *handle, const struct tree_change *change);

/* fsync(2) of a folder. In outbox/ and attachments/ it waits until all items are settled. */
int tree_sync_folder(struct tree *tree, const struct tree_caller *caller, uint64_t ino);
/* Returns true for outbox/, attachments/ and ctl: an fsync or a write there is answered only when watchers
 * know of new files. */
bool tree_is_barrier(uint64_t ino);

/* ---------------------------------------------------------------- announced files */

/* A process of our own creates each file that the service brought, so that the kernel raises the events of
 * inotify (fs/watch_helper.h). Only that process sees the names as free. Creating a file does not wait,
 * except in `new` of a Maildir: the kernel may have locked it for a lookup that waits for the service. So a
 * second process creates the messages there. */

/* Looks a file up in a folder where new files are announced, without waiting. Return: 0; -ENOENT when there
 * is no such file; -EPERM when files in the folder are not announced. */
int tree_lookup_announced(struct tree *tree, uint64_t folder, const char *name, struct tree_entry *ret);

/* Answers that process's open(2) with O_CREAT | O_EXCL: opens the existing file. The handle can only be
 * released. Return: as tree_lookup_announced(). */
int tree_create_announced(struct tree *tree, uint64_t folder, const char *name, struct tree_entry *ret_entry,
                          struct tree_handle **ret_handle);

/* Finds the path, below the mount point, of a message that appeared. Waits for the disk. Return: 0; -ENOENT
 * when it is not in `new` any more; -ENAMETOOLONG when `size` is too small; another -errno. */
int tree_find_announced(struct tree *tree, uint64_t ino, char *ret_path, size_t size);

#endif
