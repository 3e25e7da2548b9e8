/* SPDX-License-Identifier: MIT */
/*
 * An item: a message to send or a file to upload, from its creation until it leaves the spool.
 *
 * Model. An item has a number, which is never given again, and a *row*: all that the disk knows of it beside
 * its content (spool.h). Beside the row stands what is true only while the program runs: the *schedule* (when
 * it is tried next) and the *open file* (who writes it, and whether what was written may go out). The state
 * in the row says in which folder the item shows, so a change of state moves it; item.c has the one table of
 * which state may follow which, and docs/OUTBOX.md draws it.
 *
 * A message has *pieces*, which the pool of the service must have before it can be sent: the files of
 * attachments/ that it names, each with a content of its own since the hand-in, and its MIME parts.
 *
 * The *table* finds items by number, and by name in each folder.
 *
 * Invariant: outbox->lock protects every field but the number. Only the thread that has claimed the item
 * (change.h) changes its row, so this thread may read the row without the lock. Nothing here waits or locks:
 * the caller holds outbox->lock.
 */
#ifndef INBOXFS_OUTBOX_ITEM_H
#define INBOXFS_OUTBOX_ITEM_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/wait.h"
#include "outbox/outbox.h"

/* ================================================================ rows */

enum item_kind {
    ITEM_MESSAGE,
    ITEM_ATTACHMENT,
};
enum {
    ITEM_KINDS = 2,
    ITEM_KEY_SIZE = 37,    /* a UUID in text and its NUL */
    ITEM_DIGEST_SIZE = 65, /* hash_sha256() */
};

enum item_state {
    ITEM_GONE,      /* not in the spool: before it is made, and after it is removed */
    ITEM_WRITING,   /* open for writing, or created and not yet closed for the last time */
    ITEM_WAITING,   /* closed and durable. A message of a name that is sent is handed in after a quiet time */
    ITEM_QUEUED,    /* a message handed in: goes out when its attachments and its turn have come */
    ITEM_SENDING,   /* its request may be on the wire */
    ITEM_SENT,      /* the service took it */
    ITEM_UPLOADING, /* an attachment handed in, on its way into the pool */
    ITEM_UPLOADED,  /* in the pool */
    ITEM_FAILED,    /* refused for good; certainly not sent */
    ITEM_UNKNOWN,   /* perhaps sent; never again by itself */
    ITEM_INTERRUPTED, /* its writing did not come to a good end */
};
enum {
    ITEM_STATES = ITEM_INTERRUPTED + 1
};

struct piece {
    char *name;       /* of the file in attachments/; NULL: it is a MIME part */
    uint64_t content; /* number of its content; 0: it stands in the message */
    int64_t size;
    char digest[ITEM_DIGEST_SIZE];
    char *pool_id; /* NULL: not known to be in the pool */
};

struct row {
    uint64_t number;
    uint64_t
        position; /* in the queue and in listings: grows from close to close, and from hand-in to hand-in */
    enum item_kind kind;
    enum item_state state;
    char *name;
    uint64_t replaces; /* the item whose place it takes, in case that one is there still; 0: none */
    int64_t size;      /* of an attachment when it was handed in */
    char digest[ITEM_DIGEST_SIZE]; /* of the content when it was handed in; "" before */
    char key[ITEM_KEY_SIZE];       /* idempotency key; "": none yet */

    /* of a message */
    char *answers;     /* what reply_make() (reply.h) made of the email that it answers; NULL: none */
    char *from;        /* the sending address, settled at hand-in */
    char *replies_to;  /* id of the email that its In-Reply-To or References name; NULL: none is known */
    char *not_carried; /* words: what of the message the request does not say, a line each; or NULL */
    char sequence[ITEM_DIGEST_SIZE]; /* messages of one sequence go out in order (draft_sequence()) */
    struct piece *pieces;
    size_t pieces_len;
    bool may_have_been_sent; /* an attempt since hand-in had an unknown outcome */
    bool was_unknown;    /* so had an earlier hand-in under this key: a refusal now does not mean that it was
                            never sent */
    bool was_reuploaded; /* its pool ids were refused once, and all was uploaded again */
    int64_t quota_day;   /* UTC day in whose count of sent emails it is; 0: none */

    /* how it went */
    unsigned int attempts;
    int64_t accepted_ms; /* since 1970; 0: not yet */
    int64_t finished_ms; /* 0: not yet */
    int http_status;     /* of the last answer; 0: none */
    char *id;            /* the sent email's, or the pool's; or NULL */
    char *
        error; /* words, or NULL. A file that waits has them if it was interrupted, under a never-sent name */
    size_t receipt_bytes; /* of its receipt; 0: it has none */
};

void row_release(struct row *row);
/* Returns 0 or -ENOMEM. */
int row_copy(const struct row *row, struct row *ret_row);
/* Forgets what the last hand-in led to: pieces, attempts, times, result. Keeps number, position, kind, state,
 * name, key, digest, was_unknown, and which email it answers. */
void row_clear_outcome(struct row *row);
/* Appends a piece that is nowhere yet. `name` may be NULL. Returns it, or NULL without memory. */
struct piece *row_add_piece(struct row *row, const char *name);
/* Appends words, which have no line end, to not_carried. Returns 0 or -ENOMEM. */
int row_add_not_carried(struct row *row, const char *words);
/* Replaces a text of a row by a copy of `value`, which may be NULL. Returns 0 or -ENOMEM (then it is NULL).
 */
int row_set_text(char **text, const char *value);

/* ================================================================ states */

/* Returns "message" or "attachment", as in receipts. */
const char *item_kind_name(enum item_kind kind);
/* Returns the state's name in the database and in receipts: "unknown outcome". */
const char *item_state_name(enum item_state state);
/* Returns 0 or -EBADMSG. ITEM_GONE has no name. */
int item_state_from_name(const char *name, enum item_state *ret_state);
/* Returns true if `to` may follow `from`. */
bool item_state_may_follow(enum item_state from, enum item_state to);
/* Returns where an item shows, or OUTBOX_FOLDER_NONE. */
enum outbox_folder item_state_folder(enum item_state state, enum item_kind kind);
/* Returns true if it is handed in, and its end is not yet known. */
bool item_state_is_unsettled(enum item_state state);
bool item_state_is_failure(enum item_state state);
bool item_state_has_receipt(enum item_state state);
/* Returns true if the service, or this program, has decided about it. */
bool item_state_is_settled(enum item_state state);

/* ================================================================ items */

enum {
    ITEM_WRITERS_MAX = 16, /* processes remembered as writers; beyond, every process counts as one */
};

enum item_claim {
    CLAIM_NONE,
    CLAIM_DISK,    /* for as long as the disk takes: others wait for it */
    CLAIM_SERVICE, /* for as long as the service takes: nobody waits for that */
};

/* When it is handed in, or tried next. */
struct schedule {
    struct item *next; /* in its list: of what waits, of messages, or of uploads */
    struct item *previous;
    struct item_list *list; /* which one; NULL: none */
    int64_t due_ms;         /* monotonic: of what waits, when the quiet time ends; else the next attempt */
    uint64_t awaits;        /* what waits: the attachment that is still being written; 0: none */
    bool is_woken;          /* during its attempt somebody asked to try now: no delay after it */
    struct backoff backoff;
};

/* The programs that have it open, and what is known of the end of those that wrote it. */
struct open_file {
    unsigned int writers; /* open handles that may write; the same for as long as a claim for the disk */
    unsigned int opens;   /* times it was opened for writing */
    int64_t
        closed_ms;   /* monotonic: a close(2) followed the last write, its release may be on its way; 0: no */
    bool is_hurried; /* a barrier waits for its release: no quiet time after it */
    uint64_t changes;       /* of the content, counted */
    uint64_t synced;        /* how many of them are on the disk */
    bool is_durable;        /* the name of the content has reached the disk */
    unsigned int renewals;  /* times the content became another file: descriptors are of the old one then */
    char interruption[160]; /* why what was written must not go out; "": no reason */
    const char *last_end;   /* why it must not go out unless somebody else closes it, too; NULL: no reason */
    bool lacks_write; /* a write failed before it was recorded that somebody writes: its text is not whole */
    bool is_unseen;   /* how a program ended that had it open is not known */
    pid_t wrote[ITEM_WRITERS_MAX];
    size_t wrote_len;        /* ITEM_WRITERS_MAX + 1: it is no longer known who did not */
    unsigned int first_open; /* through which opening it was written first; 0: through none */
    pid_t first_opener;      /* the process that opened it then */
};

struct item {
    uint64_t number;
    unsigned int refs; /* the table's, handles', claims' */
    struct row row;
    off_t size; /* of the content */
    struct timespec mtime;
    enum item_claim claim;
    struct cancel *upload; /* borrowed: calls off the upload under way; NULL: there is none */
    unsigned int linking;  /* threads that bind its content just now: who wants to change it waits */
    bool is_called_off;    /* the upload was, by somebody who waits to change the file */
    bool is_unsaved;       /* the row on the disk is older than this one: the disk failed */
    struct schedule schedule;
    struct open_file file;
    pid_t session;            /* who handed it in, or opened it for writing last (writer_session()) */
    uint64_t failure;         /* when it failed, counted in failures of this run; 0: it did not */
    bool is_failure_reported; /* to a barrier of that session */
    bool is_event_due;        /* settled, and its event is not published yet */
};

/* Returns an item with one reference and an empty row (its number set), or NULL without memory. */
struct item *item_new(uint64_t number, enum item_kind kind);
struct item *item_ref(struct item *item);
void item_unref(struct item *item);

/* Returns where it shows, or OUTBOX_FOLDER_NONE. */
enum outbox_folder item_folder(const struct item *item);
void item_stat(const struct item *item, enum outbox_aspect aspect, struct outbox_stat *ret);
/* Returns true if its content, under its key, may have gone out already. */
bool item_may_have_been_sent(const struct item *item);
/* Returns true if it must not be edited: it is at the service, or an attempt may have been accepted. */
bool item_is_busy(const struct item *item);
/* Returns true if it waits to be handed in after a quiet time: a closed message, not empty, of a name that is
 * sent, which was not interrupted. */
bool item_is_to_be_handed_in(const struct item *item);

/* Takes size and mtime from its open content file. */
void item_update_stat(struct item *item, int fd);
/* Remembers that a process wrote (0: one that is not known). */
void item_add_writer(struct item *item, pid_t process);
bool item_was_written_by(const struct item *item, pid_t process);
/* Returns true if it is known that this process wrote; false where all count as writers. */
bool item_is_known_writer(const struct item *item, pid_t process);
/* From now on it must not go out; the first reason stays. */
void item_interrupt(struct item *item, const char *why);

/* ================================================================ the table of items */

struct item_folder {
    GHashTable *names;  /* to items, or to a mark of reservation */
    GHashTable *ids;    /* of those that the service gave one, how many have it */
    int64_t changed_ms; /* realtime */
};

struct item_table {
    GHashTable *by_number;
    struct item_folder folders[OUTBOX_FOLDERS];
};

void item_table_init(struct item_table *table);
/* Drops its references. All zeros needs no release. */
void item_table_release(struct item_table *table);

/* Takes over a reference. */
void item_table_add(struct item_table *table, struct item *item);
/* Gives the table's reference back to the caller. */
void item_table_remove(struct item_table *table, struct item *item);
struct item *item_table_get(const struct item_table *table, uint64_t number);

/* Returns the item shown under this name, or NULL. */
struct item *item_table_find(const struct item_table *table, enum outbox_folder folder, const char *name);
/* Walks over what is shown in a folder, in no order: the position is GLib's in `names`. NULL at the end. */
struct item *item_table_next(GHashTableIter *position);
/* Returns true if an item shown there has this id from the service. */
bool item_table_has_id(const struct item_table *table, enum outbox_folder folder, const char *id);
/* Returns true if the name is shown or reserved. */
bool item_table_is_taken(const struct item_table *table, enum outbox_folder folder, const char *name);
/* Keeps a name for an item that will be shown there: item_table_show() of it cannot fail. `name` lives as
 * long as that lasts. */
void item_table_reserve(struct item_table *table, enum outbox_folder folder, const char *name);
void item_table_unreserve(struct item_table *table, enum outbox_folder folder, const char *name);
/* Shows the item under its name, which is reserved. */
void item_table_show(struct item_table *table, enum outbox_folder folder, struct item *item);
/* Hides it, if it is the one shown under its name. */
void item_table_hide(struct item_table *table, enum outbox_folder folder, struct item *item);

/* ================================================================ names */

/* Returns 0 if the name may stand in this folder, outbox/ or attachments/; else -EPERM (a receipt's),
 * -ENAMETOOLONG, or -EILSEQ (not UTF-8; of an attachment, whose name is sent in a header, also: a control
 * character). */
int item_check_name(enum outbox_folder folder, const char *name);
bool item_is_receipt_name(const char *name);
/* Returns true if a file of this name is never sent: a temporary file, and the backup of a message, which
 * would be sent as a second message. A backup may be attached. */
bool item_is_never_sent(enum item_kind kind, const char *name);

/* Returns `name`, shortened so that a receipt's name fits beside it, and numbered so that it is free in the
 * folder. The caller frees; NULL without memory. */
char *item_table_choose_name(const struct item_table *table, enum outbox_folder folder, const char *name);

#endif
