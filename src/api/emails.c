/* SPDX-License-Identifier: MIT */
/*
 * GET /email and GET /email/outbound: the records of received and of sent mail. A server may lack the latter.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/endpoints.h"
#include "api/list_absence.h"
#include "api/list_call.h"
#include "base/cleanup.h"
#include "http/http_request.h"

enum {
    LIST_TIMEOUT_MS = 30 * 60 * 1000 /* a million records over a slow line; a stall ends sooner */
};

struct email_listing {
    const char *inbox_id; /* or NULL */
    email_sink sink;
    void *context;
};

/* Published clients disagree on the encoding of `inbox_ids`, so a server may have ignored it: what is of
 * another inbox is passed over. */
static int hand_on(const struct email_listing *listing, struct email_record *record)
{
    if (listing->inbox_id != NULL && record->inbox_id == NULL)
        record->inbox_id = listing->inbox_id;
    else if (listing->inbox_id != NULL && strcmp(record->inbox_id, listing->inbox_id) != 0)
        return 0;
    return listing->sink(listing->context, record);
}

static int deliver(void *context, const char *text, size_t len)
{
    struct email_record record;
    int error = email_record_from_text(text, len, &record);
    if (error != 0)
        return error == -ENOMEM ? error : -error;
    error = hand_on(context, &record);
    email_record_release(&record);
    return error;
}

static void tell_of_pause(void *context)
{
    const struct email_listing *listing = context;
    listing->sink(listing->context, NULL);
}

static int build_target(const char *path, const struct email_query *query, struct strbuf *target)
{
    char limit[16];
    snprintf(limit, sizeof(limit), "%u", query->limit > 0 ? query->limit : 1);
    strbuf_append_str(target, path);
    if (query->inbox_id != NULL)
        http_path_add_query(target, "inbox_ids", query->inbox_id);
    if (query->search_term != NULL)
        http_path_add_query(target, "search_term", query->search_term);
    if (query->with_invalid)
        http_path_add_query(target, "valid_only", "false");
    return http_path_add_query(target, "limit", limit);
}

/* Searches come in any number, and are not asked again. */
static bool keeps_etag(const struct email_query *query)
{
    return query->search_term == NULL;
}

static void list(struct api_service *api, const char *path, const struct email_query *query, email_sink sink,
                 void *context, struct cancel *cancel, struct list_answer *ret_answer,
                 struct service_result *ret)
{
    _cleanup_strbuf_ struct strbuf target = STRBUF_INIT(HTTP_PATH_MAX_BYTES);
    *ret = (struct service_result){.retry_after_ms = -1};
    *ret_answer = (struct list_answer){.count = 0};
    if (build_target(path, query, &target) < 0) {
        api_result_set(ret, SERVICE_REJECTED, EINVAL, "the inbox's id, or what is searched for, is too long");
        return;
    }
    char etag[HTTP_ETAG_MAX_BYTES];
    unsigned int known_count = 0;
    bool is_conditional =
        query->may_be_unchanged && etag_memory_find(&api->etags, target.data, etag, &known_count);
    struct email_listing listing = {.inbox_id = query->inbox_id, .sink = sink, .context = context};
    size_t most = (query->limit > query->known ? query->limit : query->known) + MAIL_LIST_SURPLUS;
    _cleanup_(list_reader_release) struct list_reader reader;
    list_reader_init(&reader, EMAIL_RECORD_MAX_BYTES, most, deliver, &listing);
    reader.pause = tell_of_pause;
    const struct list_call call = {
        .target = target.data,
        .if_none_match = is_conditional ? etag : NULL,
        .timeout_ms = LIST_TIMEOUT_MS,
        .reader = &reader,
        .cancel = cancel,
    };
    list_call(api, &call, ret_answer, ret);
    if (is_conditional && ret->http_status == 304) {
        api_result_set(ret, SERVICE_OK, 0, "");
        capability_memory_note_authenticated(&api->memory);
        ret_answer->count = known_count;
        return;
    }
    /* Only what was delivered whole may be skipped the next time. */
    if (keeps_etag(query))
        etag_memory_set(&api->etags, target.data, ret->outcome == SERVICE_OK ? ret_answer->etag : "",
                        ret_answer->count);
}

void emails_list(struct mail_service *service, const struct email_query *query, email_sink sink,
                 void *context, struct cancel *cancel, unsigned int *ret_count, struct service_result *ret)
{
    struct list_answer answer;
    list(api_service_of(service), API_PREFIX "/email", query, sink, context, cancel, &answer, ret);
    *ret_count = answer.count;
}

void emails_list_outbound(struct mail_service *service, const struct email_query *query, email_sink sink,
                          void *context, struct cancel *cancel, unsigned int *ret_count,
                          struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    struct list_answer answer;
    *ret_count = 0;
    if (list_absence_skips(api, ENDPOINT_OUTBOUND, ret))
        return;
    list(api, API_PREFIX "/email/outbound", query, sink, context, cancel, &answer, ret);
    list_absence_judge(api, ENDPOINT_OUTBOUND, &answer, cancel, ret);
    *ret_count = answer.count;
}
