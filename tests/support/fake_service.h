/* SPDX-License-Identifier: MIT */
/*
 * A mail_service in memory for unit tests. By default all calls succeed: it lists the emails that a test
 * added, creates inboxes, accepts uploads and sends. A test scripts outcomes of calls, stops calls at a gate,
 * and reads the record of calls. All functions may be called from any thread. If a test waits for more than
 * 20 seconds of real time, the program ends with a message.
 *
 * Emails are listed newest first, within the query's limit.
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

/* How one call ends. All zeros for the default behaviour, with SERVICE_OK. */
struct fake_outcome {
    enum service_outcome outcome;
    int http_status;        /* 0 for 200, if the outcome is SERVICE_OK */
    int error;              /* 0 for an errno that fits `outcome`, if `outcome` is not SERVICE_OK */
    int64_t retry_after_ms; /* 0 for no Retry-After (-1 in the result) */
    bool is_foreign;        /* a proxy or a login page answered in the service's place */
    const char *detail;     /* copied; NULL for a default text, if the outcome is not SERVICE_OK */
    const char *id;         /* upsert, upload, send: id in the answer, copied; NULL for a new id */
    bool without_id;        /* upsert, upload, send: the answer has no id; mark: the answer has no record */
    bool happens;           /* upsert, send, mark: the call takes effect although the outcome is not OK */
    const char *of; /* a literal: applies only to calls whose fake_record.text it is, such as those for this
                       inbox or email; NULL for all */
    unsigned int records; /* listings whose outcome is not OK: records delivered before the error */
    bool ignores_term;    /* listings: the search term is ignored */
    const char *unread;   /* a literal. list_emails: id of an email that cannot be read, or NULL */
};

/* A recorded call. The fake service owns the strings, and fake_service_free() frees them. */
struct fake_record {
    const char *text;   /* list_emails: the inbox id or NULL; upsert, send: the request; upload: the name;
                           content, attachment, raw, mark: the email's id */
    const char *key;    /* send: the idempotency key; upload: the content type; lists: the search term or
                           NULL; attachment: its id; mark: "true" or "false" */
    const char *bytes;  /* upload: the bytes */
    size_t len;         /* upload: length of `bytes` */
    unsigned int limit; /* lists of emails: the query's limit */
    int64_t timeout_ms; /* upsert, mark: the caller's time-out */
    bool is_repeat;     /* send: an earlier attempt may have been accepted */
    bool was_cancelled; /* the call ended at the gate because its cancel was set */
};

struct fake_service;

/* Never NULL. */
struct fake_service *fake_service_new(void);
/* No call may be under way. `fake` may be NULL. */
void fake_service_free(struct fake_service *fake);

struct mail_service *fake_service_as_service(struct fake_service *fake);

/* ---- scripting */

/* Scripts the outcome of the next call of this kind that `of` selects and that has no outcome yet. */
void fake_service_push(struct fake_service *fake, enum fake_call call, struct fake_outcome outcome);
/* Sets the outcome of calls of this kind that are not scripted. All zeros restore the default behaviour. */
void fake_service_set(struct fake_service *fake, enum fake_call call, struct fake_outcome outcome);
/* After `false`, calls that are not scripted end with SERVICE_RETRY, EHOSTUNREACH; `true` undoes this. */
void fake_service_set_reachable(struct fake_service *fake, bool is_reachable);
void fake_service_set_capabilities(struct fake_service *fake,
                                   const struct service_capabilities *capabilities);

/* From now on an unchanged list of emails is answered with 304 and no records, if the query allows that. */
void fake_service_use_etags(struct fake_service *fake);

/* Calls of this kind wait before they take effect, until the gate opens or their cancel is set (then
 * SERVICE_RETRY, EINTR). */
void fake_service_close_gate(struct fake_service *fake, enum fake_call call);
void fake_service_open_gate(struct fake_service *fake, enum fake_call call);
/* Lets `count` calls pass, those at the gate first; the gate stays closed for all others. */
void fake_service_let_pass(struct fake_service *fake, enum fake_call call, unsigned int count);
/* Waits until at least `count` calls of this kind wait at the gate. */
void fake_service_wait_at_gate(struct fake_service *fake, enum fake_call call, unsigned int count);

/* ---- recorded calls */

/* Returns how many records all lists of emails together delivered. */
unsigned int fake_service_count_delivered(struct fake_service *fake);

/* Returns how many calls of this kind have ended. */
unsigned int fake_service_count(struct fake_service *fake, enum fake_call call);
/* Waits until at least `count` calls of this kind have ended. */
void fake_service_wait_count(struct fake_service *fake, enum fake_call call, unsigned int count);
/* Returns the `index`th call of this kind (from 0, in order of arrival), which must have arrived. */
struct fake_record fake_service_get(struct fake_service *fake, enum fake_call call, unsigned int index);
/* Returns the largest number of calls of this kind that were under way at one time. */
unsigned int fake_service_most_at_once(struct fake_service *fake, enum fake_call call);
/* Returns how many sends took effect. With `keys_count`, sends with the same idempotency key count once. */
unsigned int fake_service_count_sent(struct fake_service *fake, bool keys_count);

/* ---- data of the fake service. `json` is an object as a service would send it */

void fake_service_add_inbox(struct fake_service *fake, const char *json);
/* Puts an email into an inbox, as the newest. Filters use `inbox_id`; the record may lack it. */
void fake_service_add_email(struct fake_service *fake, const char *inbox_id, const char *json);
/* Adds an email whose record has these values and a date in 2026. */
void fake_service_add_simple_email(struct fake_service *fake, const char *inbox_id, const char *id,
                                   const char *subject);
/* Changes the record with this `id`. */
void fake_service_replace_email(struct fake_service *fake, const char *id, const char *json);
void fake_service_remove_email(struct fake_service *fake, const char *id);
/* Sets the record `json` as the content of an email, received or sent. Without content the answer is 404. The
 * first answer with content makes the capability known, as raw bytes do for raw messages. */
void fake_service_set_content(struct fake_service *fake, const char *id, const char *json);
/* Sets the bytes of an attachment, or of the raw message if `attachment_id` is NULL. Copied. */
void fake_service_set_bytes(struct fake_service *fake, const char *id, const char *attachment_id,
                            const void *bytes, size_t len);
/* Adds an email that was sent from the inbox, as the newest. */
void fake_service_add_outbound(struct fake_service *fake, const char *inbox_id, const char *json);
void fake_service_remove_outbound(struct fake_service *fake); /* removes all sent emails */
void fake_service_remove_inbox(struct fake_service *fake, const char *id);

#endif
