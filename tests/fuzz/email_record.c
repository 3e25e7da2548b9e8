/* SPDX-License-Identifier: MIT */
/*
 * Records of emails from any server. A record that is read has a harmless name within its bounds, and a text
 * without characters that a terminal obeys. The text is read as the same record, and makes one line of JSON
 * in index.jsonl, of the predicted length.
 */
#include <jansson.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "mail/email_record.h"
#include "mail/file_name.h"
#include "mail/json_writer.h"

static void check_line(const struct email_record *record)
{
    static const char name[] = "20261120T101436Z_s_3c90c3cc.json";
    size_t len = record->line_len + strlen(name);
    _cleanup_free_ char *line = malloc(len);
    email_record_write_line(record->json, record->json_len, name, strlen(name), record->line_len, line);
    FUZZ_CHECK(line[len - 1] == '\n' && memchr(line, '\n', len - 1) == NULL);
    _cleanup_json_ json_t *object = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
    /* The record may have its own member "file". */
    FUZZ_CHECK(object == NULL || json_object_get(object, "file") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct email_record record;
    struct email_record again;
    if (email_record_from_text((const char *)bytes, len, &record) != 0)
        return 0;
    FUZZ_CHECK(file_name_is_harmless(record.stem));
    FUZZ_CHECK(strlen(record.stem) <=
               strlen("20261120T101436Z_") + FILE_NAME_SLUG_MAX_BYTES + strlen("_3c90c3cc"));
    FUZZ_CHECK(strlen(record.json) == record.json_len);
    fuzz_check_harmless(record.json, record.json_len, "\n");
    check_line(&record);
    FUZZ_CHECK(email_record_from_text(record.json, record.json_len, &again) == 0);
    FUZZ_CHECK(strcmp(again.json, record.json) == 0);
    FUZZ_CHECK(strcmp(again.stem, record.stem) == 0 || record.key[0] == '~');
    FUZZ_CHECK(again.line_len == record.line_len && again.date_ms == record.date_ms);
    email_record_release(&again);
    email_record_release(&record);
    return 0;
}
