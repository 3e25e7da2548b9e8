/* SPDX-License-Identifier: MIT */
/*
 * Calls.
 */
#include "api/api_call.h"

#include <errno.h>
#include <string.h>

#include "api/error_body.h"
#include "api/outcome.h"
#include "api/words.h"
#include "base/cleanup.h"

enum {
    ID_MAX_BYTES = 1024
};

/* ---------------------------------------------------------------- words */

static const char *hint_of(int status)
{
    if (status >= 300 && status < 400)
        return " (a redirect, which is not followed: check the base URL)";
    return status == 401 ? " (the service refuses the API key)" : "";
}

static void append_body_words(const struct api_service *api, const struct http_response *response,
                              const struct strbuf *body, struct strbuf *words)
{
    struct error_body parsed;
    error_body_init(&parsed, strbuf_str(body), body->len, response->is_html);
    _cleanup_strbuf_ struct strbuf raw = STRBUF_INIT(2 * API_REPLY_MAX_BYTES);
    error_body_append_words(&parsed, &raw);
    error_body_release(&parsed);
    if (raw.len == 0)
        return;
    http_client_redact(api->http, raw.data, raw.len); /* before anything is cut in two */
    size_t status_len = words->len;
    strbuf_append_str(words, ": ");
    words_append(words, raw.data, raw.len);
    if (words->len == status_len + 2)
        strbuf_truncate(words, status_len);
}

static char *describe(const struct api_service *api, const struct http_response *response,
                      const struct strbuf *body)
{
    _cleanup_strbuf_ struct strbuf words = STRBUF_INIT(WORDS_MAX_BYTES);
    if (response->status < 300) {
        words_append(&words, response->words, strlen(response->words));
        if (response->status > 0)
            strbuf_appendf(&words, " (the answer, HTTP %d, was cut off)", response->status);
    } else {
        strbuf_appendf(&words, "HTTP %d%s", response->status, hint_of(response->status));
        append_body_words(api, response, body, &words);
    }
    return strbuf_take(&words, NULL);
}

void api_result_set(struct service_result *result, enum service_outcome outcome, int error, const char *words)
{
    _cleanup_strbuf_ struct strbuf cleaned = STRBUF_INIT(WORDS_MAX_BYTES);
    words_append(&cleaned, words, strlen(words));
    free(result->detail);
    result->detail = outcome != SERVICE_OK ? strbuf_take(&cleaned, NULL) : NULL;
    result->outcome = outcome;
    result->error = error;
}

/* ---------------------------------------------------------------- requests */

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
    ret->detail = describe(api, ret_response, body);
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

/* ---------------------------------------------------------------- replies */

int api_reply_parse(const struct strbuf *body, json_t **ret_value)
{
    *ret_value = NULL;
    const char *text = strbuf_str(body);
    if (strspn(text, " \t\r\n") == body->len)
        return 0;
    *ret_value = json_loadb(text, body->len, JSON_DECODE_ANY, NULL);
    return *ret_value != NULL ? 0 : -EBADMSG;
}

static char *text_of(const json_t *value)
{
    const char *text = json_string_value(value);
    if (text != NULL)
        return *text != '\0' && strlen(text) <= ID_MAX_BYTES ? strdup(text) : NULL;
    char *number = NULL;
    if (json_is_integer(value) && asprintf(&number, "%" JSON_INTEGER_FORMAT, json_integer_value(value)) < 0)
        return NULL;
    return number;
}

char *api_reply_id(const json_t *value, const char *other)
{
    if (!json_is_object(value))
        return text_of(value);
    char *id = text_of(json_object_get(value, "id"));
    if (id == NULL && other != NULL)
        id = text_of(json_object_get(value, other));
    return id;
}
