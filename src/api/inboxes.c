/* SPDX-License-Identifier: MIT */
/*
 * GET /inbox, which a server may lack, and POST /inbox/upsert.
 */
#include <errno.h>
#include <string.h>

#include "api/endpoints.h"
#include "api/list_absence.h"
#include "api/list_call.h"
#include "base/cleanup.h"
#include "mail/json_value.h"

enum {
    LIST_TIMEOUT_MS = 120 * 1000
};

struct inbox_listing {
    inbox_sink sink;
    void *context;
};

static int error_of(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_invalid_utf8:
        return EILSEQ;
    case json_error_duplicate_key:
        return EEXIST;
    case json_error_out_of_memory:
        return -ENOMEM;
    default:
        return EBADMSG;
    }
}

static int deliver(void *context, const char *text, size_t len)
{
    struct inbox_listing *listing = context;
    struct inbox_record record;
    json_error_t error;
    /* Text may well have a NUL in it, escaped; it is carried like any other character. */
    _cleanup_json_ json_t *object = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (object == NULL)
        return error_of(&error);
    int rc = inbox_record_from_json(object, &record);
    if (rc < 0)
        return rc == -ENOMEM ? rc : EINVAL;
    rc = listing->sink(listing->context, &record);
    inbox_record_release(&record);
    return rc;
}

void inboxes_list(struct mail_service *service, inbox_sink sink, void *context, struct cancel *cancel,
                  struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    if (list_absence_skips(api, ENDPOINT_INBOX_LIST, ret))
        return;
    struct inbox_listing listing = {.sink = sink, .context = context};
    _cleanup_(list_reader_release) struct list_reader reader;
    list_reader_init(&reader, EMAIL_RECORD_MAX_BYTES, MAIL_INBOXES_MAX, deliver, &listing);
    const struct list_call call = {
        .target = API_PREFIX "/inbox",
        .timeout_ms = LIST_TIMEOUT_MS,
        .reader = &reader,
        .cancel = cancel,
    };
    struct list_answer answer;
    list_call(api, &call, &answer, ret);
    list_absence_judge(api, ENDPOINT_INBOX_LIST, &answer, cancel, ret);
}

/* Creating needs the id that it made; an update has one already. */
static bool needs_id(const char *request)
{
    _cleanup_json_ json_t *value = json_loads(request, 0, NULL);
    return !json_is_string(json_object_get(value, "id"));
}

void inboxes_upsert(struct mail_service *service, const char *request, int64_t timeout_ms,
                    struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(API_REPLY_MAX_BYTES);
    struct http_body content = {
        .content_type = "application/json", .head = request, .head_len = strlen(request)};
    *ret_id = NULL;
    api_post(api, API_PREFIX "/inbox/upsert", &content, timeout_ms, cancel, &body, ret);
    if (ret->outcome != SERVICE_OK)
        return;
    _cleanup_json_ json_t *value = NULL;
    if (api_reply_parse(&body, &value) < 0) {
        api_result_set(ret, SERVICE_UNKNOWN, EIO, "the service answered with something that is not JSON");
        return;
    }
    capability_memory_note_authenticated(&api->memory);
    *ret_id = api_reply_id(value, NULL);
    if (*ret_id == NULL && needs_id(request))
        api_result_set(ret, SERVICE_UNKNOWN, EIO, "the service's answer carries no id of an inbox");
}
