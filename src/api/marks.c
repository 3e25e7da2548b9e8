/* SPDX-License-Identifier: MIT */
/*
 * POST /email/{id}/mark/{true|false}: what a person says against the rules.
 */
#include <errno.h>
#include <string.h>

#include "api/api_call.h"
#include "api/endpoints.h"
#include "base/cleanup.h"
#include "http/http_request.h"

/* The mark is set whatever the answer looks like: it only spares a look at the list. */
static void read_record(const struct strbuf *body, struct email_record *ret_record)
{
    struct email_record record;
    if (email_record_from_text(strbuf_str(body), body->len, &record) == 0)
        *ret_record = record;
}

void marks_set(struct mail_service *service, const char *email_id, bool is_valid, int64_t timeout_ms,
               struct cancel *cancel, struct email_record *ret_record, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    _cleanup_strbuf_ struct strbuf target = STRBUF_INIT(HTTP_PATH_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(API_REPLY_MAX_BYTES);
    *ret = (struct service_result){.retry_after_ms = -1};
    *ret_record = (struct email_record){.key = NULL};
    strbuf_append_str(&target, API_PREFIX "/email");
    http_path_add_segment(&target, email_id);
    http_path_add_segment(&target, "mark");
    if (http_path_add_segment(&target, is_valid ? "true" : "false") < 0) {
        api_result_set(ret, SERVICE_REJECTED, EINVAL, "the email's id is too long");
        return;
    }
    static const char nothing[] = "{}";
    const struct http_body content = {
        .content_type = "application/json", .head = nothing, .head_len = strlen(nothing)};
    api_post(api, target.data, &content, timeout_ms, cancel, &body, ret);
    if (ret->outcome == SERVICE_OK) {
        capability_memory_note_authenticated(&api->memory);
        read_record(&body, ret_record);
    } else if (ret->http_status == 404) {
        ret->error = ENOENT;
    }
}
