/* SPDX-License-Identifier: MIT */
/*
 * Lists.
 */
#include "api/list_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/record_stream.h"
#include "base/cleanup.h"

enum {
    LIST_WORDS_MAX_BYTES = 160
};

#define LIST_MAX_BYTES (2ULL * 1024 * 1024 * 1024)

struct listing {
    const struct list_call *call;
    struct list_answer *answer;
    struct record_stream stream;
    struct strbuf error_body;
    int stream_error;                 /* what record_stream_feed() said */
    int item_error;                   /* what stopped the list */
    char words[LIST_WORDS_MAX_BYTES]; /* of the first record that cannot be read; "": none */
};

static const char *words_of(int unreadable)
{
    switch (unreadable) {
    case LIST_RECORD_IS_NO_UTF8:
        return "invalid UTF-8";
    case LIST_RECORD_HAS_KEY_TWICE:
        return "a key twice in an object";
    case LIST_RECORD_IS_NO_JSON:
        return "invalid JSON";
    default:
        return "too long, nested too deep, or without what every record has";
    }
}

static void note_unreadable(struct listing *listing, const char *words)
{
    if (listing->words[0] == '\0')
        snprintf(listing->words, sizeof(listing->words), "record %u of the list cannot be read: %s",
                 listing->answer->count, words);
}

static int take_record(void *context, const char *text, size_t len)
{
    struct listing *listing = context;
    listing->answer->count++;
    int rc = text == NULL ? LIST_UNREADABLE : listing->call->item(listing->call->context, text, len);
    if (rc > 0) {
        note_unreadable(listing, words_of(rc));
        return 0;
    }
    listing->item_error = rc;
    return rc;
}

static int try_record(void *context, const char *text, size_t len, size_t *ret_len)
{
    struct listing *listing = context;
    listing->item_error = listing->call->take(listing->call->context, text, len, ret_len);
    listing->answer->count += *ret_len > 0;
    return listing->item_error;
}

static int take_bytes(void *context, int status, const void *bytes, size_t len)
{
    struct listing *listing = context;
    if (status < 200 || status > 299)
        return strbuf_append(&listing->error_body, bytes, len);
    listing->stream_error = record_stream_feed(&listing->stream, bytes, len);
    return listing->stream_error;
}

static void take_pause(void *context)
{
    const struct listing *listing = context;
    if (listing->call->pause != NULL)
        listing->call->pause(listing->call->context);
}

static void judge(struct listing *listing, struct service_result *ret)
{
    if (ret->outcome == SERVICE_OK && listing->stream_error == 0)
        listing->stream_error = record_stream_finish(&listing->stream);
    if (listing->item_error != 0) {
        listing->answer->is_stopped = true;
        api_result_set(ret, SERVICE_RETRY, -listing->item_error, "the list was not read to its end");
    } else if (listing->stream_error == -ENOMSG) {
        listing->answer->is_no_list = true;
        api_result_set(ret, SERVICE_RETRY, EIO,
                       "the service answered with something that is not a JSON list");
    } else if (listing->stream_error == -EBADMSG) {
        api_result_set(ret, SERVICE_RETRY, EIO, "the service's list is damaged JSON, or was cut off");
    } else if (listing->stream_error != 0) {
        api_result_set(ret, SERVICE_RETRY, ENOMEM, "out of memory");
    } else if (ret->outcome == SERVICE_OK && listing->words[0] != '\0') {
        api_result_set(ret, SERVICE_RETRY, EIO, listing->words);
    }
}

void list_call(struct api_service *api, const struct list_call *call, struct list_answer *ret_answer,
               struct service_result *ret)
{
    *ret_answer = (struct list_answer){.count = 0};
    struct listing listing = {
        .call = call, .answer = ret_answer, .error_body = STRBUF_INIT(API_REPLY_MAX_BYTES)};
    record_stream_init(&listing.stream, EMAIL_RECORD_MAX_BYTES, take_record, &listing);
    if (call->take != NULL)
        listing.stream.taker = try_record;
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
    judge(&listing, ret);
    if (ret->outcome == SERVICE_OK) {
        capability_memory_note_authenticated(&api->memory);
        memcpy(ret_answer->etag, response.etag, sizeof(ret_answer->etag));
    }
    record_stream_release(&listing.stream);
    strbuf_release(&listing.error_body);
}
