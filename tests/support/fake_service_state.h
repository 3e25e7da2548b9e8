/* SPDX-License-Identifier: MIT */
/*
 * The inside of the fake mail_service: its data, and the functions that its files share.
 */
#ifndef INBOXFS_TESTS_SUPPORT_FAKE_SERVICE_STATE_H
#define INBOXFS_TESTS_SUPPORT_FAKE_SERVICE_STATE_H

#include <jansson.h>
#include <pthread.h>

#include "support/fake_service.h"

struct fake_email {
    struct fake_email *next; /* the next older email of the list */
    char *inbox_id;
    char *id;
    json_t *record;
};

struct fake_inbox {
    struct fake_inbox *next; /* the inbox that was added next */
    char *id;
    json_t *record;
};

struct fake_part { /* the content or raw message of an email, or one of its attachments */
    struct fake_part *next;
    enum fake_call call;
    char *id;
    char *attachment_id; /* NULL for content and raw messages */
    const char *bytes;   /* owned by `texts` of fake_service */
    size_t len;
};

struct fake_text { /* memory that fake_service_free() frees */
    struct fake_text *next;
    void *bytes;
};

struct fake_calls {
    struct fake_record *records;
    size_t len;
    struct fake_outcome *pushed; /* scripted outcomes in order, before `usual` applies */
    size_t pushed_len;
    struct fake_outcome usual;
    bool gate_is_closed;
    unsigned int may_pass;
    unsigned int at_gate;
    unsigned int under_way;
    unsigned int most_at_once;
    unsigned int ended;
};

struct fake_answer { /* the last complete answer to a query */
    struct fake_answer *next;
    char *inbox_id; /* NULL for all inboxes */
    unsigned int limit;
    bool with_invalid;
    json_t *records;
};

struct fake_service {
    struct mail_service service; /* first: fake_service_as_service() returns it */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct fake_calls calls[FAKE_CALL_KINDS];
    struct fake_email *emails; /* newest first */
    struct fake_email *outbound;
    struct fake_part *parts; /* the part that was set last is first */
    struct fake_inbox *inboxes;
    struct fake_text *texts;
    struct fake_answer *answers;
    struct service_capabilities capabilities;
    bool is_unreachable;
    bool has_etags;
    unsigned int delivered;
    unsigned int last_id;
    char **sent_keys;
    unsigned int sent;
};

extern const struct mail_service_ops fake_service_ops;

/* Returns `memory`. Ends the program if it is NULL. */
void *fake_must(void *memory);

/* Returns a copy that fake_service_free() frees; NULL if `bytes` is NULL. */
const char *fake_keep_bytes(struct fake_service *fake, const void *bytes, size_t len);

struct fake_inbox *fake_find_inbox_locked(struct fake_service *fake, const char *id);
/* Records the call and waits at the gate. Returns the scripted outcome, with the lock taken. */
struct fake_outcome fake_begin_call(struct fake_service *fake, enum fake_call call,
                                    const struct fake_record *record, struct cancel *cancel);
/* Fills `ret`, counts the call as ended, and releases the lock. */
void fake_end_call_locked(struct fake_service *fake, enum fake_call call, const struct fake_outcome *outcome,
                          struct service_result *ret);

/* The calls of fake_service_content.c. */
void fake_get_content(struct mail_service *service, const struct content_query *query, struct cancel *cancel,
                      struct content_folder *ret_content, struct service_result *ret);
void fake_get_bytes(struct mail_service *service, const struct content_query *query, int fd,
                    struct cancel *cancel, uint64_t *ret_len, struct service_result *ret);
void fake_mark_email(struct mail_service *service, const char *email_id, bool is_valid, int64_t timeout_ms,
                     struct cancel *cancel, struct email_record *ret_record, struct service_result *ret);

/* Adds or replaces an inbox, and takes the reference to `record`. */
void fake_put_inbox_locked(struct fake_service *fake, const char *id, json_t *record);

#endif
