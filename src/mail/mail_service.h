/* SPDX-License-Identifier: MIT */
/*
 * The interface between the program and the service: list, send, upload, upsert, and the Extended endpoints
 * (interface section 3). `api` implements it over REST; tests implement it in memory. Calls block up to their
 * deadlines. Several threads may call at once.
 */
#ifndef INBOXFS_MAIL_MAIL_SERVICE_H
#define INBOXFS_MAIL_MAIL_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/wait.h"
#include "mail/content_folder.h"
#include "mail/email_record.h"
#include "mail/inbox_record.h"

/* The result on which a caller branches. One table in `api` converts HTTP statuses to outcomes (filesystem
 * contract, "what happened | what follows"). */
enum service_outcome {
    SERVICE_OK,
    SERVICE_RETRY, /* the request had no effect, and can be repeated later: no connection, failure or cancel
                      before the request was written, 429, 503, 403 or 407 of a proxy; or a GET failed */
    SERVICE_UNAUTHORIZED, /* 401, or 403 by the service: it refuses the key; the request had no effect */
    SERVICE_REJECTED,     /* 3xx, other 4xx: a repetition would also be refused; the request had no effect */
    SERVICE_ABSENT,       /* the service lacks this endpoint (interface section 3, "Absence") */
    SERVICE_UNKNOWN, /* the request may have had its effect: connection lost after the request was written,
                        408, other 5xx, a 2xx with a body that is neither empty nor JSON */
};

struct service_result {
    enum service_outcome outcome;
    int http_status; /* 0 if there was no answer */
    int error;       /* 0 if SERVICE_OK (except list_emails); else the positive errno that fits a system
                        call: EHOSTUNREACH, EMFILE, ENFILE (no connection can be made here),
                        ETIMEDOUT, EACCES, EAGAIN, EEXIST (409), EFBIG (413, or an answer longer than the
                        caller takes), EINVAL, EIO, EINTR, ENOSYS; ENOENT: no such email or attachment */
    bool is_foreign; /* a proxy or a login page answered in the service's place */
    int64_t retry_after_ms; /* the pause that the service asked for, at most an hour; -1 if none */
    char *detail; /* a message for the user without control characters, at most 1 kB; NULL if OK without an
                     error. Owned: service_result_release() */
};

static inline void service_result_release(struct service_result *result)
{
    free(result->detail);
    *result = (struct service_result){.retry_after_ms = -1};
}

/* Abilities of the server, as far as its answers have shown them (interface sections 2 and 3). */
enum service_capability {
    CAPABILITY_UNKNOWN,
    CAPABILITY_PRESENT,
    CAPABILITY_ABSENT,
};

struct service_capabilities {
    enum service_capability inbox_list;        /* GET /inbox */
    enum service_capability idempotency_key;   /* ABSENT: the server refuses the field; UNKNOWN: it has not
                                                  refused the field yet; never PRESENT */
    enum service_capability from_address_text; /* ABSENT: from_address must be an object */
    enum service_capability content;           /* GET /email/{id} and attachments */
    enum service_capability raw;               /* GET /email/{id}/raw */
    enum service_capability outbound;          /* GET /email/outbound */
};

struct service_counters {
    uint64_t requests; /* HTTP requests made */
    uint64_t failures; /* requests without a 2xx answer */
    uint64_t received_bytes;
    uint64_t sent_bytes;
};

/* Receives the records one by one, in the thread that lists, while the answer is still arriving. Each record
 * is released after the call. An inbox_sink may take fields by TAKE_PTR; an email_sink must copy texts. The
 * inbox_id of an email may come from the query. A result of -errno stops the listing. */
typedef int (*inbox_sink)(void *context, struct inbox_record *record);
typedef int (*email_sink)(void *context, struct email_record *record);

enum {
    MAIL_LIST_SURPLUS = 10 * 1000, /* records that a list may have beyond email_query.known */
    MAIL_INBOXES_MAX = 100 * 1000, /* records in a list of inboxes */
};

struct email_query {
    const char *inbox_id; /* NULL for all inboxes */
    unsigned int limit;   /* number of records to ask for, at least 1 */
    size_t known; /* number of records that the caller has already. A Core server may ignore `limit`: the call
                     fails after `known` + MAIL_LIST_SURPLUS records, or `limit` if that is more. A call with
                     limit 1, which only asks whether the server answers, never fails for this reason */
    const char *search_term; /* sought in subject, bodies, attachment names; NULL for none. A Core server
                                may ignore the term and answer with all emails */
    bool with_invalid;       /* also lists emails that rules or checks held back (valid_only=false) */
    bool may_be_unchanged; /* an answer equal to the last complete answer to this query gives SERVICE_OK with
                              http_status 304 and the last *ret_count, without a call of the sink */
};

struct upload_request {
    const char *name;         /* the file's name in the email: valid (file_name.h) */
    const char *content_type; /* "type/subtype" */
    const void *bytes;
    size_t len;
};

struct send_request {
    const char *json;            /* result of draft_complete_request(), with from_address as a string */
    const char *idempotency_key; /* never NULL */
    bool is_repeat; /* the service may have accepted an earlier attempt with this key, so the request is never
                       sent without the key (SERVICE_REJECTED if the service refuses the key now) */
};

/* Names what is fetched of an email. */
struct content_query {
    const char *email_id;
    const char *attachment_id; /* get_bytes(): NULL for the raw message */
    /* True if the service has just shown that it has this email (for a raw message: it answered with
     * content). Then two 404s for different emails mean that the endpoint is absent. */
    bool is_known_to_exist;
    uint64_t
        max_bytes; /* a longer answer is SERVICE_REJECTED with EFBIG; at most CONTENT_MAX_BYTES for content */
};

struct mail_service;

struct mail_service_ops {
    /* In all calls `cancel` may be NULL, and *ret is always set. The caller frees *ret_id, which is NULL if
     * the service gave no id. */
    void (*list_inboxes)(struct mail_service *service, inbox_sink sink, void *context, struct cancel *cancel,
                         struct service_result *ret);
    /* Skips records of another inbox than the query's; a record without inbox_id gets the query's. *ret_count
     * counts all records of the answer, for comparison with the limit, also skipped and unreadable ones.
     * SERVICE_OK with EIO: the list is complete, but some of its records cannot be read. */
    void (*list_emails)(struct mail_service *service, const struct email_query *query, email_sink sink,
                        void *context, struct cancel *cancel, unsigned int *ret_count,
                        struct service_result *ret);
    /* `request` comes from inbox_request_create() or _update(). Waits at most `timeout_ms`. */
    void (*upsert_inbox)(struct mail_service *service, const char *request, int64_t timeout_ms,
                         struct cancel *cancel, char **ret_id, struct service_result *ret);
    void (*upload)(struct mail_service *service, const struct upload_request *request, struct cancel *cancel,
                   char **ret_id, struct service_result *ret);
    /* Sends with the key. By the rules of the interface, this and later calls leave the key out if the
     * service refuses it, and send from_address as an object if the service refuses a string. */
    void (*send)(struct mail_service *service, const struct send_request *request, struct cancel *cancel,
                 char **ret_id, struct service_result *ret);
    /* Lists sent mail as email records, whose `status` is pending, sent or failed. */
    void (*list_outbound)(struct mail_service *service, const struct email_query *query, email_sink sink,
                          void *context, struct cancel *cancel, unsigned int *ret_count,
                          struct service_result *ret);
    /* SERVICE_ABSENT: the service has no content of any email; most later calls make no request, but some do,
     * since the service may gain the endpoint. *ret_content is set only if SERVICE_OK. */
    void (*get_content)(struct mail_service *service, const struct content_query *query,
                        struct cancel *cancel, struct content_folder *ret_content,
                        struct service_result *ret);
    /* Writes an attachment or a raw message to `fd`, from offset 0 on, also a part of it before a failure;
     * *ret_len is its length if SERVICE_OK. For a raw message SERVICE_ABSENT is as in get_content(). A
     * failure to write is SERVICE_RETRY with its errno. */
    void (*get_bytes)(struct mail_service *service, const struct content_query *query, int fd,
                      struct cancel *cancel, uint64_t *ret_len, struct service_result *ret);
    /* Marks an email valid or not. *ret_record is the email's new record (the caller releases it), whose key
     * is NULL if the answer has no record. */
    void (*mark_email)(struct mail_service *service, const char *email_id, bool is_valid, int64_t timeout_ms,
                       struct cancel *cancel, struct email_record *ret_record, struct service_result *ret);
    void (*get_capabilities)(struct mail_service *service, struct service_capabilities *ret);
    void (*get_counters)(struct mail_service *service, struct service_counters *ret);
};

struct mail_service {
    const struct mail_service_ops *ops;
};

#endif
