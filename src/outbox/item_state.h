/* SPDX-License-Identifier: MIT */
/*
 * The states of an item, and the one table of which may follow which. docs/OUTBOX.md draws it. A state also
 * says in which folder an item shows, so that changing the state moves it.
 */
#ifndef INBOXFS_OUTBOX_ITEM_STATE_H
#define INBOXFS_OUTBOX_ITEM_STATE_H

#include <stdbool.h>

#include "mail/envelope.h"

enum item_state {
    ITEM_GONE,        /* not in the spool: before it is made, and after it is removed */
    ITEM_WRITING,     /* open for writing, or created and not yet closed for the last time */
    ITEM_HELD,        /* closed, and never sent as it is: empty, or of a never-sent name */
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

/* As in envelopes and receipts: "writing", "unknown outcome". */
const char *item_state_name(enum item_state state);
/* 0 or -EBADMSG. ITEM_GONE has no name. */
int item_state_from_name(const char *name, enum item_state *ret_state);

/* Whether `to` may follow `from`. */
bool item_state_may_follow(enum item_state from, enum item_state to);

/* The enum outbox_folder where it shows, or -1: nowhere. */
int item_state_folder(enum item_state state, enum envelope_kind kind);

/* Handed in, and its end not yet known. */
bool item_state_is_unsettled(enum item_state state);
/* In failed/. */
bool item_state_is_failure(enum item_state state);
/* Has a receipt beside it. */
bool item_state_has_receipt(enum item_state state);

#endif
