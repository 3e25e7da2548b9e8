/* SPDX-License-Identifier: MIT */
/*
 * One call of one endpoint: the request, its counters, its outcome and its words. Three kinds serve all
 * endpoints: one that brings its own sink, a POST whose short answer is collected, and a GET of a list, whose
 * records are handed on while it arrives. All wait until the answer is there, a deadline passes, or the call
 * is cancelled; `ret` is always filled in.
 */
#ifndef INBOXFS_API_API_CALL_H
#define INBOXFS_API_API_CALL_H

#include <stdatomic.h>

#include "api/list_reader.h"
#include "api/server_profile.h"
#include "base/strbuf.h"
#include "http/http_client.h"
#include "mail/mail_service.h"

#define API_PREFIX "/api/v1"

enum {
    API_REPLY_MAX_BYTES = 1024 * 1024, /* any body but a list or content */
    API_STALL_MS = 30 * 1000,
};

/* The service, as all calls share it. */
struct api_service {
    struct mail_service service; /* first: what the rest of the program holds */
    struct http_client *http;
    struct server_profile profile;
    atomic_uint_least64_t requests;
    atomic_uint_least64_t failures;
    atomic_uint_least64_t received_bytes;
    atomic_uint_least64_t sent_bytes;
};

/* Makes the request, counts it and decides; `ret` gets the words. `body`: where the request's sink collects
 * the answer's body when that is no success. */
void api_perform(struct api_service *api, const struct http_request *request, const struct strbuf *body,
                 struct http_response *ret_response, struct service_result *ret);

/* A POST whose whole answer is collected in `body` (at least API_REPLY_MAX_BYTES, emptied first). */
void api_post(struct api_service *api, const char *target, const struct http_body *content,
              int64_t timeout_ms, struct cancel *cancel, struct strbuf *body, struct service_result *ret);

/* ---------------------------------------------------------------- lists */

struct api_list_request {
    const char *target;
    const char *if_none_match; /* or NULL */
    int64_t timeout_ms;
    struct list_reader *reader; /* initialised; gets the answer */
    struct cancel *cancel;
};

struct api_list_answer {
    unsigned int count; /* records, those that cannot be read too */
    bool is_no_list;    /* a 2xx whose body is something else */
    bool is_stopped;    /* by whoever the records were handed to */
    char etag[HTTP_ETAG_MAX_BYTES];
};

/* A record that cannot be read hides no other, but the call fails in the end. */
void api_get_list(struct api_service *api, const struct api_list_request *list,
                  struct api_list_answer *ret_answer, struct service_result *ret);

#endif
