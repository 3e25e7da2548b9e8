/* SPDX-License-Identifier: MIT */
/*
 * Changes to the index. Each change is written to the cache, then shown, then reported to the listener.
 * Emails that cannot be written (a full disk) are not shown until a later list has them again. Inboxes are
 * shown even then; their rows are written with their next emails.
 *
 * New and changed emails are collected in a batch, which email_batch_flush() writes in one transaction and
 * shows all at once.
 *
 * A new email gets its number and file name when it is put into a batch; until the flush its entry is marked
 * as gone, and has no record. choose_name() skips the names of all emails of the inbox, also of those removed
 * since the start, and write_lock is held until the name is entered. If the flush fails, the entry keeps key,
 * number and name, and the next list fills it. The name lasts as long as the email's row.
 *
 * When an inbox is removed or returns, so are its emails, which are not reported one by one.
 *
 * One complete list without an email or inbox removes nothing, since a service may list only part of the
 * mail while it starts. The email or inbox is removed when another complete list, INDEX_CONFIRM_MS later or
 * more, lacks it, and no list in between had it.
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
    EMAIL_BATCH_MAX_BYTES = 512 * 1024, /* a batch with more bytes of JSON is full */
};

struct batch_item {
    enum store_change change; /* the flush tells STORE_RETURNED from STORE_ADDED */
    size_t offset;            /* where the email's JSON begins in email_batch.json */
    struct email_view view;   /* the email's new values */
};

struct email_batch {  /* empty: all zeros */
    uint32_t inbox;   /* number of the inbox of all items */
    uint32_t listing; /* number of the listing that has all items, or 0 */
    uint32_t number;  /* each batch gets a number with its first item */
    size_t len;
    struct strbuf json; /* the JSON of all items */
    struct batch_item items[EMAIL_BATCH_MAX];
};

void email_batch_release(struct email_batch *batch);

/* Writes, shows and reports the emails. Empties the batch, even after a failure: a later list has the emails
 * again. Return: 0; -ENOENT when the inbox is gone; -errno of the cache, such as
 * -ENOSPC or -EIO. */
int email_batch_flush(struct email_batch *batch, struct index *index);

/* Puts a new or changed email into `batch`, which is flushed first if it is full, is of another inbox, or has
 * the same key. The flush announces a new email by a `mail` event, unless its inbox is being
 * backfilled. Return: 0; -ENOENT when there is no such inbox; -EMSGSIZE when the record or its key is too
 * long; -EDQUOT as index_check_room_locked(); -EOVERFLOW when the numbers run out; the errors of
 * email_batch_flush(). */
int index_put_email(struct index *index, struct email_batch *batch, uint32_t inbox,
                    const struct email_record *record, bool *ret_is_changed);

/* Puts one email into the index, and shows it. Return: as index_put_email(). */
int index_put_one_email(struct index *index, uint32_t inbox, const struct email_record *record);

enum {
    INDEX_CONFIRM_MS = 60 * 1000
};

/* Call after the complete list `listing` (with quarantined emails if `with_quarantined`). Removes the emails
 * that this list confirms to be gone, and returns their number. Sets *ret_is_lacking if the list also
 * lacks emails that are not removed yet. */
size_t index_remove_unseen(struct index *index, uint32_t inbox, uint32_t listing, bool with_quarantined,
                           bool *ret_is_lacking);

/* Returns true if an inbox other than inboxes.of_no_name has an email with this key. */
bool index_has_key_in_named_inbox(struct index *index, const char *key);

/* ---------------------------------------------------------------- inboxes */

/* Adds or updates an inbox. `listing`: number of the list that has it, or 0. The origins INBOX_FROM_MAIL and
 * INBOX_OF_NO_NAME do not update a known inbox. `ret_number` may be NULL. Return: 0; -EMSGSIZE when the
 * record is too long; -EDQUOT as index_check_room_locked(); -EBADMSG when there are too many
 * inboxes. */
int index_put_inbox(struct index *index, const struct inbox_record *record, enum inbox_origin origin,
                    uint32_t listing, uint32_t *ret_number);

/* Adds the inbox for emails that name no inbox, unless it exists. Return: as index_put_inbox(). */
int index_put_inbox_of_no_name(struct index *index, uint32_t *ret_number);

/* Call after the complete list of inboxes `listing`. Removes the inboxes that the list confirms to be gone,
 * except inboxes.of_no_name, and those that are known only from emails, while they have any. */
void index_end_inbox_list(struct index *index, uint32_t listing);

/* Returns how many inbox numbers were given so far. */
uint32_t index_count_inbox_numbers(struct index *index);

/* Counts the emails of the inbox that were added, changed or removed since the start. */
uint64_t index_count_changes(struct index *index, uint32_t number);

/* Call when all mail of the inbox is known: later mail is then announced. */
void index_end_backfilling(struct index *index, uint32_t number);

/* Call when the folders of all inboxes show other names: advances their times, and reports each inbox. */
void index_touch_inboxes(struct index *index);

/* Call when the service has listed quarantined emails. The first time in a mount, the folders of all inboxes
 * show .invalid/. They keep their times: most mounts find this out again. */
void index_set_quarantine_shown(struct index *index);

#endif
