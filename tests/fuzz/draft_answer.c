/* SPDX-License-Identifier: MIT */
/*
 * Replies. Whatever the user writes, a reply refers to its email, has the requested kind (reply, reply to
 * all, forward), and has a recipient; a refusal has a reason. If the first bytes of a reply are refused, the
 * whole reply is refused, too.
 */
#include <jansson.h>

#include "fuzz/fuzz.h"
#include "mail/draft.h"
#include "mail/json_writer.h"

static void check_beginning(const char *bytes, size_t len)
{
    static const char answered[] = "{\"to_addresses\":[\"who?\"],\"existing_email_id\":\"e-1\","
                                   "\"message_type\":\"reply\"}";
    struct draft *draft = NULL;
    _cleanup_free_ char *reason = NULL;
    _cleanup_free_ char *reason_of_all = NULL;
    size_t beginning = len > 0 ? (unsigned char)bytes[len - 1] % (len + 1) : 0;
    if (draft_check_beginning(bytes, beginning, answered, &reason) != 0)
        FUZZ_CHECK(draft_parse(bytes, len, answered, &draft, &reason_of_all) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    check_beginning((const char *)bytes, len);
    static const char answered[] =
        "{\"from_address\":\"alice@x.example\",\"to_addresses\":[{\"address\":\"bob@x.example\",\"name\":"
        "\"Bob\"}],"
        "\"subject\":\"Re: Lunch\",\"existing_email_id\":\"e-1\",\"message_type\":\"reply\"}";
    struct draft *draft = NULL;
    _cleanup_free_ char *reason = NULL;
    if (draft_parse((const char *)bytes, len, answered, &draft, &reason) != 0) {
        FUZZ_CHECK(reason != NULL && reason[0] != '\0');
        return 0;
    }
    _cleanup_json_ json_t *request = json_loads(draft->request, JSON_REJECT_DUPLICATES, NULL);
    FUZZ_CHECK(strcmp(json_string_value(json_object_get(request, "existing_email_id")), "e-1") == 0);
    FUZZ_CHECK(strcmp(json_string_value(json_object_get(request, "message_type")), "reply") == 0);
    FUZZ_CHECK(json_array_size(json_object_get(request, "to_addresses")) +
                   json_array_size(json_object_get(request, "cc_addresses")) +
                   json_array_size(json_object_get(request, "bcc_addresses")) >
               0);
    FUZZ_CHECK(json_object_get(request, "subject") != NULL);
    draft_free(draft);
    return 0;
}
