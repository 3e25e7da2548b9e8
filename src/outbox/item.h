/* SPDX-License-Identifier: MIT */
/*
 * An item: a message to send or a file to upload, from its creation until it leaves the spool.
 *
 * Model. An item has a number, which is never given again; a *state*; an *envelope*, which is what the disk
 * knows of it (mail/envelope.h); and what is true only while the program runs: who writes it, who waits for
 * it, when it is tried next. item.c has the one table of which state may follow which; docs/OUTBOX.md draws
 * it. The state and the kind say in which folder an item shows, so a change of state moves it.
 *
 * The *table* finds items by number, and by name in each folder. It also knows *former names*: a message that
 * was sent leaves outbox/ by itself, and the process that wrote it may still touch or rename it there. For a
 * few seconds its former name goes on answering to that process. To all others the name is free.
 *
 * Invariant: every field but the number is protected by outbox->lock. The envelope and the state are changed
 * only by the thread that has claimed the item (transition.h), so this thread may read them without the lock.
 * Nothing here waits, and nothing here locks: the caller holds outbox->lock.
 */
#ifndef INBOXFS_OUTBOX_ITEM_H
#define INBOXFS_OUTBOX_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/map.h"
#include "base/wait.h"
#include "mail/envelope.h"
#include "outbox/outbox.h"

/* ================================================================ states */

enum item_state {
    ITEM_GONE,        /* not in the spool: before it is made, and after it is removed */
    ITEM_WRITING,     /* open for writing, or created and not yet closed for the last time */
    ITEM_ON_HOLD,     /* closed, and never sent as it is: empty, of a never-sent name, or an edit too late */
    ITEM_QUEUED,      /* a message handed in: goes out when its attachments and its turn have come */
    ITEM_SENDING,     /* its request may be on the wire */
    ITEM_SENT,        /* the service took it */
    ITEM_UPLOADING,   /* an attachment handed in, on its way into the pool */
    ITEM_UPLOADED,    /* in the pool */
    ITEM_FAILED,      /* refused for good; certainly not sent */
    ITEM_UNKNOWN,     /* perhaps sent; never again by itself */
    ITEM_INTERRUPTED, /* its writing did not come to a good end */
    ITEM_DRAFTED,     /* went back to a draft: remembers the idempotency key of its content, has no data */
};
enum {
    ITEM_STATES = ITEM_DRAFTED + 1
};

/* The state's name in envelopes and receipts: "writing", "unknown outcome". */
const char *item_state_name(enum item_state state);
/* 0 or -EBADMSG. ITEM_GONE has no name. */
int item_state_from_name(const char *name, enum item_state *ret_state);

/* Whether `to` may follow `from`. */
bool item_state_may_follow(enum item_state from, enum item_state to);

/* Where it shows, or OUTBOX_FOLDER_NONE. */
enum outbox_folder item_state_folder(enum item_state state, enum envelope_kind kind);

/* Handed in, and its end not yet known. */
bool item_state_is_unsettled(enum item_state state);
/* In failed/. */
bool item_state_is_failure(enum item_state state);
/* Has a receipt beside it. */
bool item_state_has_receipt(enum item_state state);

/* ================================================================ an item */

struct sequence;

enum {
    ITEM_WRITERS_MAX = 16, /* processes remembered as writers; beyond, every process counts as one */
    ITEM_READERS_MAX = 4,
};

enum item_claim {
    CLAIM_NONE,
    CLAIM_DISK,    /* for as long as the disk takes: wait for it */
    CLAIM_SERVICE, /* for as long as the service takes: nobody waits for that */
};

/* While its sender waits for the service, another may change the message's name: see claim_lend(). */
enum item_lending {
    LENDING_NONE,
    LENDING_LENT,
    LENDING_BORROWED,
};

/* Who asks. Where ids cannot be seen, in another pid namespace, both are 0, and all count as one. */
struct item_asker {
    pid_t task;
    pid_t process;
    uint64_t started; /* when the process began (writer_started()); 0: not known */
};

struct item {
    uint64_t number;
    char number_text[24]; /* key of the table */
    unsigned int refs;    /* the table's, handles', claims', bindings' */
    enum item_state state;
    struct envelope envelope;
    enum item_claim claim;
    enum item_lending lending;

    /* content and receipt */
    off_t size;
    struct timespec mtime;
    size_t receipt_bytes; /* exact; 0: none */
    unsigned int touches; /* grows before and after its times are set */
    uint64_t changes;     /* of its content, counted */
    uint64_t synced;      /* so many of them have reached the disk */
    bool is_durable;      /* its names and first envelope have reached the disk */
    bool is_unsaved;      /* the envelope on disk is older than this one: the disk failed */

    /* writing */
    unsigned int writers;   /* open handles that may write; the same for as long as a claim for the disk */
    char interruption[160]; /* why what was written must not go out; "": no reason. It takes no memory that
                               could lack */
    bool is_unseen;         /* how a program ended that had it open is not known */
    const char *last_end;   /* why it must not go out unless somebody else closes it, too; NULL: no reason */
    pid_t opener; /* the task that opened it for writing, or process that moved it, last; -1: none */
    pid_t wrote[ITEM_WRITERS_MAX];
    size_t wrote_len;        /* ITEM_WRITERS_MAX + 1: it is no longer known who did not */
    unsigned int opens;      /* times it was opened for writing */
    unsigned int first_open; /* through which of them it was written first; 0: through none */
    pid_t first_opener;      /* the process that opened it then */

    struct item_asker read_by[ITEM_READERS_MAX]; /* processes that read it while it waited, the latest */
    unsigned int reads;

    /* waiting its turn */
    struct item *next;
    struct item *previous;
    struct sequence *sequence; /* of a message; NULL: in no queue */
    bool is_queued;
    int64_t next_attempt_ms; /* monotonic; 0: at once */
    int64_t edit_until_ms;   /* monotonic; until then who wrote it may rename it onto what it has read */
    bool is_woken;           /* during its attempt somebody asked to try now: no delay after it */
    struct cancel *upload;   /* borrowed: calls off the upload under way; NULL: there is none */
    bool is_called_off;      /* it was, by somebody who waits to change the file */
    struct backoff backoff;

    /* who needs whom */
    struct item **bound; /* a message's attachments, as envelope.attachments; NULL where it is lost */
    size_t bound_len;
    bool is_awaited;    /* a copy, made for somebody who is about to open it for writing, or to rename it */
    unsigned int users; /* an attachment's messages that are not settled */
    bool is_loose;      /* it stands in outbox->loose_ends (transition.h), linked by: */
    struct item *next_loose;
    int64_t remove_again_ms; /* monotonic; unneeded, and the disk did not let it go */

    pid_t session;            /* who handed it in, or opened it for writing last (writer_session()) */
    uint64_t failure;         /* when it failed, counted in failures of this run; 0: it did not */
    bool is_failure_reported; /* to a barrier of that session */
    bool is_event_due;        /* settled, and its event is not published yet */
};

/* An item with one reference and an empty envelope (its number set), or NULL. */
struct item *item_new(uint64_t number);
struct item *item_ref(struct item *item);
void item_unref(struct item *item);

/* Where it shows, or OUTBOX_FOLDER_NONE. */
enum outbox_folder item_folder(const struct item *item);
void item_stat(const struct item *item, enum outbox_aspect aspect, struct outbox_stat *ret);

/* Whether its content, under its key, may have gone out already. */
bool item_may_have_been_sent(const struct item *item);

/* Whether the same content, handed in again, takes over its key: it is on hold, or a draft again. */
bool item_remembers_key(const struct item *item);

enum binding_state {
    BINDING_READY,     /* it is in the pool */
    BINDING_LOST,      /* it will never get there: the message fails */
    BINDING_UPLOADING, /* it is on its way */
    BINDING_WRITING,   /* it is still being written */
};

/* Of one attachment; NULL: BINDING_LOST. */
enum binding_state item_attachment_state(const struct item *attachment);
/* Of all that a message binds: BINDING_LOST if one is lost, else the greatest. */
enum binding_state item_binding_state(const struct item *message);
/* The name of an attachment that is lost, or NULL. */
const char *item_find_lost_attachment(const struct item *message);

/* Whether it is hidden, and no message and no writer needs it. */
bool item_is_unneeded(const struct item *item);

/* Takes size and mtime from its open content file. */
void item_update_stat(struct item *item, int fd);

/* Remembers that a process wrote (0: one that is not known); whether one did. */
void item_add_writer(struct item *item, pid_t process);
bool item_was_written_by(const struct item *item, pid_t process);
/* Whether it is known that this process did; false where all count as one. */
bool item_is_known_writer(const struct item *item, pid_t process);
/* Whether the asker opened it for writing, wrote it, or moved it where it is. */
bool item_was_made_by(const struct item *item, const struct item_asker *asker);
/* Remembers that a process read it; whether one did. */
void item_add_reader(struct item *item, const struct item_asker *reader);
bool item_was_read_by(const struct item *item, const struct item_asker *reader);
void item_forget_readers(struct item *item);
/* From now on it must not go out; the first reason stays. */
void item_interrupt(struct item *item, const char *why);

/* ================================================================ the table of items */

struct former_name;

struct item_folder {
    struct map names;        /* to items, or to a mark of reservation */
    struct map ids;          /* of those that the service gave one, how many have it */
    struct map former_names; /* to the newest of the name */
    int64_t changed_ms;      /* realtime */
};

struct item_table {
    struct map by_number;
    struct item_folder folders[OUTBOX_FOLDERS];
    struct former_name *oldest; /* of all former names, in the order in which they end */
    struct former_name *newest;
    bool was_read; /* any message that waited, by any process */
};

/* All zeros is an empty table. Drops its references. */
void item_table_release(struct item_table *table);

/* Takes over a reference. 0 or -ENOMEM. */
int item_table_add(struct item_table *table, struct item *item);
/* Gives the table's reference back to the caller. */
void item_table_remove(struct item_table *table, struct item *item);
struct item *item_table_get(const struct item_table *table, uint64_t number);

/* The item shown under this name, or NULL. */
struct item *item_table_find(const struct item_table *table, enum outbox_folder folder, const char *name);
/* Walks over what is shown in a folder, in no order: start with *position 0; NULL at the end. */
struct item *item_table_next(const struct item_table *table, enum outbox_folder folder, size_t *position);
/* Whether an item shown there has this id from the service (of one shown without memory for it, nothing is
 * known). What is shown keeps its id until it is hidden. */
bool item_table_has_id(const struct item_table *table, enum outbox_folder folder, const char *id);
/* Shown or reserved. */
bool item_table_is_taken(const struct item_table *table, enum outbox_folder folder, const char *name);
/* Keeps a name for an item that will be shown there: item_table_show() of it cannot fail. `name` lives as
 * long as that lasts. 0 or -ENOMEM. */
int item_table_reserve(struct item_table *table, enum outbox_folder folder, const char *name);
void item_table_unreserve(struct item_table *table, enum outbox_folder folder, const char *name);
/* Under its envelope's name, which is reserved or another item's (which is hidden by it). */
void item_table_show(struct item_table *table, enum outbox_folder folder, struct item *item);
/* If it is the one shown under its name. */
void item_table_hide(struct item_table *table, enum outbox_folder folder, struct item *item);

/* `name`, which the item has had, or would have, there: found until `until_ms` (monotonic, later than those
 * of all others). Without memory there is none. */
void item_table_add_former_name(struct item_table *table, enum outbox_folder folder, const char *name,
                                const struct item *item, int64_t now_ms, int64_t until_ms);
/* Whether any item had this name there. */
bool item_table_has_former_name(const struct item_table *table, enum outbox_folder folder, const char *name);
/* The settled item that left under this name and that the asker made (`is_by`: item_was_made_by), or read
 * (item_was_read_by), or NULL: the latest. */
struct item *item_table_find_by_former_name(const struct item_table *table, enum outbox_folder folder,
                                            const char *name, int64_t now_ms,
                                            bool (*is_by)(const struct item *, const struct item_asker *),
                                            const struct item_asker *asker);
/* Whether a former name of this item is known still. */
bool item_table_has_left(const struct item_table *table, uint64_t number);
/* Forgets the former names of an item, and what the asker made that left under them before, so that the
 * asker finds nothing there any more; whether there were any. */
bool item_table_forget_former_names(struct item_table *table, uint64_t number,
                                    const struct item_asker *asker);

/* Of those who wrote the item, one that has read a message which is in outbox/, or left it and has a former
 * name; or NULL. Valid as long as the lock is held. */
const struct item_asker *item_table_find_reader(const struct item_table *table, const struct item *wrote,
                                                int64_t now_ms);

/* ================================================================ names */

enum {
    ITEM_NAME_MAX_BYTES = 255 - 13, /* where NAME.receipt.json must fit beside it */
};

/* Whether the name may stand in this folder, outbox/ or attachments/. 0, -EPERM (a receipt's), -ENAMETOOLONG,
 * -EILSEQ (not UTF-8; of an attachment, whose name is sent in a header, also: a control character). */
int item_check_name(enum outbox_folder folder, const char *name);
bool item_is_receipt_name(const char *name);
/* Whether a file of this name is never sent: a temporary file, and the backup of a message, which would be
 * sent as a second message. A backup may be attached. */
bool item_is_never_sent(enum envelope_kind kind, const char *name);

/* `name`, shortened so that a receipt's name fits beside it, and numbered so that it is free in the folder.
 * The lock is held. The caller frees; NULL without memory. */
char *item_table_choose_name(const struct item_table *table, enum outbox_folder folder, const char *name);

#endif
