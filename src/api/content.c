/* SPDX-License-Identifier: MIT */
/*
 * GET /email/{id} and what is below it: content, attachments, raw text. A server may lack them; that an email
 * is not found is no evidence by itself, since it may be gone.
 */
#include <errno.h>
#include <string.h>

#include "api/api_call.h"
#include "api/endpoints.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "http/http_request.h"

enum {
    CONTENT_TIMEOUT_MS = 2 * 60 * 1000,
    BYTES_TIMEOUT_MS = 10 * 60 * 1000, /* a big file over a slow line; a stall ends sooner */
};

/* ---------------------------------------------------------------- what all have in common */

static int build_target(const struct content_query *query, const char *below, const char *below_id,
                        struct strbuf *target)
{
    strbuf_append_str(target, query->is_outbound ? API_PREFIX "/email/outbound" : API_PREFIX "/email");
    http_path_add_segment(target, query->email_id);
    if (below != NULL)
        http_path_add_segment(target, below);
    if (below_id != NULL)
        http_path_add_segment(target, below_id);
    return target->error;
}

static void set_too_long(struct service_result *ret)
{
    *ret = (struct service_result){.retry_after_ms = -1};
    api_result_set(ret, SERVICE_REJECTED, EINVAL, "the id is too long");
}

static void set_too_big(struct service_result *ret)
{
    api_result_set(ret, SERVICE_REJECTED, EFBIG, "the service's answer is longer than allowed");
}

static void set_absent(struct service_result *ret, enum optional_endpoint endpoint, int status)
{
    api_result_set(ret, SERVICE_ABSENT, ENOSYS,
                   endpoint == ENDPOINT_CONTENT ? "the service has no content of emails"
                                                : "the service has no raw messages");
    ret->http_status = status;
}

static bool is_skipped(struct api_service *api, enum optional_endpoint endpoint, struct service_result *ret)
{
    *ret = (struct service_result){.retry_after_ms = -1};
    if (!capability_memory_skips(&api->memory, endpoint))
        return false;
    set_absent(ret, endpoint, 0);
    return true;
}

/* A 404 is about an email, and only perhaps about the endpoint. */
static void judge_missing(struct service_result *ret)
{
    if (ret->outcome == SERVICE_REJECTED && (ret->http_status == 404 || ret->http_status == 410))
        ret->error = ENOENT;
}

/* Sent mail tells nothing about the content of received mail. */
static void judge_absence(struct api_service *api, enum optional_endpoint endpoint,
                          const struct content_query *query, bool is_no_content, struct service_result *ret)
{
    int status = ret->http_status;
    if (query->is_outbound)
        return;
    if (ret->outcome == SERVICE_OK) {
        capability_memory_note_authenticated(&api->memory);
        capability_memory_note(&api->memory, endpoint, true);
        return;
    }
    bool is_evidence = status == 404 || status == 405 || is_no_content;
    if (is_evidence && query->is_known_to_exist &&
        capability_memory_note_missing(&api->memory, endpoint, query->email_id))
        set_absent(ret, endpoint, status);
}

/* ---------------------------------------------------------------- content */

static int collect(void *context, int status, const void *bytes, size_t len)
{
    struct strbuf *body = context;
    if (status < 200 || status > 299)
        body->max_bytes = API_REPLY_MAX_BYTES;
    return strbuf_append(body, bytes, len);
}

/* Whether the answer was JSON, and no content: a record, as a Core server may have it. */
static bool read_content(const struct strbuf *body, const struct content_query *query,
                         struct email_content *content, struct service_result *ret)
{
    int error = email_content_from_text(strbuf_str(body), body->len, content);
    if (error == 0 && content->id != NULL && strcmp(content->id, query->email_id) != 0) {
        email_content_release(content);
        api_result_set(ret, SERVICE_RETRY, EIO, "the service answered with another email");
        return false;
    }
    if (error == -ENOMEM)
        api_result_set(ret, SERVICE_RETRY, ENOMEM, "out of memory");
    else if (error != 0)
        api_result_set(ret, SERVICE_RETRY, EIO,
                       "the service answered with something that is not the content of an email");
    return error == -EBADMSG;
}

void content_get(struct mail_service *service, const struct content_query *query, struct cancel *cancel,
                 struct email_content *ret_content, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    _cleanup_strbuf_ struct strbuf target = STRBUF_INIT(HTTP_PATH_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf body = STRBUF_INIT(EMAIL_CONTENT_MAX_BYTES);
    if (build_target(query, NULL, NULL, &target) < 0) {
        set_too_long(ret);
        return;
    }
    if (!query->is_outbound && is_skipped(api, ENDPOINT_CONTENT, ret))
        return;
    struct http_request request = {
        .method = "GET",
        .target = target.data,
        .sink = collect,
        .context = &body,
        .max_body_bytes = EMAIL_CONTENT_MAX_BYTES,
        .timeout_ms = CONTENT_TIMEOUT_MS,
        .stall_ms = API_STALL_MS,
        .cancel = cancel,
    };
    struct http_response response;
    struct email_content content = {0};
    if (query->max_bytes > 0 && query->max_bytes < request.max_body_bytes)
        request.max_body_bytes = query->max_bytes;
    api_perform(api, &request, &body, &response, ret);
    if (query->max_bytes > 0 && response.error == -EFBIG && response.status < 300)
        set_too_big(ret);
    bool is_no_content = ret->outcome == SERVICE_OK && read_content(&body, query, &content, ret);
    judge_missing(ret);
    judge_absence(api, ENDPOINT_CONTENT, query, is_no_content, ret);
    if (ret->outcome == SERVICE_OK)
        *ret_content = content;
}

/* ---------------------------------------------------------------- bytes */

struct download {
    const struct content_target *target;
    uint64_t len;
    int error;            /* -errno of writing */
    struct strbuf failed; /* the body of an answer that is no success */
};

static int write_bytes(void *context, int status, const void *bytes, size_t len)
{
    struct download *download = context;
    if (status < 200 || status > 299)
        return strbuf_append(&download->failed, bytes, len);
    download->error = len > download->target->max_bytes - download->len
                          ? -EFBIG
                          : file_pwrite_all(download->target->fd, bytes, len, (off_t)download->len);
    if (download->error == 0)
        download->len += len;
    return download->error;
}

static void judge_writing(const struct download *download, struct service_result *ret)
{
    if (download->error == -EFBIG)
        set_too_big(ret);
    else if (download->error != 0)
        api_result_set(ret, SERVICE_RETRY, -download->error, strerror(-download->error));
}

static void get_bytes(struct api_service *api, const char *path, const struct content_target *target,
                      struct cancel *cancel, uint64_t *ret_len, bool *ret_is_page, struct service_result *ret)
{
    struct download download = {.target = target, .failed = STRBUF_INIT(API_REPLY_MAX_BYTES)};
    struct http_request request = {
        .method = "GET",
        .target = path,
        .takes_any_type = true,
        .sink = write_bytes,
        .context = &download,
        .max_body_bytes = UINT64_MAX,
        .timeout_ms = BYTES_TIMEOUT_MS,
        .stall_ms = API_STALL_MS,
        .cancel = cancel,
    };
    struct http_response response;
    api_perform(api, &request, &download.failed, &response, ret);
    judge_writing(&download, ret);
    judge_missing(ret);
    *ret_len = download.len;
    *ret_is_page = response.is_html;
    strbuf_release(&download.failed);
}

void content_get_attachment(struct mail_service *service, const struct content_query *query,
                            const char *attachment_id, const struct content_target *target,
                            struct cancel *cancel, uint64_t *ret_len, struct service_result *ret)
{
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(HTTP_PATH_MAX_BYTES);
    bool is_page;
    if (build_target(query, "attachment", attachment_id, &path) < 0)
        set_too_long(ret);
    else
        get_bytes(api_service_of(service), path.data, target, cancel, ret_len, &is_page, ret);
}

void content_get_raw(struct mail_service *service, const struct content_query *query,
                     const struct content_target *target, struct cancel *cancel, uint64_t *ret_len,
                     struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(HTTP_PATH_MAX_BYTES);
    if (build_target(query, "raw", NULL, &path) < 0) {
        set_too_long(ret);
        return;
    }
    if (is_skipped(api, ENDPOINT_RAW, ret))
        return;
    bool is_page = false;
    get_bytes(api, path.data, target, cancel, ret_len, &is_page, ret);
    bool is_no_message = ret->outcome == SERVICE_OK && is_page;
    if (is_no_message)
        api_result_set(ret, SERVICE_RETRY, EIO, "the service answered with a web page");
    judge_absence(api, ENDPOINT_RAW, query, is_no_message, ret);
}
