/* SPDX-License-Identifier: MIT */
/*
 * Messages in both forms, MIME and JSON. Each refusal, and each part that is not carried, has a reason of one
 * line. The request of an accepted message, read as a message in JSON, makes the same request again. Its
 * parts have names and types that are valid in a header.
 */
#include <jansson.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "mail/draft.h"
#include "mail/file_name.h"
#include "mail/json_writer.h"

static void check_draft(const struct draft *draft)
{
    struct draft *again = NULL;
    _cleanup_free_ char *reason = NULL;
    _cleanup_free_ char *request = NULL;
    static const char *const ids[] = {"id-1", "id-2"};
    for (size_t i = 0; i < draft->parts_len; i++) {
        FUZZ_CHECK(file_name_is_valid(draft->parts[i].name));
        FUZZ_CHECK(strpbrk(draft->parts[i].content_type, "\r\n \";") == NULL);
    }
    for (size_t i = 0; i < draft->attachment_names_len; i++)
        FUZZ_CHECK(file_name_is_valid(draft->attachment_names[i]));
    FUZZ_CHECK(draft->message_ids_len <= 2 * DRAFT_MESSAGE_IDS_MAX);
    for (size_t i = 0; i < draft->message_ids_len; i++)
        FUZZ_CHECK(draft->message_ids[i][0] != '\0' && strpbrk(draft->message_ids[i], "<> \t\r\n") == NULL);
    for (size_t i = 0; i < draft->not_carried_len; i++)
        FUZZ_CHECK(draft->not_carried[i][0] != '\0');
    FUZZ_CHECK(draft_parse(draft->request, strlen(draft->request), NULL, &again, &reason) == 0);
    FUZZ_CHECK(strcmp(again->request, draft->request) == 0);
    draft_free(again);
    FUZZ_CHECK(draft_complete_request(draft, "alice@x.example", "e1", ids, ARRAY_LEN(ids), &request) == 0);
    _cleanup_json_ json_t *object = json_loads(request, JSON_REJECT_DUPLICATES, NULL);
    FUZZ_CHECK(json_array_size(json_object_get(object, "attachment_ids")) >= ARRAY_LEN(ids));
    if (draft->message_ids_len > 0)
        FUZZ_CHECK(json_object_get(object, "existing_email_id") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct draft *draft = NULL;
    _cleanup_free_ char *reason = NULL;
    int error = draft_parse((const char *)bytes, len, NULL, &draft, &reason);
    if (error == 0) {
        check_draft(draft);
        draft_free(draft);
    } else {
        FUZZ_CHECK(reason != NULL && reason[0] != '\0');
        fuzz_check_harmless(reason, strlen(reason), "");
    }
    return 0;
}
