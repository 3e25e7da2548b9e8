/* SPDX-License-Identifier: MIT */
/*
 * The outbox has the messages to send and the files to upload.
 *
 * Model. One spool on the disk stores all items. outbox/, sent/, failed/ and attachments/ are views of the
 * spool: the state in an item's row decides in which folder the item shows, so one durable change of the row
 * moves it. docs/OUTBOX.md has the states and crash points. A message that is written in outbox/ is handed in
 * two seconds after the last touch, or when a barrier waits for it. A message that is moved to outbox/ is
 * handed in at once. An item's number is never reused in a state directory (inode numbers derive from it).
 *
 * Any thread may call any function. A function that waits says so. outbox_wait_settled() waits for the
 * network, and so, for some seconds, does a hand-in whose sender is no known inbox (struct sender_directory).
 * Functions return -errno as in the filesystem contract ("Sending"); texts for the user go to `events`.
 */
#ifndef INBOXFS_OUTBOX_OUTBOX_H
#define INBOXFS_OUTBOX_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/clock.h"
#include "base/wait.h"
#include "mail/event.h"
#include "mail/mail_service.h"

struct outbox;
struct outbox_handle; /* one open(2) of an item */

enum outbox_folder {
    OUTBOX_FOLDER_NONE = -1,
    OUTBOX_FOLDER_OUTBOX,
    OUTBOX_FOLDER_SENT,
    OUTBOX_FOLDER_FAILED,
    OUTBOX_FOLDER_ATTACHMENTS,
};
enum {
    OUTBOX_FOLDERS = 4
};

enum outbox_aspect {
    OUTBOX_CONTENT, /* the file itself */
    OUTBOX_RECEIPT, /* NAME.receipt.json beside the file, in sent/, failed/ and attachments/ */
};

struct outbox_stat {
    uint64_t number;
    enum outbox_aspect aspect;
    enum outbox_folder folder; /* the folder in which the item shows */
    off_t size;                /* bytes, exact */
    struct timespec mtime;
    mode_t mode; /* permission bits: 0600, or 0444 for receipts and in sent/ and failed/ */
};

struct outbox_entry {
    char *name;
    uint64_t order; /* greater after a later hand-in; unchanged in sent/ and failed/ */
    struct outbox_stat stat;
};

struct outbox_listing { /* a snapshot, in order of hand-in, a receipt after its content */
    struct outbox_entry *entries;
    size_t len;
};

/* Shares with the store whether the service can be reached. Both functions may be NULL, are called with no
 * lock held, and must not block. */
struct contact_listener {
    /* Reports the result of a request: is_reached if the service answered and accepted the key. */
    void (*asked)(void *context, bool is_reached);
    /* Returns true if the store's last list failed: no message is sent before a list succeeds. */
    bool (*is_lost)(void *context);
    void *context;
};

/* Finds the sending inbox, by store_find_sender(), which may wait for the network for some seconds. */
struct sender_directory {
    int (*find_sender)(void *context, const char *address, char **ret_address);
    void *context;
};

/* Finds the email that a Message-ID names, by store_find_by_message_id(). */
struct email_directory {
    int (*find_email)(void *context, const char *message_id, const char *from, char **ret_email_id);
    void *context;
};

struct outbox_config {
    struct mail_service *service; /* borrowed */
    struct clock *clock;          /* borrowed */
    int state_dir_fd;             /* borrowed; the state directory, whose folder "spool" is the spool */
    struct sender_directory senders;
    struct email_directory emails; /* find_email may be NULL */
    const char *default_from;      /* --from, or NULL; borrowed */
    bool trusts_idempotency;       /* --trust-idempotency, or the local service */
    int64_t daily_limit;           /* emails per UTC day; -1: no limit */
    struct contact_listener contact;
    struct event_listener events; /* `sent`, `failed`, `refused`, `uploaded`, `unseen` */
};

/* Opens the spool and recovers it: an item that was being written is `interrupted`, a message that was being
 * sent has an unknown outcome, a closed or accepted message is sent. Converts a spool of version 0.2 once.
 * Waits for the disk. Returns 0; -EPROTO: the spool is of another version; -EUCLEAN: its database is damaged;
 * or another -errno. On failure *ret_reason explains it to the user (the caller frees it). */
int outbox_open(const struct outbox_config *config, struct outbox **ret_outbox, char **ret_reason);

/* Starts the threads that send and upload. Returns 0 or -errno. */
int outbox_start(struct outbox *outbox);
/* Stops the threads, and ends all waits. Waits a few seconds for requests under way, then cancels them. */
void outbox_stop(struct outbox *outbox);
/* Frees the outbox, after outbox_stop() and the release of all handles. NULL-safe. */
void outbox_free(struct outbox *outbox);

/* Tries all queued items now, because the credentials or the network may work again. */
void outbox_wake(struct outbox *outbox);

/* ---- finding: from memory */

/* Finds an item or its receipt by the file's name, or by number. Returns false if there is none. */
bool outbox_find(struct outbox *outbox, enum outbox_folder folder, const char *name, struct outbox_stat *ret);
bool outbox_get(struct outbox *outbox, uint64_t number, enum outbox_aspect aspect, struct outbox_stat *ret);
/* The caller releases *ret. */
void outbox_list(struct outbox *outbox, enum outbox_folder folder, struct outbox_listing *ret);
void outbox_listing_release(struct outbox_listing *listing);
/* Copies the service's id of the item (the caller frees it); NULL if the id is not known or no item has the
 * number. */
char *outbox_copy_id(struct outbox *outbox, uint64_t number);
/* Returns true if an item in the folder has this id from the service. */
bool outbox_has_id(struct outbox *outbox, enum outbox_folder folder, const char *id);
/* Returns the folder's mtime: when an item last appeared in it or left it. */
int64_t outbox_folder_changed_ms(struct outbox *outbox, enum outbox_folder folder);

/* ---- files. `pid` is the id of the task that makes the system call (0: unknown, another pid namespace) */

/* Creates a file in outbox/ or attachments/ (O_CREAT), open for writing. Waits for the disk.
 * `reply_template`: the result of reply_make() for the email that the message answers, or NULL. An answer may
 * be a body alone (draft_parse()), keeps a copy of the template in all four folders, and gets a numbered name
 * if `name` is taken. Returns 0; -EEXIST: the name is taken; -EPERM: the name is a receipt's, or `folder` is
 * sent/ or failed/; -ENAMETOOLONG and -EILSEQ as item_check_name(); or the disk's error. */
int outbox_create(struct outbox *outbox, enum outbox_folder folder, const char *name, pid_t pid,
                  const char *reply_template, struct outbox_handle **ret_handle, struct outbox_stat *ret);
/* Opens an item; `flags` as open(2). The first change of a waiting or accepted item makes its state `writing`
 * again. Returns 0; -EBUSY: the message is at the service, or may have been sent; -EACCES: writing in sent/
 * or failed/; -ESTALE: the item was removed or replaced, and the caller looks the name up again. */
int outbox_open_item(struct outbox *outbox, uint64_t number, int flags, pid_t pid,
                     struct outbox_handle **ret_handle);
/* Appends the text of an item's receipt. Waits for the disk. Returns 0, -ESTALE: it has no receipt, or
 * -errno. */
int outbox_read_receipt(struct outbox *outbox, uint64_t number, struct strbuf *out);
ssize_t outbox_read(struct outbox_handle *handle, void *ret_bytes, size_t len, off_t offset);
enum {
    OUTBOX_AT_END = -1, /* offset: after the last byte */
};
/* Writes all bytes and returns `len`, or an error. -EBUSY: as outbox_open_item(); -EFBIG: the file would be
 * longer than its kind allows; or the disk's error. After the last two a message is never sent. */
ssize_t outbox_write(struct outbox_handle *handle, const void *bytes, size_t len, off_t offset, pid_t pid);
int outbox_set_size(struct outbox_handle *handle, off_t size, pid_t pid);
/* Opens the item, sets its size, syncs and closes it, as for truncate(2). Waits for the disk. */
int outbox_truncate(struct outbox *outbox, uint64_t number, off_t size, pid_t pid);
/* Sets the times; `times` as utimensat(2). Returns 0 without effect if the item has left its folder. */
int outbox_set_times(struct outbox *outbox, uint64_t number, const struct timespec times[2]);
/* This function and the next four accept NULL: a file that was never made.
 *
 * Handles a close(2): finds out how the closing task ends, and makes the bytes durable. Waits for the disk.
 * Returns 0 or -errno. */
int outbox_flush(struct outbox_handle *handle, pid_t pid);
int outbox_sync_file(struct outbox_handle *handle);
/* Returns true if nothing was written through the handle after its last successful close(2). */
bool outbox_is_flushed(const struct outbox_handle *handle);
/* Handles the last close of an open(2). If no other writer is left, a message begins to wait, durably, and an
 * attachment is handed in. Waits for the disk. Consumes the handle. */
void outbox_release(struct outbox_handle *handle);
/* Frees a handle whose file is still open when the mount ends, after outbox_stop(). The content stays in the
 * spool; the item is `interrupted` at the next start. Consumes the handle. */
void outbox_abandon(struct outbox_handle *handle);

/* ---- names */

struct hand_in {
    enum outbox_folder folder; /* outbox/ or attachments/ */
    const char *name;
    unsigned int flags;         /* of rename(2): RENAME_NOREPLACE, or 0 to replace an item called `name` */
    const char *reply_template; /* as in outbox_create(); or NULL */
};
/* Moves the ordinary file `draft_name` of the directory `draft_dir_fd` (same filesystem as the state) into
 * outbox/ or attachments/: checks it, makes it durable, then renames it. On failure the draft stays in its
 * place. The caller guarantees that no program has the draft open for writing until the call returns. -EBUSY:
 * the item to replace may have been sent. *ret (may be NULL) is the state at the move. `shown_path`: the
 * draft's path below the mount point, for the user. Waits for the disk. */
int outbox_hand_in(struct outbox *outbox, int draft_dir_fd, const char *draft_name, const char *shown_path,
                   const struct hand_in *to, pid_t pid, struct outbox_stat *ret);
/* Moves an item out of any of the folders to a draft, which is a new message when it is handed in. `flags`:
 * RENAME_NOREPLACE, or 0 to replace an existing draft. Waits for the disk. -EBUSY: the item is being sent or
 * written. */
int outbox_take_out(struct outbox *outbox, enum outbox_folder from, const char *name, int draft_dir_fd,
                    const char *draft_name, unsigned int flags);
/* Renames an item within or between the four folders. `flags`: RENAME_NOREPLACE, or 0 to replace an item of
 * the new name. Waits for the disk. -EBUSY: one of the two is at the service or may have been sent, or the
 * item is being written and would replace a complete message; -EBADMSG: an empty file would replace it; or an
 * error of outbox_hand_in(). */
int outbox_rename(struct outbox *outbox, enum outbox_folder from, const char *name, enum outbox_folder to,
                  const char *new_name, unsigned int flags, pid_t pid);
/* Removes an item. Waits for the disk. -EBUSY: the message is at the service. */
int outbox_unlink(struct outbox *outbox, enum outbox_folder folder, const char *name);

/* ---- waiting and asking */

/* Handles fsync(2) of outbox/ or attachments/: hands in the waiting items, and waits until all items are
 * settled. Returns 0; -EIO: one of them failed, or an earlier item of `pid`'s session failed and no barrier
 * of that session has reported it; -EAGAIN: one has to wait, 10 s have passed, or that session closed a
 * message without a text; -EINTR: cancelled. */
int outbox_wait_settled(struct outbox *outbox, enum outbox_folder folder, pid_t pid, struct cancel *cancel);

/* Handles ctl `retry NAME`: tries an item of outbox/ or attachments/ now, or hands in an item of failed/
 * again; if `name` is NULL (`retry all`), tries all queued items, but none of failed/. Returns 0; -ENOENT: no
 * such item; or an error of outbox_rename(). */
int outbox_retry(struct outbox *outbox, const char *name);

struct outbox_status {
    size_t queued;           /* messages that wait to be handed in, or are handed in and not settled */
    size_t uploading;        /* attachments not yet uploaded */
    size_t failed;           /* items in failed/ */
    size_t sent;             /* messages in sent/ */
    int64_t sent_today;      /* emails sent this UTC day from this state directory */
    int64_t daily_limit;     /* emails per UTC day; -1: no limit */
    int64_t next_attempt_ms; /* realtime of the next attempt; 0: no item waits for a time */
    bool is_paused;          /* the queue waits for the key or the service */
    const char *unseen;      /* why this program cannot see how some writers end (static); NULL if it can */
    char error[256];         /* the last failure to reach the service, "" after a success */
};
void outbox_get_status(struct outbox *outbox, struct outbox_status *ret);

#endif
