/* SPDX-License-Identifier: MIT */
/*
 * Records of inboxes (the first line) and edits of them by users (the rest). A record is shown as JSON
 * that is read as the same record; an edit makes a request with the record's id, or is refused with a reason.
 */
#include <jansson.h>

#include "fuzz/fuzz.h"
#include "mail/inbox_record.h"
#include "mail/json_writer.h"

static void check_edit(const struct inbox_record *record, const uint8_t *edited, size_t len)
{
    _cleanup_free_ char *request = NULL;
    _cleanup_free_ char *reason = NULL;
    (void)inbox_text_is_complete((const char *)edited, len);
    if (inbox_request_update(record, (const char *)edited, len, &request, &reason) != 0) {
        FUZZ_CHECK(reason != NULL);
        return;
    }
    _cleanup_json_ json_t *object = json_loads(request, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    _cleanup_free_ char *id = json_value_read_id(json_object_get(object, "id"));
    FUZZ_CHECK(id != NULL && strcmp(id, record->id) == 0);
    FUZZ_CHECK(json_object_get(object, "webhook_secret") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct inbox_record record;
    struct inbox_record again;
    _cleanup_free_ char *line = fuzz_take_line(&bytes, &len);
    if (inbox_record_from_text(line, strlen(line), &record) != 0)
        return 0;
    fuzz_check_harmless(record.json, record.json_len, "\n");
    FUZZ_CHECK(inbox_record_from_text(record.json, record.json_len, &again) == 0);
    FUZZ_CHECK(strcmp(again.json, record.json) == 0 && strcmp(again.id, record.id) == 0);
    check_edit(&record, bytes, len);
    inbox_record_release(&record);
    inbox_record_release(&again);
    return 0;
}
