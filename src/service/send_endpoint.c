/* SPDX-License-Identifier: MIT */
/*
 * Sending over HTTP.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "service/endpoints.h"
#include "service/sending.h"

enum {
    DAY_S = 24 * 60 * 60,
};

static void reply_limit(struct reply *reply)
{
    reply_error(reply, MHD_HTTP_TOO_MANY_REQUESTS, "The daily limit of emails sent is reached.");
    reply->retry_after_s = DAY_S - clock_realtime_ms(clock_system()) / 1000 % DAY_S;
}

static void reply_no_attachment(struct reply *reply, size_t index)
{
    json_t *problem = json_pack("{s:[s, s, i], s:s, s:s}", "loc", "body", "attachment_ids", (int)index, "msg",
                                "There is no attachment with this id in the pool", "type", "value_error");
    reply_json(reply, MHD_HTTP_UNPROCESSABLE_CONTENT, json_pack("{s:[o]}", "detail", problem));
}

static void answer(const struct sending_result *result, struct reply *reply)
{
    switch (result->outcome) {
    case SENDING_DONE:
    case SENDING_REPEATED:
        reply_json(reply, MHD_HTTP_OK, json_pack("{s:s}", "id", result->id));
        break;
    case SENDING_KEY_REUSED:
        reply_error(reply, MHD_HTTP_CONFLICT, "The idempotency key was used for another request.");
        break;
    case SENDING_LIMIT_REACHED:
        reply_limit(reply);
        break;
    case SENDING_NO_INBOX:
        reply_error(reply, MHD_HTTP_NOT_FOUND, "There is no inbox with the address to send from.");
        break;
    case SENDING_NO_EMAIL:
        reply_error(reply, MHD_HTTP_NOT_FOUND, "There is no such email to reply to or forward.");
        break;
    case SENDING_NO_ATTACHMENT:
        reply_no_attachment(reply, result->index);
        break;
    case SENDING_TOO_LARGE:
        reply_error(reply, MHD_HTTP_CONTENT_TOO_LARGE, "The attachments together are over 10,000,000 bytes.");
        break;
    case SENDING_FORWARDED_TOO_OFTEN:
        reply_error(reply, MHD_HTTP_CONTENT_TOO_LARGE, "The forwarded email encloses too much already.");
        break;
    }
}

int endpoint_send(struct request *request, struct reply *reply)
{
    json_t *body = request_read_object(request, reply);
    if (body == NULL)
        return 0;
    struct validation validation = {0};
    _cleanup_submission_ struct submission submission = {0};
    int error = validation_init(&validation);
    if (error == 0)
        error = submission_read(body, &validation, &submission);
    if (error == 0 && validation_has_failed(&validation)) {
        reply_invalid(reply, &validation);
    } else if (error == 0) {
        struct sending_result result = {0};
        error = sending_run(request->account, &submission, &result);
        if (error == 0)
            answer(&result, reply);
    }
    validation_release(&validation);
    json_decref(body);
    return error;
}
