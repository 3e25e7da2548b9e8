/* SPDX-License-Identifier: MIT */
/*
 * Parsing of search queries.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/date.h"
#include "mail/search_query.h"

static const int64_t now_ms = INT64_C(1795168800000); /* 2026-11-20T10:00:00Z */

/* Returns the query as text: invoice* -"due on" (from:bob | subject:x*) after:2026-11-13T10:00:00.000Z */
static char *describe(const struct search_query *query)
{
    static const char *const names[] = {
        [SEARCH_WORD] = "",  [SEARCH_SUBJECT] = "subject:", [SEARCH_FROM] = "from:",
        [SEARCH_TO] = "to:", [SEARCH_ATTACHMENT] = "has",   [SEARCH_NO_ATTACHMENT] = "has-not",
        [SEARCH_IN] = "in:", [SEARCH_AFTER] = "after:",     [SEARCH_BEFORE] = "before:"};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 16);
    for (size_t i = 0; i < query->len; i++) {
        const struct search_term *term = &query->terms[i];
        bool is_date = term->kind == SEARCH_AFTER || term->kind == SEARCH_BEFORE;
        char date[32] = "";
        if (is_date)
            date_format(term->date_ms, date);
        strbuf_appendf(&text, "%s%s%s%s%s%s",
                       i == 0                 ? ""
                       : term->is_alternative ? " | "
                                              : " ",
                       term->is_negated ? "-" : "", names[term->kind], term->is_quoted ? "'" : "",
                       term->text != NULL ? term->text : date, term->is_quoted ? "'" : "");
    }
    return strbuf_take(&text, NULL);
}

static int parse(const char *text, struct search_query *ret_query)
{
    _cleanup_free_ char *reason = NULL;
    int error = search_query_parse(text, now_ms, ret_query, &reason);
    assert_int_equal(error == -EINVAL, reason != NULL);
    return error;
}

struct row {
    const char *text;
    const char *terms; /* NULL if the query is refused with a reason */
};

static void assert_rows(const struct row *rows, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        struct search_query query;
        int error = parse(rows[i].text, &query);
        assert_int_equal(error, rows[i].terms == NULL ? -EINVAL : 0);
        if (error != 0)
            continue;
        _cleanup_free_ char *terms = describe(&query);
        assert_string_equal(terms, rows[i].terms);
        search_query_release(&query);
    }
}

TEST(a_query_is_split_into_terms)
{
    static const struct row rows[] = {
        {"invoice", "invoice"},
        {"  two \t words ", "two words"},
        {"\"as it stands\" word", "'as it stands' word"},
        {"from:Bob IN:Alice x", "from:Bob in:alice x"},
        {"from:\"Bob Smith\"x", "from:'Bob Smith' x"},
        {"Subject:dinner to:carol", "subject:dinner to:carol"},
        {"\"never closed", "'never closed'"},
        {"say\"what\"now", "say 'what' now"},
        {"\u00c4RGER", "\u00c4RGER"},
        {"in:\u00c4RGER", "in:a\u0308rger"},
        {"it's; DROP TABLE emails;--", "it's DROP TABLE emails"},
        {"invoice -- !!", "invoice"},
        {"invoice AND due", "invoice due"},
        {"has:attachment -has:attachments", "has has-not"},
    };
    assert_rows(rows, ARRAY_LEN(rows));
}

TEST(punctuation_at_the_ends_of_a_word_does_not_count)
{
    static const struct row rows[] = {
        {"invoice, hello!", "invoice hello"},
        {"(hello) \u00abcaf\u00e9\u00bb \u00bfqu\u00e9?", "hello caf\u00e9 qu\u00e9"},
        {"\"hello, you!\" -hello.", "'hello, you' -hello"},
        {"a.b@x.example, it's", "a.b@x.example it's"},
        {"c++ $50 c#", "c++ $50 c"},
        {"in:alice@ from:bob,", "in:alice@ from:bob,"},
        {"\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u093f\u0928\u094d\u0926\u0940"},
    };
    assert_rows(rows, ARRAY_LEN(rows));
}

TEST(a_minus_excludes_its_term)
{
    static const struct row rows[] = {
        {"invoice -code", "invoice -code"},
        {"-from:bob -\"two words\" -in:alice", "-from:bob -'two words' -in:alice"},
        {"-\u00e4rger", "-\u00e4rger"},
        {"e-mail a - b --force", "e-mail a b force"},
        {"NOT code", NULL},
        {"\"NOT\" code", "'NOT' code"},
        {"invoice OR -code", NULL},
        {"-code OR invoice", NULL},
    };
    assert_rows(rows, ARRAY_LEN(rows));
}

TEST(or_binds_closer_than_a_blank)
{
    static const struct row rows[] = {
        {"a OR b", "a | b"},
        {"a b OR c OR d e", "a b | c | d e"},
        {"subject:a OR \"b c\" OR has:attachment", "subject:a | 'b c' | has"},
        {"in:alice OR after:7d", "in:alice | after:2026-11-13T10:00:00.000Z"},
        {"or Or \"OR\"", "or Or 'OR'"},
        {"OR a", NULL},
        {"a OR", NULL},
        {"a OR OR b", NULL},
        {"a OR in:alice", NULL},
        {"after:7d OR a", NULL},
        {"(a OR b) c", NULL},
        {"( a OR b ) c", NULL},
        {"(a) b", "a b"},
    };
    assert_rows(rows, ARRAY_LEN(rows));
}

TEST(a_date_of_a_query_is_a_day_a_month_a_year_or_an_age)
{
    static const struct row rows[] = {
        {"after:2026-11-20", "after:2026-11-20T00:00:00.000Z"},
        {"before:2026-11", "before:2026-11-01T00:00:00.000Z"},
        {"after:2026", "after:2026-01-01T00:00:00.000Z"},
        {"-after:2w", "-after:2026-11-06T10:00:00.000Z"},
        {"before:1D after:2y after:3m",
         "before:2026-11-19T10:00:00.000Z after:2024-11-20T10:00:00.000Z after:2026-08-22T10:00:00.000Z"},
        {"after:99999y", "after:0001-01-01T00:00:00.000Z"},
        {"after:yesterday", NULL},
        {"after:2026-13", NULL},
        {"after:2026-11-31", NULL},
        {"after:26-11-20", NULL},
        {"after:7", NULL},
        {"after:7x", NULL},
        {"after:100000d", NULL},
        {"after:-7d", NULL},
        {"after:7dd", NULL},
    };
    assert_rows(rows, ARRAY_LEN(rows));
}

TEST(unknown_operators_are_refused_and_other_colons_are_text)
{
    static const struct row rows[] = {
        {"is:unread", NULL},
        {"x:y", NULL},
        {"newer_than:7d x", NULL},
        {"-label:work", NULL},
        {"filename:\"a b\"", NULL},
        {"has:star", NULL},
        {"from:", NULL},
        {"from: bob", NULL},
        {"from:\"\"", NULL},
        {"subject:-", NULL},
        {"\"is:unread\"", "'is:unread'"},
        {"12:30", "12:30"},
        {"--:x :z", "x z"},
        {"Re: dinner", "Re: dinner"},
        {"re:from:bob", "re:from:bob"},
        {"AW:Termin", "AW:Termin"},
        {"std::string fe80::1", "std::string fe80::1"},
        {"mail.example.com:25 {subject}:z ^y", "mail.example.com:25 subject}:z ^y"},
        {"this-is-no-operator-at-all:x", "this-is-no-operator-at-all:x"},
        {"\u4f1a\u8b70:x", "\u4f1a\u8b70:x"},
    };
    assert_rows(rows, ARRAY_LEN(rows));
}

TEST(a_query_without_terms_is_refused)
{
    static const char *const nothing[] = {"", " ", "\"\"", "***", "-", "~", "\"\" \"", "(){}", "AND"};
    struct search_query query;
    for (size_t i = 0; i < ARRAY_LEN(nothing); i++)
        assert_int_equal(parse(nothing[i], &query), -EINVAL);
    assert_int_equal(parse("caf\xe9", &query), -EILSEQ);
}

TEST(too_long_queries_are_refused)
{
    struct search_query query;
    char text[SEARCH_QUERY_MAX_BYTES + 2];
    memset(text, 'a', sizeof(text));
    text[SEARCH_QUERY_MAX_BYTES + 1] = '\0';
    assert_int_equal(parse(text, &query), -EMSGSIZE);
    for (size_t i = 1; i < SEARCH_QUERY_MAX_BYTES; i += 2)
        text[i] = ' ';
    text[2 * SEARCH_TERMS_MAX + 1] = '\0';
    assert_int_equal(parse(text, &query), -EINVAL);
    text[2 * SEARCH_TERMS_MAX] = '\0';
    assert_int_equal(parse(text, &query), 0);
    assert_int_equal(query.len, SEARCH_TERMS_MAX);
    search_query_release(&query);
}

TEST(an_email_must_match_every_group_of_facts)
{
    static const struct {
        const char *query;
        bool is_met; /* whether an email of the 15th in alice@inbox.example matches the query */
    } rows[] = {
        {"x", true},
        {"x in:ALICE", true},
        {"in:bob", false},
        {"in:alice in:example", true},
        {"in:alice in:bob", false},
        {"in:alice OR in:bob", true},
        {"-in:bob", true},
        {"-in:alice", false},
        {"after:2026-11-15", true},
        {"after:2026-11-16", false},
        {"before:2026-11-15", false},
        {"before:2026-11-16 after:2026", true},
        {"after:7d", true},
        {"after:4d", false},
        {"-after:4d in:alice", true},
        {"after:4d OR in:alice", true},
        {"after:4d OR in:bob", false},
    };
    int64_t date_ms;
    assert_int_equal(date_parse("2026-11-15T00:00:00Z", &date_ms), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct search_query query;
        assert_int_equal(parse(rows[i].query, &query), 0);
        assert_int_equal(search_query_matches_facts(&query, "alice@inbox.example", date_ms), rows[i].is_met);
        search_query_release(&query);
    }
}
