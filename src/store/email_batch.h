/* SPDX-License-Identifier: MIT */
/*
 * Emails that are on their way into the mirror: those of an answer that came together are written with one
 * write, and shown at one moment. Nobody sees them before email_batch_flush(), which is to follow before the
 * network is waited for.
 */
#ifndef INBOXFS_STORE_EMAIL_BATCH_H
#define INBOXFS_STORE_EMAIL_BATCH_H

#include "mail/email_record.h"
#include "store/mirror.h"

enum {
    EMAIL_BATCH_MAX = 512,
    EMAIL_BATCH_MAX_BYTES = 512 * 1024, /* then it is full, however few there are */
    BATCH_HASH_BITS = 16 * EMAIL_BATCH_MAX,
};

/* The hashes of what is in a batch. The bits rule most of them out at once. */
struct batch_hashes {
    uint32_t values[EMAIL_BATCH_MAX];
    uint64_t bits[BATCH_HASH_BITS / 64];
};

struct email_batch { /* empty: all zeros */
    uint32_t inbox;  /* whose these are */
    uint32_t look;   /* that met them */
    size_t len;
    struct record_batch frames;
    struct batch_hashes keys;
    struct batch_hashes names;
    size_t offsets[EMAIL_BATCH_MAX]; /* of the frames' payloads */
    struct email_entry entries[EMAIL_BATCH_MAX];
};

void email_batch_release(struct email_batch *batch);

bool email_batch_is_full(const struct email_batch *batch);

/* Whether one in the batch may have this hash of its key, or of its name. */
bool email_batch_has_key(const struct email_batch *batch, uint32_t key_hash);
bool email_batch_has_name(const struct email_batch *batch, uint32_t name_hash);

/* Adds an email that the inbox does not hold, to a batch that is not full and holds none of this key or name,
 * which are hashed by mirror->emails. With write_lock held. 0, -ENOMEM, -EMSGSIZE. */
int email_batch_add_locked(struct email_batch *batch, struct mirror *mirror,
                           const struct email_record *record, struct hashed_text key,
                           struct hashed_text name);

/* Puts them into the mirror, and tells. The batch is empty afterwards, also on failure: then the emails are
 * fetched again another time. 0, -ENOENT (the inbox is gone), -EOVERFLOW, -ENOMEM. */
int email_batch_flush(struct email_batch *batch, struct mirror *mirror);

#endif
