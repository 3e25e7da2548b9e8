/* SPDX-License-Identifier: MIT */
/*
 * Covers records in lists that arrive in pieces of every size, and whole lists of emails.
 */
#include "api/list_reader.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "mail/email_record.h"
#include "support/test.h"

enum {
    RECORD_MAX = 64,
    LIST_MAX_BYTES = 32 << 20,
    PIECE_BYTES = 16 * 1024,
};

struct found {
    struct strbuf text; /* the records, each with a newline */
    int stop_after;     /* records before the sink fails; 0 if it never fails */
    int count;
};

static int collect(void *context, const char *text, size_t len)
{
    struct found *found = context;
    found->count++;
    strbuf_append(&found->text, text, len);
    strbuf_append_char(&found->text, '\n');
    return found->stop_after == found->count ? -ENOSPC : 0;
}

/* Appends the beginning of the reason, if there is one, to the records found. */
static int run(const char *text, size_t len, size_t piece, struct found *found)
{
    struct list_reader reader;
    list_reader_init(&reader, RECORD_MAX, SIZE_MAX, collect, found);
    int rc = 0;
    for (size_t i = 0; i < len && rc == 0; i += piece)
        rc = list_reader_feed(&reader, text + i, len - i < piece ? len - i : piece);
    rc = list_reader_finish(&reader);
    if (reader.reason[0] != '\0')
        strbuf_appendf(&found->text, "(%.8s)", reader.reason);
    list_reader_release(&reader);
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
    {"{\"tags\":[1,{}]}", -ENOMSG, ""},
    {"{\"[\":{},\"a\":[\"[\",{}]}", -ENOMSG, ""},
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
    {"{\"a\":[{}]]", -EBADMSG, "{}\n"},
    {"{\"a\":[{}],\"b\":\"\\ud800\"}", 0, "{}\n"},
    {"{\"a\":[{}],\"b\":[{}]}", -EBADMSG, "{}\n"},
    {"{\"a\":[{}],\"a\":[{}]}", -EBADMSG, "{}\n"},
    /* unreadable records */
    {"[{\"a\":1}," TOO_LONG ",{\"b\":2}]", 0, "{\"a\":1}\n{\"b\":2}\n(record 2)"},
};

TEST(lists_are_read_in_pieces_of_every_size)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t len = strlen(cases[i].text);
        for (size_t piece = 1; piece <= len + 1; piece++) {
            struct found found = {.text = STRBUF_INIT(4096)};
            int rc = run(cases[i].text, len, piece, &found);
            if (rc != cases[i].rc || strcmp(strbuf_str(&found.text), cases[i].records) != 0)
                fail_msg("%s in pieces of %zu: %d, records: %s", cases[i].text, piece, rc,
                         strbuf_str(&found.text));
            strbuf_release(&found.text);
        }
    }
}

/* Quotes and brackets are at every position of a string that is longer than one step of the reader. */
TEST(quotes_and_brackets_in_long_strings_are_skipped)
{
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
        assert_int_equal(run(text, len, len, &found), 0);
        assert_string_equal(strbuf_str(&found.text), "{\"b\":1}\n(record 1)");
        strbuf_release(&found.text);
    }
}

TEST(a_nul_byte_does_not_end_the_text)
{
    static const char text[] = "[{\"a\": \"x\0y\"}, \0]";
    struct found found = {.text = STRBUF_INIT(4096)};
    assert_int_equal(run(text, sizeof(text) - 1, 3, &found), -EBADMSG);
    assert_int_equal(found.text.len, 13);
    strbuf_release(&found.text);
}

TEST(a_record_with_deep_nesting_is_skipped)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 20);
    strbuf_append_str(&text, "[{\"a\":");
    for (int i = 0; i < 100000; i++)
        strbuf_append_char(&text, '[');
    for (int i = 0; i < 100000; i++)
        strbuf_append_char(&text, ']');
    strbuf_append_str(&text, "},{}]");
    struct found found = {.text = STRBUF_INIT(4096)};
    assert_int_equal(run(text.data, text.len, 1000, &found), 0);
    assert_string_equal(strbuf_str(&found.text), "{}\n(record 1)");
    strbuf_release(&found.text);
}

TEST(text_around_a_list_is_bounded)
{
    for (int has_list = 0; has_list <= 1; has_list++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(4 << 20);
        struct found found = {.text = STRBUF_INIT(4096)};
        strbuf_append_str(&text, has_list ? "{\"emails\":[{}],\"more\":\"" : "{\"more\":\"");
        for (int i = 0; i < 1 << 20; i++)
            strbuf_append_str(&text, "xy");
        assert_int_equal(run(text.data, text.len, 1000, &found), has_list ? -EBADMSG : -ENOMSG);
        strbuf_release(&found.text);
    }
}

TEST(a_failing_sink_ends_the_list)
{
    struct found found = {.text = STRBUF_INIT(4096), .stop_after = 2};
    assert_int_equal(run("[{},{},{}]", 10, 100, &found), -ENOSPC);
    assert_int_equal(found.count, 2);
    strbuf_release(&found.text);
}

/* ---------------------------------------------------------------- lists of emails */

struct outcome {
    unsigned int emails;
    uint64_t hash;        /* hash of keys, texts and their order */
    unsigned int stop_at; /* record at which the sink fails; 0 if it never fails */
    int fed;
    int finished;
    unsigned int count;
    int stopped_by;
    char reason[LIST_REASON_MAX_BYTES];
};

static int take(void *context, const char *text, size_t len)
{
    struct outcome *outcome = context;
    struct email_record record;
    int error = email_record_from_text(text, len, &record);
    if (error != 0)
        return -error;
    outcome->emails++;
    assert_int_equal(strlen(record.json), record.json_len);
    outcome->hash = hash_bytes(outcome->hash, record.json, record.json_len);
    outcome->hash = hash_bytes(outcome->hash, record.key, strlen(record.key));
    email_record_release(&record);
    return outcome->emails == outcome->stop_at ? -ENOSPC : 0;
}

static struct outcome run_emails(const struct strbuf *list, size_t piece, size_t most, unsigned int stop_at)
{
    struct outcome outcome = {.stop_at = stop_at};
    struct list_reader reader;
    list_reader_init(&reader, EMAIL_RECORD_MAX_BYTES, most, take, &outcome);
    for (size_t i = 0; i < list->len && outcome.fed == 0; i += piece) {
        size_t left = list->len - i;
        outcome.fed = list_reader_feed(&reader, list->data + i, left < piece ? left : piece);
    }
    outcome.finished = list_reader_finish(&reader);
    outcome.count = reader.count;
    outcome.stopped_by = reader.stopped_by;
    memcpy(outcome.reason, reader.reason, sizeof(outcome.reason));
    list_reader_release(&reader);
    return outcome;
}

static void assert_same(const struct outcome *one, const struct outcome *other)
{
    assert_int_equal(one->emails, other->emails);
    assert_true(one->hash == other->hash);
    assert_int_equal(one->finished, other->finished);
    assert_int_equal(one->count, other->count);
    assert_int_equal(one->stopped_by, other->stopped_by);
    assert_string_equal(one->reason, other->reason);
}

/* A list in pieces must give the same result as the whole list. */
static struct outcome run_both_ways(const struct strbuf *list, unsigned int stop_at)
{
    struct outcome whole = run_emails(list, SIZE_MAX, SIZE_MAX, stop_at);
    struct outcome pieces = run_emails(list, PIECE_BYTES, SIZE_MAX, stop_at);
    assert_same(&whole, &pieces);
    return pieces;
}

static void append_email(struct strbuf *list, int number)
{
    strbuf_appendf(list,
                   "%c{\"id\":\"id-%d\",\"inbox_id\":\"box-%d\",\"subject\":\"[{\\\"%d\\\"}] and so on, "
                   "\xc3\xa9\",\"date\":\"2026-11-20T10:14:36Z\",\"to_addresses\":[{\"address\":\"a@b\"}]}",
                   list->len == 0 ? '[' : ',', number, number % 3, number);
}

static void append_emails(struct strbuf *list, int count)
{
    for (int i = 0; i < count; i++)
        append_email(list, i);
}

static void end_list(struct strbuf *list)
{
    strbuf_append_char(list, ']');
    assert_int_equal(list->error, 0);
}

TEST(a_long_list_is_delivered_in_order)
{
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    append_emails(&list, 30000);
    end_list(&list);
    struct outcome outcome = run_both_ways(&list, 0);
    assert_int_equal(outcome.emails, 30000);
    assert_int_equal(outcome.finished, 0);
}

TEST(a_damaged_record_is_skipped_and_reported)
{
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    append_emails(&list, 5000);
    strbuf_append_str(&list, ",{\"id\":\"\xff\"}");
    append_emails(&list, 5000);
    strbuf_append_str(&list, ",{\"id\":1,\"id\":2},{\"deep\":");
    for (int i = 0; i < JSON_PARSER_MAX_DEPTH; i++)
        strbuf_append_char(&list, '[');
    for (int i = 0; i < JSON_PARSER_MAX_DEPTH; i++)
        strbuf_append_char(&list, ']');
    strbuf_append_str(&list, "}");
    append_emails(&list, 5000);
    end_list(&list);
    struct outcome outcome = run_both_ways(&list, 0);
    assert_int_equal(outcome.emails, 15000);
    assert_int_equal(outcome.count, 15003);
    assert_string_equal(outcome.reason, "record 5001 of the list cannot be read: invalid UTF-8");
}

/* Records that are tiny, huge, or nested so deep that indentation makes them grow. */
TEST(records_of_every_size_are_delivered)
{
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    append_emails(&list, 2000);
    for (int i = 0; i < 100000; i++)
        strbuf_appendf(&list, ",{\"id\":%d}", i);
    strbuf_append_str(&list, ",{\"id\":\"huge\",\"x\":\"");
    for (int i = 0; i < 300000; i++)
        strbuf_append_str(&list, "0123456789");
    strbuf_append_str(&list, "\"}");
    for (int i = 0; i < 2000; i++) {
        strbuf_appendf(&list, ",{\"id\":\"deep-%d\",\"x\":", i);
        for (int depth = 0; depth < 190; depth++)
            strbuf_append_char(&list, '[');
        for (int depth = 0; depth < 190; depth++)
            strbuf_append_char(&list, ']');
        strbuf_append_char(&list, '}');
    }
    append_emails(&list, 2000);
    end_list(&list);
    assert_int_equal(run_both_ways(&list, 0).emails, 2000 + 100000 + 1 + 2000 + 2000);
}

TEST(damage_is_reported_after_the_records_before_it)
{
    static const char *const ends[] = {"}", "", ",]", "]]", ",{\"id\":"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
        append_emails(&list, 8000);
        strbuf_append_str(&list, ends[i]);
        if (i == 0) /* bytes that are not read */
            append_emails(&list, 8000);
        struct outcome outcome = run_both_ways(&list, 0);
        assert_int_equal(outcome.emails, 8000);
        assert_int_equal(outcome.finished, -EBADMSG);
        if (i == 0) /* an invalid text may be endless */
            assert_int_equal(outcome.fed, -EBADMSG);
    }
}

TEST(a_sink_can_stop_the_list_at_any_record)
{
    static const unsigned int places[] = {1, 2000, 7000, 19999, 20000};
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    append_emails(&list, 20000);
    end_list(&list);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct outcome outcome = run_both_ways(&list, places[i]);
        assert_int_equal(outcome.emails, places[i]);
        assert_int_equal(outcome.stopped_by, -ENOSPC);
        assert_int_equal(outcome.finished, -ENOSPC);
    }
}

TEST(a_record_is_delivered_as_soon_as_it_ends)
{
    struct outcome outcome = {.count = 0};
    struct list_reader reader;
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    list_reader_init(&reader, EMAIL_RECORD_MAX_BYTES, SIZE_MAX, take, &outcome);
    size_t fed = 0;
    for (int i = 0; i < 20000; i++) {
        append_email(&list, i);
        if (i % 1000 > 2) /* feeds records one by one or many at once */
            continue;
        assert_int_equal(list_reader_feed(&reader, list.data + fed, list.len - fed), 0);
        assert_int_equal(outcome.emails, i + 1);
        fed = list.len;
    }
    list_reader_release(&reader);
}

/* A server may ignore the limit, and a hostile one may never end the list. */
TEST(no_more_records_are_delivered_than_the_maximum)
{
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    append_emails(&list, 5000);
    for (unsigned int most = 4999; most <= 5000; most++) {
        struct outcome outcome = run_emails(&list, PIECE_BYTES, most, 0);
        assert_int_equal(outcome.emails, most);
        assert_int_equal(outcome.stopped_by, most == 5000 ? 0 : -EOVERFLOW);
    }
}
