/* SPDX-License-Identifier: MIT */
/*
 * The service as the rest of the program sees it: list, send, upload, upsert, and what the Extended endpoints
 * add (interface section 3). `api` implements it over REST; tests implement it in memory. Calls block up to
 * their deadlines and may be made from any thread at once.
 */
#ifndef INBOXFS_MAIL_MAIL_SERVICE_H
#define INBOXFS_MAIL_MAIL_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/wait.h"
#include "mail/email_content.h"
#include "mail/email_record.h"
#include "mail/inbox_record.h"

/* A caller branches on this. The one table that makes these of HTTP statuses is in api (filesystem contract,
 * "what happened | what follows"). */
enum service_outcome {
    SERVICE_OK,
    SERVICE_RETRY, /* nothing happened at the service: no connection, failure before the request was written,
                      429, 503, a 403 or 407 of a proxy, cancelled before; or it was a question. Worth another
                      try later */
    SERVICE_UNAUTHORIZED, /* 401, 403 of the service's own: the key; nothing happened */
    SERVICE_REJECTED,     /* 3xx, other 4xx: the service refuses this for good; nothing happened */
    SERVICE_ABSENT,       /* the service lacks this endpoint (interface section 3, "Absence") */
    SERVICE_UNKNOWN, /* it may have happened: connection lost after the request was written, 408, other 5xx, a
                        2xx with a body that is neither empty nor JSON */
};

struct service_result {
    enum service_outcome outcome;
    int http_status; /* 0: no answer */
    int error;       /* 0 when SERVICE_OK (but see list_emails); else the positive errno that fits a system
                        call: EHOSTUNREACH, EMFILE, ENFILE (no connection can be made here),
                        ETIMEDOUT, EACCES, EAGAIN, EEXIST (409), EFBIG (413, or an answer longer than the
                        caller takes), EINVAL, EIO, EINTR, ENOSYS; ENOENT: no such email or attachment */
    bool is_foreign; /* another on the way answered in the service's place: a proxy, a login page */
    int64_t retry_after_ms; /* what the service asked for, an hour at most; -1: nothing */
    char *detail; /* in words that a user can act on, control characters removed, at most 1 kB; NULL when
                     OK without an error. Owned: service_result_release() */
};

static inline void service_result_release(struct service_result *result)
{
    free(result->detail);
    *result = (struct service_result){.retry_after_ms = -1};
}

/* What is known of the server by now (interface sections 2 and 3). */
enum service_capability {
    CAPABILITY_UNKNOWN,
    CAPABILITY_PRESENT,
    CAPABILITY_ABSENT,
};

struct service_capabilities {
    enum service_capability inbox_list;      /* GET /inbox */
    enum service_capability idempotency_key; /* ABSENT: it refuses the field. PRESENT is never concluded from
                                                outside: UNKNOWN means that it was not refused */
    enum service_capability from_address_text; /* ABSENT: from_address must be an object */
    enum service_capability content;           /* GET /email/{id}, and with it its attachments */
    enum service_capability raw;               /* GET /email/{id}/raw */
    enum service_capability outbound;          /* GET /email/outbound */
};

struct service_counters {
    uint64_t requests; /* HTTP requests made */
    uint64_t failures; /* of them without a 2xx */
    uint64_t received_bytes;
    uint64_t sent_bytes;
};

/* Called for each record in turn, while the answer is still arriving, in the thread that lists. An inbox's is
 * the receiver's to take fields from (it is released after the call: take with TAKE_PTR what is kept). An
 * email's texts are gone after the call. Its inbox_id may be the query's. Non-zero (-errno) stops the
 * listing. A NULL for an email says that all that has arrived by now was handed on; the answer to it is not
 * looked at. */
typedef int (*inbox_sink)(void *context, struct inbox_record *record);
typedef int (*email_sink)(void *context, struct email_record *record);

enum {
    MAIL_LIST_SURPLUS = 10 * 1000,
    MAIL_INBOXES_MAX = 100 * 1000, /* in a list of inboxes */
};

struct email_query {
    const char *inbox_id; /* NULL: of all inboxes */
    unsigned int limit;   /* records asked for, at least 1 */
    size_t known; /* records that are known already. A Core server may ignore `limit`: what is known and
                     MAIL_LIST_SURPLUS records more are taken, or `limit` where that is more; then the call
                     fails (with a limit of 1, which only asks whether there is an answer, it does not) */
    const char *search_term; /* subject, bodies, attachment names; NULL: no search. A Core server may ignore
                                it and answer with everything */
    bool with_invalid;       /* what rules and checks held back, too (valid_only=false) */
    bool may_be_unchanged;   /* what the same query brought last, whole, need not be delivered again: then
                                SERVICE_OK with http_status 304, no call of the sink, *ret_count as then */
};

struct upload_request {
    const char *name;         /* the file's name in the email: valid (file_name.h) */
    const char *content_type; /* "type/subtype" */
    int fd;                   /* read from offset 0 by pread, so that it can be repeated; -1: `bytes` */
    const void *bytes;
    size_t len;
};

struct send_request {
    const char *json;            /* complete request (draft_complete_request()), from_address a string */
    const char *idempotency_key; /* never NULL */
    bool is_repeat; /* an earlier attempt with this key may have been accepted: never go on without the key
                       (a service that refuses it now: SERVICE_REJECTED) */
};

/* Which email. */
struct content_query {
    const char *email_id;
    /* The service showed just now that it has this email (raw: its content was answered). Then a 404 speaks
     * against the endpoint, and two of them of different emails mean that it is absent. */
    bool is_known_to_exist;
    /* get_content(): a longer answer is SERVICE_REJECTED, EFBIG. 0: as long as content may be
     * (EMAIL_CONTENT_MAX_BYTES). */
    uint64_t max_bytes;
};

/* The sink of bytes: written from offset 0 on. After a failure the file holds a part, or nothing. */
struct content_target {
    int fd;
    uint64_t max_bytes; /* longer: SERVICE_REJECTED, EFBIG */
};

struct mail_service;

struct mail_service_ops {
    /* All: `cancel` may be NULL; `ret` is always filled in. ret ids are the caller's, NULL when there is
     * none. */
    void (*list_inboxes)(struct mail_service *service, inbox_sink sink, void *context, struct cancel *cancel,
                         struct service_result *ret);
    /* A record whose inbox_id is not the one asked for is passed over; one without inbox_id is given it.
     * *ret_count: records the service answered with, those passed over too (to compare with the limit).
     * SERVICE_OK with EIO: the list came whole, but some of its records cannot be read. They are counted. */
    void (*list_emails)(struct mail_service *service, const struct email_query *query, email_sink sink,
                        void *context, struct cancel *cancel, unsigned int *ret_count,
                        struct service_result *ret);
    /* `request`: inbox_request_create() or _update(). `timeout_ms`: how long the caller waits. */
    void (*upsert_inbox)(struct mail_service *service, const char *request, int64_t timeout_ms,
                         struct cancel *cancel, char **ret_id, struct service_result *ret);
    void (*upload)(struct mail_service *service, const struct upload_request *request, struct cancel *cancel,
                   char **ret_id, struct service_result *ret);
    /* Sends the key, falls back to an object from_address or no key by the rules of the interface, and
     * remembers. */
    void (*send)(struct mail_service *service, const struct send_request *request, struct cancel *cancel,
                 char **ret_id, struct service_result *ret);
    /* Sent mail, in the same records (`status` is pending, sent or failed here). SERVICE_ABSENT as
     * list_inboxes(). */
    void (*list_outbound)(struct mail_service *service, const struct email_query *query, email_sink sink,
                          void *context, struct cancel *cancel, unsigned int *ret_count,
                          struct service_result *ret);
    /* SERVICE_ABSENT: the service has no content, not even for other emails; then most calls make no request
     * (now and then one does, since an absence is not for ever). *ret_content only when SERVICE_OK. */
    void (*get_content)(struct mail_service *service, const struct content_query *query,
                        struct cancel *cancel, struct email_content *ret_content, struct service_result *ret);
    /* *ret_len: the bytes written, all of them, when SERVICE_OK. get_raw(): SERVICE_ABSENT as get_content().
     * A failure to write is SERVICE_RETRY with its errno. */
    void (*get_attachment)(struct mail_service *service, const struct content_query *query,
                           const char *attachment_id, const struct content_target *target,
                           struct cancel *cancel, uint64_t *ret_len, struct service_result *ret);
    void (*get_raw)(struct mail_service *service, const struct content_query *query,
                    const struct content_target *target, struct cancel *cancel, uint64_t *ret_len,
                    struct service_result *ret);
    /* *ret_record: as it is now (the caller releases it); its key is NULL where the answer carries none. */
    void (*mark_email)(struct mail_service *service, const char *email_id, bool is_valid, int64_t timeout_ms,
                       struct cancel *cancel, struct email_record *ret_record, struct service_result *ret);
    void (*get_capabilities)(struct mail_service *service, struct service_capabilities *ret);
    void (*get_counters)(struct mail_service *service, struct service_counters *ret);
};

struct mail_service {
    const struct mail_service_ops *ops;
};

#endif
