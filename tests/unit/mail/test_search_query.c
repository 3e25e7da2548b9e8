/* SPDX-License-Identifier: MIT */
/*
 * Search queries taken apart, and what of records they are compared with.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/search_query.h"

/* "w:invoice p:due on f:bob i:alice" */
static char *describe(const struct search_query *query)
{
    static const char letters[] = {
        [SEARCH_WORD] = 'w', [SEARCH_PHRASE] = 'p', [SEARCH_FROM] = 'f', [SEARCH_IN] = 'i'};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 16);
    for (size_t i = 0; i < query->len; i++)
        strbuf_appendf(&text, "%s%c:%s", i > 0 ? " " : "", letters[query->terms[i].kind],
                       query->terms[i].text);
    return strbuf_take(&text, NULL);
}

static void queries_are_taken_apart(void **state)
{
    static const struct {
        const char *text;
        const char *terms;
    } rows[] = {
        {"invoice", "w:invoice"},
        {"  two \t words ", "w:two w:words"},
        {"\"as it stands\" word", "p:as it stands w:word"},
        {"from:Bob IN:Alice x", "f:bob i:alice w:x"},
        {"from:\"Bob Smith\"x", "f:bob smith w:x"},
        {"from:", "w:from:"},
        {"from: bob", "w:from: w:bob"},
        {"from:\"", NULL},
        {"\"never closed", "p:never closed"},
        {"say\"what\"now", "w:say p:what w:now"},
        {"re:from:bob", "w:re:from:bob"},
        {"ÄRGER", "w:ÄRGER"},
        {"in:ÄRGER", "i:a\xcc\x88rger"},
        {"foo* NEAR(a b) -x OR ^y {subject}:z", "w:foo* w:NEAR(a w:b) w:-x w:OR w:^y w:{subject}:z"},
        {"it's; DROP TABLE emails;--", "w:it's; w:DROP w:TABLE w:emails;--"},
        {"invoice -- !!", "w:invoice"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct search_query query;
        int error = search_query_parse(rows[i].text, &query);
        if (rows[i].terms == NULL) {
            assert_int_equal(error, -EINVAL);
            continue;
        }
        assert_int_equal(error, 0);
        _cleanup_free_ char *terms = describe(&query);
        assert_string_equal(terms, rows[i].terms);
        search_query_release(&query);
    }
}

static void a_query_that_looks_for_nothing_is_refused(void **state)
{
    static const char *const nothing[] = {"", " ", "\"\"", "***", "-", "~", "\"\" \"", "from:\"\"", "(){}"};
    struct search_query query;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(nothing); i++)
        assert_int_equal(search_query_parse(nothing[i], &query), -EINVAL);
    assert_int_equal(search_query_parse("caf\xe9", &query), -EILSEQ);
}

static void long_queries_are_bounded(void **state)
{
    struct search_query query;
    char text[SEARCH_QUERY_MAX_BYTES + 2];
    (void)state;
    memset(text, 'a', sizeof(text));
    text[SEARCH_QUERY_MAX_BYTES + 1] = '\0';
    assert_int_equal(search_query_parse(text, &query), -EMSGSIZE);
    for (size_t i = 1; i < SEARCH_QUERY_MAX_BYTES; i += 2)
        text[i] = ' ';
    text[SEARCH_QUERY_MAX_BYTES] = '\0';
    assert_int_equal(search_query_parse(text, &query), 0);
    assert_int_equal(query.len, SEARCH_TERMS_MAX);
    search_query_release(&query);
}

static void every_narrowing_term_has_to_be_met(void **state)
{
    struct search_query query;
    (void)state;
    assert_int_equal(search_query_parse("x from:bob from:\"Example\"", &query), 0);
    _cleanup_free_ char *bob = search_fold("Bob <BOB@Example.com>");
    assert_true(search_query_accepts(&query, SEARCH_FROM, bob));
    assert_false(search_query_accepts(&query, SEARCH_FROM, "bob@elsewhere.org"));
    assert_true(search_query_accepts(&query, SEARCH_IN, "anything"));
    assert_true(search_query_has(&query, SEARCH_FROM));
    assert_false(search_query_has(&query, SEARCH_IN));
    search_query_release(&query);
}

static void text_is_folded_by_what_its_letters_are(void **state)
{
    static const char *const rows[][2] = {
        {"", ""},
        {"Bob <BOB@X.example> 42_", "bob <bob@x.example> 42_"},
        {"STRASSE", "strasse"},
        {"Stra\u00dfe", "strasse"},
        {"\u00c4rger", "a\u0308rger"},
        {"A\u0308rger", "a\u0308rger"},
        {"\u03a3\u0391\u03a3", "\u03c3\u03b1\u03c3"},
        {"\uff21\uff22", "ab"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_free_ char *folded = search_fold(rows[i][0]);
        assert_string_equal(folded, rows[i][1]);
    }
}

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
        cmocka_unit_test(queries_are_taken_apart),
        cmocka_unit_test(a_query_that_looks_for_nothing_is_refused),
        cmocka_unit_test(long_queries_are_bounded),
        cmocka_unit_test(every_narrowing_term_has_to_be_met),
        cmocka_unit_test(text_is_folded_by_what_its_letters_are),
        cmocka_unit_test(a_record_shows_its_subject_and_everybody),
        cmocka_unit_test(other_fields_are_passed_over_whatever_they_hold),
        cmocka_unit_test(a_record_that_cannot_be_read_is_refused),
        cmocka_unit_test(crowds_are_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
