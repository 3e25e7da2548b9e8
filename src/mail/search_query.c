/* SPDX-License-Identifier: MIT */
/*
 * Parses queries.
 */
#include "mail/search_query.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/date.h"
#include "mail/file_name.h"
#include "mail/reason.h"
#include "mail/reply.h"

/* ---------------------------------------------------------------- queries */

void search_query_release(struct search_query *query)
{
    for (size_t i = 0; i < query->len; i++)
        free(query->terms[i].text);
    query->len = 0;
}

static bool has_letter_or_digit(const char *text)
{
    return g_regex_match_simple("[\\p{L}\\p{N}]", text, 0, 0);
}

/* A word has a minus, the name of an operator, and a text, which may be in quotes. A quoted text without a
 * closing quote ends with the query. "12:30", "fe80::1" and "std::string" have no operator. */
static const char word_pattern[] =
    "[ \\t\\r\\n]*+(-(?=[\"\\p{L}\\p{N}]))?(?:([a-zA-Z][a-zA-Z_-]{0,15}):(?!:))?"
    "(?:\"([^\"]*)\"?|([^ \\t\\r\\n\"]*))";

struct parsing {
    struct search_query *query;
    int64_t now_ms;
    bool is_joining; /* the next term is the second term of an OR */
    bool has_or;
    bool has_parenthesis; /* a word begins with "(" */
    char **reason;
};

static const struct {
    const char *name;
    enum search_term_kind kind;
} operators[] = {
    {"subject", SEARCH_SUBJECT}, {"from", SEARCH_FROM}, {"to", SEARCH_TO},
    {"has", SEARCH_ATTACHMENT},  {"in", SEARCH_IN},     {"after", SEARCH_AFTER},
    {"before", SEARCH_BEFORE},
};

/* Parses an age: "7d" is the time seven days ago. */
static bool parse_age(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    static const char units[] = "dwmy";
    static const int days[] = {1, 7, 30, 365};
    size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] == '\0' ? NULL : strchr(units, g_ascii_tolower(text[digits]));
    if (digits == 0 || digits > 5 || unit == NULL || text[digits + 1] != '\0')
        return false;
    *ret_ms = now_ms - strtol(text, NULL, 10) * days[unit - units] * INT64_C(24 * 60 * 60 * 1000);
    return true;
}

/* Parses a date; a year or a month means its first day. */
static bool parse_date(const char *text, int64_t *ret_ms)
{
    static const char first_day[] = "0000-01-01";
    char date[sizeof(first_day)];
    size_t len = strlen(text);
    if (len != 4 && len != 7 && len != 10)
        return false;
    snprintf(date, sizeof(date), "%s%s", text, first_day + len);
    return date_parse(date, ret_ms) == 0;
}

/* Replaces the text of a term by what it means to the operator `name`, which has given the term its kind. */
static int read_argument(const struct parsing *parsing, const char *name, struct search_term *term)
{
    g_autofree char *text = g_steal_pointer(&term->text);
    if (!has_letter_or_digit(text))
        return reason_give(parsing->reason, -EINVAL, "%s: has nothing right behind it; in quotes it is text",
                           name);
    switch (term->kind) {
    case SEARCH_AFTER:
    case SEARCH_BEFORE:
        if (parse_age(text, parsing->now_ms, &term->date_ms) || parse_date(text, &term->date_ms))
            return 0;
        return reason_give(
            parsing->reason, -EINVAL,
            "%s: takes a date (2026-11-20, 2026-11, 2026) or an age (7d, 2w, 6m, 1y), not %.80s", name, text);
    case SEARCH_ATTACHMENT:
        if (g_ascii_strcasecmp(text, "attachment") != 0 && g_ascii_strcasecmp(text, "attachments") != 0)
            return reason_give(parsing->reason, -EINVAL, "has: knows attachment alone, not %.80s", text);
        /* -has:attachment is a kind of its own: until its content is read, an email matches neither kind. */
        term->kind = term->is_negated ? SEARCH_NO_ATTACHMENT : SEARCH_ATTACHMENT;
        term->is_negated = false;
        return 0;
    case SEARCH_IN:
        term->text = file_name_fold(text);
        return 0;
    default:
        term->text = g_steal_pointer(&text);
        return 0;
    }
}

static int read_operator(const struct parsing *parsing, const char *name, struct search_term *term)
{
    for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
        if (g_ascii_strcasecmp(operators[i].name, name) != 0)
            continue;
        term->kind = operators[i].kind;
        return read_argument(parsing, name, term);
    }
    if (name[0] == '\0')
        return 0;
    g_autofree char *whole = g_strconcat(name, ":", term->text, NULL);
    if (reply_mark_of(whole) == REPLY_MARK_NONE && (term->text[0] != '\0' || term->is_quoted))
        return reason_give(
            parsing->reason, -EINVAL,
            "%s: is no operator; these are: subject: from: to: in: after: before: has:attachment. "
            "In quotes it is text",
            name);
    g_free(term->text);
    term->text = g_steal_pointer(&whole);
    return 0;
}

static int add_term(struct parsing *parsing, const struct search_term *term)
{
    struct search_query *query = parsing->query;
    if (query->len == SEARCH_TERMS_MAX)
        return reason_give(parsing->reason, -EINVAL, "more than %d terms", SEARCH_TERMS_MAX);
    const struct search_term *before = parsing->is_joining ? &query->terms[query->len - 1] : NULL;
    if (before != NULL && (before->is_negated || term->is_negated))
        return reason_give(parsing->reason, -EINVAL, "what has a - before it cannot stand beside OR");
    if (before != NULL && search_term_is_fact(before) != search_term_is_fact(term))
        return reason_give(parsing->reason, -EINVAL,
                           "OR does not join in:, after: or before: with anything else");
    query->terms[query->len] = *term;
    query->terms[query->len++].is_alternative = parsing->is_joining;
    parsing->is_joining = false;
    return 0;
}

static int take_or(struct parsing *parsing)
{
    if (parsing->is_joining || parsing->query->len == 0)
        return reason_give(parsing->reason, -EINVAL, "OR stands between two terms; in quotes it is text");
    parsing->is_joining = parsing->has_or = true;
    return 0;
}

/* Adds the term; takes its text, also on failure. */
static int take_term(struct parsing *parsing, const char *name, struct search_term *term)
{
    int error = read_operator(parsing, name, term);
    if (error == 0)
        error = add_term(parsing, term);
    if (error != 0)
        free(term->text);
    return error;
}

/* Takes the word of a match of word_pattern, without the punctuation at its ends: the search index ignores
 * it, but a service would look for it. */
static int take_word(struct parsing *parsing, const GMatchInfo *match)
{
    int begin = -1; /* of the text without quotes */
    g_match_info_fetch_pos(match, 4, &begin, NULL);
    g_autofree char *minus = g_match_info_fetch(match, 1);
    g_autofree char *name = g_match_info_fetch(match, 2);
    g_autofree char *text = g_match_info_fetch(match, begin < 0 ? 3 : 4);
    struct search_term term = {.is_negated = minus[0] != '\0', .is_quoted = begin < 0};
    parsing->has_parenthesis |= !term.is_quoted && text[0] == '(';
    bool is_bare = !term.is_quoted && !term.is_negated && name[0] == '\0';
    if (is_bare && strcmp(text, "OR") == 0)
        return take_or(parsing);
    if (is_bare && strcmp(text, "AND") == 0) /* has the meaning of a blank */
        return 0;
    if (is_bare && strcmp(text, "NOT") == 0)
        return reason_give(parsing->reason, -EINVAL,
                           "NOT is no operator: put a - right before the word; in quotes it is text");
    if (name[0] == '\0' && !has_letter_or_digit(text))
        return 0;
    g_autoptr(GRegex) ends = g_regex_new("^\\p{P}+|(?<!\\p{P})\\p{P}++$", 0, 0, NULL);
    term.text =
        name[0] == '\0' ? g_regex_replace_literal(ends, text, -1, 0, "", 0, NULL) : g_steal_pointer(&text);
    return take_term(parsing, name, &term);
}

int search_query_parse(const char *text, int64_t now_ms, struct search_query *ret_query, char **ret_reason)
{
    struct parsing parsing = {.query = ret_query, .now_ms = now_ms, .reason = ret_reason};
    int error = 0;
    ret_query->len = 0;
    if (strlen(text) > SEARCH_QUERY_MAX_BYTES)
        return -EMSGSIZE;
    if (!g_utf8_validate(text, -1, NULL))
        return -EILSEQ;
    g_autoptr(GRegex) regex = g_regex_new(word_pattern, 0, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;
    g_regex_match(regex, text, 0, &match);
    for (; error == 0 && g_match_info_matches(match); g_match_info_next(match, NULL))
        error = take_word(&parsing, match);
    if (error == 0 && parsing.is_joining)
        error = take_or(&parsing);
    if (error == 0 && parsing.has_parenthesis && parsing.has_or)
        error =
            reason_give(ret_reason, -EINVAL, "parentheses mean nothing here: OR binds closer than a blank");
    if (error == 0 && ret_query->len == 0)
        error = reason_give(ret_reason, -EINVAL, "a query needs a word, with a letter or a digit");
    if (error != 0)
        search_query_release(ret_query);
    return error;
}

/* ---------------------------------------------------------------- facts */

size_t search_query_group_end(const struct search_query *query, size_t first)
{
    size_t end = first + 1;
    while (end < query->len && query->terms[end].is_alternative)
        end++;
    return end;
}

bool search_query_matches_facts(const struct search_query *query, const char *folded_inbox, int64_t date_ms)
{
    size_t end;
    for (size_t i = 0; i < query->len; i = end) {
        end = search_query_group_end(query, i);
        bool is_accepted = !search_term_is_fact(&query->terms[i]);
        for (size_t j = i; j < end && !is_accepted; j++) {
            const struct search_term *term = &query->terms[j];
            bool is_so = term->kind == SEARCH_IN      ? strstr(folded_inbox, term->text) != NULL
                         : term->kind == SEARCH_AFTER ? date_ms >= term->date_ms
                                                      : date_ms < term->date_ms;
            is_accepted = is_so != term->is_negated;
        }
        if (!is_accepted)
            return false;
    }
    return true;
}
