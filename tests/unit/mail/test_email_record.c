/* SPDX-License-Identifier: MIT */
/*
 * Records of received mail: every field is kept, whatever value a sender or a server gave it.
 */
#include "mail/email_record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/file_name.h"
#include "mail/json_writer.h"
#include "support/test.h"

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
    assert_int_equal(email_record_from_text(text, strlen(text), &record), 0);
    assert_int_equal(strlen(record.json), record.json_len);

    _cleanup_json_ json_t *again = load(record.json);
    assert_true(json_equal(object, again));
    assert_true(file_name_is_valid(record.stem));
    return record;
}

TEST(a_record_is_written_in_the_layout_of_the_contract)
{
    static const char text[] =
        "{\"zeta\":{},\"subject\":\"H\u00e9llo \\u001b[31m \\u202e\",\"status\":\"valid\",\"list\":[],"
        "\"to_addresses\":[{\"address\":\"a@b\",\"name\":null}],\"date\":\"2026-11-20T10:14:36.123456+00:"
        "00\","
        "\"inbox_id\":\"box-1\",\"id\":\"3c90c3cc-0d44\",\"from_address\":{\"address\":\"c@d\",\"name\":"
        "\"C\"}}";
    struct email_record record = read_record(text);
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

TEST(fields_of_any_type_are_kept)
{
    static const struct {
        const char *text;
        const char *key; /* the expected key; NULL for a digest */
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

TEST(text_that_is_not_a_record_is_refused)
{
    static const struct {
        const char *text;
        int error;
    } cases[] = {
        {"", -EBADMSG},
        {"[]", -EBADMSG},
        {"[{}]", -EBADMSG},
        {"\"x\"", -EBADMSG},
        {"{", -EBADMSG},
        {"{}x", -EBADMSG},
        {"{\"a\"}", -EBADMSG},
        {"{\"a\":1,}", -EBADMSG},
        {"{\"a\":01}", -EBADMSG},
        {"{\"a\":-}", -EBADMSG},
        {"{\"a\":1.}", -EBADMSG},
        {"{\"a\":.1}", -EBADMSG},
        {"{\"a\":1e}", -EBADMSG},
        {"{\"a\":+1}", -EBADMSG},
        {"{\"a\":nul}", -EBADMSG},
        {"{\"a\":nulll}", -EBADMSG},
        {"{\"a\":\"\\x\"}", -EBADMSG},
        {"{\"a\":\"\\u12g4\"}", -EBADMSG},
        {"{\"a\":\"\\", -EBADMSG},
        {"{\"a\":\"line\nbreak\"}", -EBADMSG},
        {"{\"a\":[1 2]}", -EBADMSG},
        {"{\"a\":{\"b\":}}", -EBADMSG},
        {"{\"a\":[}]}", -EBADMSG},
        {"{\"a\":\"\xc3(\"}", -EILSEQ},
        {"{\"a\":\"\xed\xa0\x80\"}", -EILSEQ},
        {"{\"a\":\"\xc0\x80\"}", -EILSEQ},
        {"{\"a\":1,\"b\":2,\"a\":3}", -EEXIST},
        {"{\"a\":1,\"\\u0061\":3}", -EEXIST},
    };
    struct email_record record;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (email_record_from_text(cases[i].text, strlen(cases[i].text), &record) != cases[i].error)
            fail_msg("case %zu: %s", i, cases[i].text);
}

TEST(json_that_jansson_refuses_is_kept)
{
    static const char text[] = "{\"id\":123456789012345678901234567890,\"n\":-0.10e+05,\"big\":1e999,"
                               "\"s\":\"\\ud800 \\udc00 \\ud83d\\ude00 \\/ \\ud83d\\uf8ff "
                               "\\ud83d\\ud83d\",\"k\\u0000\":{\"a\":1,\"a\":2}}";
    struct email_record record;
    assert_int_equal(email_record_from_text(text, strlen(text), &record), 0);
    assert_string_equal(record.json,
                        "{\n"
                        "  \"id\": 123456789012345678901234567890,\n"
                        "  \"n\": -0.10e+05,\n"
                        "  \"big\": 1e999,\n"
                        "  \"s\": \"\xef\xbf\xbd \xef\xbf\xbd \xf0\x9f\x98\x80 / \xef\xbf\xbd\xef\xa3\xbf "
                        "\xef\xbf\xbd\xef\xbf\xbd\",\n"
                        "  \"k\\u0000\": {\n"
                        "    \"a\": 1,\n"
                        "    \"a\": 2\n"
                        "  }\n"
                        "}\n");
    assert_string_equal(record.key, "123456789012345678901234567890");
    email_record_release(&record);
}

TEST(a_record_without_an_id_gets_a_key_from_its_content)
{
    struct email_record one = read_record("{\"subject\":\"a\",\"date\":\"2026-11-20\"}");
    struct email_record again = read_record("{\"date\": \"2026-11-20\", \"subject\": \"a\"}");
    struct email_record other = read_record("{\"subject\":\"b\",\"date\":\"2026-11-20\"}");
    assert_string_equal(one.key, again.key);
    assert_string_not_equal(one.key, other.key);
    email_record_release(&one);
    email_record_release(&again);
    email_record_release(&other);
}

/* `cat` of a record must not send control characters to a terminal. */
TEST(characters_that_a_terminal_obeys_are_escaped)
{
    char text[8 * 256] = "{\"subject\":\"";
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

TEST(a_record_over_the_size_limit_is_refused)
{
    _cleanup_free_ char *text = malloc(EMAIL_RECORD_MAX_BYTES + 100);
    struct email_record record;
    assert_non_null(text);
    size_t start = (size_t)sprintf(text, "{\"id\":1,\"subject\":\"");
    memset(text + start, 'x', EMAIL_RECORD_MAX_BYTES);

    size_t len = EMAIL_RECORD_MAX_BYTES;
    memcpy(text + len - 2, "\"}", 2);
    assert_int_equal(email_record_from_text(text, len, &record), -EMSGSIZE); /* too long with indents */

    len -= 100;
    memcpy(text + len - 2, "\"}", 2);
    assert_int_equal(email_record_from_text(text, len, &record), 0);
    assert_true(strlen(record.stem) < 100);
    email_record_release(&record);
}

TEST(a_record_with_too_many_fields_is_refused)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 20);
    struct email_record record;
    for (int i = 0; i < EMAIL_RECORD_MAX_FIELDS; i++)
        strbuf_appendf(&text, "%c\"%d\":[]", i == 0 ? '{' : ',', i);
    strbuf_append_char(&text, '}');
    assert_int_equal(email_record_from_text(text.data, text.len, &record), 0);
    email_record_release(&record);
    strbuf_truncate(&text, text.len - 1);
    strbuf_append_str(&text, ",\"more\":1}");
    assert_int_equal(email_record_from_text(text.data, text.len, &record), -EMSGSIZE);
}

TEST(a_record_nested_too_deep_is_refused)
{
    char text[5000] = "{\"id\":\"1\",\"deep\":";
    struct email_record record;
    size_t len = strlen(text);
    memset(text + len, '[', 2000);
    memset(text + len + 2000, ']', 2000);
    text[len + 4000] = '}';
    assert_int_equal(email_record_from_text(text, strlen(text), &record), -EMSGSIZE);
}

/* ---------------------------------------------------------------- comparison with jansson */

static const char *const corpus[] = {
    "{}",
    " { \"id\" : \"a\" , \"x\" : [ ] , \"y\" : { } , \"z\" : [ { } , [ 1 , -2 , 3.5 , true , false , null ] "
    "] } ",
    "{\"id\":\"3c90c3cc-0d44-4b50-8888-8dd25736052a\",\"status\":\"valid\",\"status_message\":null,"
    "\"user_mark_status\":false,\"inbox_id\":\"box-1\",\"subject\":\"Caf\\u00e9 \\ud83d\\ude00 \\\"x\\\" "
    "\\\\\","
    "\"from_address\":{\"address\":\"c@d\",\"name\":\"\xc3\x89va\"},\"to_addresses\":[{\"address\":\"a@b\","
    "\"name\":null}],\"cc_addresses\":[],\"date\":\"2026-11-20T10:14:36Z\",\"latest_webhook_log\":null}",
    "{\"subject\":\"\xe2\x80\xae\x7f\xc2\x9b "
    "\\b\\f\\n\\r\\t\\/\\u0000\",\"id\":-12,\"deep\":[[[[[[{\"a\":[]}]]]]]]}",
};

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

static void damage(char *text, size_t *len, uint64_t *seed)
{
    static const char bytes[] =
        "{}[]\",:\\ \n0123456789-+.eEtrufalsn\0\x01\x1f\x7f\x80\xc3\xe2\xed\xf0\xff/bd";
    for (uint32_t i = next_random(seed) % 3 + 1; i > 0 && *len > 0; i--) {
        size_t at = next_random(seed) % *len;
        switch (next_random(seed) % 4) {
        case 0: /* cut */
            *len = at;
            break;
        case 1: /* remove */
            memmove(text + at, text + at + 1, --*len - at);
            break;
        case 2: /* insert */
            memmove(text + at + 1, text + at, (*len)++ - at);
            text[at] = bytes[next_random(seed) % (sizeof(bytes) - 1)];
            break;
        default:
            text[at] = bytes[next_random(seed) % (sizeof(bytes) - 1)];
        }
    }
}

/* Returns true for an error of jansson in a text that our reader may accept. */
static bool is_refused_by_jansson_alone(const json_error_t *error)
{
    return json_error_code(error) == json_error_duplicate_key ||
           json_error_code(error) == json_error_null_byte_in_key ||
           json_error_code(error) == json_error_numeric_overflow ||
           strstr(error->text, "invalid Unicode") != NULL;
}

static void assert_same_verdict(const char *text, size_t len)
{
    struct email_record record;
    json_error_t error;
    _cleanup_json_ json_t *value = json_loadb(text, len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    int verdict = email_record_from_text(text, len, &record);
    if (verdict == -EBADMSG && memchr(text, '\0', len) != NULL)
        return; /* jansson ignores a NUL after a number */
    if ((verdict == 0) != (value != NULL && json_is_object(value)) && !is_refused_by_jansson_alone(&error))
        fail_msg("%d, but jansson: %s, of %.*s", verdict, value == NULL ? error.text : "well", (int)len,
                 text);
    if (verdict != 0)
        return;
    if (value != NULL) {
        _cleanup_json_ json_t *again = load(record.json);
        assert_true(json_equal(value, again));
    }
    email_record_release(&record);
}

TEST(damaged_records_are_accepted_or_refused_as_by_jansson)
{
    enum {
        ROUNDS = 50000
    };
    uint64_t seed = 42;
    for (size_t i = 0; i < ARRAY_LEN(corpus); i++) {
        assert_same_verdict(corpus[i], strlen(corpus[i]));
        for (int round = 0; round < ROUNDS; round++) {
            size_t len = strlen(corpus[i]);
            /* A copy on the heap of exact length, so that a sanitizer sees reads beyond the end. */
            _cleanup_free_ char *text = malloc(len + 3);
            memcpy(text, corpus[i], len);
            damage(text, &len, &seed);
            _cleanup_free_ char *exact = malloc(len + 1);
            memcpy(exact, text, len);
            assert_same_verdict(exact, len);
        }
    }
}

/* Record and line are on the heap in their exact lengths, so that a sanitizer sees accesses beyond them. */
static void check_line_of(const char *text)
{
    static const char name[] = "20261120T101436Z_h\u00e9_3c90c3cc.json";
    struct email_record record;
    assert_int_equal(email_record_from_text(text, strlen(text), &record), 0);
    _cleanup_free_ char *json = malloc(record.json_len);
    memcpy(json, record.json, record.json_len);
    size_t len = record.line_len + strlen(name);
    _cleanup_free_ char *exact = malloc(len);
    email_record_write_line(json, record.json_len, name, strlen(name), record.line_len, exact);
    _cleanup_free_ char *line = strndup(exact, len);
    assert_int_equal(strlen(line), len);
    assert_ptr_equal(strchr(line, '\n'), line + len - 1);

    _cleanup_json_ json_t *expected = load(record.json);
    json_object_set_new(expected, "file", json_string(name));
    _cleanup_json_ json_t *object = load(line);
    assert_true(json_equal(object, expected));
    _cleanup_free_ char *compact = json_dumps(object, JSON_COMPACT);
    assert_true(strlen(compact) <= len + 32); /* except for escapes, no shorter than jansson's line */
    email_record_release(&record);
}

TEST(a_line_of_the_index_has_the_record_and_the_file_name)
{
    for (size_t i = 0; i < ARRAY_LEN(corpus); i++)
        check_line_of(corpus[i]);
}

/* The strings, and deep indents, begin at every offset in the text. */
TEST(a_line_of_the_index_keeps_strings_that_look_like_layout)
{
    static const char *const parts[] = {
        "\"a\":\"x\\\": y \\\\\",\"b\":{\"c\":[1,{\"d\":null}]},\"e\":\"\"",
        "\"key \\\": \":\"\\\\\",\"\":[[]],\"\\\\\":{\"\\\"\":1}",
        "\"\xc3\xa9\xc3\xa9\":\": \\\" : \",\"\\u2028\":\" \\n  \",\"z\":[\"a\",\"b\\\": c\"]",
        "\"subject\":\": so\",\"to\":[\"b: \"]",
        "\"to\":[\": a\"]",
        "\": k\":1",
        "\"blank \":2",
        "\"deep\":[[[[[[[[[[[{\"k\":[[\"v\"]]}]]]]]]]]]]],\"after\":true",
        "\"cc_addresses\":[],\"bcc_addresses\":[],\"reply_to_addresses\":[],\"latest_webhook_log\":null",
    };
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        for (int before = 0; before < 130; before++)
            for (int after = 0; after < 130; after += 1 + before % 7) {
                char text[1000];
                snprintf(text, sizeof(text), "{\"id\":\"%0*d\",%s,\"last\":\"%0*d\"}", before + 1, 7,
                         parts[i], after + 1, 7);
                check_line_of(text);
            }
}

/* The text may come from a damaged disk, but its line always has the length that was counted before. */
TEST(the_line_of_a_damaged_record_has_the_length_that_was_given)
{
    uint64_t seed = 5;
    for (int round = 0; round < 20000; round++) {
        size_t json_len = next_random(&seed) % 400;
        size_t line_len = 16 + next_random(&seed) % 400;
        _cleanup_free_ char *json = malloc(json_len + 1);
        _cleanup_free_ char *line = malloc(line_len + 4);
        for (size_t i = 0; i < json_len; i++)
            json[i] = "\n \":\\x{"[next_random(&seed) % 7];
        json[0] = round % 2 == 0 ? '{' : json[0];
        _cleanup_free_ char *exact = malloc(json_len);
        if (json_len > 0)
            memcpy(exact, json, json_len);
        email_record_write_line(exact, json_len, "name", 4, line_len, line);
        assert_null(memchr(line, '\0', line_len + 4));
    }
}

TEST(an_email_is_quarantined_by_its_status_unless_marked_valid)
{
    static const struct {
        const char *json;
        bool is_quarantined;
    } rows[] = {
        {"{\"id\": \"1\"}", false},
        {"{\"id\": \"1\", \"status\": \"valid\"}", false},
        {"{\"id\": \"1\", \"status\": null}", false},
        {"{\"id\": \"1\", \"status\": 7}", false},
        {"{\"id\": \"1\", \"status\": \"spf_fail\"}", true},
        {"{\"id\": \"1\", \"status\": \"validated\"}", true},
        {"{\"id\": \"1\", \"status\": \"spf_fail\", \"user_mark_status\": false}", true},
        {"{\"id\": \"1\", \"status\": \"spf_fail\", \"user_mark_status\":true}", false},
        {"{\"user_mark_status\": true, \"status\": \"spf_fail\"}", false},
        {"{\"id\": \"1\", \"status\": \"spf_fail\", \"user_mark_status\": \"true\"}", true},
        {"{\"id\": \"1\", \"status\": \"spf_fail\", \"user_mark_status\": \"x: true\"}", true},
        {"{\"id\": \"1\", \"status\": \"spf_fail\", \"user_mark_status\": [true]}", true},
        {"{\"id\": \"1\", \"status\": \"spf_fail\", \"user_mark_status\": {\"a\": true}}", true},
        {"{\"id\": \"1\", \"a\": {\"status\": \"spf_fail\"}}", false},
        {"{\"id\": \"1\", \"status\": \"valid\", \"user_mark_status\": false}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct email_record record;
        assert_int_equal(email_record_from_text(rows[i].json, strlen(rows[i].json), &record), 0);
        assert_int_equal(record.is_quarantined, rows[i].is_quarantined);
        email_record_release(&record);
    }
}
