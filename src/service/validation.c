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

void input_add_problem(const struct input *in, const char *type, const char *message)
{
    struct validation *validation = in->validation;
    if (json_array_size(validation->problems) >= PROBLEMS_MAX)
        return;
    if (validation->problems == NULL)
        validation->problems = json_array();
    json_t *path = json_array();
    for (; in != NULL; in = in->parent)
        json_array_insert_new(path, 0,
                              in->name != NULL ? json_string(in->name) : json_integer((json_int_t)in->index));
    json_array_append_new(validation->problems,
                          json_pack("{s:o, s:s, s:s}", "loc", path, "msg", message, "type", type));
}

void validate_add_problem(const struct input *in, const char *name, const char *type, const char *message)
{
    const struct input member = input_member(in, name);
    input_add_problem(&member, type, message);
}

struct input input_member(const struct input *in, const char *name)
{
    const json_t *value = json_object_get(in->value, name);
    return (struct input){in->validation, in, name, 0, json_is_null(value) ? NULL : value};
}

struct input input_item(const struct input *array, size_t index)
{
    return (struct input){array->validation, array, NULL, index, json_array_get(array->value, index)};
}

/* Returns the input; without a value after a problem. */
static struct input check_type(struct input in, json_type type)
{
    static const char *const problems[][2] = {
        [JSON_OBJECT] = {"dict_type", "Input should be a valid dictionary"},
        [JSON_ARRAY] = {"list_type", "Input should be a valid list"},
        [JSON_STRING] = {"string_type", "Input should be a valid string"},
    };
    if (in.value != NULL && json_typeof(in.value) != type) {
        input_add_problem(&in, problems[type][0], problems[type][1]);
        in.value = NULL;
    }
    return in;
}

static struct input read_member(const struct input *in, const char *name, bool is_required, json_type type)
{
    const struct input member = input_member(in, name);
    if (member.value == NULL && is_required)
        input_add_problem(&member, "missing", "Field required");
    return check_type(member, type);
}

const char *input_text(const struct input *item)
{
    return json_string_value(check_type(*item, JSON_STRING).value);
}

const char *validate_text(const struct input *in, const char *name, bool is_required)
{
    return json_string_value(read_member(in, name, is_required, JSON_STRING).value);
}

const char *validate_line(const struct input *in, const char *name, bool is_required)
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

const char *validate_address(const struct input *in, const char *name)
{
    const char *address = validate_line(in, name, true);
    if (address == NULL || address_is_valid(address))
        return address;
    validate_add_problem(in, name, "value_error", "value is not a valid email address");
    return NULL;
}

bool validate_boolean(const struct input *in, const char *name, bool fallback)
{
    const json_t *value = input_member(in, name).value;
    if (value == NULL)
        return fallback;
    if (!json_is_boolean(value))
        validate_add_problem(in, name, "bool_type", "Input should be a valid boolean");
    return json_is_true(value);
}

struct input validate_array(const struct input *in, const char *name, bool is_required, size_t max_len)
{
    struct input array = read_member(in, name, is_required, JSON_ARRAY);
    if (json_array_size(array.value) > max_len) {
        input_add_problem(&array, "too_long", "List has too many items");
        array.value = NULL;
    }
    return array;
}

struct input validate_object(const struct input *in, const char *name)
{
    return read_member(in, name, false, JSON_OBJECT);
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
