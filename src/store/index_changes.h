/* SPDX-License-Identifier: MIT */
/*
 * Changes to the index. Each is written to the cache, shown, and reported to the listener. Emails that the
 * cache does not take (a full disk) are not shown: they are listed again another time. Inboxes are, and the
 * cache gets them with the next emails that it takes.
 *
 * Emails come one record at a time and are collected in a batch: those of an answer that came together, new
 * ones and those that changed, are written in one transaction and shown at one moment. Nobody sees them
 * before email_batch_flush(), which is to follow before the network is waited for.
 *
 * A new email gets its file name when it is put into a batch. choose_name() passes over each name that an
 * email of the inbox has, or had before the email went (since the start); a batch that has the name already
 * is flushed first. A name stays with the email for as long as the cache lasts, in its row there;
 * index_open() takes two emails of one name in an inbox for damage. email_batch_flush() looks once more for
 * keys and names that another thread added meanwhile.
 *
 * When an inbox goes or returns, so do its emails, without a word for each.
 *
 * One complete list that lacks an email or an inbox removes nothing: a service that is being set up lists
 * nothing, or half, for a while, and copies of Maildirs may be made just then. An email or inbox goes when a
 * complete list lacks it INDEX_CONFIRM_MS after the first that did, and no list had it in between.
 */
#ifndef INBOXFS_STORE_INDEX_CHANGES_H
#define INBOXFS_STORE_INDEX_CHANGES_H

#include "base/strbuf.h"
#include "mail/email_record.h"
#include "mail/inbox_record.h"
#include "store/index.h"

/* ---------------------------------------------------------------- emails */

enum {
    EMAIL_BATCH_MAX = 1024,
    EMAIL_BATCH_MAX_BYTES = 512 * 1024, /* then it is full, however few there are */
    BATCH_HASH_BITS = 16 * EMAIL_BATCH_MAX,
};

/* The hashes of what is in a batch. The bits rule most of them out at once. */
struct batch_hashes {
    uint32_t values[EMAIL_BATCH_MAX];
    uint64_t bits[BATCH_HASH_BITS / 64];
};

/* The outcome of index_put_email(). */
enum index_put {
    INDEX_UNCHANGED,
    INDEX_CHANGED,
    INDEX_MOVED, /* it is held back from now on, or no longer */
    INDEX_ADDED,
};

struct batch_item {
    enum index_put put;
    uint32_t number;          /* NUMBER_NONE: it gets one */
    bool is_new;              /* in this mount */
    size_t offset;            /* of its JSON */
    struct email_entry entry; /* as it is to be */
};

struct email_batch {  /* empty: all zeros */
    uint32_t inbox;   /* whose these are */
    uint32_t listing; /* that had them; 0: none */
    size_t len;
    struct strbuf texts; /* the JSON of all */
    struct batch_hashes keys;
    struct batch_hashes names;
    struct batch_item items[EMAIL_BATCH_MAX];
};

void email_batch_release(struct email_batch *batch);

/* Puts them into the index, and reports each. The batch is empty afterwards, also on failure: then the emails
 * are fetched again another time. 0, -ENOENT (the inbox is gone), -EAGAIN (another thread took a name that an
 * email of the batch has), -EOVERFLOW, -ENOMEM, or what the cache says: -ENOSPC, -EIO. */
int email_batch_flush(struct email_batch *batch, struct index *index);

/* Takes over what changed of an email, or adds one: that is in `batch` from then on, which is flushed first
 * when there is no room in it, or what it holds has to be known before. A new email is announced by a `mail`
 * event, unless its inbox is being backfilled. 0, -ENOENT (no such inbox), -EMSGSIZE, -EDQUOT
 * (index_check_room_locked()), -EOVERFLOW, -ENOMEM. */
int index_put_email(struct index *index, struct email_batch *batch, uint32_t inbox,
                    const struct email_record *record, enum index_put *ret_put);

enum {
    INDEX_CONFIRM_MS = 60 * 1000
};

/* After `listing` had all that the inbox holds (what is held back, too, where `with_held`): removes what this
 * list confirms to be gone. Returns how many. *ret_is_lacking: the list lacked more, which stays for now. */
size_t index_remove_unseen(struct index *index, uint32_t inbox, uint32_t listing, bool with_held,
                           bool *ret_is_lacking);

/* Returns true if an inbox other than the one that collects mail without an inbox has an email of this key.
 */
bool index_has_assigned(struct index *index, const char *key);

/* ---------------------------------------------------------------- inboxes */

/* Adds an inbox, or takes over what changed of it. `listing`: the list of inboxes that had it, or 0. A record
 * that mail alone names changes nothing of one that is known. *ret_number may be NULL. 0, -EMSGSIZE, -EDQUOT,
 * -ENOMEM, -EBADMSG (too many inboxes). */
int index_put_inbox(struct index *index, const struct inbox_record *record, enum inbox_origin origin,
                    uint32_t listing, uint32_t *ret_number);

/* The inbox that collects mail that names none. */
int index_put_inbox_of_no_name(struct index *index, uint32_t *ret_number);

/* After the list of inboxes that is `listing` was complete: it is known which there are, and those go that it
 * confirms to be gone, except where mail still names them. */
void index_end_inbox_list(struct index *index, uint32_t listing);

/* How many numbers of inboxes have been given. */
uint32_t index_inbox_numbers(struct index *index);

/* How many emails of this inbox were added, changed or removed since the start. */
uint64_t index_count_changes(struct index *index, uint32_t number);

/* Called when all mail that the inbox held is known: mail that comes from then on is announced. */
void index_end_backfilling(struct index *index, uint32_t number);

/* Gives the folder of every inbox a later modification time, because the names in it changed, and reports
 * each as changed. */
void index_touch_inboxes(struct index *index);

#endif
