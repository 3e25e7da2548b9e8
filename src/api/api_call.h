/* SPDX-License-Identifier: MIT */
/*
 * The service's state, and one call to one endpoint: the request, its counters, its outcome and its words.
 */
#ifndef INBOXFS_API_API_CALL_H
#define INBOXFS_API_API_CALL_H

#include <jansson.h>
#include <stdatomic.h>

#include "api/capability_memory.h"
#include "api/etag_memory.h"
#include "base/strbuf.h"
#include "http/http_client.h"
#include "mail/mail_service.h"

#define API_PREFIX "/api/v1"

enum {
    API_REPLY_MAX_BYTES = 1024 * 1024, /* any body but a list */
    API_STALL_MS = 30 * 1000,
};

struct api_service {
    struct mail_service service; /* first: what the rest of the program holds */
    struct http_client *http;
    struct capability_memory memory;
    struct etag_memory etags;
    atomic_uint_least64_t requests;
    atomic_uint_least64_t failures;
    atomic_uint_least64_t received_bytes;
    atomic_uint_least64_t sent_bytes;
};

static inline struct api_service *api_service_of(struct mail_service *service)
{
    return (struct api_service *)service;
}

/* Makes the request, counts it and decides; `ret` gets the words. `body`: where the request's sink collects
 * the answer's body when that is no success. */
void api_perform(struct api_service *api, const struct http_request *request, const struct strbuf *body,
                 struct http_response *ret_response, struct service_result *ret);

/* A POST whose whole answer is collected in `body` (at least API_REPLY_MAX_BYTES, emptied first). */
void api_post(struct api_service *api, const char *target, const struct http_body *content,
              int64_t timeout_ms, struct cancel *cancel, struct strbuf *body, struct service_result *ret);

/* Replaces the outcome; the words are cleaned and bounded. */
void api_result_set(struct service_result *result, enum service_outcome outcome, int error,
                    const char *words);

/* Reads the body of a success: 0 and a value the caller owns, or NULL when the body is empty. -EBADMSG: it is
 * no JSON. */
int api_reply_parse(const struct strbuf *body, json_t **ret_value);

/* The id in a reply: `id`, `other` (may be NULL), or the bare value; a number is taken as text. The caller
 * frees; NULL when there is none that could be used. */
char *api_reply_id(const json_t *value, const char *other);

#endif
