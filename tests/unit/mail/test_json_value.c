/* SPDX-License-Identifier: MIT */
/*
 * Covers valid JSON that jansson refuses, invalid JSON, and the bounds.
 */
#include "mail/json_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/json_writer.h"
#include "support/test.h"

TEST(values_that_jansson_refuses_are_replaced)
{
    static const struct {
        const char *text;
        const char *meaning; /* the value that is read, as jansson writes it */
    } cases[] = {
        {"[\"\\ud800\",\"\\udc00x\",\"\\ud83d\\ude00\"]", "[\"\uFFFD\",\"\uFFFDx\",\"\U0001F600\"]"},
        {"[\"\\ud83d\\ud83d\\uf8ff\"]", "[\"\uFFFD\uFFFD\uF8FF\"]"},
        {"[\"\\\\ud800\",\"\\\"1e999\",\"\\udbff\"]", "[\"\\\\ud800\",\"\\\"1e999\",\"\uFFFD\"]"},
        {"[\"a\\u0000b\",\"\\ud800\"]", "[\"a\\u0000b\",\"\uFFFD\"]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ json_t *value = NULL;
        assert_int_equal(json_value_read(cases[i].text, strlen(cases[i].text), 0, &value), 0);
        _cleanup_free_ char *meaning = json_dumps(value, JSON_COMPACT);
        assert_string_equal(meaning, cases[i].meaning);
    }
}

TEST(text_that_is_not_json_is_refused)
{
    static const struct {
        const char *text;
        int error;
    } cases[] = {
        {"", -EBADMSG},
        {"[\"\\ud800\"", -EBADMSG},
        {"[\"\\ud800\",]", -EBADMSG},
        {"[\"\\ud80", -EBADMSG},
        {"[\"\\", -EBADMSG},
        {"[1e999]", -EBADMSG},
        {"{\"k\\u0000\":1}", -EBADMSG},
        {"[\"\\ud800\xff\"]", -EILSEQ},
        {"{\"a\":1,\"a\":2}", -EEXIST},
        {"{\"a\":\"\\ud800\",\"b\":{\"c\":1,\"c\":2}}", -EEXIST},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        /* A copy on the heap of exact length, so that a sanitizer sees reads beyond the end. */
        size_t len = strlen(cases[i].text);
        _cleanup_free_ char *text = malloc(len > 0 ? len : 1);
        memcpy(text, cases[i].text, len);
        json_t *value = NULL;
        assert_int_equal(json_value_read(text, len, JSON_REJECT_DUPLICATES, &value), cases[i].error);
        assert_null(value);
    }
}

TEST(a_text_with_a_nul_byte_is_refused)
{
    static const char text[] = "[]\0[";
    json_t *value = NULL;
    assert_int_equal(json_value_read(text, sizeof(text) - 1, 0, &value), -EBADMSG);
}

TEST(nesting_is_bounded)
{
    char text[2 * (JSON_PARSER_MAX_DEPTH + 1)];
    json_t *value = NULL;
    memset(text, '[', sizeof(text) / 2);
    memset(text + sizeof(text) / 2, ']', sizeof(text) / 2);
    assert_int_equal(json_value_read(text, sizeof(text), 0, &value), -EMSGSIZE);
    assert_int_equal(json_value_read(text + 1, sizeof(text) - 2, 0, &value), 0);
    json_decref(value);
}

TEST(the_number_of_values_is_bounded)
{
    enum {
        LEN = 2 * JSON_VALUES_MAX + 1
    };
    char *text = malloc(LEN + 2);
    json_t *value = NULL;
    for (size_t i = 0; i < LEN; i++)
        text[i] = i == 0 ? '[' : i % 2 == 1 ? '0' : ',';
    text[LEN - 1] = ']';
    assert_int_equal(json_value_read(text, LEN, 0, &value), 0);
    json_decref(value);
    memcpy(text + LEN - 1, ",0]", 3);
    assert_int_equal(json_value_read(text, LEN + 2, 0, &value), -EMSGSIZE);
    text[1] = text[LEN] = '"'; /* one string, which contains all other values */
    assert_int_equal(json_value_read(text, LEN + 2, 0, &value), 0);
    json_decref(value);
    free(text);
}
