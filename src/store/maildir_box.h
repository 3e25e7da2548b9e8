/* SPDX-License-Identifier: MIT */
/*
 * What is remembered of the messages of one inbox for its Maildir: by U number, by email, by the digest of
 * the email's id. U numbers are given from 1 on in the order of first sight and never again: a message that
 * is gone keeps its own, and gets it back should it return. Memory only; locks are the caller's.
 */
#ifndef INBOXFS_STORE_MAILDIR_BOX_H
#define INBOXFS_STORE_MAILDIR_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
    bool is_gone; /* the inbox does not hold it now */
};

struct maildir_box {
    uint32_t number; /* in the file */
    uint32_t uidvalidity;
    char *id;                   /* the inbox's; owned */
    struct maildir_mail *mails; /* the place of U number n is n - 1 */
    uint32_t len;
    uint32_t capacity;
    struct number_table by_email;      /* of places */
    struct number_table by_digest;     /* of places */
    uint32_t present[MAILDIR_FOLDERS]; /* messages that are not gone */
    int64_t changed_ns[MAILDIR_FOLDERS];
    bool is_stale; /* the inbox may hold other emails than these */
};

/* Empty, and stale. NULL without memory. */
struct maildir_box *maildir_box_new(uint32_t number, uint32_t uidvalidity, const char *id);
void maildir_box_free(struct maildir_box *box); /* NULL-safe */

/* Each NULL: none. */
struct maildir_mail *maildir_box_find_uid(const struct maildir_box *box, uint32_t uid);
struct maildir_mail *maildir_box_find_email(const struct maildir_box *box, uint32_t email);
struct maildir_mail *maildir_box_find_digest(const struct maildir_box *box, const unsigned char *digest);

/* Makes room for `more` new messages, and for as many emails to be bound. 0, -ENOMEM, or -EOVERFLOW. */
int maildir_box_reserve(struct maildir_box *box, uint32_t more, uint32_t more_emails);

/* Adds a message or, where its U number is known, replaces what was known of it (not its email). A place that
 * lies beyond the next one leaves the ones between without a message. There must be room for a next one; for
 * others this makes room. 0, -EBADMSG (not a U number), -ENOMEM. */
int maildir_box_put(struct maildir_box *box, const struct maildir_mail *mail);

/* From now on the message is found by this email. There must be room. */
void maildir_box_bind(struct maildir_box *box, struct maildir_mail *mail, uint32_t email);

/* Moves the folder's time on: to `now_ns`, and past what it was in any case. */
void maildir_box_touch(struct maildir_box *box, unsigned int folder, int64_t now_ns);

#endif
