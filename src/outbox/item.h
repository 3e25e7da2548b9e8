/* SPDX-License-Identifier: MIT */
/*
 * An item of the spool in memory: its envelope, and what is only true while the daemon runs. Every field but
 * the number is protected by the outbox's lock; the envelope is changed only by the thread that has claimed
 * the item, so that this thread may read it without the lock.
 */
#ifndef INBOXFS_OUTBOX_ITEM_H
#define INBOXFS_OUTBOX_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/backoff.h"
#include "base/cancel.h"
#include "mail/envelope.h"
#include "outbox/item_state.h"
#include "outbox/outbox.h"

struct lane;

enum {
    ITEM_WRITERS_MAX = 16, /* processes remembered as writers; beyond, every process counts as one */
    ITEM_READERS_MAX = 4,
};

enum item_claim {
    CLAIM_NONE,
    CLAIM_DISK,    /* for as long as the disk takes: wait for it */
    CLAIM_SERVICE, /* for as long as the service takes: nobody waits for that */
};

/* While its sender waits for the service, another may change the message's name: see core_lend(). */
enum item_lending {
    LENDING_NONE,
    LENDING_LENT,
    LENDING_BORROWED,
};

/* Who asks. Where ids cannot be seen, in another pid namespace, both are 0, and all count as one. */
struct item_asker {
    pid_t task;
    pid_t process;
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
    size_t receipt_bytes;    /* exact; 0: none */
    unsigned int generation; /* grows when the content file is exchanged for another */
    unsigned int touches;    /* grows before and after its times are set */
    bool is_dirty;           /* written since the last fsync of its content */
    bool is_durable;         /* its names and first envelope have reached the disk */
    bool is_unsaved;         /* the envelope on disk is older than this one: the disk failed */

    /* writing */
    unsigned int writers; /* open handles that may write */
    char *interruption;   /* why what was written must not go out; NULL: no reason */
    const char *last_end; /* why it must not go out unless somebody else closes it, too; NULL: no reason */
    pid_t opener;         /* the task that opened it for writing, or process that moved it, last; -1: none */
    pid_t wrote[ITEM_WRITERS_MAX];
    size_t wrote_len; /* ITEM_WRITERS_MAX + 1: nobody can tell who did not */

    pid_t read_by[ITEM_READERS_MAX]; /* processes that read it while it waited, the latest */
    unsigned int reads;

    /* waiting its turn */
    struct item *next;
    struct item *previous;
    struct lane *lane; /* of a message; NULL: in no queue */
    bool is_queued;
    int64_t next_attempt_ms; /* monotonic; 0: at once */
    bool is_woken;           /* during its attempt somebody asked to try now: no delay after it */
    struct cancel *upload;   /* borrowed: calls off the upload under way; NULL: there is none */
    bool is_called_off;      /* it was, by somebody who waits to change the file */
    struct backoff backoff;

    /* who needs whom */
    struct item **bound; /* a message's attachments, as envelope.attachments; NULL where it is lost */
    size_t bound_len;
    unsigned int users;   /* an attachment's messages that are not settled */
    unsigned int pending; /* of them, those that are just being handed in */
    bool is_loose;        /* it stands in outbox->loose_ends (binding.h), linked by: */
    struct item *next_loose;
    int64_t remove_again_ms; /* monotonic; unneeded, and the disk did not let it go */

    uint64_t failure; /* when it failed, counted in failures of this run; 0: it did not */
    bool is_untold;   /* settled, and the world is just being told */
};

/* An item with one reference and an empty envelope (its number set), or NULL. */
struct item *item_new(uint64_t number);
struct item *item_ref(struct item *item);
void item_unref(struct item *item);

/* Where it shows, or -1: nowhere. */
int item_folder(const struct item *item);
void item_stat(const struct item *item, enum outbox_aspect aspect, struct outbox_stat *ret);

/* Whether its content, under its key, may have gone out already. */
bool item_may_have_been_sent(const struct item *item);

/* Takes size and mtime from its open content file. */
void item_update_stat(struct item *item, int fd);

/* Remembers that a process wrote (0: one that is not known); whether one did. */
void item_add_writer(struct item *item, pid_t process);
bool item_was_written_by(const struct item *item, pid_t process);
/* Whether the asker opened it for writing, wrote it, or moved it where it is. */
bool item_was_made_by(const struct item *item, const struct item_asker *asker);
/* Remembers that a process read it; whether one did. */
void item_add_reader(struct item *item, pid_t process);
bool item_was_read_by(const struct item *item, pid_t process);
/* From now on it must not go out; the first reason stays. */
void item_interrupt(struct item *item, const char *why);

#endif
