/* SPDX-License-Identifier: MIT */
/*
 * Takes queries apart, and reads out of records what they are compared with. A record is read without making
 * values of its other fields: it is done for every email there is.
 */
#include "mail/search_query.h"

#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/json_reader.h"

/* ---------------------------------------------------------------- queries */

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
    while (*end != '\0' && (is_quoted ? *end != '"' : !character_is_blank(*end) && *end != '"'))
        end++;
    *ret_len = (size_t)(end - text);
    return is_quoted && *end == '"' ? end + 1 : end;
}

/* The prefix counts only where something follows it. */
static bool take_prefix(const char **text, const char *prefix)
{
    size_t len = strlen(prefix);
    char next = g_ascii_strncasecmp(*text, prefix, len) == 0 ? (*text)[len] : '\0';
    if (next == '\0' || character_is_blank(next))
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
        while (character_is_blank(*text))
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

enum {
    PEOPLE_MAX_BYTES = 256 * 1024
};

struct reading {
    struct json_reader reader;
    struct strbuf subject;
    struct strbuf sender;
    struct strbuf people;
    struct strbuf address; /* of one person, whose name is to stand before it */
};

static bool is_key(const struct json_scalar *key, const char *text)
{
    return key->len == strlen(text) && memcmp(key->text, text, key->len) == 0;
}

static bool is_people_key(const struct json_scalar *key)
{
    return is_key(key, "from_address") || is_key(key, "to_addresses") || is_key(key, "cc_addresses") ||
           is_key(key, "bcc_addresses") || is_key(key, "reply_to_addresses");
}

/* Whether the next value begins with this character, which is left where it is. */
static bool is_next(struct json_reader *reader, char c)
{
    if (!json_reader_take(reader, c))
        return false;
    reader->at--;
    return true;
}

/* ---- values */

static int skip_value(struct json_reader *reader)
{
    struct json_scalar unused;
    return json_reader_take_value(reader, NULL, &unused);
}

/* A string, as far as a NUL; of anything else, nothing. */
static int append_text(struct json_reader *reader, struct strbuf *out)
{
    struct json_scalar text;
    if (!is_next(reader, '"'))
        return skip_value(reader);
    int error = json_reader_take_string(reader, &text);
    if (error == 0)
        strbuf_append(out, text.text, strnlen(text.text, text.len));
    return error;
}

/* Takes the members of an object, each by `take`, which is given its key and has the value before it. */
static int take_members(struct reading *reading, struct strbuf *out,
                        int (*take)(struct reading *, const struct json_scalar *key, struct strbuf *out))
{
    struct json_reader *reader = &reading->reader;
    if (!json_reader_take(reader, '{'))
        return -EBADMSG;
    if (json_reader_take(reader, '}'))
        return 0;
    do {
        struct json_scalar key;
        int error = json_reader_take_key(reader, NULL, &key);
        if (error == 0)
            error = take(reading, &key, out);
        if (error != 0)
            return error;
    } while (json_reader_take(reader, ','));
    return json_reader_take(reader, '}') ? 0 : -EBADMSG;
}

static int take_of_person(struct reading *reading, const struct json_scalar *key, struct strbuf *people)
{
    if (is_key(key, "address"))
        return append_text(&reading->reader, &reading->address);
    if (!is_key(key, "name"))
        return skip_value(&reading->reader);
    size_t len = people->len;
    int error = append_text(&reading->reader, people);
    if (people->len > len)
        strbuf_append_char(people, ' ');
    return error;
}

/* Addresses are objects; some servers give them as text. */
static int append_person(struct reading *reading, struct strbuf *people)
{
    strbuf_clear(&reading->address);
    int error = is_next(&reading->reader, '{') ? take_members(reading, people, take_of_person)
                                               : append_text(&reading->reader, &reading->address);
    if (reading->address.len > 0) {
        strbuf_append(people, reading->address.data, reading->address.len);
        strbuf_append_char(people, '\n');
    }
    return error == 0 && reading->address.error == -ENOMEM ? -ENOMEM : error;
}

static int append_people(struct reading *reading, struct strbuf *people)
{
    struct json_reader *reader = &reading->reader;
    if (!json_reader_take(reader, '['))
        return append_person(reading, people);
    if (json_reader_take(reader, ']'))
        return 0;
    do {
        int error = append_person(reading, people);
        if (error != 0)
            return error;
    } while (json_reader_take(reader, ','));
    return json_reader_take(reader, ']') ? 0 : -EBADMSG;
}

/* ---- the record */

static int take_of_record(struct reading *reading, const struct json_scalar *key, struct strbuf *people)
{
    if (is_key(key, "subject"))
        return append_text(&reading->reader, &reading->subject);
    if (!is_people_key(key))
        return skip_value(&reading->reader);
    if (!is_key(key, "from_address"))
        return append_people(reading, people);
    int error = append_people(reading, &reading->sender);
    strbuf_append(people, strbuf_str(&reading->sender), reading->sender.len);
    return error;
}

static char *take_text(struct strbuf *buffer)
{
    /* Cut short is better than not found at all. */
    if (buffer->error == -EMSGSIZE)
        buffer->error = 0;
    return buffer->data == NULL && buffer->error == 0 ? strdup("") : strbuf_take(buffer, NULL);
}

static int read_record(struct reading *reading, struct search_record *record)
{
    int error = take_members(reading, &reading->people, take_of_record);
    if (error != 0)
        return error == -ENOMEM ? error : -EBADMSG;
    _cleanup_free_ char *sender = take_text(&reading->sender);
    record->subject = take_text(&reading->subject);
    record->people = take_text(&reading->people);
    record->sender = sender == NULL ? NULL : search_fold(sender);
    return record->subject == NULL || record->people == NULL || record->sender == NULL ? -ENOMEM : 0;
}

int search_record_read(const char *json, size_t len, struct search_record *ret_record)
{
    struct search_record record = {.subject = NULL};
    struct reading reading = {.subject = STRBUF_INIT(len),
                              .sender = STRBUF_INIT(PEOPLE_MAX_BYTES),
                              .people = STRBUF_INIT(PEOPLE_MAX_BYTES),
                              .address = STRBUF_INIT(PEOPLE_MAX_BYTES)};
    json_reader_init(&reading.reader, json, len);
    int error = read_record(&reading, &record);
    json_reader_release(&reading.reader);
    strbuf_release(&reading.subject);
    strbuf_release(&reading.sender);
    strbuf_release(&reading.people);
    strbuf_release(&reading.address);
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
