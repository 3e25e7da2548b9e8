/* SPDX-License-Identifier: MIT */
/*
 * Makes requests through the one HTTP client and lets outcome.h decide what came of them. Of a list, the
 * outcome is decided twice: by the answer's status, and by what the reader of its text says.
 */
#include "api/api_call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/outcome.h"

#define LIST_MAX_BYTES (2ULL * 1024 * 1024 * 1024)

void api_perform(struct api_service *api, const struct http_request *request, const struct strbuf *body,
                 struct http_response *ret_response, struct service_result *ret)
{
    http_client_perform(api->http, request, ret_response);
    outcome_decide(ret_response, strcmp(request->method, "GET") == 0, ret);
    atomic_fetch_add(&api->requests, 1);
    atomic_fetch_add(&api->sent_bytes, ret_response->sent_bytes);
    atomic_fetch_add(&api->received_bytes, ret_response->received_bytes);
    if (ret->outcome == SERVICE_OK)
        return;
    /* 304 is what was hoped for. */
    if (ret_response->status != 304)
        atomic_fetch_add(&api->failures, 1);
    ret->detail = outcome_describe(api->http, ret_response, body);
}

static int collect(void *context, int status, const void *bytes, size_t len)
{
    (void)status;
    return strbuf_append(context, bytes, len);
}

void api_post(struct api_service *api, const char *target, const struct http_body *content,
              int64_t timeout_ms, struct cancel *cancel, struct strbuf *body, struct service_result *ret)
{
    struct http_request request = {
        .method = "POST",
        .target = target,
        .body = *content,
        .sink = collect,
        .context = body,
        .max_body_bytes = API_REPLY_MAX_BYTES,
        .timeout_ms = timeout_ms,
        .stall_ms = API_STALL_MS,
        .cancel = cancel,
    };
    struct http_response response;
    strbuf_clear(body);
    api_perform(api, &request, body, &response, ret);
}

/* ---------------------------------------------------------------- lists */

struct list_transfer {
    struct list_reader *reader;
    struct strbuf error_body;
    int error; /* what the reader said of the list's text */
};

static int feed_list(void *context, int status, const void *bytes, size_t len)
{
    struct list_transfer *transfer = context;
    if (status < 200 || status > 299)
        return strbuf_append(&transfer->error_body, bytes, len);
    return transfer->error = list_reader_feed(transfer->reader, bytes, len);
}

static void pause_list(void *context)
{
    const struct list_transfer *transfer = context;
    if (transfer->reader->pause != NULL)
        transfer->reader->pause(transfer->reader->context);
}

static void judge_list(const struct list_transfer *transfer, struct api_list_answer *answer,
                       struct service_result *ret)
{
    const struct list_reader *reader = transfer->reader;
    if (reader->stopped_by == -EOVERFLOW && reader->count >= reader->max_records) {
        char words[LIST_WORDS_MAX_BYTES];
        snprintf(
            words, sizeof(words),
            "the service's list is longer than what was asked for by far: %u records were taken, no more",
            reader->count);
        outcome_set(ret, SERVICE_RETRY, EIO, words);
    } else if (reader->stopped_by != 0) {
        answer->is_stopped = true;
        outcome_set(ret, SERVICE_RETRY, -reader->stopped_by, "the list was not read to its end");
    } else if (transfer->error == -ENOMSG) {
        answer->is_no_list = true;
        outcome_set(ret, SERVICE_RETRY, EIO, "the service answered with something that is not a JSON list");
    } else if (transfer->error == -EBADMSG) {
        outcome_set(ret, SERVICE_RETRY, EIO, "the service's list is damaged JSON, or was cut off");
    } else if (transfer->error != 0) {
        outcome_set(ret, SERVICE_RETRY, ENOMEM, "out of memory");
    } else if (ret->outcome == SERVICE_OK && reader->words[0] != '\0') {
        outcome_set(ret, SERVICE_RETRY, EIO, reader->words);
    }
}

void api_get_list(struct api_service *api, const struct api_list_request *list,
                  struct api_list_answer *ret_answer, struct service_result *ret)
{
    struct list_transfer transfer = {.reader = list->reader, .error_body = STRBUF_INIT(API_REPLY_MAX_BYTES)};
    struct http_request request = {
        .method = "GET",
        .target = list->target,
        .if_none_match = list->if_none_match,
        .sink = feed_list,
        .pause = pause_list,
        .context = &transfer,
        .max_body_bytes = LIST_MAX_BYTES,
        .timeout_ms = list->timeout_ms,
        .stall_ms = API_STALL_MS,
        .cancel = list->cancel,
    };
    struct http_response response;
    api_perform(api, &request, &transfer.error_body, &response, ret);
    int error = list_reader_finish(list->reader);
    if (ret->outcome == SERVICE_OK && transfer.error == 0)
        transfer.error = error;
    *ret_answer = (struct api_list_answer){.count = list->reader->count};
    judge_list(&transfer, ret_answer, ret);
    if (ret->outcome == SERVICE_OK) {
        server_profile_note_authenticated(&api->profile);
        memcpy(ret_answer->etag, response.etag, sizeof(ret_answer->etag));
    }
    strbuf_release(&transfer.error_body);
}
