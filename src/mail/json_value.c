/* SPDX-License-Identifier: MIT */
/*
 * Walks a value and calls the writer for each part of it. Of a real number, jansson's own text is taken.
 */
#include "mail/json_value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void write_object(struct json_writer *writer, const json_t *object)
{
    json_t *borrowed = (json_t *)object; /* jansson's iterators take no const */
    json_begin_object(writer);
    for (void *at = json_object_iter(borrowed); at != NULL; at = json_object_iter_next(borrowed, at)) {
        json_key(writer, json_object_iter_key(at));
        json_value_write(json_object_iter_value(at), writer);
    }
    json_end_object(writer);
}

static void write_array(struct json_writer *writer, const json_t *array)
{
    json_begin_array(writer);
    for (size_t i = 0; i < json_array_size(array); i++)
        json_value_write(json_array_get(array, i), writer);
    json_end_array(writer);
}

static void write_real(struct json_writer *writer, const json_t *number)
{
    char text[64];
    size_t len = json_dumpb(number, text, sizeof(text) - 1, JSON_ENCODE_ANY);
    text[len < sizeof(text) ? len : 0] = '\0';
    json_write_verbatim(writer, text);
}

void json_value_write(const json_t *value, struct json_writer *writer)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        write_object(writer, value);
        break;
    case JSON_ARRAY:
        write_array(writer, value);
        break;
    case JSON_STRING:
        json_write_string_n(writer, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        json_write_integer(writer, json_integer_value(value));
        break;
    case JSON_REAL:
        write_real(writer, value);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        json_write_boolean(writer, json_is_true(value));
        break;
    case JSON_NULL:
        json_write_null(writer);
        break;
    }
}

int json_value_read_id(const json_t *value, char **ret_id)
{
    char number[32];
    const char *text = NULL;
    if (json_is_integer(value)) {
        snprintf(number, sizeof(number), "%" PRId64, (int64_t)json_integer_value(value));
        text = number;
    } else if (json_is_string(value) && json_string_length(value) > 0 &&
               strlen(json_string_value(value)) == json_string_length(value)) {
        text = json_string_value(value);
    }
    *ret_id = text == NULL ? NULL : strdup(text);
    return text != NULL && *ret_id == NULL ? -ENOMEM : 0;
}
