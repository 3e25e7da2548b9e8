/* SPDX-License-Identifier: MIT */
/*
 * JSON read value by value, and written anew. (What is valid JSON is tested with records, against jansson.)
 */
#include "mail/json_reader.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void values_are_taken_one_by_one(void **state)
{
    static const char text[] = " { \"a\\n\" : -12 , \"b\":[1,{\"c\":null}],\"d\" : true } x";
    struct json_reader reader;
    struct json_scalar value;
    (void)state;
    json_reader_init(&reader, text, strlen(text));
    assert_true(json_reader_take(&reader, '{'));
    assert_int_equal(json_reader_take_string(&reader, &value), 0);
    assert_int_equal(value.len, 2);
    assert_memory_equal(value.text, "a\n", 2);
    assert_true(json_reader_take(&reader, ':'));
    assert_int_equal(json_reader_take_value(&reader, NULL, &value), 0);
    assert_int_equal(value.kind, JSON_SCALAR_INTEGER);
    assert_memory_equal(value.text, "-12", value.len);
    assert_false(json_reader_take(&reader, '}'));
    assert_true(json_reader_take(&reader, ','));
    assert_int_equal(json_reader_take_string(&reader, &value), 0);
    assert_true(json_reader_take(&reader, ':'));
    assert_int_equal(json_reader_take_value(&reader, NULL, &value), 0);
    assert_int_equal(value.kind, JSON_SCALAR_OTHER);
    assert_true(json_reader_take(&reader, ','));
    assert_int_equal(json_reader_take_string(&reader, &value), 0);
    assert_true(json_reader_take(&reader, ':'));
    assert_int_equal(json_reader_take_value(&reader, NULL, &value), 0);
    assert_int_equal(value.kind, JSON_SCALAR_WORD);
    assert_true(json_reader_take(&reader, '}'));
    assert_false(json_reader_is_at_end(&reader));
    json_reader_release(&reader);
}

static int rewrite(const char *text, unsigned int indent, struct strbuf *out)
{
    struct json_writer writer;
    json_writer_init(&writer, out, indent);
    return json_rewrite(text, strlen(text), &writer);
}

static void a_text_is_laid_out_anew(void **state)
{
    static const char text[] = "{\"a\" :[ ],\"b\":[1.50,\"\\u0041\\u009b\\ud800\"] , \"a\":{ } }";
    _cleanup_strbuf_ struct strbuf compact = STRBUF_INIT(1024);
    _cleanup_strbuf_ struct strbuf indented = STRBUF_INIT(1024);
    (void)state;
    assert_int_equal(rewrite(text, 0, &compact), 0);
    assert_string_equal(compact.data, "{\"a\":[],\"b\":[1.50,\"A\\u009b\xef\xbf\xbd\"],\"a\":{}}");
    assert_int_equal(rewrite(text, 2, &indented), 0);
    assert_string_equal(indented.data,
                        "{\n  \"a\": [],\n  \"b\": [\n    1.50,\n    \"A\\u009b\xef\xbf\xbd\"\n  "
                        "],\n  \"a\": {}\n}");
}

static void what_is_written_is_bounded(void **state)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(8);
    (void)state;
    assert_int_equal(rewrite("[1,2,3]", 0, &out), 0);
    strbuf_clear(&out);
    assert_int_equal(rewrite("[1,2,3,4]", 0, &out), -EMSGSIZE);
}

static void so_many_brackets_and_no_more(void **state)
{
    (void)state;
    for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        char text[2 * (JSON_DEPTH_MAX + 1) + 1] = "";
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(sizeof(text));
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(rewrite(text, 0, &out), depth == JSON_DEPTH_MAX ? 0 : -EMSGSIZE);
    }
}

static void one_value_from_beginning_to_end(void **state)
{
    static const char *const texts[] = {"", " ", "1 2", "[]]", "{} x", "[1", "\"a"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(64);
        assert_int_equal(rewrite(texts[i], 0, &out), -EBADMSG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_taken_one_by_one),     cmocka_unit_test(a_text_is_laid_out_anew),
        cmocka_unit_test(what_is_written_is_bounded),      cmocka_unit_test(so_many_brackets_and_no_more),
        cmocka_unit_test(one_value_from_beginning_to_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
