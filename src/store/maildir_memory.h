/* SPDX-License-Identifier: MIT */
/*
 * The state of the Maildirs, which the service does not have: the uidvalidity of each inbox; the U number,
 * folder, flags and size of each message (the size is known only after a fetch). The state is in memory, and
 * in two tables of maildir/maildir.sqlite3. U numbers and flags are durable before they are shown. The
 * database is not in the cache, which a user may delete. A damaged database, or one of a newer version, is
 * not changed: the log reports the error, and there are no Maildirs.
 *
 * Each message gets the next U number, from 1 on, when it is first seen; the number is never given to another
 * message. A message that leaves the inbox and returns keeps its number. A message that a user removed from
 * the Maildir is not shown again, although the inbox holds the email. Messages are recognized by a digest of
 * the email's id.
 *
 * Call maildir_memory_add_inbox() first: the other functions find nothing for other inboxes. Every function
 * may be called from any thread. Only functions whose comment says so wait, and only for the disk.
 *
 * A change holds `write_lock` until it ends, and `read_lock` for writing only while it changes the memory.
 * Order: write_lock, read_lock. No thread writes to the database under read_lock. maildir_memory_mark_stale()
 * takes read_lock alone, so that it need not wait for the disk.
 */
#ifndef INBOXFS_STORE_MAILDIR_MEMORY_H
#define INBOXFS_STORE_MAILDIR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "mail/maildir_name.h"
#include "store/store.h"

enum {
    MAILDIR_DIGEST_BYTES = 16,
    MAILDIR_UID_MAX = 1 << 24,
};

enum maildir_folder {
    MAILDIR_NEW,
    MAILDIR_CUR,
    MAILDIR_FOLDERS /* number of folders */
};

struct maildir_mail {
    unsigned char digest[MAILDIR_DIGEST_BYTES]; /* digest of the email's id */
    struct maildir_name name;                   /* its epoch is the email's date when it was first seen */
    int64_t size;                               /* bytes of the raw message; -1 if not known yet */
    uint32_t email;  /* the email's number in the store; NUMBER_NONE before its sync in this mount */
    uint8_t folder;  /* enum maildir_folder */
    bool is_gone;    /* the inbox does not hold the email now */
    bool is_removed; /* a user removed the message from the Maildir, permanently */
};

static inline bool maildir_mail_is_shown(const struct maildir_mail *mail)
{
    return !mail->is_gone && !mail->is_removed;
}

/* An email that the inbox holds. */
struct maildir_sighting {
    uint32_t email;  /* the store's number */
    const char *id;  /* the service's id; NULL if unknown, or maildir_memory_find_email() finds the email */
    int64_t epoch_s; /* the email's date */
};

struct maildir_memory;

/* Opens or makes the database in `dir_fd`, and converts one of version 0.2 (waits for the disk). If the
 * database cannot be used, maildir_memory_add_inbox() and each change return the error: -EIO when it is
 * damaged, -EPROTO when a newer version made it, or -errno. */
struct maildir_memory *maildir_memory_open(int dir_fd, struct clock *clock);
/* NULL-safe. Waits for the disk. */
void maildir_memory_free(struct maildir_memory *memory);

/* Adds the inbox with this number and `id` (the service's, copied), or does nothing if it was added before.
 * An inbox that is not in the database is given a uidvalidity, which waits for the disk. Return: 0;
 * -EOVERFLOW when there are too many; -errno of the database. */
int maildir_memory_add_inbox(struct maildir_memory *memory, uint32_t inbox, const char *id);
bool maildir_memory_has_inbox(struct maildir_memory *memory, uint32_t inbox);

/* Each copies a message, also one that is gone or removed. Returns false if there is no such message. */
bool maildir_memory_find_uid(struct maildir_memory *memory, uint32_t inbox, uint32_t uid,
                             struct maildir_mail *ret);
bool maildir_memory_find_email(struct maildir_memory *memory, uint32_t inbox, uint32_t email,
                               struct maildir_mail *ret);

/* Copies the message that the folder shows with the lowest U number above `uid`. Returns false if there is
 * none. */
bool maildir_memory_find_next(struct maildir_memory *memory, uint32_t inbox, enum maildir_folder folder,
                              uint32_t uid, struct maildir_mail *ret);

struct maildir_state {
    uint32_t uidvalidity;
    uint32_t uid_max; /* the highest U number */
    int64_t changed_ns[MAILDIR_FOLDERS];
    bool is_stale;    /* the inbox may have changed since the last maildir_memory_sync() */
    uint64_t changes; /* for the next maildir_memory_sync() */
};
/* Returns false if there is no such inbox. */
bool maildir_memory_get_state(struct maildir_memory *memory, uint32_t inbox, struct maildir_state *ret);

/* Call when the set of emails in the inbox may have changed. Does not wait. */
void maildir_memory_mark_stale(struct maildir_memory *memory, uint32_t inbox);

/* Gives U numbers to the new emails of `seen`, in their order, and puts them into new/; marks the emails that
 * left or returned (waits for the disk). Only one thread at a time may do so. `changes`: of the state before
 * the caller listed the emails; if the inbox has changed since then, it remains stale. `arrived_ns`: when the
 * inbox changed; this becomes the time of new/ if all changes are new emails. Return: 0; -ENOENT when there
 * is no such inbox; -EOVERFLOW when U numbers run out; -errno of the database. After an error nothing has
 * changed, and the inbox is still stale. */
int maildir_memory_sync(struct maildir_memory *memory, uint32_t inbox, uint64_t changes,
                        const struct maildir_sighting *seen, size_t seen_len, int64_t arrived_ns);

/* Durably moves the message with the U number of `name` into the folder, and gives it the flags of `name`
 * (waits for the disk). Return: 0; -ENOENT when the message is not shown; -errno of the database. After an
 * error nothing has changed. */
int maildir_memory_mark(struct maildir_memory *memory, uint32_t inbox, enum maildir_folder folder,
                        const struct maildir_name *name);

/* Durably removes a message, permanently. Otherwise like maildir_memory_mark(). */
int maildir_memory_remove(struct maildir_memory *memory, uint32_t inbox, uint32_t uid);

/* Sets the size of a message. Sizes are written with the next change, or 256 at a time (waits for the disk):
 * a transaction for each would cost more than fetching some sizes again after a kill. */
void maildir_memory_note_size(struct maildir_memory *memory, uint32_t inbox, uint32_t uid, int64_t size);

#endif
