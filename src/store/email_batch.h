/* SPDX-License-Identifier: MIT */
/*
 * Emails that are on their way into the mirror, new ones and those that changed: those of an answer that came
 * together are written in one transaction, and shown at one moment. Nobody sees them before
 * email_batch_flush(), which is to follow before the network is waited for.
 */
#ifndef INBOXFS_STORE_EMAIL_BATCH_H
#define INBOXFS_STORE_EMAIL_BATCH_H

#include "base/strbuf.h"
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

/* What becomes of an email. */
enum mirror_put {
    MIRROR_UNCHANGED,
    MIRROR_CHANGED,
    MIRROR_MOVED, /* it is held back from now on, or no longer */
    MIRROR_ADDED,
};

struct batch_item {
    enum mirror_put put;
    uint32_t number;          /* NUMBER_NONE: it gets one */
    bool is_new;              /* in this mount */
    size_t offset;            /* of its JSON */
    struct email_entry entry; /* as it is to be */
};

struct email_batch { /* empty: all zeros */
    uint32_t inbox;  /* whose these are */
    uint32_t look;   /* that met them */
    size_t len;
    struct strbuf texts; /* the JSON of all */
    struct batch_hashes keys;
    struct batch_hashes names;
    struct batch_item items[EMAIL_BATCH_MAX];
};

void email_batch_release(struct email_batch *batch);

bool email_batch_is_full(const struct email_batch *batch);

/* Whether one in the batch may have this hash of its key, or of its name. */
bool email_batch_has_key(const struct email_batch *batch, uint32_t key_hash);
bool email_batch_has_name(const struct email_batch *batch, uint32_t name_hash);

/* Adds an email to a batch that is not full and holds none of this key, which is hashed by mirror->emails; so
 * is the name, of which the batch holds none where `number` is NUMBER_NONE. Else that is the email whose
 * record changes, and its name is kept. With write_lock held. 0, -ENOMEM, -EMSGSIZE. */
int email_batch_add_locked(struct email_batch *batch, struct mirror *mirror, enum mirror_put put,
                           uint32_t number, const struct email_record *record, struct hashed_text key,
                           struct hashed_text name);

/* Puts them into the mirror, and tells. The batch is empty afterwards, also on failure: then the emails are
 * fetched again another time. 0, -ENOENT (the inbox is gone), -EOVERFLOW, -ENOMEM. */
int email_batch_flush(struct email_batch *batch, struct mirror *mirror);

#endif
