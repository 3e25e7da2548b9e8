/* SPDX-License-Identifier: MIT */
/*
 * The memory of the Maildirs, which no service keeps: of every inbox its uidvalidity; of each message its U
 * number, where it lies, how it is marked, and its size, which takes a fetch to learn. All of it is in
 * memory, and in two tables of maildir/maildir.sqlite3, where U numbers and marks are durable before anybody
 * sees them. The database is not in the cache, which a user may delete. A database that is damaged, or that a
 * newer version made, stays as it is, with words in the log, and there are no Maildirs.
 *
 * U numbers are given from 1 on in the order of first sight and never again: a message that is gone keeps its
 * own, and gets it back should it return; one that a user removed keeps its own, too, and is not shown again,
 * though the inbox holds it. Messages are known by a digest of the email's id.
 *
 * An inbox is known by the store's number once maildir_memory_add_inbox() was called with it; other numbers
 * have nothing. Callable from any thread at once; only what says so waits, and for the disk alone.
 *
 * `write_lock` is held throughout a change, `read_lock` for writing only for the moment in which readers
 * could see half of it. Order: write_lock, read_lock. The database is written under write_lock alone. News of
 * the inbox changes the times of folders, and whether they are stale, under read_lock alone, so as not to
 * wait for the disk; a change under way adds to that.
 */
#ifndef INBOXFS_STORE_MAILDIR_MEMORY_H
#define INBOXFS_STORE_MAILDIR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "store/number_table.h"

enum {
    MAILDIR_DIGEST_BYTES = 16,
    MAILDIR_UID_MAX = 1 << 24,
};

enum maildir_folder {
    MAILDIR_NEW,
    MAILDIR_CUR,
    MAILDIR_FOLDERS /* how many */
};

struct maildir_mail {
    unsigned char digest[MAILDIR_DIGEST_BYTES]; /* of the email's id */
    int64_t epoch_s;                            /* its date when it was first seen */
    int64_t size;                               /* bytes of the raw message; -1: not known yet */
    uint64_t flags;                             /* maildir_name.h */
    uint32_t uid;                               /* 0: no such message */
    uint32_t email;                             /* the store's number; NUMBER_NONE: not seen in this mount */
    uint8_t folder;                             /* enum maildir_folder */
    bool has_info;
    bool is_gone;    /* the inbox does not hold it now */
    bool is_removed; /* a user took it out of the Maildir, for good */
};

static inline bool maildir_mail_is_shown(const struct maildir_mail *mail)
{
    return !mail->is_gone && !mail->is_removed;
}

/* An email that the inbox holds. */
struct maildir_sighting {
    uint32_t email;  /* the store's number */
    const char *id;  /* the service's; NULL will do where the box knows the email */
    int64_t epoch_s; /* its date */
};

struct maildir_memory;

/* Opens or makes the database in `dir_fd`, and takes over what version 0.2 left there (waits for the disk).
 * 0, -ENOMEM. A database that cannot be had is an error of each change, and of maildir_memory_add_inbox():
 * -EIO where it is damaged, -EPROTO where a newer version made it. */
int maildir_memory_open(int dir_fd, struct clock *clock, struct maildir_memory **ret_memory);
/* NULL-safe. Waits for the disk. */
void maildir_memory_free(struct maildir_memory *memory);

/* Makes the inbox known, with a uidvalidity of its own when it is new (then this waits for the disk). `id`:
 * the service's, copied. Again: does nothing. 0, or -errno. */
int maildir_memory_add_inbox(struct maildir_memory *memory, uint32_t inbox, const char *id);
bool maildir_memory_has_inbox(struct maildir_memory *memory, uint32_t inbox);

/* Each fills in a copy, or returns false: no such message. One that is gone or removed is given, too. */
bool maildir_memory_find_uid(struct maildir_memory *memory, uint32_t inbox, uint32_t uid,
                             struct maildir_mail *ret);
bool maildir_memory_find_email(struct maildir_memory *memory, uint32_t inbox, uint32_t email,
                               struct maildir_mail *ret);

struct maildir_state {
    uint32_t uidvalidity;
    uint32_t uid_max;                  /* the highest given */
    uint32_t present[MAILDIR_FOLDERS]; /* messages that are shown, as far as is known */
    int64_t changed_ns[MAILDIR_FOLDERS];
    bool is_stale; /* maildir_memory_sync() would find something to do, perhaps */
};
/* False: no such inbox. */
bool maildir_memory_get_state(struct maildir_memory *memory, uint32_t inbox, struct maildir_state *ret);

/* The set of emails in the inbox may have changed. */
void maildir_memory_mark_stale(struct maildir_memory *memory, uint32_t inbox);

/* Before all that the inbox holds is looked up for maildir_memory_sync(), by one thread at a time: whether
 * there is any need. The inbox is stale until that sync has ended, and stays so when it changes meanwhile. */
bool maildir_memory_begin_sync(struct maildir_memory *memory, uint32_t inbox);
/* Gives U numbers to the emails not met before, in this order, and puts them into new/; takes note of those
 * that are gone, and of those that are back (waits for the disk). `arrived_ns`: when the inbox changed, which
 * is the time of new/ then. 0 or -errno: nothing was changed, and the inbox is still stale. */
int maildir_memory_sync(struct maildir_memory *memory, uint32_t inbox, const struct maildir_sighting *seen,
                        size_t seen_len, int64_t arrived_ns);

/* An email left the inbox. */
void maildir_memory_note_gone(struct maildir_memory *memory, uint32_t inbox, uint32_t email);

/* How a message is marked from now on; on the disk when it returns (waits for it). 0, -ENOENT, or -errno:
 * nothing was changed. */
struct maildir_mark {
    enum maildir_folder folder;
    bool has_info;
    uint64_t flags;
};
int maildir_memory_mark(struct maildir_memory *memory, uint32_t inbox, uint32_t uid,
                        const struct maildir_mark *mark);

/* The message is in the Maildir no more, and never again; the same otherwise. */
int maildir_memory_remove(struct maildir_memory *memory, uint32_t inbox, uint32_t uid);

/* The message is this large. Some hundred sizes are written together, for they can be learned again (waits
 * for the disk then). */
void maildir_memory_note_size(struct maildir_memory *memory, uint32_t inbox, uint32_t uid, int64_t size);

#endif
