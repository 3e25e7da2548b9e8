/* SPDX-License-Identifier: MIT */
/*
 * An item: a message to send or a file to upload, from its creation until it leaves the spool.
 *
 * Model. An item has a number, which is never given to another item, a content, and a *row*. The spool stores
 * the row and the content (spool.h). Two parts of an item exist only while the program runs: the *schedule*
 * (when the item is tried next) and the *open file* (which programs write the content, and whether the
 * content may be sent). The state in the row decides in which folder the item shows, so a change of state
 * moves the item. item.c has the table of which state may follow which; docs/OUTBOX.md draws it.
 *
 * A message has *pieces*: its MIME parts, and the files of attachments/ that it names, of which it has a link
 * or a copy from the hand-in on. All pieces must be in the service's pool before the message is sent.
 *
 * The *table* finds items by number, and by name in each folder.
 *
 * Invariant: outbox->lock protects every field but the number. Only the thread that has claimed the item
 * (change.h) changes its row, so this thread may read the row without the lock. Nothing here waits or locks:
 * the caller holds outbox->lock. Memory is GLib's: without it the program ends, and the next start recovers.
 */
#ifndef INBOXFS_OUTBOX_ITEM_H
#define INBOXFS_OUTBOX_ITEM_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/strbuf.h"
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
    ITEM_DIGEST_SIZE = 65, /* SHA-256 in hex digits, as of item_digest() */
};

enum item_state {
    ITEM_GONE,      /* not in the spool: not yet created, or removed */
    ITEM_WRITING,   /* open for writing, or created and not yet closed for the last time */
    ITEM_WAITING,   /* closed and durable. A message is handed in after a quiet time, unless its name is never
                       sent */
    ITEM_QUEUED,    /* a message that was handed in and waits for its attachments and its turn */
    ITEM_SENDING,   /* its request may be on the wire */
    ITEM_SENT,      /* the service accepted it */
    ITEM_UPLOADING, /* an attachment handed in, on its way into the pool */
    ITEM_UPLOADED,  /* in the pool */
    ITEM_FAILED,    /* certainly not sent, and not tried again */
    ITEM_UNKNOWN,   /* perhaps sent; tried again only if the user hands it in again */
    ITEM_INTERRUPTED, /* incomplete: the program that wrote the content did not finish */
};
enum {
    ITEM_STATES = ITEM_INTERRUPTED + 1
};

struct piece {
    char *name;       /* name of the file in attachments/; NULL for a MIME part */
    uint64_t content; /* number of the piece's content; 0 if the message contains the piece */
    int64_t size;
    char digest[ITEM_DIGEST_SIZE];
    char *pool_id; /* NULL unless the piece is known to be in the pool */
};

struct row {
    uint64_t number;
    uint64_t position; /* order in the queue and in listings; each close or hand-in sets a greater position */
    enum item_kind kind;
    enum item_state state;
    char *name;
    uint64_t replaces;             /* number of the replaced item, whose row may still exist; 0: none */
    int64_t size;                  /* bytes of an attachment at its hand-in */
    char digest[ITEM_DIGEST_SIZE]; /* digest of the content at the hand-in; "" before */
    char key[ITEM_KEY_SIZE];       /* idempotency key; "" before it is chosen */

    /* only of a message */
    char *reply_template; /* result of reply_make() (reply.h) for the answered email; or NULL */
    char *from;           /* the sending address, chosen at the hand-in */
    char *replies_to;     /* id of the email that In-Reply-To or References names; NULL if unknown */
    char *not_carried;    /* the parts of the message that the request leaves out, one per line; or NULL */
    char sequence[ITEM_DIGEST_SIZE]; /* messages of one sequence go out in order (draft_sequence()) */
    struct piece *pieces;
    size_t pieces_len;
    bool may_have_been_sent; /* an attempt since the hand-in had an unknown outcome */
    bool was_unknown; /* an earlier hand-in under this key had an unknown outcome: the message may have been
                         sent even if the service refuses the current hand-in */
    bool was_reuploaded; /* the service refused its pool ids once, and all pieces were uploaded again */
    int64_t quota_day;   /* UTC day whose count of sent emails includes the message; 0: none */

    /* the attempts and their result */
    unsigned int attempts;
    int64_t accepted_ms; /* time of the hand-in, since 1970; 0 before */
    int64_t finished_ms; /* time of the outcome, since 1970; 0 before */
    int http_status;     /* status of the service's last answer; 0: none */
    char *id;            /* id of the sent email, or of the file in the pool; or NULL */
    char *error; /* the reason for a failure, or NULL. In ITEM_WAITING: why a file of a never-sent name
                    was interrupted */
    size_t receipt_bytes; /* size of the receipt; 0 if there is none */
};

void row_release(struct row *row);
void row_copy(const struct row *row, struct row *ret_row);
/* Writes the digest of a content, by OpenSSL, which is four times as quick as GLib. */
void item_digest(const void *bytes, size_t len, char ret_digest[ITEM_DIGEST_SIZE]);
/* Clears the results of the last hand-in: pieces, attempts, times, outcome. Keeps number, position, kind,
 * state, name, key, digest, reply_template, replies_to and was_unknown. */
void row_clear_outcome(struct row *row);
/* Appends a piece without content and without pool id. `name` may be NULL. Returns the piece, which is valid
 * until the next call and belongs to the row. */
struct piece *row_add_piece(struct row *row, const char *name);
/* Appends a line to not_carried. `description` has no line end. */
void row_add_not_carried(struct row *row, const char *description);
/* Appends the receipt of the row. `request`: the JSON text as sent, on one line; or NULL. Returns 0 or the
 * buffer's error. */
int row_format_receipt(const struct row *row, const char *request, struct strbuf *out);
/* Replaces a string of a row by a copy of `value`, which may be NULL. */
void row_set_string(char **string, const char *value);

/* ================================================================ states */

/* Returns "message" or "attachment", as in receipts. */
const char *item_kind_name(enum item_kind kind);
struct item_state_facts {
    const char *name;       /* as in the database and in receipts: "unknown outcome"; NULL for ITEM_GONE */
    unsigned int followers; /* the states that may follow: a bit each, 1U << state */
    enum outbox_folder message_folder; /* the folder in which a message in this state shows */
    enum outbox_folder attachment_folder;
    bool is_unsettled; /* the item was handed in, and its outcome is not known yet */
    bool has_receipt;
};
extern const struct item_state_facts item_states[ITEM_STATES];

/* Returns 0, or -EBADMSG if no state has this name. */
int item_state_from_name(const char *name, enum item_state *ret_state);
bool item_state_may_follow(enum item_state from, enum item_state to);
/* Returns the folder in which an item of this state and kind shows, or OUTBOX_FOLDER_NONE. */
enum outbox_folder item_state_folder(enum item_state state, enum item_kind kind);

/* ================================================================ items */

enum {
    BACKOFF_MIN_MS = 1000, /* the first backoff of an item or a suspension */
    BACKOFF_MAX_MS = 15 * 60 * 1000,
};

enum item_claim {
    CLAIM_NONE,
    CLAIM_DISK,    /* held while the disk works: other threads wait for the claim */
    CLAIM_SERVICE, /* held while the service works: no thread waits for the claim of a message */
};

/* When the item is handed in, or tried next. */
struct schedule {
    GQueue *list;   /* a list of struct send_queue, or NULL */
    GList link;     /* the item's place in `list` */
    int64_t due_ms; /* monotonic; the end of a waiting item's quiet time, else the time of the next attempt */
    uint64_t awaits;    /* number of the unfinished attachment for which the item waits; 0: none */
    bool must_ask_list; /* a list must succeed before the item is sent; constant during a try */
    struct backoff backoff;
};

/* The programs that have the item open, and what the daemon knows of the ends of programs that wrote the
 * item. */
struct open_file {
    unsigned int writers;   /* open handles that may write; constant during a claim for the disk */
    unsigned int opens;     /* number of openings for writing so far */
    int64_t closed_ms;      /* monotonic: time of the close(2) after the last write, while its release may
                               be outstanding; else 0 */
    uint64_t changes;       /* number of changes of the content, and of the file that has it */
    uint64_t synced;        /* number of changes that are on the disk */
    unsigned int renewals;  /* times the content got a new file; older descriptors refer to the old file */
    char interruption[160]; /* why the content must not be sent, even if a write failed before the row became
                               ITEM_WRITING; "" without such a reason */
    bool has_last_failed; /* the last task that closed the file failed, and had not written: the content must
                             not be sent unless another task closes the file later */
    bool is_unseen;       /* the daemon could not see how a program that had the file open ended */
    GHashTable *wrote;    /* the processes that wrote the content; NULL before the first */
    unsigned int first_open; /* number of the opening through which the content was first written; 0: none */
    pid_t first_opener;      /* the process that made the opening `first_open` */
};

struct item {
    uint64_t number;
    unsigned int refs; /* references of the table, of handles and of claims */
    struct row row;
    off_t size; /* bytes of the content */
    struct timespec mtime;
    enum item_claim claim;
    struct cancel *upload; /* cancels the upload under way, which a worker has claimed; borrowed, or NULL */
    unsigned int linking;  /* number of threads that bind the content to messages; changes wait for them */
    bool is_unsaved;       /* the disk failed: the row in the spool is older than `row` */
    struct schedule schedule;
    struct open_file file;
    pid_t session; /* the session that handed the item in or last opened it for writing (writer_session()) */
    uint64_t failure;         /* outbox->failures when the item failed; 0 if it did not fail */
    bool is_failure_reported; /* a barrier of `session` has reported the failure */
};

/* Returns an item with one reference, whose row has a number, a position and a kind. */
struct item *item_new(uint64_t number, enum item_kind kind);
struct item *item_ref(struct item *item);
void item_unref(struct item *item);

enum outbox_folder item_folder(const struct item *item);
void item_stat(const struct item *item, enum outbox_aspect aspect, struct outbox_stat *ret);
/* Returns true if the content may have been sent already under the item's key. */
bool item_may_have_been_sent(const struct item *item);
/* Returns true if the item must not be edited: it is a message in outbox/ that is at the service, or may have
 * been sent since its hand-in. */
bool item_is_busy(const struct item *item);
/* Reads size and mtime from the content's descriptor `fd`. */
void item_update_stat(struct item *item, int fd);

/* ================================================================ the table of items */

struct item_folder {
    GHashTable *names;    /* map each name to its item */
    GHashTable *reserved; /* the set of names that are reserved */
    GHashTable *ids;      /* map each id from the service to the number of items that have it */
    int64_t changed_ms;   /* realtime of the last change of `names` */
};

struct item_table {
    GHashTable *by_number;
    struct item_folder folders[OUTBOX_FOLDERS];
};

void item_table_init(struct item_table *table);
/* Drops the table's references. Accepts a table of zeros. */
void item_table_release(struct item_table *table);

/* Adds the item, and consumes a reference of the caller. */
void item_table_add(struct item_table *table, struct item *item);
/* Removes the item. The table's reference becomes the caller's. */
void item_table_remove(struct item_table *table, struct item *item);
struct item *item_table_get(const struct item_table *table, uint64_t number);

/* Finds the item that is shown under this name; may return NULL. */
struct item *item_table_find(const struct item_table *table, enum outbox_folder folder, const char *name);
/* Returns the next item, in no order, or NULL at the end. `position` iterates `by_number`, or `names` of a
 * folder. */
struct item *item_table_next(GHashTableIter *position);
/* Returns true if an item shown in the folder has this id from the service. */
bool item_table_has_id(const struct item_table *table, enum outbox_folder folder, const char *id);
/* Returns true if the name is shown or reserved. */
bool item_table_is_taken(const struct item_table *table, enum outbox_folder folder, const char *name);
/* Reserves a name for an item that is not shown yet. `name` must stay valid until the item is shown or the
 * name is unreserved. */
void item_table_reserve(struct item_table *table, enum outbox_folder folder, const char *name);
void item_table_unreserve(struct item_table *table, enum outbox_folder folder, const char *name);
/* Shows the item under its name, which is reserved. */
void item_table_show(struct item_table *table, enum outbox_folder folder, struct item *item);
/* Hides the item, unless another item is shown under its name. */
void item_table_hide(struct item_table *table, enum outbox_folder folder, struct item *item);

/* ================================================================ names */

/* Checks the name of a file to make or move in. Returns 0; -EPERM: it is a receipt's name, or the folder is
 * neither outbox/ nor attachments/; -ENAMETOOLONG; -EILSEQ: it is not UTF-8, or has a control character in
 * attachments/, whose names are sent in a header. */
int item_check_name(enum outbox_folder folder, const char *name);
bool item_is_receipt_name(const char *name);
/* Returns true if the name is of a temporary file, or of a message's backup, which would be sent as a second
 * message. Files of these names are never sent. A backup may be attached. */
bool item_is_never_sent(enum item_kind kind, const char *name);

/* Returns a free name in the folder: `name`, shortened to leave room for the receipt's suffix, and numbered
 * if it is taken. The caller frees it. */
char *item_table_choose_name(const struct item_table *table, enum outbox_folder folder, const char *name);

#endif
