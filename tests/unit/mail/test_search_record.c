/* SPDX-License-Identifier: MIT */
/*
 * What a search looks for in records.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "mail/search_record.h"

static void a_record_shows_its_subject_and_everybody(void **state)
{
    static const char json[] = "{\"subject\": \"Hello\", \"from_address\": {\"address\": \"B@x.example\", "
                               "\"name\": \"Bob\"}, \"to_addresses\": [{\"address\": \"a@x.example\", "
                               "\"name\": null}, \"c@x.example\", 7, null], \"cc_addresses\": \"none\"}";
    struct search_record record;
    (void)state;
    assert_int_equal(search_record_read(json, strlen(json), &record), 0);
    assert_string_equal(record.subject, "Hello");
    assert_string_equal(record.sender, "bob b@x.example\n");
    assert_string_equal(record.people, "Bob B@x.example\na@x.example\nc@x.example\nnone\n");
    search_record_release(&record);

    assert_int_equal(search_record_read("{\"subject\": 4}", 14, &record), 0);
    assert_string_equal(record.subject, "");
    assert_string_equal(record.sender, "");
    assert_string_equal(record.people, "");
    search_record_release(&record);
    assert_int_equal(search_record_read("[1]", 3, &record), -EBADMSG);
}

static void other_fields_are_passed_over_whatever_they_hold(void **state)
{
    static const char json[] = "{\n  \"id\": \"x\",\n  \"deep\": {\"subject\": \"no\", \"list\": [[], {}, "
                               "[{\"a\": [1.5e3, true]}], \"]}\\\"\"]},"
                               "\n  \"latest_webhook_log\": null, \"user_mark_status\": false, \"n\": -4, "
                               "\"from_address\": {\"note\": "
                               "{\"name\": \"no\"}, \"name\": \"A \\\"B\\\" \\u00c4\", \"address\": 7},\n  "
                               "\"subject\": \"1 \\u4f1a\\n2\","
                               " \"to_addresses\": [[\"no\"], {}, {\"name\": \"n\\u0000no\", \"address\": "
                               "\"t\"}], \"bcc_addresses\": []\n}\n";
    struct search_record record;
    (void)state;
    assert_int_equal(search_record_read(json, strlen(json), &record), 0);
    assert_string_equal(record.subject, "1 \u4f1a\n2");
    assert_string_equal(record.sender, "a \"b\" a\u0308 ");
    assert_string_equal(record.people, "A \"B\" \u00c4 n t\n");
    search_record_release(&record);
}

static void a_record_that_cannot_be_read_is_refused(void **state)
{
    static const char *const broken[] = {
        "",
        " ",
        "{",
        "{\"subject\"",
        "{\"subject\":",
        "{\"subject\": \"x\"",
        "{\"subject\": \"x",
        "{\"a\": }",
        "{\"a\": ,}",
        "{\"a\": [}",
        "{\"a\": [[]",
        "{subject: 4}",
        "{\"to_addresses\": [",
        "{\"to_addresses\": [{\"name\"]}",
        "{\"a\": \"\xff\"}",
        "null",
        "\"x\"",
    };
    struct search_record record;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        /* With nothing behind it that could be read by mistake. */
        size_t len = strlen(broken[i]);
        _cleanup_free_ char *exact = malloc(len > 0 ? len : 1);
        memcpy(exact, broken[i], len);
        assert_int_equal(search_record_read(exact, len, &record), -EBADMSG);
    }
}

static void crowds_are_cut_short(void **state)
{
    enum {
        PEOPLE = 20000
    };
    static const char person[] = "{\"address\": \"somebody@far-away.example\"},";
    size_t person_len = strlen(person);
    _cleanup_free_ char *json = malloc(64 + PEOPLE * person_len);
    struct search_record record;
    (void)state;
    char *end = stpcpy(json, "{\"subject\": \"party\", \"to_addresses\": [");
    for (size_t i = 0; i < PEOPLE; i++)
        end = stpcpy(end, person);
    strcpy(end, "{}]}");
    assert_int_equal(search_record_read(json, strlen(json), &record), 0);
    assert_string_equal(record.subject, "party");
    assert_true(strlen(record.people) > 200 * 1024 && strlen(record.people) <= 256 * 1024);
    search_record_release(&record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_shows_its_subject_and_everybody),
        cmocka_unit_test(other_fields_are_passed_over_whatever_they_hold),
        cmocka_unit_test(a_record_that_cannot_be_read_is_refused),
        cmocka_unit_test(crowds_are_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
