/* SPDX-License-Identifier: MIT */
/*
 * Records as they come from a service that may be any server: nothing but being a JSON object is relied on.
 * Fields are written as they are met, and put in order afterwards.
 */
#include "mail/email_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/content_digest.h"
#include "mail/email_field.h"
#include "mail/file_name.h"
#include "mail/index_line.h"
#include "mail/json_copy.h"
#include "mail/json_value.h"

enum {
    DATE_MAX_BYTES = 255,
    KEY_START = 5, /* comma, line break, two blanks, quote */
    KEY_REST = 3,  /* quote, colon, blank */
    MET_BITS = 64,
    USUAL_FIELDS = 32,
};

#define NO_TEXT SIZE_MAX

/* A field of the record as it is written: a comma, a line break, key and value. */
struct field {
    uint32_t start; /* in reader.fields */
    uint32_t end;
    uint32_t key_len; /* as written */
    enum email_field kind;
};

/* A field of the record before: the next one mostly has the same, in the same order. */
struct usual_field {
    struct json_known_key key;
    uint32_t key_len;
    enum email_field kind;
};

struct email_reader {
    struct json_copy copy;
    struct strbuf fields; /* of the record, in the order received */
    struct strbuf texts;  /* the record's: id, inbox, then stem and JSON */
    uint64_t met;         /* keys met: a bit that may stand for several */
    size_t count;
    struct field table[EMAIL_RECORD_MAX_FIELDS];
    const struct field *first[FIRST_FIELDS]; /* of these kinds; NULL: not met */
    size_t key_at;                           /* places in texts, or NO_TEXT */
    size_t inbox_id_at;
    size_t usual_count;
    struct usual_field usual[USUAL_FIELDS]; /* keys that differ from each other */
    bool is_usual;                          /* all keys met so far are these, in this order */
    bool is_refused;                        /* by its status */
    bool is_marked_valid;                   /* by hand */
    struct file_name_slug slug;
};

/* ---------------------------------------------------------------- fields */

static const char *key_of(const struct email_reader *reader, const struct field *field)
{
    return reader->fields.data + field->start + KEY_START;
}

/* The keys of a usual record all have a bit of their own. (Of an empty key, its quotes are looked at.) */
static uint64_t met_bit_of(const char *key, size_t len)
{
    const unsigned char *first = (const unsigned char *)key;
    const unsigned char *end = first + len;
    return UINT64_C(1) << (len + 2U * first[0] + 3U * end[-1]) % MET_BITS;
}

static bool is_met_before(struct email_reader *reader, const struct field *field)
{
    const char *key = key_of(reader, field);
    uint64_t bit = met_bit_of(key, field->key_len);
    if ((reader->met & bit) == 0) {
        reader->met |= bit;
        return false;
    }
    for (const struct field *other = reader->table; other < field; other++)
        if (other->key_len == field->key_len && memcmp(key_of(reader, other), key, field->key_len) == 0)
            return true;
    return false;
}

/* Services give strings as ids, or numbers. "", and what holds a NUL, is none. */
static int keep_id(struct email_reader *reader, const struct json_scalar *value, size_t *ret_at)
{
    bool is_id = value->kind == JSON_SCALAR_STRING || value->kind == JSON_SCALAR_INTEGER;
    if (!is_id || value->len == 0 || memchr(value->text, '\0', value->len) != NULL)
        return 0;
    *ret_at = reader->texts.len;
    strbuf_append(&reader->texts, value->text, value->len);
    return strbuf_append_char(&reader->texts, '\0');
}

static void note_date(const struct json_scalar *value, struct email_record *record)
{
    char date[DATE_MAX_BYTES + 1];
    if (value->kind != JSON_SCALAR_STRING || value->len > DATE_MAX_BYTES)
        return;
    memcpy(date, value->text, value->len);
    date[value->len] = '\0';
    record->has_date = date_parse(date, &record->date_ms) == 0;
}

static bool is_text(const struct json_scalar *value, const char *text)
{
    return value->len == strlen(text) && memcmp(value->text, text, value->len) == 0;
}

static int note_value(struct email_reader *reader, enum email_field kind, const struct json_scalar *value,
                      struct email_record *record)
{
    switch (kind) {
    case FIELD_ID:
        return keep_id(reader, value, &reader->key_at);
    case FIELD_INBOX_ID:
        return keep_id(reader, value, &reader->inbox_id_at);
    case FIELD_STATUS:
        reader->is_refused = value->kind == JSON_SCALAR_STRING && !is_text(value, "valid");
        return 0;
    case FIELD_MARK:
        reader->is_marked_valid = value->kind == JSON_SCALAR_WORD && is_text(value, "true");
        return 0;
    case FIELD_DATE:
        note_date(value, record);
        return 0;
    case FIELD_SUBJECT:
        if (value->kind == JSON_SCALAR_STRING)
            file_name_make_slug(value->text, value->len, &reader->slug);
        return 0;
    default:
        return 0;
    }
}

/* From here on the record is not as the one before was. */
static void leave_usual(struct email_reader *reader)
{
    reader->is_usual = false;
    reader->usual_count = reader->count < USUAL_FIELDS ? reader->count : USUAL_FIELDS;
    for (const struct field *field = reader->table; field < reader->table + reader->count; field++)
        reader->met |= met_bit_of(key_of(reader, field), field->key_len);
}

static int read_new_key(struct email_reader *reader, struct field *field)
{
    struct json_known_key key;
    if (reader->is_usual)
        leave_usual(reader);
    int error = json_copy_new_key(&reader->copy, ',', &key);
    if (error != 0)
        return error;
    field->key_len = (uint32_t)json_copy_len(&reader->copy) - field->start - KEY_START - KEY_REST;
    field->kind = email_field_kind(key_of(reader, field), field->key_len);
    if (is_met_before(reader, field))
        return -EEXIST;
    if (reader->usual_count == reader->count && reader->count < USUAL_FIELDS)
        reader->usual[reader->usual_count++] =
            (struct usual_field){.key = key, .key_len = field->key_len, .kind = field->kind};
    return 0;
}

/* The key of the next field, and what it is. */
static int read_key(struct email_reader *reader, struct field *field)
{
    field->start = (uint32_t)json_copy_len(&reader->copy);
    bool may_be_usual = reader->is_usual && reader->count < reader->usual_count;
    const struct usual_field *usual = &reader->usual[may_be_usual ? reader->count : 0];
    if (!may_be_usual || !json_copy_known_key(&reader->copy, &usual->key))
        return read_new_key(reader, field);
    field->key_len = usual->key_len;
    field->kind = usual->kind;
    return 0;
}

static int read_field(struct email_reader *reader, struct email_record *record)
{
    struct json_scalar value;
    if (reader->count == EMAIL_RECORD_MAX_FIELDS)
        return -EMSGSIZE;
    struct field *field = &reader->table[reader->count];
    int error = read_key(reader, field);
    if (error == 0)
        error = json_copy_value(&reader->copy, &value);
    if (error != 0)
        return error;
    field->end = (uint32_t)json_copy_len(&reader->copy);
    if (field->kind < FIRST_FIELDS)
        reader->first[field->kind] = field;
    reader->count++;
    return note_value(reader, field->kind, &value, record);
}

static int read_fields(struct email_reader *reader, struct email_record *record)
{
    struct json_reader *text = &reader->copy.reader;
    if (!json_reader_take(text, '{'))
        return -EBADMSG;
    reader->copy.depth = 1;
    if (json_reader_take(text, '}'))
        return 0;
    do {
        int error = read_field(reader, record);
        if (error != 0)
            return error;
    } while (json_reader_take(text, ','));
    return json_reader_take(text, '}') ? 0 : -EBADMSG;
}

/* ---------------------------------------------------------------- the text */

static void append_fields(struct email_reader *reader, const struct field *from, const struct field *to)
{
    strbuf_append(&reader->texts, reader->fields.data + from->start, to->end - from->start);
}

static void append_first_fields(struct email_reader *reader)
{
    for (size_t kind = 0; kind < FIRST_FIELDS; kind++)
        if (reader->first[kind] != NULL)
            append_fields(reader, reader->first[kind], reader->first[kind]);
}

/* In runs, as they stand next to each other. */
static void append_other_fields(struct email_reader *reader)
{
    const struct field *end = reader->table + reader->count;
    const struct field *field = reader->table;
    while (field < end) {
        const struct field *first = field;
        while (field < end && field->kind >= FIRST_FIELDS)
            field++;
        if (field > first)
            append_fields(reader, first, field - 1);
        while (field < end && field->kind < FIRST_FIELDS)
            field++;
    }
}

/* *ret_at: where the text begins among the texts. Each field brought a comma, the first one's becomes the
 * bracket. */
static int write_json(struct email_reader *reader, struct email_record *record, size_t *ret_at)
{
    struct strbuf *texts = &reader->texts;
    bool is_empty = reader->count == 0;
    if (reader->fields.len + strlen("\n}\n") > EMAIL_RECORD_MAX_BYTES)
        return -EMSGSIZE;
    *ret_at = texts->len;
    strbuf_reserve(texts, reader->fields.len + strlen("\n}\n") + 1 + FILE_NAME_MAX_BYTES + 1);
    append_first_fields(reader);
    append_other_fields(reader);
    strbuf_append_str(texts, is_empty ? "{}\n" : "\n}\n");
    if (texts->error != 0)
        return texts->error;
    texts->data[*ret_at] = '{';
    record->json_len = texts->len - *ret_at;
    size_t line_breaks = is_empty ? 1 : 2; /* that are in no line's layout */
    record->line_len = index_line_len(record->json_len - reader->copy.layout_bytes - line_breaks);
    return strbuf_append_char(texts, '\0');
}

/* The same record gives the same key whatever the order of its fields. What jansson does not take (numbers
 * that no machine holds, say) is told apart by its text. */
static int make_key(struct email_reader *reader, const char *text, size_t len, size_t json_at)
{
    struct strbuf *texts = &reader->texts;
    char digest[65];
    _cleanup_json_ json_t *object = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    _cleanup_free_ char *sorted = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    const char *content = sorted != NULL ? sorted : texts->data + json_at;
    content_digest(content, strlen(content), digest);
    reader->key_at = texts->len;
    strbuf_appendf(texts, "~%.16s", digest);
    return strbuf_append_char(texts, '\0');
}

static int write_texts(struct email_reader *reader, const char *text, size_t len, struct email_record *record)
{
    struct strbuf *texts = &reader->texts;
    size_t json_at;
    int error = write_json(reader, record, &json_at);
    if (error == 0 && reader->key_at == NO_TEXT)
        error = make_key(reader, text, len, json_at);
    if (error != 0)
        return error;
    size_t stem_at = texts->len;
    error = file_name_append_stem(texts, record->has_date, record->date_ms, &reader->slug,
                                  texts->data + reader->key_at);
    /* They move no more. */
    record->json = texts->data + json_at;
    record->key = texts->data + reader->key_at;
    record->inbox_id = reader->inbox_id_at != NO_TEXT ? texts->data + reader->inbox_id_at : NULL;
    record->stem = texts->data + stem_at;
    return error;
}

/* ---------------------------------------------------------------- readers */

static void init(struct email_reader *reader)
{
    reader->fields = STRBUF_INIT(2 * EMAIL_RECORD_MAX_BYTES + JSON_COPY_MARGIN_BYTES);
    reader->texts = STRBUF_INIT(3 * EMAIL_RECORD_MAX_BYTES);
    reader->usual_count = 0;
    json_copy_init(&reader->copy, &reader->fields, 2);
}

static void release(struct email_reader *reader)
{
    json_copy_release(&reader->copy);
    strbuf_release(&reader->fields);
    strbuf_release(&reader->texts);
}

int email_reader_new(struct email_reader **ret_reader)
{
    struct email_reader *reader = malloc(sizeof(*reader));
    if (reader == NULL)
        return -ENOMEM;
    init(reader);
    *ret_reader = reader;
    return 0;
}

void email_reader_free(struct email_reader *reader)
{
    if (reader != NULL)
        release(reader);
    free(reader);
}

static int begin(struct email_reader *reader, const char *text, size_t len)
{
    strbuf_clear(&reader->texts);
    reader->met = 0;
    reader->is_usual = true;
    reader->count = 0;
    reader->key_at = reader->inbox_id_at = NO_TEXT;
    reader->is_refused = reader->is_marked_valid = false;
    reader->slug.len = 0;
    memset(reader->first, 0, sizeof(reader->first));
    return json_copy_begin(&reader->copy, text, len);
}

int email_reader_read(struct email_reader *reader, const char *text, size_t len, struct email_record *ret,
                      size_t *ret_len)
{
    *ret = (struct email_record){.key = NULL};
    if (len > EMAIL_RECORD_MAX_BYTES)
        len = EMAIL_RECORD_MAX_BYTES;
    int error = begin(reader, text, len);
    if (error == 0)
        error = read_fields(reader, ret);
    if (error != 0)
        return error;
    json_copy_end(&reader->copy);
    *ret_len = (size_t)(reader->copy.reader.at - text);
    ret->is_held = reader->is_refused && !reader->is_marked_valid;
    return write_texts(reader, text, *ret_len, ret);
}

size_t email_reader_copy(const struct email_reader *reader, struct email_record *record, char *room,
                         size_t room_len)
{
    const char *texts = reader->texts.data;
    size_t len = reader->texts.len + 1;
    if (len > room_len)
        return 0;
    memcpy(room, texts, len);
    record->key = room + (record->key - texts);
    record->inbox_id = record->inbox_id != NULL ? room + (record->inbox_id - texts) : NULL;
    record->stem = room + (record->stem - texts);
    record->json = room + (record->json - texts);
    return len;
}

int email_reader_hand_over(struct email_reader *reader, struct email_record *record)
{
    record->owned = strbuf_take(&reader->texts, NULL);
    return record->owned != NULL ? 0 : -ENOMEM;
}
