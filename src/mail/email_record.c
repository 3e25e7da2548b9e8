/* SPDX-License-Identifier: MIT */
/*
 * Reads one record, which may come from any server: nothing but being a JSON object is relied on. Jansson
 * reads it, and the layout writes it with its first fields in front. Behind that, the same text becomes a
 * line of index.jsonl.
 */
#include "mail/email_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "mail/date.h"
#include "mail/file_name.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"

/* The fields that a record's file begins with. */
static const char *const first_fields[] = {"id", "date", "from_address", "to_addresses", "subject"};

static const char before_name[] = "\"file\":\"";
static const char after_name[] = "\"}\n";

/* ---------------------------------------------------------------- the text */

static bool is_first(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(first_fields); i++)
        if (strcmp(first_fields[i], key) == 0)
            return true;
    return false;
}

static void write_member(struct json_writer *writer, const char *key, const json_t *value)
{
    json_key(writer, key);
    json_value_write(value, writer);
}

/* Writes the record with its line break and a NUL. */
static int write_json(json_t *object, struct strbuf *texts, struct email_record *record)
{
    struct json_writer writer;
    const char *key;
    json_t *value;
    json_writer_init(&writer, texts, 2);
    json_begin_object(&writer);
    for (size_t i = 0; i < ARRAY_LEN(first_fields); i++)
        if ((value = json_object_get(object, first_fields[i])) != NULL)
            write_member(&writer, first_fields[i], value);
    json_object_foreach (object, key, value)
        if (!is_first(key))
            write_member(&writer, key, value);
    json_end_object(&writer);
    if (strbuf_append(texts, "\n", 2) != 0)
        return texts->error;
    record->json_len = texts->len - 1;
    record->line_len = record->json_len - strlen("}\n") - writer.layout_bytes +
                       (json_object_size(object) > 0) + strlen(before_name) + strlen(after_name);
    return record->json_len > EMAIL_RECORD_MAX_BYTES ? -EMSGSIZE : 0;
}

/* ---------------------------------------------------------------- what is read of it */

static void read_date(const json_t *object, struct email_record *record)
{
    const char *date = json_string_value(json_object_get(object, "date"));
    record->has_date = date != NULL && date_parse(date, &record->date_ms) == 0;
}

static bool is_held(const json_t *object)
{
    const char *status = json_string_value(json_object_get(object, "status"));
    return status != NULL && strcmp(status, "valid") != 0 &&
           !json_is_true(json_object_get(object, "user_mark_status"));
}

/* The same record gives the same key whatever the order of its fields. */
static int make_key(const json_t *object, char **ret_key)
{
    char digest[65];
    _cleanup_free_ char *sorted = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    if (sorted == NULL)
        return -ENOMEM;
    hash_sha256(sorted, strlen(sorted), digest);
    return asprintf(ret_key, "~%.16s", digest) < 0 ? -ENOMEM : 0;
}

/* Appends the text with a NUL. Returns its position among the texts. */
static size_t append_text(struct strbuf *texts, const char *text)
{
    size_t at = texts->len;
    strbuf_append(texts, text, strlen(text) + 1);
    return at;
}

static int read_names(const json_t *object, struct strbuf *texts, struct email_record *record)
{
    _cleanup_free_ char *key = NULL;
    _cleanup_free_ char *inbox_id = NULL;
    const char *subject = json_string_value(json_object_get(object, "subject"));
    int error = json_value_read_id(json_object_get(object, "id"), &key);
    if (error == 0)
        error = json_value_read_id(json_object_get(object, "inbox_id"), &inbox_id);
    if (error == 0 && key == NULL)
        error = make_key(object, &key);
    if (error != 0)
        return error;
    _cleanup_free_ char *stem = file_name_stem(record->has_date, record->date_ms, subject, key);
    if (stem == NULL)
        return -ENOMEM;
    size_t key_at = append_text(texts, key);
    size_t stem_at = append_text(texts, stem);
    size_t inbox_id_at = inbox_id != NULL ? append_text(texts, inbox_id) : 0;
    if (texts->error != 0)
        return texts->error;
    record->owned = strbuf_take(texts, NULL);
    record->json = record->owned;
    record->key = record->owned + key_at;
    record->stem = record->owned + stem_at;
    record->inbox_id = inbox_id != NULL ? record->owned + inbox_id_at : NULL;
    return 0;
}

int email_record_from_text(const char *text, size_t len, struct email_record *ret_record)
{
    struct email_record record = {.key = NULL};
    _cleanup_json_ json_t *object = NULL;
    _cleanup_strbuf_ struct strbuf texts = STRBUF_INIT(3 * EMAIL_RECORD_MAX_BYTES);
    if (len > EMAIL_RECORD_MAX_BYTES)
        return -EMSGSIZE;
    int error = json_value_read(text, len, JSON_REJECT_DUPLICATES, &object);
    if (error == 0 && !json_is_object(object))
        error = -EBADMSG;
    if (error == 0) {
        strbuf_reserve(&texts, 2 * len); /* enough for most layouts */
        error = write_json(object, &texts, &record);
    }
    if (error != 0)
        return error;
    read_date(object, &record);
    record.is_held = is_held(object);
    error = read_names(object, &texts, &record);
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

/* Bounded, since what is read may come from a file on the disk. */
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

/* The bytes of the string that the text begins with; 0: it has no end. */
static size_t string_len(const char *text, size_t len)
{
    size_t i = 1;
    while (i < len && text[i] != '"')
        i += text[i] == '\\' ? 2 : 1;
    return i < len ? i + 1 : 0;
}

/* A line of the layout without its indentation and the blank behind its key. */
static void append_compact(struct line_writer *line, const char *text, size_t len)
{
    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    size_t key = len > 0 && *text == '"' ? string_len(text, len) : 0;
    if (key > 0 && key + 1 < len && text[key] == ':') {
        append_bytes(line, text, key + 1);
        text += key + 2;
        len -= key + 2;
    }
    append_bytes(line, text, len);
}

static void append_lines(struct line_writer *line, const char *json, size_t len)
{
    const char *end = json + len;
    while (json < end) {
        const char *line_break = memchr(json, '\n', (size_t)(end - json));
        const char *line_end = line_break != NULL ? line_break : end;
        append_compact(line, json, (size_t)(line_end - json));
        json = line_end + (line_break != NULL);
    }
}

void email_record_write_line(const char *json, size_t json_len, const char *name, size_t name_len,
                             size_t line_len, char *ret_line)
{
    struct line_writer line = {.to = ret_line, .limit = ret_line + line_len + name_len};
    append_lines(&line, json, json_len);
    if (line.to > ret_line)
        line.to--; /* the closing bracket */
    if (line.to > ret_line + 1)
        append_bytes(&line, ",", 1);
    append_bytes(&line, before_name, strlen(before_name));
    append_bytes(&line, name, name_len);
    append_bytes(&line, after_name, strlen(after_name));
    memset(line.to, ' ', (size_t)(line.limit - line.to));
}
