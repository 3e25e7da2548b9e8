/* SPDX-License-Identifier: MIT */
/*
 * A mail_service in memory for unit tests. By default it behaves: it lists what was added, creates inboxes,
 * accepts uploads and sends. A test scripts outcomes a call, holds calls at a gate, and looks at what came.
 * All functions may be called from any thread. Whatever a test waits for here and does not come within
 * 20 seconds of real time ends the program with a message.
 *
 * Emails are listed newest first, and no more than asked for.
 */
#ifndef INBOXFS_TESTS_SUPPORT_FAKE_SERVICE_H
#define INBOXFS_TESTS_SUPPORT_FAKE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mail/mail_service.h"

enum fake_call {
    FAKE_LIST_INBOXES,
    FAKE_LIST_EMAILS,
    FAKE_UPSERT,
    FAKE_UPLOAD,
    FAKE_SEND,
    FAKE_LIST_OUTBOUND,
    FAKE_GET_CONTENT,
    FAKE_GET_ATTACHMENT,
    FAKE_GET_RAW,
    FAKE_MARK,
};

enum {
    FAKE_CALL_KINDS = FAKE_MARK + 1,
};

/* How one call ends. All zeros: SERVICE_OK as the fake does it by itself. */
struct fake_outcome {
    enum service_outcome outcome;
    int http_status;        /* 0 with SERVICE_OK: 200 */
    int error;              /* 0 with another outcome: one that fits it */
    int64_t retry_after_ms; /* 0: nothing asked for (-1 in the result) */
    bool is_foreign;        /* it is not the service's own answer */
    const char *detail;     /* NULL with another outcome: some words. Copied */
    const char *id;         /* upsert, upload, send: the id answered; NULL: one made up. Copied */
    bool without_id;        /* upsert, upload, send: OK, but the answer carries no id; mark: no record */
    bool happens;           /* upsert, upload, send: it takes effect although the outcome is not OK */
    const char *of;         /* list_emails: of this inbox's list alone, content, attachment, raw: of this
                               email alone; NULL: any. A literal */
    unsigned int records;   /* listings with an outcome that is not OK: records handed out before it */
    bool ignores_term;      /* listings: what is searched for makes no difference */
    const char *unread;     /* list_emails: the email of this id cannot be read; NULL: all can. A literal */
};

/* What came in. Strings are the fake's and live as long as it. */
struct fake_record {
    const char *text;   /* list_emails: the inbox id or NULL; upsert, send: the request; upload: the name;
                           content, attachment, raw, mark: the email's id */
    const char *key;    /* send: the idempotency key; upload: the content type; lists: the search term or
                           NULL; attachment: its id; mark: "true" or "false" */
    const char *bytes;  /* upload: the bytes */
    size_t len;         /* upload: how many; upsert: 0 */
    unsigned int limit; /* list_emails */
    int64_t timeout_ms; /* upsert */
    bool is_repeat;     /* send: an earlier attempt may have been accepted */
    bool was_cancelled; /* it ended at the gate because its cancel was set */
};

struct fake_service;

/* Never NULL. */
struct fake_service *fake_service_new(void);
/* No call may be under way. NULL-safe. */
void fake_service_free(struct fake_service *fake);

struct mail_service *fake_service_as_service(struct fake_service *fake);

/* ---- scripting */

/* The next calls of this kind (those that it is `of`) end so, one outcome a call, in the order pushed; after
 * them the default. */
void fake_service_push(struct fake_service *fake, enum fake_call call, struct fake_outcome outcome);
/* The default of all calls of this kind from now on. All zeros: it behaves again. */
void fake_service_set(struct fake_service *fake, enum fake_call call, struct fake_outcome outcome);
/* Every kind of call ends with SERVICE_RETRY, EHOSTUNREACH from now on, or behaves again. */
void fake_service_set_reachable(struct fake_service *fake, bool is_reachable);
void fake_service_set_capabilities(struct fake_service *fake,
                                   const struct service_capabilities *capabilities);

/* From now on a list of emails that may be unchanged, and is, is answered with 304 and no records. */
void fake_service_use_etags(struct fake_service *fake);

/* Calls of this kind stop before anything happens, until the gate opens or their cancel is set (then
 * SERVICE_RETRY, EINTR). */
void fake_service_close_gate(struct fake_service *fake, enum fake_call call);
void fake_service_open_gate(struct fake_service *fake, enum fake_call call);
/* Lets `count` calls pass, those at the gate first; it stays closed for the rest. */
void fake_service_let_pass(struct fake_service *fake, enum fake_call call, unsigned int count);
/* Waits until at least `count` calls of this kind stand at the gate. */
void fake_service_wait_at_gate(struct fake_service *fake, enum fake_call call, unsigned int count);

/* ---- what came */

/* Records that all lists of emails together delivered. */
unsigned int fake_service_count_delivered(struct fake_service *fake);

/* Calls of this kind that have ended. */
unsigned int fake_service_count(struct fake_service *fake, enum fake_call call);
/* Waits until at least `count` calls of this kind have ended. */
void fake_service_wait_count(struct fake_service *fake, enum fake_call call, unsigned int count);
/* The `index`th (from 0, in order of arrival) call of this kind; it must have arrived. */
struct fake_record fake_service_get(struct fake_service *fake, enum fake_call call, unsigned int index);
/* Most calls of this kind under way at one time, so far. */
unsigned int fake_service_most_at_once(struct fake_service *fake, enum fake_call call);
/* Sends that took effect, one for each idempotency key when `keys_count` is true, else for each call. */
unsigned int fake_service_count_sent(struct fake_service *fake, bool keys_count);

/* ---- what it holds. `json` is an object as the service would send it */

void fake_service_add_inbox(struct fake_service *fake, const char *json);
/* Puts an email into an inbox, as the newest. `inbox_id` is what a filter looks at; the record may lack it.
 */
void fake_service_add_email(struct fake_service *fake, const char *inbox_id, const char *json);
/* The same, made up: id, inbox_id, subject and a date in 2026. */
void fake_service_add_simple_email(struct fake_service *fake, const char *inbox_id, const char *id,
                                   const char *subject);
/* Changes the record with this `id`. */
void fake_service_replace_email(struct fake_service *fake, const char *id, const char *json);
void fake_service_remove_email(struct fake_service *fake, const char *id);
/* Sets the answer for the content of an email, received or sent: `json` is the record. Without it the answer
 * is 404. A content answered makes its capability known, and raw bytes that of theirs. */
void fake_service_set_content(struct fake_service *fake, const char *id, const char *json);
/* The bytes of an attachment; of the raw message where `attachment_id` is NULL. Copied. */
void fake_service_set_bytes(struct fake_service *fake, const char *id, const char *attachment_id,
                            const void *bytes, size_t len);
/* An email that was sent from the inbox, as the newest. */
void fake_service_add_outbound(struct fake_service *fake, const char *inbox_id, const char *json);
void fake_service_remove_outbound(struct fake_service *fake); /* all */
void fake_service_remove_inbox(struct fake_service *fake, const char *id);

#endif
