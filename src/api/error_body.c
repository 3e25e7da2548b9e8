/* SPDX-License-Identifier: MIT */
/*
 * Reading error bodies.
 */
#include "api/error_body.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

enum {
    LISTED_MAX = 8 /* entries of FastAPI's list that are told */
};

static bool starts_like_html(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && isspace((unsigned char)text[i]))
        i++;
    return i < len && text[i] == '<';
}

void error_body_init(struct error_body *body, const char *text, size_t len, bool is_html)
{
    *body = (struct error_body){
        .json = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL),
        .text = text,
        .len = len,
    };
    body->is_html = body->json == NULL && (is_html || starts_like_html(text, len));
}

void error_body_release(struct error_body *body)
{
    json_decref(body->json);
    body->json = NULL;
}

/* ---------------------------------------------------------------- words */

static void append_place(const json_t *loc, struct strbuf *out)
{
    size_t i;
    const json_t *step;
    const char *separator = "";
    json_array_foreach (loc, i, step) {
        if (json_is_string(step) && strcmp(json_string_value(step), "body") != 0) {
            strbuf_appendf(out, "%s%s", separator, json_string_value(step));
            separator = ".";
        } else if (json_is_integer(step)) {
            strbuf_appendf(out, "%s%" JSON_INTEGER_FORMAT, separator, json_integer_value(step));
            separator = ".";
        }
    }
    if (*separator != '\0')
        strbuf_append_str(out, ": ");
}

static void append_list(const json_t *list, struct strbuf *out)
{
    size_t i;
    const json_t *entry;
    json_array_foreach (list, i, entry) {
        const char *text = json_is_string(entry) ? json_string_value(entry)
                                                 : json_string_value(json_object_get(entry, "msg"));
        if (text == NULL || i >= LISTED_MAX)
            continue;
        if (out->len > 0)
            strbuf_append_str(out, "; ");
        append_place(json_object_get(entry, "loc"), out);
        strbuf_append_str(out, text);
    }
}

/* Words of one value: a string, a list of FastAPI's, an object with words in it. */
static void append_value(const json_t *value, struct strbuf *out, unsigned int depth)
{
    static const char *const names[] = {"detail", "error", "message", "msg", "error_description"};
    if (json_is_string(value))
        strbuf_append(out, json_string_value(value), json_string_length(value));
    else if (json_is_array(value))
        append_list(value, out);
    for (size_t i = 0; json_is_object(value) && depth < 3 && out->len == 0 && i < ARRAY_LEN(names); i++)
        append_value(json_object_get(value, names[i]), out, depth + 1);
}

void error_body_append_words(const struct error_body *body, struct strbuf *out)
{
    if (body->is_html) {
        strbuf_append_str(out, "an HTML page instead of an answer");
        return;
    }
    if (body->json != NULL)
        append_value(body->json, out, 0);
    if (out->len == 0)
        strbuf_append(out, body->text, body->len);
}

/* ---------------------------------------------------------------- fields */

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool has_word(const char *text, size_t len, const char *word)
{
    size_t word_len = strlen(word);
    const char *hit = text;
    while ((hit = memmem(hit, len - (size_t)(hit - text), word, word_len)) != NULL) {
        const char *end = hit + word_len;
        bool starts = hit == text || !is_word_byte(hit[-1]);
        if (starts && (end == text + len || !is_word_byte(*end)))
            return true;
        hit++;
    }
    return false;
}

static bool value_names(const json_t *value, const char *field, unsigned int depth)
{
    if (depth > 4)
        return false;
    if (json_is_string(value))
        return has_word(json_string_value(value), json_string_length(value), field);
    size_t i;
    const json_t *item;
    json_array_foreach (value, i, item) {
        if (value_names(item, field, depth + 1))
            return true;
    }
    if (!json_is_object(value))
        return false;
    const char *key;
    json_object_foreach ((json_t *)(uintptr_t)value, key, item) {
        if (strcmp(key, "input") == 0 || strcmp(key, "ctx") == 0 || strcmp(key, "url") == 0)
            continue;
        /* Some servers answer {"field": ["what is wrong"]}. */
        if (strcmp(key, field) == 0 || value_names(item, field, depth + 1))
            return true;
    }
    return false;
}

bool error_body_names(const struct error_body *body, const char *field)
{
    if (body->is_html)
        return false;
    return body->json != NULL ? value_names(body->json, field, 0) : has_word(body->text, body->len, field);
}

static bool has_place(const json_t *detail)
{
    size_t i, j;
    const json_t *entry, *step;
    json_array_foreach (detail, i, entry) {
        json_array_foreach (json_object_get(entry, "loc"), j, step) {
            const char *name = json_string_value(step);
            if (name != NULL && strcmp(name, "body") != 0)
                return true;
        }
    }
    return false;
}

bool error_body_names_any(const struct error_body *body, const json_t *request)
{
    if (has_place(json_object_get(body->json, "detail")))
        return true;
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)request, key, value) {
        if (error_body_names(body, key))
            return true;
    }
    return false;
}
