/* SPDX-License-Identifier: MIT */
/*
 * Records as they come from a service that may be any server: nothing but being a JSON object is relied on.
 * Fields are written as they are met, and put in order afterwards.
 */
#include "mail/email_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/content_digest.h"
#include "mail/file_name.h"
#include "mail/index_line.h"
#include "mail/json_reader.h"
#include "mail/json_value.h"

enum {
    DATE_MAX_BYTES = 255,
    SUBJECT_MAX_BYTES = 1024, /* more says nothing to a file name */
    KEY_INDENT = 4,           /* line break, two blanks, quote */
};

static const struct key {
    const char *text;
    size_t len;
} first_fields[] = {
    {"id", 2}, {"date", 4}, {"from_address", 12}, {"to_addresses", 12}, {"subject", 7},
};

/* A field of the record as it is written, with its line break and without a comma. */
struct field {
    uint32_t start; /* in reading.fields */
    uint32_t len;
    uint32_t key_len; /* as written */
    uint32_t rank;    /* among the first fields; ARRAY_LEN(first_fields): none of them */
};

struct reading {
    struct json_reader reader;
    struct json_writer writer;
    struct strbuf fields;
    size_t count;
    struct field table[EMAIL_RECORD_MAX_FIELDS];
    bool is_refused;      /* by its status */
    bool is_marked_valid; /* by hand */
    char date[DATE_MAX_BYTES + 1];
    char subject[SUBJECT_MAX_BYTES + 1];
};

/* ---------------------------------------------------------------- fields */

static const char *key_of(const struct reading *reading, const struct field *field)
{
    return reading->fields.data + field->start + KEY_INDENT;
}

static bool is_key(const struct reading *reading, const struct field *field, const char *text, size_t len)
{
    return len == field->key_len && memcmp(key_of(reading, field), text, len) == 0;
}

static bool is_met_before(const struct reading *reading, const struct field *field)
{
    for (const struct field *other = reading->table; other < field; other++)
        if (is_key(reading, other, key_of(reading, field), field->key_len))
            return true;
    return false;
}

static uint32_t rank_of(const struct reading *reading, const struct field *field)
{
    uint32_t rank = 0;
    while (rank < ARRAY_LEN(first_fields) &&
           !is_key(reading, field, first_fields[rank].text, first_fields[rank].len))
        rank++;
    return rank;
}

/* Services give strings as ids, or numbers. "", and what holds a NUL, is none. */
static int keep_id(const struct json_scalar *value, char **ret_id)
{
    if (value->kind == JSON_SCALAR_OTHER || value->len == 0 || memchr(value->text, '\0', value->len) != NULL)
        return 0;
    *ret_id = strndup(value->text, value->len);
    return *ret_id == NULL ? -ENOMEM : 0;
}

static void keep_text(const struct json_scalar *value, size_t len, char *ret_text)
{
    if (value->kind != JSON_SCALAR_STRING)
        len = 0;
    memcpy(ret_text, value->text, len);
    ret_text[len] = '\0';
}

static bool is_text(const struct json_scalar *value, const char *text)
{
    return value->len == strlen(text) && memcmp(value->text, text, value->len) == 0;
}

/* As it is written: no other value ends in these letters without a quote behind them. */
static bool is_true(const struct reading *reading, const struct field *field)
{
    static const char text[] = ": true";
    size_t len = strlen(text);
    return field->len > len && memcmp(reading->fields.data + field->start + field->len - len, text, len) == 0;
}

static int note_value(struct reading *reading, const struct field *field, const struct json_scalar *value,
                      struct email_record *record)
{
    size_t len = value->kind == JSON_SCALAR_STRING ? value->len : 0;
    if (is_key(reading, field, "id", 2))
        return keep_id(value, &record->key);
    if (is_key(reading, field, "inbox_id", 8))
        return keep_id(value, &record->inbox_id);
    if (is_key(reading, field, "status", 6))
        reading->is_refused = value->kind == JSON_SCALAR_STRING && !is_text(value, "valid");
    if (is_key(reading, field, "user_mark_status", 16))
        reading->is_marked_valid = is_true(reading, field);
    if (is_key(reading, field, "date", 4))
        keep_text(value, len <= DATE_MAX_BYTES ? len : 0, reading->date);
    else if (is_key(reading, field, "subject", 7))
        keep_text(value, len <= SUBJECT_MAX_BYTES ? len : SUBJECT_MAX_BYTES, reading->subject);
    return 0;
}

static int read_field(struct reading *reading, struct email_record *record)
{
    struct json_scalar scalar;
    int error = json_reader_take_string(&reading->reader, &scalar);
    if (error != 0)
        return error;
    if (reading->count == EMAIL_RECORD_MAX_FIELDS)
        return -EMSGSIZE;
    struct field *field = &reading->table[reading->count];
    field->start = (uint32_t)reading->fields.len;
    reading->writer.is_empty = true; /* no comma yet */
    json_reader_copy_key(&reading->writer, &scalar);
    if (reading->fields.error != 0)
        return reading->fields.error;
    field->key_len = (uint32_t)(reading->fields.len - field->start - KEY_INDENT - strlen("\": "));
    field->rank = rank_of(reading, field);
    if (is_met_before(reading, field))
        return -EEXIST;
    error = json_reader_take(&reading->reader, ':')
                ? json_reader_copy_value(&reading->reader, &reading->writer, &scalar)
                : -EBADMSG;
    if (error == 0)
        error = reading->fields.error;
    if (error != 0)
        return error;
    field->len = (uint32_t)reading->fields.len - field->start;
    reading->count++;
    return note_value(reading, field, &scalar, record);
}

static int read_fields(struct reading *reading, struct email_record *record)
{
    if (!json_reader_take(&reading->reader, '{'))
        return -EBADMSG;
    if (!json_reader_take(&reading->reader, '}')) {
        do {
            int error = read_field(reading, record);
            if (error != 0)
                return error;
        } while (json_reader_take(&reading->reader, ','));
        if (!json_reader_take(&reading->reader, '}'))
            return -EBADMSG;
    }
    return json_reader_is_at_end(&reading->reader) ? 0 : -EBADMSG;
}

/* ---------------------------------------------------------------- the text */

static void append_fields(const struct reading *reading, uint32_t rank, struct strbuf *text)
{
    for (size_t i = 0; i < reading->count; i++) {
        const struct field *field = &reading->table[i];
        if (field->rank != rank)
            continue;
        if (text->len > 1)
            strbuf_append_char(text, ',');
        strbuf_append(text, reading->fields.data + field->start, field->len);
    }
}

static int make_text(const struct reading *reading, struct email_record *record)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(EMAIL_RECORD_MAX_BYTES);
    strbuf_reserve(&text, reading->fields.len + reading->count + strlen("{\n}\n"));
    strbuf_append_char(&text, '{');
    for (uint32_t rank = 0; rank <= ARRAY_LEN(first_fields); rank++)
        append_fields(reading, rank, &text);
    size_t layout_bytes = reading->writer.layout_bytes + 1;
    if (reading->count > 0) {
        strbuf_append_char(&text, '\n');
        layout_bytes++;
    }
    strbuf_append(&text, "}\n", 2);
    if (text.error != 0)
        return text.error;
    record->line_len = index_line_len(text.len - layout_bytes);
    record->json = strbuf_take(&text, &record->json_len);
    return record->json == NULL ? -ENOMEM : 0;
}

/* The same record gives the same key whatever the order of its fields. What jansson does not take (numbers
 * that no machine holds, say) is told apart by its text. */
static char *make_key_without_id(const char *text, size_t len, const struct email_record *record)
{
    char digest[65];
    char *key = NULL;
    _cleanup_json_ json_t *object = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    _cleanup_free_ char *sorted = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    const char *content = sorted != NULL ? sorted : record->json;
    content_digest(content, strlen(content), digest);
    return asprintf(&key, "~%.16s", digest) < 0 ? NULL : key;
}

static int fill_in(struct reading *reading, const char *text, size_t len, struct email_record *record)
{
    int error = read_fields(reading, record);
    if (error == 0)
        error = make_text(reading, record);
    if (error != 0)
        return error;
    if (record->key == NULL)
        record->key = make_key_without_id(text, len, record);
    if (record->key == NULL)
        return -ENOMEM;
    record->is_held = reading->is_refused && !reading->is_marked_valid;
    record->has_date = date_parse(reading->date, &record->date_ms) == 0;
    record->stem = file_name_stem(record->has_date, record->date_ms, reading->subject, record->key);
    return record->stem == NULL ? -ENOMEM : 0;
}

int email_record_from_text(const char *text, size_t len, struct email_record *ret_record)
{
    struct email_record record = {0};
    struct reading reading;
    if (len > EMAIL_RECORD_MAX_BYTES)
        return -EMSGSIZE;
    json_reader_init(&reading.reader, text, len);
    reading.fields = STRBUF_INIT(EMAIL_RECORD_MAX_BYTES);
    json_writer_init(&reading.writer, &reading.fields, 2);
    reading.writer.depth = 1;
    reading.count = 0;
    reading.date[0] = reading.subject[0] = '\0';
    reading.is_refused = reading.is_marked_valid = false;
    /* What layout adds, for most; the buffer grows where it is more. */
    strbuf_reserve(&reading.fields, len < EMAIL_RECORD_MAX_BYTES / 2 ? len + len / 2 : len);

    int error = fill_in(&reading, text, len, &record);
    strbuf_release(&reading.fields);
    json_reader_release(&reading.reader);
    if (error != 0) {
        email_record_release(&record);
        return error;
    }
    *ret_record = record;
    return 0;
}

void email_record_release(struct email_record *record)
{
    free(record->key);
    free(record->inbox_id);
    free(record->stem);
    free(record->json);
    *record = (struct email_record){0};
}
