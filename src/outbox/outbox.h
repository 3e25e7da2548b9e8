/* SPDX-License-Identifier: MIT */
/*
 * Everything a user hands in: messages to send and files to upload. One spool of items on the disk; outbox/,
 * sent/, failed/ and attachments/ are views over it: an item's state decides in which folder it shows, so one
 * durable change of its row moves it. docs/OUTBOX.md has the states and crash points.
 *
 * A message that is written in outbox/ is handed in two seconds after the last touch, or when a barrier waits
 * for it; one that is moved there, at once.
 *
 * Items have numbers, never reused in a state directory (inode numbers are made of them). Functions that wait
 * for the disk or for other events say so. Only outbox_wait_settled() waits for the network, and for some
 * seconds what hands in a message whose sender is no inbox that is known (struct sender_directory). All may
 * be called from any thread at once. Errors are -errno as the filesystem contract ("Sending") gives them;
 * words go to `events`.
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
struct outbox_handle; /* one open(2) of an item or a receipt */

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
    OUTBOX_RECEIPT, /* NAME.receipt.json beside it, in sent/, failed/ and attachments/ */
};

struct outbox_stat {
    uint64_t number; /* of the item */
    enum outbox_aspect aspect;
    enum outbox_folder folder; /* where it shows */
    off_t size;                /* bytes, exact */
    struct timespec mtime;
    mode_t mode; /* permission bits: 0600, or 0444 for receipts and in sent/ and failed/ */
};

struct outbox_entry {
    char *name;
    char *id;       /* what the service calls it; NULL: nothing, or not known. Of a receipt: NULL */
    uint64_t order; /* grows from hand-in to hand-in, and stays in sent/ and failed/ */
    struct outbox_stat stat;
};

struct outbox_listing { /* a snapshot, in order of hand-in, a receipt behind its content */
    struct outbox_entry *entries;
    size_t len;
};

/* Called when an item appears in, changes in, or leaves a folder by the daemon's own doing (not by a call
 * from the user), from the thread that did it, with no lock held. Must not block. */
struct outbox_listener {
    void (*item_moved)(void *context, const char *name, enum outbox_folder from, enum outbox_folder to);
    void *context;
};

/* Exchanges with the store whether the service is there. Both may be NULL, are called with no lock
 * held, and must not block. */
struct contact_listener {
    /* The service was asked: whether it answered and let the key in. */
    void (*asked)(void *context, bool is_reached);
    /* Returns true while the last list could not be had: then nothing is sent before one can. */
    bool (*is_lost)(void *context);
    void *context;
};

/* Finds the sending inbox: store_find_sender(), which may wait for the network for some seconds. */
struct sender_directory {
    int (*find_sender)(void *context, const char *address, char **ret_address);
    void *context;
};

/* Finds the email that a Message-ID names: store_find_by_message_id(). */
struct email_directory {
    int (*find_email)(void *context, const char *message_id, const char *from, char **ret_email_id);
    void *context;
};

struct outbox_config {
    struct mail_service *service; /* borrowed */
    struct clock *clock;          /* borrowed */
    int state_dir_fd;             /* borrowed; the spool is a folder "spool" in it */
    struct sender_directory senders;
    struct email_directory emails; /* find_email may be NULL */
    const char *default_from;      /* --from, or NULL; copied */
    bool trusts_idempotency;       /* --trust-idempotency, or the local service */
    int64_t daily_limit;           /* emails a UTC day; -1: none */
    struct outbox_listener listener;
    struct contact_listener contact;
    struct event_listener events; /* `sent`, `failed`, `refused`, `uploaded`, `unseen` */
};

/* Opens the spool and recovers it: what was being written is `interrupted`, what was being sent has an
 * unknown outcome, what was closed or accepted is sent. Takes over the spool of version 0.2, once. Waits for
 * the disk. Returns 0 or -errno; *ret_reason in words (the caller frees). -EPROTO: the spool is of another
 * version; -EUCLEAN: it is damaged. */
int outbox_open(const struct outbox_config *config, struct outbox **ret_outbox, char **ret_reason);

/* Starts the threads that send and upload. */
int outbox_start(struct outbox *outbox);
/* Ends them, bounded to a few seconds; a request under way is given that time to finish. Wakes all waits. */
void outbox_stop(struct outbox *outbox);
/* NULL-safe. After outbox_stop(). All handles must be released. */
void outbox_free(struct outbox *outbox);

/* The credentials or the network may work again: whatever waits is tried now. */
void outbox_wake(struct outbox *outbox);

/* ---- finding: from memory */

/* By name. */
bool outbox_find(struct outbox *outbox, enum outbox_folder folder, const char *name, struct outbox_stat *ret);
bool outbox_get(struct outbox *outbox, uint64_t number, enum outbox_aspect aspect, struct outbox_stat *ret);
int outbox_list(struct outbox *outbox, enum outbox_folder folder, struct outbox_listing *ret);
void outbox_listing_release(struct outbox_listing *listing);
/* Copies the service's id of the item; NULL: none, or not known (the caller frees). 0, -ENOENT, -ENOMEM. */
int outbox_get_id(struct outbox *outbox, uint64_t number, char **ret_id);
/* Returns true if the service has given this id to something in the folder. */
bool outbox_has_id(struct outbox *outbox, enum outbox_folder folder, const char *id);
/* When something last appeared in or left the folder: its mtime. */
int64_t outbox_folder_changed_ms(struct outbox *outbox, enum outbox_folder folder);

/* ---- files. `pid` is the id of the task that makes the system call (0: unknown, another pid namespace) */

/* open(O_CREAT) of a name that is not there, in outbox/ or attachments/. -EPERM for *.receipt.json and in the
 * other folders, -EEXIST, -ENOSPC, -ENAMETOOLONG, -EILSEQ (not UTF-8: it could not stand in JSON; in
 * attachments/, also: a control character). */
int outbox_create(struct outbox *outbox, enum outbox_folder folder, const char *name, pid_t pid,
                  struct outbox_handle **ret_handle, struct outbox_stat *ret);
/* The same of a message in outbox/ that answers an email: its text may be a body alone (draft_parse()
 * in draft.h). `answers`: what reply_make() made of that email; the item keeps it wherever it goes in the
 * four folders. `name` is a proposal: one that is taken gets a number. */
int outbox_create_answer(struct outbox *outbox, const char *answers, const char *name, pid_t pid,
                         struct outbox_handle **ret_handle, struct outbox_stat *ret);
/* `flags` as open(2). The first change of what waits or was accepted makes it a file that is being written
 * again. -EBUSY: the message is at the service, or may have been sent. -EACCES for writing in sent/ and
 * failed/. -ESTALE: it was removed or replaced: the caller looks the name up again. */
int outbox_open_item(struct outbox *outbox, uint64_t number, int flags, pid_t pid,
                     struct outbox_handle **ret_handle);
/* Appends the text of an item's receipt. Waits for the disk. 0; -ESTALE: it has none any more; -errno. */
int outbox_read_receipt(struct outbox *outbox, uint64_t number, struct strbuf *out);
ssize_t outbox_read(struct outbox_handle *handle, void *ret_bytes, size_t len, off_t offset);
/* All of it or an error; a failed write keeps the item from ever being sent. -EBUSY as above; -EFBIG,
 * -ENOSPC, -EIO. */
ssize_t outbox_write(struct outbox_handle *handle, const void *bytes, size_t len, off_t offset, pid_t pid);
int outbox_allocate(struct outbox_handle *handle, int mode, off_t offset, off_t len);
/* `handle` may be NULL (truncate(2)). */
int outbox_set_size(struct outbox *outbox, uint64_t number, struct outbox_handle *handle, off_t size,
                    pid_t pid);
/* `times` as utimensat(2). Succeeds, to no effect, on what has left the folder. */
int outbox_set_times(struct outbox *outbox, uint64_t number, const struct timespec times[2]);
/* A close(2). The bytes are durable when it returns 0. Finds out how the closing task ends. Waits for the
 * disk. */
int outbox_flush(struct outbox_handle *handle, pid_t pid);
int outbox_sync_file(struct outbox_handle *handle);
/* Returns true if a close(2) that went well followed the last write. */
bool outbox_is_flushed(const struct outbox_handle *handle);
/* The last close of this open: where no other writer is left, a message waits from now on, durably, and an
 * attachment is handed in. Waits for the disk. Consumes the handle. */
void outbox_release(struct outbox_handle *handle);
/* Frees a handle whose last close nobody saw, for the mount is going away with the file open: what was
 * written stays in the spool, `interrupted` at the next start. After outbox_stop(). Consumes the handle.
 * NULL-safe. */
void outbox_abandon(struct outbox_handle *handle);

/* ---- names */

/* rename(2) of an ordinary file `draft_name` in the directory `draft_dir_fd` (same filesystem as the state)
 * into outbox/ or attachments/ as `name`: checked, durable, then moved, or left where it was. The caller
 * guarantees that no program has it open for writing or opens it so meanwhile. `flags`: RENAME_NOREPLACE or
 * 0. An item of that name is replaced; -EBUSY: it may have been sent. *ret (may be NULL): as it was when it
 * was moved, for it may be out by now. `shown_path`: the draft's path below the mount point, for words. Waits
 * for the disk. */
int outbox_hand_in(struct outbox *outbox, int draft_dir_fd, const char *draft_name, const char *shown_path,
                   enum outbox_folder to, const char *name, unsigned int flags, pid_t pid,
                   struct outbox_stat *ret);
/* The same into outbox/ of a draft that answers an email, as in outbox_create_answer(). */
int outbox_hand_in_answer(struct outbox *outbox, int draft_dir_fd, const char *draft_name,
                          const char *shown_path, const char *answers, const char *name, pid_t pid);
/* rename(2) the other way: out of any of the folders to a draft, which is a new message when it is handed in.
 * -EBUSY while it is being sent or written. A destination that exists is replaced unless RENAME_NOREPLACE. A
 * receipt: -EPERM. Waits for the disk. */
int outbox_take_out(struct outbox *outbox, enum outbox_folder from, const char *name, int draft_dir_fd,
                    const char *draft_name, unsigned int flags);
/* rename(2) between or within the four folders. An item of the new name is replaced. Waits for the disk.
 * -EBUSY: one of the two is at the service, or may have been sent; or an open file would replace a whole
 * message. -EBADMSG: an empty file would; or as of a hand-in. */
int outbox_rename(struct outbox *outbox, enum outbox_folder from, const char *name, enum outbox_folder to,
                  const char *new_name, unsigned int flags, pid_t pid);
/* -EBUSY: the message is at the service. Waits for the disk. */
int outbox_unlink(struct outbox *outbox, enum outbox_folder folder, const char *name);

/* ---- waiting and asking */

/* fsync(2) of outbox/ or attachments/: hands in what waits, and waits until all of it is settled. 0; -EIO:
 * some of it failed, or something failed before that the session of `pid` handed in, and no barrier of that
 * session has reported; -EAGAIN: some of it has to wait, or 10 s have passed; -EINTR: cancelled. */
int outbox_wait_settled(struct outbox *outbox, enum outbox_folder folder, pid_t pid, struct cancel *cancel);

/* ctl `retry NAME` (an item waiting in outbox/ or attachments/ is tried now; one in failed/ is handed in
 * again) and, with NULL, `retry all` (what waits; nothing from failed/). 0 or -ENOENT. */
int outbox_retry(struct outbox *outbox, const char *name);

struct outbox_status {
    size_t queued;           /* messages that wait to be handed in, or were accepted and are not settled */
    size_t uploading;        /* attachments not yet uploaded */
    size_t failed;           /* in failed/ */
    size_t sent;             /* in sent/ */
    int64_t sent_today;      /* this UTC day, by this state */
    int64_t daily_limit;     /* -1: none */
    int64_t next_attempt_ms; /* realtime; 0: nothing waits for a time */
    bool is_paused;          /* the queue waits for the key or the service */
    const char *unseen;      /* words: of some writers it is not known how they end (static); NULL: of none */
    char error[256];         /* words of the last failure to reach the service, "" after a success */
};
void outbox_get_status(struct outbox *outbox, struct outbox_status *ret);

#endif
