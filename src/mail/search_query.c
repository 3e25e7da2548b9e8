/* SPDX-License-Identifier: MIT */
/*
 * Queries taken apart.
 */
#include "mail/search_query.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void search_query_release(struct search_query *query)
{
    for (size_t i = 0; i < query->len; i++)
        free(query->terms[i].text);
    query->len = 0;
}

static bool is_ascii(const char *text)
{
    while (*text != '\0' && (unsigned char)*text < 0x80)
        text++;
    return *text == '\0';
}

char *search_fold(const char *text)
{
    if (is_ascii(text))
        return g_ascii_strdown(text, -1);
    /* Marks are taken apart from their letters first, since folding can put out either. */
    _cleanup_free_ char *apart = g_utf8_normalize(text, -1, G_NORMALIZE_ALL);
    _cleanup_free_ char *folded = apart == NULL ? NULL : g_utf8_casefold(apart, -1);
    return folded == NULL ? NULL : g_utf8_normalize(folded, -1, G_NORMALIZE_ALL);
}

static bool has_letter_or_digit(const char *text)
{
    for (; *text != '\0'; text = g_utf8_next_char(text))
        if (g_unichar_isalnum(g_utf8_get_char(text)))
            return true;
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int add_term(struct search_query *query, enum search_term_kind kind, const char *text, size_t len)
{
    _cleanup_free_ char *copy = strndup(text, len);
    if (copy == NULL)
        return -ENOMEM;
    if (query->len == SEARCH_TERMS_MAX || !has_letter_or_digit(copy))
        return 0;
    bool is_folded = kind == SEARCH_FROM || kind == SEARCH_IN;
    char *kept = is_folded ? search_fold(copy) : TAKE_PTR(copy);
    if (kept == NULL)
        return -ENOMEM;
    query->terms[query->len++] = (struct search_term){kind, kept};
    return 0;
}

/* A quote that is not closed goes to the end. Returns where to go on. */
static const char *find_end(const char *text, bool is_quoted, size_t *ret_len)
{
    const char *end = text;
    while (*end != '\0' && (is_quoted ? *end != '"' : !is_blank(*end) && *end != '"'))
        end++;
    *ret_len = (size_t)(end - text);
    return is_quoted && *end == '"' ? end + 1 : end;
}

/* The prefix counts only where something follows it. */
static bool take_prefix(const char **text, const char *prefix)
{
    size_t len = strlen(prefix);
    char next = g_ascii_strncasecmp(*text, prefix, len) == 0 ? (*text)[len] : '\0';
    if (next == '\0' || is_blank(next))
        return false;
    *text += len;
    return true;
}

static int take_term(struct search_query *query, const char **text)
{
    enum search_term_kind kind = SEARCH_WORD;
    if (take_prefix(text, "from:"))
        kind = SEARCH_FROM;
    else if (take_prefix(text, "in:"))
        kind = SEARCH_IN;
    bool is_quoted = **text == '"';
    if (is_quoted && kind == SEARCH_WORD)
        kind = SEARCH_PHRASE;
    const char *start = *text + is_quoted;
    size_t len;
    *text = find_end(start, is_quoted, &len);
    return add_term(query, kind, start, len);
}

int search_query_parse(const char *text, struct search_query *ret_query)
{
    int error = 0;
    ret_query->len = 0;
    if (strlen(text) > SEARCH_QUERY_MAX_BYTES)
        return -EMSGSIZE;
    if (!g_utf8_validate(text, -1, NULL))
        return -EILSEQ;
    while (error == 0) {
        while (is_blank(*text))
            text++;
        if (*text == '\0')
            break;
        error = take_term(ret_query, &text);
    }
    if (error == 0 && ret_query->len == 0)
        error = -EINVAL;
    if (error != 0)
        search_query_release(ret_query);
    return error;
}

bool search_query_accepts(const struct search_query *query, enum search_term_kind kind, const char *folded)
{
    for (size_t i = 0; i < query->len; i++)
        if (query->terms[i].kind == kind && strstr(folded, query->terms[i].text) == NULL)
            return false;
    return true;
}

bool search_query_has(const struct search_query *query, enum search_term_kind kind)
{
    for (size_t i = 0; i < query->len; i++)
        if (query->terms[i].kind == kind)
            return true;
    return false;
}
