/* SPDX-License-Identifier: MIT */
/*
 * Records as they come from a service that may be any server: nothing but being a JSON object is relied on.
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
#include "mail/json_value.h"
#include "mail/json_writer.h"

static const char *const first_fields[] = {"id", "date", "from_address", "to_addresses", "subject"};

static bool is_first_field(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(first_fields); i++)
        if (strcmp(key, first_fields[i]) == 0)
            return true;
    return false;
}

static void write_fields(const json_t *object, struct json_writer *writer)
{
    json_t *borrowed = (json_t *)object; /* jansson's iterators take no const */
    for (size_t i = 0; i < ARRAY_LEN(first_fields); i++) {
        const json_t *value = json_object_get(object, first_fields[i]);
        if (value == NULL)
            continue;
        json_key(writer, first_fields[i]);
        json_value_write(value, writer);
    }
    for (void *at = json_object_iter(borrowed); at != NULL; at = json_object_iter_next(borrowed, at)) {
        const char *key = json_object_iter_key(at);
        if (is_first_field(key))
            continue;
        json_key(writer, key);
        json_value_write(json_object_iter_value(at), writer);
    }
}

static int make_text(const json_t *object, char **ret_json, size_t *ret_len)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(EMAIL_RECORD_MAX_BYTES);
    struct json_writer writer;

    json_writer_init(&writer, &text, 2);
    json_begin_object(&writer);
    write_fields(object, &writer);
    json_end_object(&writer);
    strbuf_append_char(&text, '\n');
    if (text.error != 0)
        return text.error;

    /* Records are kept by the hundred thousand: give back what doubling took too much. */
    char *json = strbuf_take(&text, ret_len);
    if (json == NULL)
        return -ENOMEM;
    char *shrunk = realloc(json, *ret_len + 1);
    *ret_json = shrunk != NULL ? shrunk : json;
    return 0;
}

/* The same record gives the same key whatever the order of its fields. */
static char *make_key_without_id(const json_t *object)
{
    char digest[65];
    char *key = NULL;
    _cleanup_free_ char *text = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    if (text == NULL)
        return NULL;
    content_digest(text, strlen(text), digest);
    return asprintf(&key, "~%.16s", digest) < 0 ? NULL : key;
}

static int fill_in(const json_t *object, struct email_record *record)
{
    int error = make_text(object, &record->json, &record->json_len);
    if (error == 0)
        error = json_value_read_id(json_object_get(object, "id"), &record->key);
    if (error == 0)
        error = json_value_read_id(json_object_get(object, "inbox_id"), &record->inbox_id);
    if (error != 0)
        return error;
    if (record->key == NULL)
        record->key = make_key_without_id(object);
    if (record->key == NULL)
        return -ENOMEM;

    const char *date = json_string_value(json_object_get(object, "date"));
    record->has_date = date != NULL && date_parse(date, &record->date_ms) == 0;
    const char *subject = json_string_value(json_object_get(object, "subject"));
    record->stem = file_name_stem(record->has_date, record->date_ms, subject, record->key);
    return record->stem == NULL ? -ENOMEM : 0;
}

int email_record_from_json(const json_t *object, struct email_record *ret_record)
{
    if (!json_is_object(object))
        return -EBADMSG;
    struct email_record record = {0};
    int error = fill_in(object, &record);
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
