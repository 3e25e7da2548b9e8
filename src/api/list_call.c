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
    struct list_reader *reader;
    struct strbuf error_body;
    int error; /* what the reader said of the list's text */
};

static int take_bytes(void *context, int status, const void *bytes, size_t len)
{
    struct listing *listing = context;
    if (status < 200 || status > 299)
        return strbuf_append(&listing->error_body, bytes, len);
    return listing->error = list_reader_feed(listing->reader, bytes, len);
}

static void take_pause(void *context)
{
    const struct listing *listing = context;
    if (listing->reader->pause != NULL)
        listing->reader->pause(listing->reader->context);
}

static void judge(const struct listing *listing, struct list_answer *answer, struct service_result *ret)
{
    const struct list_reader *reader = listing->reader;
    if (reader->stopped_by == -EOVERFLOW && reader->count >= reader->max_records) {
        char words[LIST_WORDS_MAX_BYTES];
        snprintf(
            words, sizeof(words),
            "the service's list is longer than what was asked for by far: %u records were taken, no more",
            reader->count);
        api_result_set(ret, SERVICE_RETRY, EIO, words);
    } else if (reader->stopped_by != 0) {
        answer->is_stopped = true;
        api_result_set(ret, SERVICE_RETRY, -reader->stopped_by, "the list was not read to its end");
    } else if (listing->error == -ENOMSG) {
        answer->is_no_list = true;
        api_result_set(ret, SERVICE_RETRY, EIO,
                       "the service answered with something that is not a JSON list");
    } else if (listing->error == -EBADMSG) {
        api_result_set(ret, SERVICE_RETRY, EIO, "the service's list is damaged JSON, or was cut off");
    } else if (listing->error != 0) {
        api_result_set(ret, SERVICE_RETRY, ENOMEM, "out of memory");
    } else if (ret->outcome == SERVICE_OK && reader->words[0] != '\0') {
        api_result_set(ret, SERVICE_RETRY, EIO, reader->words);
    }
}

void list_call(struct api_service *api, const struct list_call *call, struct list_answer *ret_answer,
               struct service_result *ret)
{
    struct listing listing = {.reader = call->reader, .error_body = STRBUF_INIT(API_REPLY_MAX_BYTES)};
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
    int error = list_reader_finish(call->reader);
    if (ret->outcome == SERVICE_OK && listing.error == 0)
        listing.error = error;
    *ret_answer = (struct list_answer){.count = call->reader->count};
    judge(&listing, ret_answer, ret);
    if (ret->outcome == SERVICE_OK) {
        capability_memory_note_authenticated(&api->memory);
        memcpy(ret_answer->etag, response.etag, sizeof(ret_answer->etag));
    }
    strbuf_release(&listing.error_body);
}
