/* SPDX-License-Identifier: MIT */
/*
 * Reads a record, which may be any JSON object. For speed, most of a record is copied into its layout without
 * making jansson values: this file parses brackets and strings without escapes, and jansson everything else
 * and the known fields. The last section of the file makes a line of index.jsonl from the text.
 */
#include "mail/email_record.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "mail/date.h"
#include "mail/file_name.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"

enum {
    DEPTH_MAX = 200,  /* levels of nested brackets */
    FIRST_FIELDS = 5, /* number of known_fields that begin a record's file */
    KEY_START = 5,    /* bytes before a field's key: comma, line break, two blanks, quote */
    KEY_REST = 3,     /* bytes between a field's key and its value: quote, colon, blank */
};

/* The first FIRST_FIELDS are in the order of a record's file. */
static const struct {
    const char *key;
    bool is_read;
} known_fields[] = {
    {"id", true},      {"date", true},     {"from_address", false}, {"to_addresses", false},
    {"subject", true}, {"inbox_id", true}, {"status", true},        {"user_mark_status", true},
};

static const char before_name[] = "\"file\":\"";
static const char after_name[] = "\"}\n";

/* A field as it is laid out in record_reading.fields: a comma, a line break, key and value. */
struct field {
    size_t start; /* offset in `fields`; `end` likewise */
    size_t key_len;
    size_t end;
    size_t known; /* index in known_fields; ARRAY_LEN(known_fields) for any other field */
};

struct record_reading {
    const char *at; /* the next byte to read */
    const char *end;
    unsigned int depth;
    struct json_writer writer; /* writes to `fields` */
    struct strbuf fields;
    json_t *known[ARRAY_LEN(known_fields)]; /* values of those whose is_read is true; owned */
    struct field *table;                    /* room for EMAIL_RECORD_MAX_FIELDS */
    size_t count;
};

/* Returns the length of the string at the beginning of the text, with its quotes. */
static size_t string_len(const char *text, size_t len)
{
    size_t i = 1;
    while (i < len && text[i] != '"') {
        size_t plain = json_plain_len(text + i, len - i);
        i += plain > 0 ? plain : text[i] == '\\' ? 2 : 1;
    }
    return i < len ? i + 1 : len;
}

/* ---------------------------------------------------------------- values */

static void skip_blanks(struct record_reading *reading)
{
    while (reading->at < reading->end && character_is_blank(*reading->at))
        reading->at++;
}

/* Skips blanks and the character `c`. Returns false if another character follows the blanks. */
static bool accept_character(struct record_reading *reading, char c)
{
    skip_blanks(reading);
    if (reading->at == reading->end || *reading->at != c)
        return false;
    reading->at++;
    return true;
}

/* Returns true if the text is one string without escapes. */
static bool is_plain_string(const char *text, size_t len)
{
    return len >= 2 && text[0] == '"' && json_plain_len(text + 1, len - 2) == len - 2 && text[len - 1] == '"';
}

static int take_string(struct record_reading *reading)
{
    const char *text = reading->at;
    size_t left = (size_t)(reading->end - text);
    size_t plain = 1 + json_plain_len(text + 1, left - 1);
    bool is_plain = plain < left && text[plain] == '"';
    size_t len = is_plain ? plain + 1 : string_len(text, left);
    reading->at += len;
    if (is_plain) {
        json_write_verbatim(&reading->writer, text, len);
        return 0;
    }
    _cleanup_json_ json_t *value = NULL;
    int error = json_value_read(text, len, JSON_DECODE_ANY, &value);
    if (error == 0)
        json_write_string_n(&reading->writer, json_string_value(value), json_string_length(value));
    return error;
}

/* Checks a number. A number out of jansson's range is valid if g_ascii_strtod() reads all its bytes. */
static int check_number(const char *text, size_t len)
{
    json_error_t problem;
    char *end = NULL;
    _cleanup_json_ json_t *value = json_loadb(text, len, JSON_DECODE_ANY, &problem);
    if (value != NULL)
        return 0;
    if (json_error_code(&problem) == json_error_numeric_overflow)
        (void)g_ascii_strtod(text, &end);
    return end == text + len ? 0 : -EBADMSG;
}

/* Copies a number, true, false or null unchanged. */
static int take_word(struct record_reading *reading)
{
    const char *text = reading->at;
    while (reading->at < reading->end && (g_ascii_isalnum(*reading->at) || *reading->at == '.' ||
                                          *reading->at == '+' || *reading->at == '-'))
        reading->at++;
    size_t len = (size_t)(reading->at - text);
    if (reading->at == reading->end) /* the record lacks its closing bracket */
        return -EBADMSG;
    bool is_literal = (len == 4 && (memcmp(text, "null", 4) == 0 || memcmp(text, "true", 4) == 0)) ||
                      (len == 5 && memcmp(text, "false", 5) == 0);
    int error = is_literal ? 0 : check_number(text, len);
    if (error == 0)
        json_write_verbatim(&reading->writer, text, len);
    return error;
}

static int take_value(struct record_reading *reading);

static int take_key(struct record_reading *reading)
{
    if (!accept_character(reading, '"'))
        return -EBADMSG;
    reading->at--;
    int error = take_string(reading);
    if (error != 0 || !accept_character(reading, ':'))
        return error != 0 ? error : -EBADMSG;
    json_end_key(&reading->writer);
    return 0;
}

/* Reads the items of an array or an object after its opening bracket, and the closing bracket. */
static int take_items(struct record_reading *reading, char bracket,
                      int (*take_item)(struct record_reading *reading))
{
    if (accept_character(reading, bracket))
        return 0;
    do {
        int error = take_item(reading);
        if (error != 0)
            return error;
    } while (accept_character(reading, ','));
    return accept_character(reading, bracket) ? 0 : -EBADMSG;
}

static int take_member(struct record_reading *reading)
{
    int error = take_key(reading);
    return error != 0 ? error : take_value(reading);
}

static int take_bracketed(struct record_reading *reading, bool is_object)
{
    struct json_writer *writer = &reading->writer;
    if (reading->depth == DEPTH_MAX)
        return -EMSGSIZE;
    (is_object ? json_begin_object : json_begin_array)(writer);
    reading->depth++;
    int error = is_object ? take_items(reading, '}', take_member) : take_items(reading, ']', take_value);
    reading->depth--;
    (is_object ? json_end_object : json_end_array)(writer);
    return error;
}

static int take_value(struct record_reading *reading)
{
    if (accept_character(reading, '{'))
        return take_bracketed(reading, true);
    if (accept_character(reading, '['))
        return take_bracketed(reading, false);
    if (!accept_character(reading, '"'))
        return take_word(reading);
    reading->at--;
    return take_string(reading);
}

/* ---------------------------------------------------------------- fields */

static const char *key_of(const struct record_reading *reading, const struct field *field)
{
    return reading->fields.data + field->start + KEY_START;
}

static bool is_duplicate_key(const struct record_reading *reading, const struct field *field)
{
    const char *key = key_of(reading, field);
    for (const struct field *other = reading->table; other < field; other++)
        if (other->key_len == field->key_len && memcmp(key_of(reading, other), key, field->key_len) == 0)
            return true;
    return false;
}

/* Returns the index in known_fields, or ARRAY_LEN(known_fields). */
static size_t find_known(const char *key, size_t len)
{
    size_t i = 0;
    while (i < ARRAY_LEN(known_fields) &&
           (known_fields[i].key[0] != key[0] || strncmp(known_fields[i].key, key, len) != 0 ||
            known_fields[i].key[len] != '\0'))
        i++;
    return i;
}

static int read_field(struct record_reading *reading)
{
    struct field *field = &reading->table[reading->count];
    if (reading->count == EMAIL_RECORD_MAX_FIELDS)
        return -EMSGSIZE;
    field->start = reading->fields.len;
    int error = take_key(reading);
    if (error == 0)
        error = reading->fields.error;
    if (error != 0)
        return error;
    field->key_len = reading->fields.len - field->start - KEY_START - KEY_REST;
    if (is_duplicate_key(reading, field))
        return -EEXIST;
    size_t known = find_known(key_of(reading, field), field->key_len);
    field->known = known;
    skip_blanks(reading);
    const char *value = reading->at;
    error = take_value(reading);
    if (error != 0)
        return error;
    field->end = reading->fields.len;
    reading->count++;
    if (known == ARRAY_LEN(known_fields) || !known_fields[known].is_read)
        return 0;
    json_t **kept = &reading->known[known];
    size_t len = (size_t)(reading->at - value);
    if (is_plain_string(value, len))
        *kept = json_stringn_nocheck(value + 1, len - 2);
    else
        error = json_value_read(value, len, JSON_DECODE_ANY, kept);
    if (error != -EBADMSG)
        return error;
    *kept = json_stringn_nocheck(value, len); /* a number that jansson cannot represent stands as its text */
    return 0;
}

static int read_fields(struct record_reading *reading)
{
    if (!accept_character(reading, '{'))
        return -EBADMSG;
    reading->depth = 1;
    int error = take_items(reading, '}', read_field);
    if (error != 0)
        return error;
    skip_blanks(reading);
    return reading->at == reading->end ? reading->fields.error : -EBADMSG;
}

/* ---------------------------------------------------------------- the text */

static void append_field(struct strbuf *texts, const struct record_reading *reading,
                         const struct field *field)
{
    strbuf_append(texts, reading->fields.data + field->start, field->end - field->start);
}

/* Writes the record with its line break and a NUL. Each field begins with a comma; the first comma is
 * replaced by the opening bracket. */
static int write_json(const struct record_reading *reading, struct strbuf *texts, struct email_record *record)
{
    size_t line_breaks = reading->count > 0 ? 2 : 1; /* not counted in layout_bytes */
    for (size_t known = 0; known < FIRST_FIELDS; known++)
        for (size_t i = 0; i < reading->count; i++)
            if (reading->table[i].known == known)
                append_field(texts, reading, &reading->table[i]);
    for (size_t i = 0; i < reading->count; i++)
        if (reading->table[i].known >= FIRST_FIELDS)
            append_field(texts, reading, &reading->table[i]);
    strbuf_append_str(texts, reading->count > 0 ? "\n}\n" : "{}\n");
    if (strbuf_append_char(texts, '\0') != 0)
        return texts->error;
    texts->data[0] = '{';
    record->json_len = texts->len - 1;
    record->line_len = record->json_len - reading->writer.layout_bytes - line_breaks - strlen("}") +
                       (reading->count > 0) + strlen(before_name) + strlen(after_name);
    return record->json_len > EMAIL_RECORD_MAX_BYTES ? -EMSGSIZE : 0;
}

/* ---------------------------------------------------------------- the known fields */

static const json_t *get_known(const struct record_reading *reading, const char *key)
{
    return reading->known[find_known(key, strlen(key))];
}

static bool is_quarantined(const struct record_reading *reading)
{
    const char *status = json_string_value(get_known(reading, "status"));
    return status != NULL && strcmp(status, "valid") != 0 &&
           !json_is_true(get_known(reading, "user_mark_status"));
}

static char *make_key(const char *json, size_t len)
{
    char digest[65];
    hash_sha256(json, len, digest);
    return g_strdup_printf("~%.16s", digest);
}

/* Appends the text with a NUL. Returns the offset of the text in `texts`. */
static size_t append_text(struct strbuf *texts, const char *text)
{
    size_t at = texts->len;
    strbuf_append(texts, text, strlen(text) + 1);
    return at;
}

/* ---------------------------------------------------------------- the record */

static int read_record(struct record_reading *reading, size_t len, struct email_record *record)
{
    _cleanup_strbuf_ struct strbuf texts = STRBUF_INIT(3 * EMAIL_RECORD_MAX_BYTES);
    strbuf_reserve(&reading->fields, 2 * len); /* enough for most layouts */
    strbuf_reserve(&texts, 2 * len);
    int error = read_fields(reading);
    if (error == 0)
        error = write_json(reading, &texts, record);
    if (error != 0)
        return error;
    const char *date = json_string_value(get_known(reading, "date"));
    record->has_date = date != NULL && date_parse(date, &record->date_ms) == 0;
    record->is_quarantined = is_quarantined(reading);
    _cleanup_free_ char *inbox_id = json_value_read_id(get_known(reading, "inbox_id"));
    _cleanup_free_ char *key = json_value_read_id(get_known(reading, "id"));
    if (key == NULL)
        key = make_key(texts.data, record->json_len);
    const char *subject = json_string_value(get_known(reading, "subject"));
    _cleanup_free_ char *stem = file_name_stem(record->has_date, record->date_ms, subject, key);
    size_t key_at = append_text(&texts, key);
    size_t stem_at = append_text(&texts, stem);
    size_t inbox_id_at = inbox_id != NULL ? append_text(&texts, inbox_id) : 0;
    if (texts.error != 0)
        return texts.error;
    record->owned = strbuf_take(&texts, NULL);
    record->json = record->owned;
    record->key = record->owned + key_at;
    record->stem = record->owned + stem_at;
    record->inbox_id = inbox_id != NULL ? record->owned + inbox_id_at : NULL;
    return 0;
}

int email_record_from_text(const char *text, size_t len, struct email_record *ret_record)
{
    struct field table[EMAIL_RECORD_MAX_FIELDS];
    struct email_record record = {.key = NULL};
    if (len > EMAIL_RECORD_MAX_BYTES)
        return -EMSGSIZE;
    struct record_reading reading = {
        .at = text,
        .end = text + len,
        .writer = {.out = &reading.fields, .indent = 2, .depth = 1}, /* a comma begins each field */
        .fields = STRBUF_INIT(2 * EMAIL_RECORD_MAX_BYTES),
        .table = table,
    };
    int error = read_record(&reading, len, &record);
    strbuf_release(&reading.fields);
    for (size_t i = 0; i < ARRAY_LEN(reading.known); i++)
        json_decref(reading.known[i]);
    if (error == 0)
        *ret_record = record;
    return error;
}

void email_record_release(struct email_record *record)
{
    free(record->owned);
    *record = (struct email_record){.key = NULL};
}

/* ---------------------------------------------------------------- as a line of index.jsonl */

/* Nothing is written past `limit`, since the text may come from a damaged file. */
struct line_writer {
    char *to;
    const char *limit;
};

static void append_bytes(struct line_writer *line, const char *bytes, size_t len)
{
    size_t left = (size_t)(line->limit - line->to);
    if (len > left)
        len = left;
    memcpy(line->to, bytes, len);
    line->to += len;
}

void email_record_write_line(const char *json, size_t json_len, const char *name, size_t name_len,
                             size_t line_len, char *ret_line)
{
    struct line_writer line = {.to = ret_line, .limit = ret_line + line_len + name_len};
    const char *end = json + json_len;
    while (json < end) { /* for each line of the layout: its indentation, perhaps a key, the rest */
        while (json < end && *json == ' ')
            json++;
        size_t left = (size_t)(end - json);
        size_t key = left > 0 && *json == '"' ? string_len(json, left) : 0;
        if (key > 0 && key + 1 < left && json[key] == ':') {
            append_bytes(&line, json, key + 1);
            json += key + 2; /* without the blank after the colon */
        }
        const char *line_break = memchr(json, '\n', (size_t)(end - json));
        append_bytes(&line, json, (size_t)((line_break != NULL ? line_break : end) - json));
        json = line_break != NULL ? line_break + 1 : end;
    }
    if (line.to > ret_line)
        line.to--; /* the closing bracket */
    if (line.to > ret_line + 1)
        append_bytes(&line, ",", 1);
    append_bytes(&line, before_name, strlen(before_name));
    append_bytes(&line, name, name_len);
    append_bytes(&line, after_name, strlen(after_name));
    memset(line.to, ' ', (size_t)(line.limit - line.to));
}
