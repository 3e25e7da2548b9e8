/* SPDX-License-Identifier: MIT */
/*
 * The file tree that a user sees, with no FUSE in it: which inode is which, who may do what where, what a
 * read answers. This is all that other layers know of it. All functions may be called from any thread at
 * once, and errors are -errno.
 *
 * The daemon wires it in this order: tree_new(), the listeners into store_open() and outbox_open(),
 * tree_attach(), then a session is mounted on it.
 */
#ifndef INBOXFS_TREE_TREE_H
#define INBOXFS_TREE_TREE_H

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

/* The owner that all files are shown with, and the permissions, where the mount's options say so
 * (tree_show_as()). */
struct tree_ownership {
    bool has_uid;
    bool has_gid;
    bool has_umask;
    uid_t uid;
    gid_t gid;
    mode_t umask;
};

struct tree_config {
    struct clock *clock;          /* borrowed */
    struct mail_service *service; /* borrowed; asked for capabilities and counters alone */
    int state_dir_fd;             /* borrowed; holds the folder "drafts" and the file "events.jsonl" */
    const char *source;           /* the service as shown to the user: its base URL, never a key; copied */
    const char *account;          /* its name in the configuration, or NULL; shown in status.json; copied */
    int64_t poll_interval_ms;     /* the same */
    struct tree_ownership shown_as;
};

/* Opens drafts/ and the event log (waits for the disk). 0 or -errno; *ret_reason in words (caller frees). */
int tree_new(const struct tree_config *config, struct tree **ret_tree, char **ret_reason);

/* Listeners, which the store and the outbox call when something changed. Usable as soon as there is a tree,
 * until tree_free(). */
struct store_listener tree_store_listener(struct tree *tree);
struct outbox_listener tree_outbox_listener(struct tree *tree);
struct event_listener tree_event_listener(struct tree *tree);

/* Hands the tree what it shows (both borrowed). Once, before anything but the listeners is used. */
void tree_attach(struct tree *tree, struct store *store, struct outbox *outbox);

/* Called with what the kernel may have cached and is no longer true, from any thread, with no lock held but
 * the one of the listener. Must not block or call back. Never called for outbox/, attachments/ and drafts/,
 * which are not cached. */
struct tree_listener {
    /* The inode's attributes, content or listing; with a name, the folder has no such entry any more. */
    void (*changed)(void *context, uint64_t ino, const char *gone_name);
    void (*stream_grew)(void *context); /* readers of `events` have something to read */
    /* A file appeared that no user put there: in an inbox (not what was there before the first sync), in
     * sent/ or failed/. `path` is below the mount point; NULL: it is a message in a Maildir that somebody has
     * looked at, and tree_find_announced() has the path of this inode. */
    void (*appeared)(void *context, const char *path, uint64_t ino);
    void *context;
};
/* NULL: nobody any more; when it returns, the one before is not called again. */
void tree_set_listener(struct tree *tree, const struct tree_listener *listener);

/* After the session, the store's sync and the outbox have ended; all handles must be released. Writes
 * what the event log still holds to the disk. NULL-safe. */
void tree_free(struct tree *tree);

DEFINE_CLEANUP_FREE(tree)

/* ---------------------------------------------------------------- names and attributes */

/* Answers come from memory, those about drafts from the filesystem that holds them; nothing waits for
 * anything else, but what says that it may. */

enum {
    TREE_ROOT_INO = 1
};

/* The maker of a request, and how its waiting is cut short. */
struct tree_caller {
    pid_t pid;             /* of the task; 0: not known */
    struct cancel *cancel; /* may be NULL */
};

struct tree_attributes {
    struct stat stat; /* st_ino is what the user sees */
    bool is_lasting;  /* true until the listener is called; else true at this moment */
};

struct tree_entry {
    uint64_t ino;         /* what later calls name it by. 0 in a listing: look the name up first */
    bool is_name_lasting; /* as is_lasting, of the name leading to this inode */
    struct tree_attributes attributes;
};

/* Counts as one lookup, to be given back with tree_forget(). 0, -ENOENT, -ENOTDIR, or for drafts -errno.
 * `caller` may be NULL. */
int tree_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                struct tree_entry *ret);
void tree_forget(struct tree *tree, uint64_t ino, uint64_t lookups);

/* Changes attributes to what the kernel is to know: the owner and group of the options, and with a umask of
 * theirs what the owner may, the others may as far as it lets them. All that the tree gives out is without
 * it. */
void tree_show_as(const struct tree *tree, struct stat *attributes);

/* 0, or -ENOENT: it is gone; where it may wait, what that came to. `caller` may be NULL. */
int tree_get_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                        struct tree_attributes *ret);

/* statvfs(2) of the filesystem that holds drafts and spool. */
int tree_get_statistics(struct tree *tree, struct statvfs *ret);

/* Returns true if looking up names in it, its attributes, listing, opening, reading and releasing it wait for
 * nothing but one read of the disk at most. The node's kind alone decides, so that asking costs nothing. */
bool tree_answers_at_once(uint64_t ino);

/* ---------------------------------------------------------------- listings */

/* A position is where to go on; 0 is the start, and gives what is there at that moment. */

struct tree_dir;

/* `caller` may be NULL. */
int tree_open_dir(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                  struct tree_dir **ret_dir);
void tree_release_dir(struct tree_dir *dir);

/* Returns true if the kernel may keep the listing until the listener is called. */
bool tree_dir_is_lasting(const struct tree_dir *dir);

/* Takes an entry; false: it is full, and the entry is to come again. `next` is the position behind it.
 * entry->ino is 0 where the name is to be looked up first (then type and st_ino alone are right); with
 * another number the entry counts as no lookup. */
typedef bool (*tree_dir_sink)(void *context, const char *name, const struct tree_entry *entry, uint64_t next);

/* Hands out entries from `position` on until the sink is full or the folder ends. One thread at a time. */
int tree_read_dir(struct tree_dir *dir, uint64_t position, tree_dir_sink sink, void *context);

/* ---------------------------------------------------------------- open files */

/* A handle is made by tree_open() or tree_create() and consumed by tree_release(); calls on one handle may
 * come from several threads at once, tree_release() comes last. */

struct tree_handle;

/* How long the kernel may keep the content. */
enum tree_caching {
    TREE_CACHE_NONE,    /* every read comes here, whatever the size is said to be */
    TREE_CACHE_OPEN,    /* keep until the next open, or until size or mtime change */
    TREE_CACHE_LASTING, /* keep until the listener is called */
    TREE_CACHE_STREAM,  /* as NONE; it begins with what happens after the open. Offsets count, for shells and
                           head(1) seek back over what they read too much. A read of 0 bytes means: not yet,
                           wait for stream_grew. One thread at a time reads */
};

/* The answer to a read: bytes in memory that stay until the handle is released (or `owned` is freed), or,
 * when `fd` is not -1, `len` bytes of that file from `offset` on, fewer where it ends. */
struct tree_data {
    const void *bytes;
    size_t len;
    int fd; /* borrowed */
    off_t offset;
    void *owned;
};
void tree_data_release(struct tree_data *data);

/* `flags` as open(2); O_TRUNC is obeyed. Read-only files: -EACCES. */
int tree_open(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
              struct tree_handle **ret_handle);

/* open(2) with O_CREAT of a name that was not there. Counts as a lookup. -EPERM where nothing can be made. */
int tree_create(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                mode_t mode, int flags, struct tree_entry *ret_entry, struct tree_handle **ret_handle);

enum tree_caching tree_handle_caching(const struct tree_handle *handle);
/* Returns true if it was opened for writing: else tree_flush() has nothing to do. */
bool tree_handle_is_writable(const struct tree_handle *handle);
/* Returns true if it is ctl: the kernel and watchers know what a command brought before its write is
 * answered. */
bool tree_handle_is_control(const struct tree_handle *handle);

int tree_read(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret);
/* The whole content of a file that is opened for the first time and lasts in the kernel's cache: true once
 * for each, where it is short. */
bool tree_take_first_content(struct tree_handle *handle, struct tree_data *ret);
/* After that: false if the content has changed since. */
bool tree_is_first_content_current(struct tree_handle *handle);
/* Returns true if a read would find something: false for a stream that has nothing new. */
bool tree_is_readable(struct tree_handle *handle);
/* The number of bytes written, or -errno. */
ssize_t tree_write(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                   size_t len, off_t offset);
int tree_allocate(struct tree_handle *handle, const struct tree_caller *caller, int mode, off_t offset,
                  off_t len);
/* lseek(2) for SEEK_DATA and SEEK_HOLE: the position found, or -errno. May wait as tree_get_attributes(). */
off_t tree_seek(struct tree_handle *handle, const struct tree_caller *caller, uint64_t ino, off_t offset,
                int whence);
/* fsync(2). */
int tree_sync_file(struct tree_handle *handle, bool is_data_only);
/* A close(2) of a descriptor; its error is the user's to see. */
int tree_flush(struct tree_handle *handle, const struct tree_caller *caller);
/* The last one has been closed. */
void tree_release(struct tree_handle *handle);
/* Releases what is left when the filesystem is gone for good: then every file has been closed, though the
 * kernel may not have come to say so. A file that its writer did not close well stays for
 * tree_abandon_handles(). */
void tree_close_handles(struct tree *tree);
/* Frees every handle and listing that is left, when the kernel is gone with files still open: what was being
 * written into the outbox does not count as closed. After outbox_stop(). */
void tree_abandon_handles(struct tree *tree);

/* ---------------------------------------------------------------- names made, removed and renamed */

/* Changes by users. docs/FILESYSTEM.md says what each folder allows. */

struct tree_new {
    mode_t mode;        /* type and permission bits; 0: one more name of `ino` */
    const char *target; /* of a symbolic link */
    uint64_t ino;
};
/* mkdir(2), mknod(2) of a file, FIFO or socket, symlink(2) and link(2) in drafts/. In inboxes/, mkdir(2)
 * creates an inbox (waits for the network). Elsewhere -EPERM. The entry counts as a lookup. */
int tree_make(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
              const struct tree_new *what, struct tree_entry *ret);
/* The target of a symbolic link, with a NUL. May wait as tree_get_attributes(). */
int tree_read_link(struct tree *tree, const struct tree_caller *caller, uint64_t ino, char *ret_target,
                   size_t size);

int tree_remove_dir(struct tree *tree, uint64_t parent, const char *name);
/* A file in sent/, failed/ and attachments/ takes its receipt along; a receipt that went so by the same
 * process a moment ago counts as removed: 0. */
int tree_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name);

/* renameat2(2). Between drafts/ and the outbox's folders this hands in and takes out (waits; see outbox.h).
 * Never -EXDEV, upon which mv(1) would copy. */
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
/* `handle`: the open file that it is done through, or NULL. */
int tree_set_attributes(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                        struct tree_handle *handle, const struct tree_change *change);

/* fsync(2) of a folder: of outbox/ and attachments/ it waits until all is settled. */
int tree_sync_folder(struct tree *tree, const struct tree_caller *caller, uint64_t ino);
/* Returns true if the folder is one of these two. */
bool tree_is_barrier(uint64_t folder_ino);

/* ---------------------------------------------------------------- what appeared, once more */

/* A file that appeared by the service's doing is created by a process of our own, so that the kernel raises
 * the events that inotify watchers wait for (fs/watch_helper.h). To that process alone these are free names.
 * Making them waits for nothing; but in `new` of a Maildir the kernel may have the folder locked for a lookup
 * that waits for the service, so a process of its own creates messages there. */

/* Returns true if the listener is called for what appears in this folder (tree_listener.appeared). */
bool tree_is_announced(uint64_t folder_ino);

/* Answers that process's open(2) with O_CREAT | O_EXCL with the file that is there. The handle is for closing
 * alone. -ENOENT: it has gone meanwhile; -EPERM: not in this folder. */
int tree_create_announced(struct tree *tree, uint64_t folder_ino, const char *name,
                          struct tree_entry *ret_entry, struct tree_handle **ret_handle);

/* The path below the mount point of a message that appeared (tree_listener.appeared). Waits for the
 * disk. 0; -ENOENT: it is not in `new` any more; -errno. */
int tree_find_announced(struct tree *tree, uint64_t ino, char *ret_path, size_t size);

#endif
