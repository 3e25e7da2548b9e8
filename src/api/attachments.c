/* SPDX-License-Identifier: MIT */
/*
 * POST /email/add-attachment-to-pool: a file, streamed from where it is.
 */
#include <errno.h>
#include <string.h>

#include "api/api_call.h"
#include "api/endpoints.h"
#include "base/cleanup.h"
#include "http/http_request.h"
#include "mail/json_value.h"

enum {
    UPLOAD_TIMEOUT_MS = 5 * 60 * 1000
};

static void read_reply(struct api_service *api, const struct strbuf *body, char **ret_id,
                       struct service_result *ret)
{
    _cleanup_json_ json_t *value = NULL;
    if (api_reply_parse(body, &value) < 0) {
        api_result_set(ret, SERVICE_UNKNOWN, EIO, "the service answered with something that is not JSON");
        return;
    }
    capability_memory_note_authenticated(&api->memory);
    *ret_id = api_reply_id(value, "attachment_id");
    if (*ret_id == NULL)
        api_result_set(ret, SERVICE_UNKNOWN, EIO, "the service's answer carries no id of an attachment");
}

void attachments_upload(struct mail_service *service, const struct upload_request *request,
                        struct cancel *cancel, char **ret_id, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    struct http_multipart multipart;
    *ret = (struct service_result){.retry_after_ms = -1};
    *ret_id = NULL;
    if (http_multipart_init(&multipart, "file", request->name, request->content_type) < 0) {
        api_result_set(ret, SERVICE_REJECTED, EINVAL, "the file's name cannot be sent");
        return;
    }
    struct http_body content = {
        .content_type = multipart.content_type,
        .head = multipart.head,
        .head_len = strlen(multipart.head),
        .file_bytes = request->fd < 0 ? request->bytes : NULL,
        .fd = request->fd,
        .file_len = request->len,
        .tail = multipart.tail,
        .tail_len = strlen(multipart.tail),
    };
    _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(API_REPLY_MAX_BYTES);
    api_post(api, API_PREFIX "/email/add-attachment-to-pool", &content, UPLOAD_TIMEOUT_MS, cancel, &body,
             ret);
    if (ret->outcome == SERVICE_OK)
        read_reply(api, &body, ret_id, ret);
}
