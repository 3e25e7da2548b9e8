/* SPDX-License-Identifier: MIT */
/*
 * What the spool remembers of an item beside its content: the envelope, a small JSON file that is replaced as
 * a whole. Everything that must survive a power cut is in it. The state is kept as text here: which states
 * there are and what may follow what is the outbox's to say.
 */
#ifndef INBOXFS_MAIL_ENVELOPE_H
#define INBOXFS_MAIL_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

enum {
    ENVELOPE_MAX_BYTES = 64 * 1000 * 1000,
    ENVELOPE_REQUEST_MAX_BYTES = 20 * 1000 * 1000, /* a longer one is sent, but not recorded */
    ENVELOPE_KEY_SIZE = 37,                        /* a UUID in text and its NUL */
    ENVELOPE_DIGEST_SIZE = 65,                     /* hash_sha256() */
    ENVELOPE_STATE_SIZE = 24,
};

enum envelope_kind {
    ENVELOPE_MESSAGE,
    ENVELOPE_ATTACHMENT,
};

/* A file of attachments/ whose content, as it was at hand-in, belongs to the message. */
struct envelope_attachment {
    uint64_t content; /* that attachment's envelope.content */
    char *name;
};

struct envelope {
    uint64_t number;
    uint64_t order; /* place in the queue: grows from hand-in to hand-in */
    enum envelope_kind kind;
    char state[ENVELOPE_STATE_SIZE];
    char *name;                        /* in the folder where the state shows it */
    char digest[ENVELOPE_DIGEST_SIZE]; /* of a message's content when it was handed in; "" before */
    char key[ENVELOPE_KEY_SIZE];       /* idempotency key; "": none yet */

    /* of a message */
    char *answers;    /* what reply_make() (reply.h) made of the email it answers; NULL: none */
    char *from;       /* the sending address, settled at hand-in */
    char *replies_to; /* id of the email that its In-Reply-To or References name, as far as that was known at
                         hand-in; or NULL */
    char **not_carried; /* words: what of the message the request does not say */
    size_t not_carried_len;
    char sequence[ENVELOPE_DIGEST_SIZE]; /* messages of one sequence go out in order (draft_sequence()) */
    struct envelope_attachment *attachments;
    size_t attachments_len;
    char **part_ids; /* pool ids of its MIME parts, NULL: not uploaded yet. They belong to the key */
    size_t part_ids_len;
    uint64_t supersedes; /* number of the message whose name and place it took, as an edited text; 0: none */
    bool is_hidden; /* not shown: an attachment, kept for the messages that bind it; or a message whose place
                       an edited one took */
    bool may_have_been_sent; /* an attempt since hand-in had an unknown outcome */
    bool was_unknown;    /* so had an earlier hand-in of the same content: a refusal now does not mean that
                            it was never sent. Belongs to the key */
    bool was_reuploaded; /* its pool ids were refused once, and all was uploaded again */
    int64_t quota_day;   /* UTC day in whose count of sent emails it is; 0: none */
    char *request;       /* as sent last, JSON text; NULL: never sent, or not loaded (has_request) */
    bool has_request;

    /* of an attachment */
    uint64_t content; /* its own number; version 0.1 gave it another one after each replacement */
    int64_t size;     /* when it was handed in; 0: not yet, or by a version that did not write it down */

    /* how it went */
    unsigned int attempts;
    int64_t accepted_ms; /* since 1970; 0: not yet */
    int64_t finished_ms; /* 0: not yet */
    int http_status;     /* of the last answer; 0: none */
    char *id;            /* the sent email's, or the pool's; or NULL */
    char *error;         /* words, or NULL */
};

void envelope_release(struct envelope *envelope);

/* 0 or -ENOMEM. */
int envelope_copy(const struct envelope *envelope, struct envelope *ret_envelope);

/* Forgets what the last hand-in led to: bindings, attempts, times, result. Keeps number, name, kind, key,
 * digest, was_unknown, pool ids of parts, what it answers, what it replies to and what it supersedes. */
void envelope_clear_outcome(struct envelope *envelope);

/* So many parts, none of them uploaded yet. 0 or -ENOMEM. */
int envelope_new_part_ids(struct envelope *envelope, size_t len);

/* Adds words to not_carried. 0 or -ENOMEM. */
int envelope_add_not_carried(struct envelope *envelope, const char *words);

/* 0, -EPROTO (of a newer version), -EBADMSG (torn or foreign), -ENOMEM. */
int envelope_parse(const char *text, size_t len, struct envelope *ret_envelope);

/* 0 or the buffer's error. A request that is not loaded must not be lost: -EINVAL. */
int envelope_format(const struct envelope *envelope, struct strbuf *out);

/* ---------------------------------------------------------------- receipts */

/* NAME.receipt.json says what became of something handed in, for people and scripts (filesystem contract,
 * "Sending"). */
#define RECEIPT_SUFFIX ".receipt.json"

/* The receipt of an item with this envelope; its request must be loaded. 0 or the buffer's error. */
int receipt_format(const struct envelope *envelope, struct strbuf *out);

/* What the service tells of sent mail, from its record there: `status` and `latest_event`, as members to go
 * before the end of a receipt (receipt_end()). "" where the record has neither. 0 or -ENOMEM; -EBADMSG: no
 * record. */
int receipt_delivery_format(const char *record, size_t len, struct strbuf *out);

/* Where, in the text of a receipt, its last members end. */
size_t receipt_end(const char *receipt, size_t len);

#endif
