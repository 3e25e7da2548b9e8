/* SPDX-License-Identifier: MIT */
/*
 * A search with the index has the same results as a comparison of each text.
 */
#include <glib.h>

#include "support/test.h"

#include "base/clock.h"
#include "service/search_index.h"
#include "unit/service/service_fixture.h"

#define ANN "ann@inbox.localhost"
#define BOB "bob@inbox.localhost"

static const char *const texts[] = {
    "The quick brown fox jumps over the lazy dog.",
    "THE QUICK BROWN FOX, IN CAPITALS",
    "Straße und STRASSE, Größe und GRÖSSE; ŒUVRE œuvre",
    "Ελληνικά ΣΊΣΥΦΟΣ σίσυφος",
    "Привет, МИР! мир",
    "日本語のメール、本日は晴天なり。",
    "🎉🎊 party 🎉 time 👩‍👩‍👧",
    "İstanbul İSTANBUL ıstanbul",
    "a b c ab bc ca abc bca",
    "50% off_ 'quoted' \"double\" \"\"\" back\\slash (paren) [x] {y} a*b a+b a-b ^ ~ NEAR AND OR NOT",
    "line\nbreaks\n\nand\ttabs  two  blanks",
    "control \x01\x01\x01 characters \x02 here",
    "e\u0301tude étude e\u0301\u0302 combining",
    "ﬁne ﬂow ligatures fine flow",
    "aaaaaaaaaaaaaaaaaaaa",
    "ababababababab",
    "https://example.org/path?query=1&other=2#part",
    "x",
    "yz",
};

static const char *const terms[] = {
    "o",
    "O",
    "ox",
    "fox",
    "FOX",
    "quick brown",
    "q u",
    "lazy dog.",
    "strasse",
    "ß",
    "größe",
    "œuvre",
    "ΣΊΣΥΦΟΣ",
    "σίσυφοσ",
    "мир",
    "МИР!",
    "日本",
    "日本語",
    "本日は",
    "🎉",
    "🎉🎊",
    "🎉🎊 ",
    "👩‍👩‍👧",
    "i̇s",
    "istan",
    "ab",
    "abc",
    "b c",
    "50% off_",
    "'quoted'",
    "\"double\"",
    "\"\"\"",
    "\"",
    "\"\"",
    "back\\",
    "(paren)",
    "a*b",
    "NEAR AND",
    "OR NOT",
    "line\nbreaks",
    "\n\n",
    "\t",
    "  two  ",
    "\x01\x01\x01",
    "\x01",
    "étude",
    "e\u0301t",
    "\u0301\u0302 c",
    "ﬁne",
    "fine",
    "flow",
    "aaa",
    "aaaaaaaaaaaaaaaaaaaa",
    "aaaaaaaaaaaaaaaaaaaaa",
    "abababab",
    "bab",
    "?query=",
    "&",
    "x",
    "yz",
    "zzz",
    "no such text",
    "text 1",
    "number",
};

static void send_texts(const struct fixture *fixture)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char subject[32];
        snprintf(subject, sizeof(subject), "Number %zu", i);
        json_t *request = message_to(i % 2 == 0 ? ANN : BOB, i % 3 == 0 ? ANN : BOB, subject);
        json_object_set_new(request, "plain_text", json_string(texts[i]));
        free(send_message(fixture, request));
    }
}

static char *find(const struct fixture *fixture, const char *list, const char *term)
{
    char target[1024];
    g_autofree char *escaped = g_uri_escape_string(term, NULL, false);
    snprintf(target, sizeof(target), "/api/v1/%s?limit=1000&search_term=%s", list, escaped);
    json_t *emails = get(fixture, target);
    GString *subjects = g_string_new(NULL);
    for (size_t i = 0; i < json_array_size(emails); i++)
        g_string_append_printf(subjects, "%s\n", text_of(json_array_get(emails, i), "subject"));
    json_decref(emails);
    return g_string_free(subjects, FALSE);
}

/* Returns the subjects of the texts that contain the term, the newest first. */
static char *expect(const char *term)
{
    GString *subjects = g_string_new(NULL);
    g_autofree char *folded_term = g_utf8_casefold(term, -1);
    for (size_t i = sizeof(texts) / sizeof(texts[0]); i-- > 0;) {
        g_autofree char *text = g_strdup_printf("Number %zu\n%s", i, texts[i]);
        g_autofree char *folded = g_utf8_casefold(text, -1);
        if (strstr(folded, folded_term) != NULL)
            g_string_append_printf(subjects, "Number %zu\n", i);
    }
    return g_string_free(subjects, FALSE);
}

static void check_term(const struct fixture *fixture, const char *term)
{
    g_autofree char *found = find(fixture, "email/outbound", term);
    g_autofree char *expected = expect(term);
    if (strcmp(found, expected) != 0)
        fail_msg("%s: found %s, expected %s", term, found, expected);
}

/* Searches for all listed terms, and for runs of one to nine characters of each text. */
static void check_all_terms(const struct fixture *fixture)
{
    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++)
        check_term(fixture, terms[i]);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t len = 1;
        for (const char *at = texts[i]; *at != '\0'; at = g_utf8_next_char(at)) {
            g_autofree char *term = g_utf8_substring(at, 0, (long)len);
            check_term(fixture, term);
            len = len % 9 + 1;
            if (g_utf8_strlen(at, -1) <= (long)len)
                break;
        }
    }
}

static void await_index(const struct fixture *fixture)
{
    struct connection connection = {.db = open_database(fixture)};
    int64_t until_ms = clock_monotonic_ms(clock_system()) + 60 * 1000;
    int64_t left = 1;
    while (left != 0) {
        assert_int_equal(0, query_integers(&connection, &left, 1,
                                           "SELECT max(m.seq) - s.value FROM messages m, settings s"
                                           " WHERE s.name = 'indexed'",
                                           ""));
        assert_true(clock_monotonic_ms(clock_system()) < until_ms);
        usleep(10 * 1000);
    }
    connection_close(&connection);
}

TEST_WITH(indexing_changes_no_search_result, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    free(create_inbox(fixture, BOB, NULL));
    send_texts(fixture);
    check_all_terms(fixture);
    await_index(fixture);
    check_all_terms(fixture);
    g_autofree char *received = find(fixture, "email", "lazy dog");
    assert_string_equal("Number 0\n", received);
}

TEST_WITH(a_missing_index_is_built_from_the_stored_messages, fixture_set_up, fixture_tear_down)
{
    struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    free(create_inbox(fixture, BOB, NULL));
    send_texts(fixture);
    fixture_stop(fixture);
    run_sql(fixture, "DROP TABLE trigrams; DELETE FROM settings WHERE name = 'indexed';"
                     "ALTER TABLE outgoing ADD failure; PRAGMA user_version = 5");
    fixture_start(fixture);
    await_index(fixture);
    check_all_terms(fixture);
}

TEST_WITH(a_text_too_long_for_the_index_is_found, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    json_t *request = message_to(ANN, ANN, "Long");
    char *text = malloc(600 * 1000 + 100);
    for (size_t i = 0; i < 600 * 1000; i++)
        text[i] = (char)('a' + i * i % 7);
    snprintf(text + 600 * 1000, 100, " needle");
    json_object_set_new(request, "plain_text", json_string(text));
    free(text);
    free(send_message(fixture, request));
    for (int i = 0; i < 40; i++)
        free(send_message(fixture, message_to(ANN, ANN, "Short")));
    await_index(fixture);
    g_autofree char *found = find(fixture, "email", "Needle");
    assert_string_equal("Long\n", found);
    g_autofree char *nothing = find(fixture, "email", "needles");
    assert_string_equal("", nothing);
}

/* A common term is searched in the newest emails, without the index. */
TEST_WITH(a_rare_term_is_searched_in_the_index, fixture_set_up, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    free(create_inbox(fixture, ANN, NULL));
    for (int i = 0; i < 40; i++)
        free(send_message(fixture, message_to(ANN, ANN, i == 7 ? "Rare" : "Common")));
    await_index(fixture);
    static const struct {
        const char *term;
        int64_t limit;
        bool is_indexed;
    } cases[] = {{"rare", 100, true},
                 {"common", 100, false},
                 {"com", 1, false},
                 {"ra", 100, false},
                 {"ra\"", 1, true}};
    struct connection connection = {.db = open_database(fixture)};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        g_autofree char *match = NULL;
        assert_int_equal(0, search_index_match(&connection, cases[i].term, 40, cases[i].limit, &match));
        assert_int_equal(cases[i].is_indexed, match != NULL);
    }
    connection_close(&connection);
}
