/* SPDX-License-Identifier: MIT */
/*
 * Queries taken apart, and records laid out for them.
 */
#include "mail/search_query.h"

#include <errno.h>
#include <glib.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/json_value.h"

enum {
    PEOPLE_MAX_BYTES = 256 * 1024
};

/* ---------------------------------------------------------------- queries */

void search_query_release(struct search_query *query)
{
    for (size_t i = 0; i < query->len; i++)
        free(query->terms[i].text);
    query->len = 0;
}

char *search_fold(const char *text)
{
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

/* ---------------------------------------------------------------- records */

/* Addresses are objects; some servers give them as text. */
static void append_person(struct strbuf *people, const json_t *person)
{
    const char *address =
        json_string_value(json_is_object(person) ? json_object_get(person, "address") : person);
    const char *name = json_string_value(json_object_get(person, "name"));
    if (name != NULL)
        strbuf_appendf(people, "%s ", name);
    if (address != NULL)
        strbuf_appendf(people, "%s\n", address);
}

static void append_people(struct strbuf *people, const json_t *value)
{
    size_t index;
    const json_t *person;
    if (!json_is_array(value))
        append_person(people, value);
    json_array_foreach (value, index, person)
        append_person(people, person);
}

static char *take_text(struct strbuf *buffer)
{
    /* Cut short is better than not found at all. */
    if (buffer->error == -EMSGSIZE)
        buffer->error = 0;
    return buffer->data == NULL && buffer->error == 0 ? strdup("") : strbuf_take(buffer, NULL);
}

static int read_fields(const json_t *value, struct search_record *record)
{
    static const char *const people_fields[] = {"from_address", "to_addresses", "cc_addresses",
                                                "bcc_addresses", "reply_to_addresses"};
    const char *subject = json_string_value(json_object_get(value, "subject"));
    _cleanup_strbuf_ struct strbuf sender = STRBUF_INIT(PEOPLE_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf people = STRBUF_INIT(PEOPLE_MAX_BYTES);
    append_people(&sender, json_object_get(value, "from_address"));
    for (size_t i = 0; i < ARRAY_LEN(people_fields); i++)
        append_people(&people, json_object_get(value, people_fields[i]));
    record->subject = strdup(subject != NULL ? subject : "");
    record->people = take_text(&people);
    record->sender = search_fold(strbuf_str(&sender));
    return record->subject == NULL || record->people == NULL || record->sender == NULL ? -ENOMEM : 0;
}

int search_record_read(const char *json, size_t len, struct search_record *ret_record)
{
    struct search_record record = {.subject = NULL};
    _cleanup_json_ json_t *value = json_loadb(json, len, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(value))
        return -EBADMSG;
    int error = read_fields(value, &record);
    if (error != 0) {
        search_record_release(&record);
        return error;
    }
    *ret_record = record;
    return 0;
}

void search_record_release(struct search_record *record)
{
    free(record->subject);
    free(record->sender);
    free(record->people);
    *record = (struct search_record){.subject = NULL};
}
