/* SPDX-License-Identifier: MIT */
/*
 * Records of received mail: every field stays, whatever a sender or a server put into it.
 */
#include "mail/email_record.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "mail/file_name.h"
#include "mail/json_value.h"

static json_t *load(const char *text)
{
    json_error_t problem;
    json_t *value = json_loads(text, JSON_ALLOW_NUL, &problem);
    if (value == NULL)
        fail_msg("%s: %s", text, problem.text);
    return value;
}

static struct email_record read_record(const char *text)
{
    struct email_record record;
    _cleanup_json_ json_t *object = load(text);
    assert_int_equal(email_record_from_json(object, &record), 0);
    assert_int_equal(strlen(record.json), record.json_len);

    _cleanup_json_ json_t *again = load(record.json);
    assert_true(json_equal(object, again));
    assert_true(file_name_is_valid(record.stem));
    return record;
}

static void the_text_is_as_the_contract_says(void **state)
{
    static const char text[] =
        "{\"zeta\":{},\"subject\":\"H\u00e9llo \\u001b[31m \\u202e\",\"status\":\"valid\",\"list\":[],"
        "\"to_addresses\":[{\"address\":\"a@b\",\"name\":null}],\"date\":\"2026-11-20T10:14:36.123456+00:"
        "00\","
        "\"inbox_id\":\"box-1\",\"id\":\"3c90c3cc-0d44\",\"from_address\":{\"address\":\"c@d\",\"name\":"
        "\"C\"}}";
    struct email_record record = read_record(text);
    (void)state;
    assert_string_equal(record.json, "{\n"
                                     "  \"id\": \"3c90c3cc-0d44\",\n"
                                     "  \"date\": \"2026-11-20T10:14:36.123456+00:00\",\n"
                                     "  \"from_address\": {\n"
                                     "    \"address\": \"c@d\",\n"
                                     "    \"name\": \"C\"\n"
                                     "  },\n"
                                     "  \"to_addresses\": [\n"
                                     "    {\n"
                                     "      \"address\": \"a@b\",\n"
                                     "      \"name\": null\n"
                                     "    }\n"
                                     "  ],\n"
                                     "  \"subject\": \"H\u00e9llo \\u001b[31m \\u202e\",\n"
                                     "  \"zeta\": {},\n"
                                     "  \"status\": \"valid\",\n"
                                     "  \"list\": [],\n"
                                     "  \"inbox_id\": \"box-1\"\n"
                                     "}\n");
    assert_string_equal(record.key, "3c90c3cc-0d44");
    assert_string_equal(record.inbox_id, "box-1");
    assert_string_equal(record.stem, "20261120T101436Z_h\u00e9llo-31m_3c90c3cc");
    assert_true(record.has_date);
    assert_true(record.date_ms == INT64_C(1795169676123));
    email_record_release(&record);
}

static void odd_fields_are_carried(void **state)
{
    static const struct {
        const char *text;
        const char *key; /* NULL: a digest */
        const char *inbox_id;
        bool has_date;
    } cases[] = {
        {"{}", NULL, NULL, false},
        {"{\"id\":42,\"inbox_id\":-7}", "42", "-7", false},
        {"{\"id\":null,\"inbox_id\":null,\"date\":null,\"subject\":null}", NULL, NULL, false},
        {"{\"id\":\"\",\"inbox_id\":\"\"}", NULL, NULL, false},
        {"{\"id\":1.5,\"inbox_id\":[]}", NULL, NULL, false},
        {"{\"id\":{\"a\":1},\"inbox_id\":true}", NULL, NULL, false},
        {"{\"id\":\"a\\u0000b\"}", NULL, NULL, false},
        {"{\"id\":\"x\",\"date\":1795169676}", "x", NULL, false},
        {"{\"id\":\"x\",\"date\":\"yesterday\"}", "x", NULL, false},
        {"{\"id\":\"x\",\"date\":\"2026-11-20\",\"subject\":[1]}", "x", NULL, true},
        {"{\"id\":\"x\",\"subject\":\"a\\u0000b\",\"k\\u001b\":\"\\u009b\"}", "x", NULL, false},
        {"{\"id\":\"../../x\\n\",\"subject\":{\"deep\":[[[[]]]]}}", "../../x\n", NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct email_record record = read_record(cases[i].text);
        if (cases[i].key != NULL)
            assert_string_equal(record.key, cases[i].key);
        else
            assert_true(record.key[0] == '~' && strlen(record.key) == 17);
        if (cases[i].inbox_id != NULL)
            assert_string_equal(record.inbox_id, cases[i].inbox_id);
        else
            assert_null(record.inbox_id);
        assert_true(record.has_date == cases[i].has_date);
        assert_true(record.has_date || record.date_ms == 0);
        email_record_release(&record);
    }
}

static void only_objects_are_records(void **state)
{
    static const char *const cases[] = {"[]", "[{}]", "[\"x\"]"};
    struct email_record record;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ json_t *value = load(cases[i]);
        assert_int_equal(email_record_from_json(value, &record), -EBADMSG);
    }
    assert_int_equal(email_record_from_json(NULL, &record), -EBADMSG);
}

static void without_an_id_the_content_tells_records_apart(void **state)
{
    struct email_record one = read_record("{\"subject\":\"a\",\"date\":\"2026-11-20\"}");
    struct email_record reordered = read_record("{\"date\":\"2026-11-20\",\"subject\":\"a\"}");
    struct email_record other = read_record("{\"subject\":\"b\",\"date\":\"2026-11-20\"}");
    (void)state;
    assert_string_equal(one.key, reordered.key);
    assert_string_not_equal(one.key, other.key);
    email_record_release(&one);
    email_record_release(&reordered);
    email_record_release(&other);
}

/* `cat` of a record must not be able to do anything to a terminal. */
static void nothing_in_the_text_acts_on_a_terminal(void **state)
{
    char text[8 * 256] = "{\"subject\":\"";
    (void)state;
    for (unsigned int c = 0; c < 0xa0; c++)
        if (c != '\n')
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "\\u%04x", c);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "\\u202e\\u2067\",\"\\u001b]0;\\u009b\":1}");
    struct email_record record = read_record(text);
    for (const unsigned char *c = (const unsigned char *)record.json; *c != '\0'; c++) {
        assert_true(*c >= 0x20 || *c == '\n');
        assert_true(*c != 0x7f);
        assert_false(*c == 0xc2 && c[1] < 0xa0);
        assert_false(c[0] == 0xe2 && c[1] == 0x80 && c[2] == 0xae);
    }
    email_record_release(&record);
}

static void a_record_has_a_ceiling(void **state)
{
    _cleanup_free_ char *subject = malloc(EMAIL_RECORD_MAX_BYTES + 1);
    struct email_record record;
    (void)state;
    assert_non_null(subject);
    memset(subject, 'x', EMAIL_RECORD_MAX_BYTES);
    subject[EMAIL_RECORD_MAX_BYTES] = '\0';

    _cleanup_json_ json_t *object = json_pack("{s:s, s:s}", "id", "1", "subject", subject);
    assert_int_equal(email_record_from_json(object, &record), -EMSGSIZE);

    subject[EMAIL_RECORD_MAX_BYTES - 100] = '\0';
    _cleanup_json_ json_t *smaller = json_pack("{s:s, s:s}", "id", "1", "subject", subject);
    assert_int_equal(email_record_from_json(smaller, &record), 0);
    assert_true(strlen(record.stem) < 100);
    email_record_release(&record);
}

static void deep_nesting_is_survived(void **state)
{
    char text[5000] = "{\"id\":\"1\",\"deep\":";
    struct email_record record;
    (void)state;
    size_t len = strlen(text);
    memset(text + len, '[', 2000);
    memset(text + len + 2000, ']', 2000);
    text[len + 4000] = '}';
    _cleanup_json_ json_t *object = load(text);
    assert_int_equal(email_record_from_json(object, &record), -EMSGSIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_as_the_contract_says),
        cmocka_unit_test(odd_fields_are_carried),
        cmocka_unit_test(only_objects_are_records),
        cmocka_unit_test(without_an_id_the_content_tells_records_apart),
        cmocka_unit_test(nothing_in_the_text_acts_on_a_terminal),
        cmocka_unit_test(a_record_has_a_ceiling),
        cmocka_unit_test(deep_nesting_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
