/* SPDX-License-Identifier: MIT */
/*
 * Records found in lists that arrive in pieces of every size.
 */
#include "api/record_stream.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "mail/json_value.h"

enum {
    RECORD_MAX = 64
};

struct found {
    struct strbuf text; /* the records, each with a newline */
    int stop_after;     /* then the sink fails; 0: never */
    int count;
};

static int collect(void *context, const char *text, size_t len)
{
    struct found *found = context;
    found->count++;
    if (text != NULL)
        strbuf_append(&found->text, text, len);
    else
        strbuf_append_str(&found->text, "(unfit)");
    strbuf_append_char(&found->text, '\n');
    return found->stop_after == found->count ? -ENOSPC : 0;
}

/* Reads what is whole with another reader, which finds the end on its way. */
static int take(void *context, const char *text, size_t len, size_t *ret_len)
{
    json_error_t at;
    _cleanup_json_ json_t *object = json_loadb(text, len, JSON_DISABLE_EOF_CHECK, &at);
    *ret_len = object != NULL ? (size_t)at.position : 0;
    return object != NULL ? collect(context, text, *ret_len) : 0;
}

static int run(record_taker taker, const char *text, size_t len, size_t piece, struct found *found)
{
    struct record_stream stream;
    record_stream_init(&stream, RECORD_MAX, collect, found);
    stream.taker = taker;
    int rc = 0;
    for (size_t i = 0; i < len && rc == 0; i += piece)
        rc = record_stream_feed(&stream, text + i, len - i < piece ? len - i : piece);
    rc = record_stream_finish(&stream);
    record_stream_release(&stream);
    return rc;
}

#define TOO_LONG "{\"a\": \"0123456789012345678901234567890123456789012345678901234567890123\"}"

static const struct {
    const char *text;
    int rc;
    const char *records;
} cases[] = {
    /* lists */
    {"[]", 0, ""},
    {" [ ] \n", 0, ""},
    {"[{}]", 0, "{}\n"},
    {"[{\"a\":1},{\"b\":[2,{}]}]", 0, "{\"a\":1}\n{\"b\":[2,{}]}\n"},
    {"[ {\"a\": \"}]\\\"{\"} , {} ]", 0, "{\"a\": \"}]\\\"{\"}\n{}\n"},
    {"[{\"a\":\"\\\\\"},{\"b\":\"x\"}]", 0, "{\"a\":\"\\\\\"}\n{\"b\":\"x\"}\n"},
    /* in an object */
    {"{\"emails\": []}", 0, ""},
    {"{\"emails\":[{\"a\":1}]}", 0, "{\"a\":1}\n"},
    {"{\"total\": 1, \"ok\":true,\"x\":null, \"s\":\"a]}\", \"emails\":[{}], \"next\": {\"u\":[{}]}}", 0,
     "{}\n"},
    {"{\"tags\":[\"a\",\"]\"], \"emails\":[{}], \"none\":[], \"n\":[[1]]}", 0, "{}\n"},
    {"{\"e]\\\"[\":[{}]}", 0, "{}\n"},
    /* no lists */
    {"", -ENOMSG, ""},
    {"   ", -ENOMSG, ""},
    {"<html></html>", -ENOMSG, ""},
    {"null", -ENOMSG, ""},
    {"\"text\"", -ENOMSG, ""},
    {"{}", -ENOMSG, ""},
    {"{\"detail\": \"no\"}", -ENOMSG, ""},
    {"{\"data\": {\"emails\": [{}]}}", -ENOMSG, ""},
    {"{\"tags\": [\"a\"]}", -ENOMSG, ""},
    {"{detail", -ENOMSG, ""},
    {"\xef\xbb\xbf[]", -ENOMSG, ""},
    /* damaged */
    {"[", -EBADMSG, ""},
    {"[1]", -EBADMSG, ""},
    {"[\"a\"]", -EBADMSG, ""},
    {"[[{}]]", -EBADMSG, ""},
    {"[,{}]", -EBADMSG, ""},
    {"[{},]", -EBADMSG, "{}\n"},
    {"[{}{}]", -EBADMSG, "{}\n"},
    {"[{},1]", -EBADMSG, "{}\n"},
    {"[{}", -EBADMSG, "{}\n"},
    {"[{},{\"a\":", -EBADMSG, "{}\n"},
    {"[{}}", -EBADMSG, "{}\n"},
    {"[{}]]", -EBADMSG, "{}\n"},
    {"[{}] []", -EBADMSG, "{}\n"},
    {"[{}]<html>", -EBADMSG, "{}\n"},
    {"{\"a\":[{}]", -EBADMSG, "{}\n"},
    {"{\"a\":[{}],}", -EBADMSG, "{}\n"},
    {"{\"a\":[{}]\"b\":1}", -EBADMSG, "{}\n"},
    {"{\"a\":[{}],\"b\":[{}]}", -EBADMSG, "{}\n"},
    {"{\"a\":[{}],\"a\":[{}]}", -EBADMSG, "{}\n"},
    /* records that are passed over */
    {"[{\"a\":1}," TOO_LONG ",{\"b\":2}]", 0, "{\"a\":1}\n(unfit)\n{\"b\":2}\n"},
};

static void check_pieces_of_every_size(record_taker taker)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t len = strlen(cases[i].text);
        for (size_t piece = 1; piece <= len + 1; piece++) {
            struct found found = {.text = STRBUF_INIT(4096)};
            int rc = run(taker, cases[i].text, len, piece, &found);
            if (rc != cases[i].rc || strcmp(strbuf_str(&found.text), cases[i].records) != 0)
                fail_msg("%s in pieces of %zu: %d, records: %s", cases[i].text, piece, rc,
                         strbuf_str(&found.text));
            strbuf_release(&found.text);
        }
    }
}

static void lists_in_pieces_of_every_size(void **state)
{
    (void)state;
    check_pieces_of_every_size(NULL);
}

static void records_that_are_whole_are_taken_as_they_are(void **state)
{
    (void)state;
    check_pieces_of_every_size(take);
}

/* An escaped quote, and a bracket, at every place of a string that is longer than one step. */
static void long_strings_are_passed_over(void **state)
{
    (void)state;
    for (size_t at = 0; at < 1200; at++) {
        char text[1300];
        size_t len = 0;
        struct found found = {.text = STRBUF_INIT(256)};
        len += (size_t)sprintf(text, "[{\"a\":\"");
        memset(text + len, 'x', 1202);
        memcpy(text + len + at, "\\\"", 2);
        text[len + (at + 600) % 1202] = ']';
        len += 1202;
        len += (size_t)sprintf(text + len, "\"},{\"b\":1}]");
        assert_int_equal(run(NULL, text, len, len, &found), 0);
        assert_string_equal(strbuf_str(&found.text), "(unfit)\n{\"b\":1}\n");
        strbuf_release(&found.text);
    }
}

static void nul_bytes_are_no_end(void **state)
{
    static const char text[] = "[{\"a\": \"x\0y\"}, \0]";
    (void)state;
    struct found found = {.text = STRBUF_INIT(4096)};
    assert_int_equal(run(NULL, text, sizeof(text) - 1, 3, &found), -EBADMSG);
    assert_int_equal(found.text.len, 13);
    strbuf_release(&found.text);
}

static void deep_nesting_is_passed_over(void **state)
{
    (void)state;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 20);
    strbuf_append_str(&text, "[{\"a\":");
    for (int i = 0; i < 100000; i++)
        strbuf_append_char(&text, '[');
    for (int i = 0; i < 100000; i++)
        strbuf_append_char(&text, ']');
    strbuf_append_str(&text, "},{}]");
    struct found found = {.text = STRBUF_INIT(4096)};
    assert_int_equal(run(NULL, text.data, text.len, 1000, &found), 0);
    assert_string_equal(strbuf_str(&found.text), "(unfit)\n{}\n");
    strbuf_release(&found.text);
}

static void a_sink_that_fails_ends_it(void **state)
{
    static const record_taker takers[] = {NULL, take};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(takers); i++) {
        struct found found = {.text = STRBUF_INIT(4096), .stop_after = 2};
        assert_int_equal(run(takers[i], "[{},{},{}]", 10, 100, &found), -ENOSPC);
        assert_int_equal(found.count, 2);
        strbuf_release(&found.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_in_pieces_of_every_size),
        cmocka_unit_test(records_that_are_whole_are_taken_as_they_are),
        cmocka_unit_test(long_strings_are_passed_over),
        cmocka_unit_test(nul_bytes_are_no_end),
        cmocka_unit_test(deep_nesting_is_passed_over),
        cmocka_unit_test(a_sink_that_fails_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
