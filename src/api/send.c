/* SPDX-License-Identifier: MIT */
/*
 * POST /email/send, in the form that the server takes. Only a 400 or 422 leads to another try, for after that
 * answer nothing was sent; whatever else comes is the outcome.
 */
#include <errno.h>
#include <string.h>

#include "api/api_call.h"
#include "api/endpoints.h"
#include "api/error_body.h"
#include "base/cleanup.h"
#include "mail/json_value.h"

enum {
    SEND_TIMEOUT_MS = 90 * 1000
};

#define FROM "from_address"
#define KEY "idempotency_key"

struct sending {
    struct api_service *api;
    const struct send_request *request;
    json_t *message; /* as it was handed in, with the key last */
    struct cancel *cancel;
    struct strbuf body; /* of the answer */
    bool as_text;       /* from_address is sent as a string */
    bool with_key;
    bool is_flipped; /* the other form of from_address was tried */
    bool is_guess;   /* the key was left out although nothing named it */
};

static json_t *from_as_object(const json_t *from)
{
    return json_is_string(from) ? json_pack("{s:O, s:n}", "address", from, "name") : NULL;
}

static char *write_request(const struct sending *sending)
{
    _cleanup_json_ json_t *form = json_copy(sending->message);
    if (form == NULL)
        return NULL;
    json_t *from = sending->as_text ? NULL : from_as_object(json_object_get(form, FROM));
    if (from != NULL && json_object_set_new(form, FROM, from) < 0)
        return NULL;
    if (!sending->with_key)
        json_object_del(form, KEY);
    return json_dumps(form, JSON_COMPACT);
}

static void post(struct sending *sending, struct service_result *ret)
{
    _cleanup_free_ char *text = write_request(sending);
    if (text == NULL) {
        *ret = (struct service_result){.retry_after_ms = -1};
        api_result_set(ret, SERVICE_RETRY, ENOMEM, "out of memory");
        return;
    }
    struct http_body content = {.content_type = "application/json", .head = text, .head_len = strlen(text)};
    api_post(sending->api, API_PREFIX "/email/send", &content, SEND_TIMEOUT_MS, sending->cancel,
             &sending->body, ret);
}

/* Looks for what the server did not like, and changes the form. False: nothing is left to change. */
static bool change_form(struct sending *sending, const struct error_body *body)
{
    bool is_changed = false;
    if (!sending->is_flipped && json_is_string(json_object_get(sending->message, FROM)) &&
        error_body_names(body, FROM)) {
        sending->is_flipped = true;
        sending->as_text = !sending->as_text;
        is_changed = true;
    }
    /* What may have gone out already must not go out again without its key. */
    bool may_drop_key = sending->with_key && !sending->request->is_repeat;
    if (sending->with_key && error_body_names(body, KEY)) {
        capability_memory_note_key_refused(&sending->api->memory);
        sending->with_key = !may_drop_key;
        return may_drop_key;
    }
    if (!is_changed && may_drop_key && !error_body_names_any(body, sending->message)) {
        sending->with_key = false;
        sending->is_guess = true;
        return true;
    }
    return is_changed;
}

/* Whether another form of the request is worth a try after this answer. */
static bool may_try_again(struct sending *sending, const struct service_result *result)
{
    if (result->http_status != 400 && result->http_status != 422)
        return false;
    struct error_body body;
    error_body_init(&body, strbuf_str(&sending->body), sending->body.len, false);
    bool is_changed = change_form(sending, &body);
    error_body_release(&body);
    return is_changed;
}

/* Of several refusals, the one that tells the user most. */
static bool is_first_refusal_better(const struct sending *sending, const struct service_result *last)
{
    if (last->outcome != SERVICE_REJECTED)
        return false;
    struct error_body body;
    error_body_init(&body, strbuf_str(&sending->body), sending->body.len, false);
    bool names_from = error_body_names(&body, FROM);
    error_body_release(&body);
    return sending->is_guess || (sending->is_flipped && names_from);
}

static void try_forms(struct sending *sending, struct service_result *ret)
{
    struct service_result first = {.retry_after_ms = -1};
    post(sending, ret);
    while (may_try_again(sending, ret)) {
        if (first.detail == NULL)
            first = *ret;
        else
            service_result_release(ret);
        post(sending, ret);
    }
    if (first.detail != NULL && is_first_refusal_better(sending, ret)) {
        service_result_release(ret);
        *ret = first;
    } else {
        service_result_release(&first);
    }
}

static void read_reply(struct sending *sending, char **ret_id, struct service_result *ret)
{
    struct capability_memory *memory = &sending->api->memory;
    _cleanup_json_ json_t *value = NULL;
    if (api_reply_parse(&sending->body, &value) < 0) {
        api_result_set(
            ret, SERVICE_UNKNOWN, EIO,
            "the service answered with something that is not JSON: whether the message was sent is "
            "unknown");
        return;
    }
    capability_memory_note_authenticated(memory);
    if (sending->is_flipped)
        capability_memory_note_from_address(memory, sending->as_text);
    if (sending->is_guess)
        capability_memory_note_key_refused(memory);
    *ret_id = api_reply_id(value, "email_id");
}

void send_email(struct mail_service *service, const struct send_request *request, struct cancel *cancel,
                char **ret_id, struct service_result *ret)
{
    struct api_service *api = api_service_of(service);
    struct service_capabilities known = capability_memory_get(&api->memory);
    _cleanup_json_ json_t *message = json_loads(request->json, JSON_ALLOW_NUL, NULL);
    *ret = (struct service_result){.retry_after_ms = -1};
    *ret_id = NULL;
    if (!json_is_object(message) ||
        json_object_set_new(message, KEY, json_string(request->idempotency_key)) < 0) {
        api_result_set(ret, SERVICE_REJECTED, EINVAL, "the send request is no JSON object");
        return;
    }
    struct sending sending = {
        .api = api,
        .request = request,
        .message = message,
        .cancel = cancel,
        .body = STRBUF_INIT(API_REPLY_MAX_BYTES),
        .as_text = known.from_address_text != CAPABILITY_ABSENT,
        .with_key = known.idempotency_key != CAPABILITY_ABSENT,
    };
    if (!sending.with_key && request->is_repeat) {
        api_result_set(ret, SERVICE_REJECTED, EINVAL,
                       "an earlier try may have been sent, and the service does not take the idempotency key "
                       "that would make another one safe");
        return;
    }
    try_forms(&sending, ret);
    if (ret->outcome == SERVICE_OK)
        read_reply(&sending, ret_id, ret);
    strbuf_release(&sending.body);
}
