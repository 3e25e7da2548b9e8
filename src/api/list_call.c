/* SPDX-License-Identifier: MIT */
/*
 * Lists.
 */
#include "api/list_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LIST_MAX_BYTES (2ULL * 1024 * 1024 * 1024)

struct listing {
    struct list_intake *intake;
    struct strbuf error_body;
    int error; /* what the intake said of the list's text */
};

static int take_bytes(void *context, int status, const void *bytes, size_t len)
{
    struct listing *listing = context;
    if (status < 200 || status > 299)
        return strbuf_append(&listing->error_body, bytes, len);
    return listing->error = listing->intake->ops->feed(listing->intake, bytes, len);
}

static void take_pause(void *context)
{
    const struct listing *listing = context;
    if (listing->intake->ops->pause != NULL)
        listing->intake->ops->pause(listing->intake);
}

static void judge(const struct listing *listing, struct list_answer *answer, struct service_result *ret)
{
    const struct list_intake *intake = listing->intake;
    if (intake->stopped_by == -EOVERFLOW && intake->count >= intake->most) {
        char words[LIST_WORDS_MAX_BYTES];
        snprintf(
            words, sizeof(words),
            "the service's list is longer than what was asked for by far: %u records were taken, no more",
            intake->count);
        api_result_set(ret, SERVICE_RETRY, EIO, words);
    } else if (intake->stopped_by != 0) {
        answer->is_stopped = true;
        api_result_set(ret, SERVICE_RETRY, -intake->stopped_by, "the list was not read to its end");
    } else if (listing->error == -ENOMSG) {
        answer->is_no_list = true;
        api_result_set(ret, SERVICE_RETRY, EIO,
                       "the service answered with something that is not a JSON list");
    } else if (listing->error == -EBADMSG) {
        api_result_set(ret, SERVICE_RETRY, EIO, "the service's list is damaged JSON, or was cut off");
    } else if (listing->error != 0) {
        api_result_set(ret, SERVICE_RETRY, ENOMEM, "out of memory");
    } else if (ret->outcome == SERVICE_OK && intake->words[0] != '\0') {
        api_result_set(ret, SERVICE_RETRY, EIO, intake->words);
    }
}

void list_call(struct api_service *api, const struct list_call *call, struct list_answer *ret_answer,
               struct service_result *ret)
{
    struct listing listing = {.intake = call->intake, .error_body = STRBUF_INIT(API_REPLY_MAX_BYTES)};
    struct http_request request = {
        .method = "GET",
        .target = call->target,
        .if_none_match = call->if_none_match,
        .sink = take_bytes,
        .pause = take_pause,
        .context = &listing,
        .max_body_bytes = LIST_MAX_BYTES,
        .timeout_ms = call->timeout_ms,
        .stall_ms = API_STALL_MS,
        .cancel = call->cancel,
    };
    struct http_response response;
    api_perform(api, &request, &listing.error_body, &response, ret);
    int error = call->intake->ops->finish(call->intake);
    if (ret->outcome == SERVICE_OK && listing.error == 0)
        listing.error = error;
    *ret_answer = (struct list_answer){.count = call->intake->count};
    judge(&listing, ret_answer, ret);
    if (ret->outcome == SERVICE_OK) {
        capability_memory_note_authenticated(&api->memory);
        memcpy(ret_answer->etag, response.etag, sizeof(ret_answer->etag));
    }
    strbuf_release(&listing.error_body);
}
