/* SPDX-License-Identifier: MIT */
/*
 * Messages and types of problems are those of FastAPI's own validation (pydantic).
 */
#include "service/validation.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "mail/address.h"

enum {
    PROBLEMS_MAX = 20, /* in one answer */
};

void validation_release(struct validation *validation)
{
    json_decref(validation->problems);
    *validation = (struct validation){0};
}

void validation_add_problem(struct validation *validation, const struct location *location, const char *type,
                            const char *message)
{
    if (json_array_size(validation->problems) >= PROBLEMS_MAX)
        return;
    validation->has_failed = true;
    if (validation->problems == NULL)
        validation->problems = json_array();
    json_t *path = json_array();
    for (; location != NULL; location = location->parent)
        json_array_insert_new(path, 0,
                              location->name != NULL ? json_string(location->name)
                                                     : json_integer((json_int_t)location->index));
    json_array_append_new(validation->problems,
                          json_pack("{s:o, s:s, s:s}", "loc", path, "msg", message, "type", type));
}

void validate_add_problem(const struct json_input *in, const char *name, const char *type,
                          const char *message)
{
    struct location location = {.parent = in->location, .name = name};
    validation_add_problem(in->validation, &location, type, message);
}

static json_t *member(const struct json_input *in, const char *name, bool is_required)
{
    json_t *value = json_object_get(in->object, name);
    if (value != NULL && !json_is_null(value))
        return value;
    if (is_required)
        validate_add_problem(in, name, "missing", "Field required");
    return NULL;
}

const char *validate_text(const struct json_input *in, const char *name, bool is_required)
{
    const json_t *value = member(in, name, is_required);
    if (value != NULL && !json_is_string(value))
        validate_add_problem(in, name, "string_type", "Input should be a valid string");
    return json_string_value(value);
}

const char *validate_line(const struct json_input *in, const char *name, bool is_required)
{
    const char *text = validate_text(in, name, is_required);
    size_t len = 0;
    while (text != NULL && len < VALIDATE_LINE_MAX_BYTES && (unsigned char)text[len] >= 0x20 &&
           text[len] != 0x7f)
        len++;
    if (text == NULL || text[len] == '\0')
        return text;
    validate_add_problem(in, name, "value_error",
                         "Value should be one line without control characters, not too long");
    return NULL;
}

bool validate_boolean(const struct json_input *in, const char *name, bool fallback)
{
    const json_t *value = member(in, name, false);
    if (value == NULL)
        return fallback;
    if (!json_is_boolean(value))
        validate_add_problem(in, name, "bool_type", "Input should be a valid boolean");
    return json_is_true(value);
}

json_t *validate_array(const struct json_input *in, const char *name, bool is_required, size_t max_len)
{
    json_t *value = member(in, name, is_required);
    if (value == NULL)
        return NULL;
    if (!json_is_array(value)) {
        validate_add_problem(in, name, "list_type", "Input should be a valid list");
        return NULL;
    }
    if (json_array_size(value) > max_len) {
        validate_add_problem(in, name, "too_long", "List has too many items");
        return NULL;
    }
    return value;
}

json_t *validate_object(const struct json_input *in, const char *name)
{
    json_t *value = member(in, name, false);
    if (value == NULL || json_is_object(value))
        return value;
    validate_add_problem(in, name, "dict_type", "Input should be a valid dictionary");
    return NULL;
}

bool validate_is_domain(const char *text)
{
    char address[ADDRESS_MAX_BYTES + 1];
    int length = snprintf(address, sizeof(address), "x@%s", text);
    return length < (int)sizeof(address) && strchr(text, '@') == NULL && address_is_valid(address);
}

bool validate_read_boolean_word(const char *text, bool *ret_value)
{
    static const char *const words[] = {"false", "true", "0", "1", "no", "yes",
                                        "off",   "on",   "f", "t", "n",  "y"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(words[i], text) == 0) {
            *ret_value = i % 2 == 1;
            return true;
        }
    }
    return false;
}
