/* SPDX-License-Identifier: MIT */
/*
 * The JSON writer makes valid JSON of any bytes, without characters that a terminal would obey.
 */
#include "mail/json_writer.h"

#include <errno.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "support/test.h"

TEST(strings_are_escaped)
{
    static const struct {
        const char *text;
        const char *expected;
    } cases[] = {
        {"", "\"\""},
        {"plain / text", "\"plain / text\""},
        {"\"quoted\" \\", "\"\\\"quoted\\\" \\\\\""},
        {"\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\""},
        {"\x01\x1b[31m\x7f", "\"\\u0001\\u001b[31m\\u007f\""},
        {"h\u00e9llo \u4e16\u754c \U0001f600", "\"h\u00e9llo \u4e16\u754c \U0001f600\""},
        {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\"\\u0080\\u009b\\u009f\xc2\xa0\""},
        {"a\u202eb\u2066c\u200fd\u200ee\u061c", "\"a\\u202eb\\u2066c\\u200fd\\u200ee\\u061c\""},
        {"a\u2028b\u2029c\u202f", "\"a\\u2028b\\u2029c\u202f\""},
        {"\u202a\u202d\u2069\u2065\u206a\u2029", "\"\\u202a\\u202d\\u2069\u2065\u206a\\u2029\""},
        {"a\xff\xfe!", "\"a\ufffd\ufffd!\""},
        {"cut \xe4\xb8", "\"cut \ufffd\ufffd\""},
        {"\xc0\xaf\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\ufffd\ufffd\""},
        {"\xf4\x90\x80\x80", "\"\ufffd\ufffd\ufffd\ufffd\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1000);
        struct json_writer writer;
        json_writer_init(&writer, &out, 0);
        json_write_string(&writer, cases[i].text);
        assert_string_equal(strbuf_str(&out), cases[i].expected);
    }
}

TEST(characters_that_need_an_escape_are_found_at_every_position)
{
    static const char special[] = {'"', '\\', '\0', '\n', '\x1f', '\x7f', '\x80', '\xff'};
    for (size_t len = 1; len < 50; len++) {
        for (size_t i = 0; i < len * sizeof(special); i++) {
            char text[50];
            memset(text, i % 2 == 0 ? ' ' : '~', len);
            text[i / sizeof(special)] = special[i % sizeof(special)];
            assert_int_equal(json_plain_len(text, len), i / sizeof(special));
            assert_int_equal(json_plain_len(text, i / sizeof(special)), i / sizeof(special));
        }
    }
}

TEST(every_character_survives_writing_and_parsing)
{
    for (unsigned int c = 1; c < 0x3000; c++) {
        char text[4];
        size_t len;
        if (c < 0x80) {
            text[0] = (char)c;
            len = 1;
        } else if (c < 0x800) {
            text[0] = (char)(0xc0 | c >> 6);
            text[1] = (char)(0x80 | (c & 0x3f));
            len = 2;
        } else {
            text[0] = (char)(0xe0 | c >> 12);
            text[1] = (char)(0x80 | (c >> 6 & 0x3f));
            text[2] = (char)(0x80 | (c & 0x3f));
            len = 3;
        }
        text[len] = '\0';
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(100);
        struct json_writer writer;
        json_writer_init(&writer, &out, 0);
        json_write_string(&writer, text);
        _cleanup_json_ json_t *value = json_loads(strbuf_str(&out), JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        assert_string_equal(json_string_value(value), text);
    }
}

static void write_sample(struct json_writer *writer)
{
    json_begin_object(writer);
    json_member_string(writer, "text", "a");
    json_member_string(writer, "none", NULL);
    json_member_integer(writer, "number", INT64_MIN);
    json_member_boolean(writer, "yes", true);
    json_member_date(writer, "date", 1);
    json_member_date(writer, "before", -1);
    json_member_date(writer, "never", 0);
    json_key(writer, "list");
    json_begin_array(writer);
    json_write_integer(writer, 1);
    json_begin_object(writer);
    json_end_object(writer);
    json_begin_array(writer);
    json_end_array(writer);
    json_write_boolean(writer, false);
    json_end_array(writer);
    json_key(writer, "as it is");
    json_write_verbatim(writer, "{\"b\":2}", 7);
    json_key(writer, "nothing");
    json_write_null(writer);
    json_end_object(writer);
}

TEST(json_without_an_indent_is_one_line)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1000);
    struct json_writer writer;
    json_writer_init(&writer, &out, 0);
    write_sample(&writer);
    assert_string_equal(strbuf_str(&out),
                        "{\"text\":\"a\",\"none\":null,\"number\":-9223372036854775808,\"yes\":true,"
                        "\"date\":\"1970-01-01T00:00:00.001Z\",\"before\":\"1969-12-31T23:59:59.999Z\","
                        "\"never\":null,\"list\":[1,{},[],false],"
                        "\"as it is\":{\"b\":2},\"nothing\":null}");
}

TEST(an_indent_puts_each_value_on_its_own_line)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1000);
    struct json_writer writer;
    json_writer_init(&writer, &out, 2);
    write_sample(&writer);
    assert_string_equal(strbuf_str(&out), "{\n"
                                          "  \"text\": \"a\",\n"
                                          "  \"none\": null,\n"
                                          "  \"number\": -9223372036854775808,\n"
                                          "  \"yes\": true,\n"
                                          "  \"date\": \"1970-01-01T00:00:00.001Z\",\n"
                                          "  \"before\": \"1969-12-31T23:59:59.999Z\",\n"
                                          "  \"never\": null,\n"
                                          "  \"list\": [\n"
                                          "    1,\n"
                                          "    {},\n"
                                          "    [],\n"
                                          "    false\n"
                                          "  ],\n"
                                          "  \"as it is\": {\"b\":2},\n"
                                          "  \"nothing\": null\n"
                                          "}");
}

TEST(text_beyond_the_bound_of_the_buffer_is_an_error)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(10);
    struct json_writer writer;
    json_writer_init(&writer, &out, 0);
    write_sample(&writer);
    assert_int_equal(out.error, -EMSGSIZE);
    assert_true(out.len <= 10);
}

TEST(values_of_jansson_are_written_unchanged)
{
    static const char text[] =
        "{\"z\":[1,-2,1.5,1e+300,true,false,null,\"a\\u0000b\"],\"a\":{\"\":\"\u00e9\"}}";
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1000);
    struct json_writer writer;
    _cleanup_json_ json_t *value = json_loads(text, JSON_ALLOW_NUL, NULL);
    assert_non_null(value);
    json_writer_init(&writer, &out, 0);
    json_write_value(&writer, value);
    _cleanup_json_ json_t *again = json_loads(strbuf_str(&out), JSON_ALLOW_NUL, NULL);
    assert_true(json_equal(value, again));
    assert_non_null(strstr(strbuf_str(&out), "a\\u0000b"));
    assert_true(strstr(strbuf_str(&out), "\"z\"") < strstr(strbuf_str(&out), "\"a\""));
}
