/* SPDX-License-Identifier: MIT */
/*
 * Requests to inboxd in JSON: to send, and to make or change an inbox. A request is refused with a problem,
 * or has all values that the service needs.
 */
#include <jansson.h>

#include "fuzz/fuzz.h"
#include "mail/address.h"
#include "mail/json_writer.h"
#include "service/inbox.h"
#include "service/sending.h"

static void check_submission(json_t *body)
{
    struct validation validation = {0};
    struct submission submission;
    submission_read(body, &validation, &submission);
    if (validation.problems == NULL) {
        FUZZ_CHECK(submission.message.plain_text != NULL || submission.message.html != NULL);
        FUZZ_CHECK(address_is_valid(json_string_value(json_object_get(submission.message.from, "address"))));
        FUZZ_CHECK(strlen(submission.digest) == 64);
    }
    submission_release(&submission);
    validation_release(&validation);
}

static void check_upsert(json_t *body)
{
    struct validation validation = {0};
    _cleanup_json_ json_t *settings = inbox_settings_read(body, &validation);
    FUZZ_CHECK(json_is_object(settings));
    validation_release(&validation);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    _cleanup_json_ json_t *body = json_loadb((const char *)bytes, len, 0, NULL);
    if (json_is_object(body)) {
        check_submission(body);
        check_upsert(body);
    }
    return 0;
}
