/* SPDX-License-Identifier: MIT */
#include "api/outcome.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/cleanup.h"

enum {
    LISTED_MAX = 8, /* entries of a FastAPI list in one reason */
    BODY_REASON_MAX_BYTES = 2 * 1024 * 1024,
};

/* ---------------------------------------------------------------- the table */

/* The bodies that show that the service itself has answered, not a proxy. */
enum own_body {
    OWN_ANY,
    OWN_NO_PAGE, /* all except HTML pages */
    OWN_JSON,
    OWN_NONE,
};

/* The first row that matches counts; the last row matches every status. */
static const struct outcome_row {
    int first;
    int last;
    enum service_outcome outcome;
    int error;
    enum own_body own;
} by_status[] = {
    {200, 299, SERVICE_OK, 0, OWN_ANY}, /* the parser of the body decides */
    {304, 304, SERVICE_REJECTED, EIO, OWN_ANY},
    {300, 399, SERVICE_REJECTED, EIO, OWN_NONE}, /* redirects are not followed */
    {401, 401, SERVICE_UNAUTHORIZED, EACCES, OWN_ANY},
    {403, 403, SERVICE_UNAUTHORIZED, EACCES, OWN_JSON},
    {407, 407, SERVICE_UNAUTHORIZED, EACCES, OWN_NONE},
    {408, 408, SERVICE_UNKNOWN, ETIMEDOUT, OWN_NO_PAGE},
    {409, 409, SERVICE_REJECTED, EEXIST, OWN_NO_PAGE},
    {413, 413, SERVICE_REJECTED, EFBIG, OWN_NO_PAGE},
    {429, 429, SERVICE_RETRY, EAGAIN, OWN_NO_PAGE},
    {400, 499, SERVICE_REJECTED, EINVAL, OWN_NO_PAGE},
    {503, 503, SERVICE_RETRY, EAGAIN, OWN_JSON},
    {502, 502, SERVICE_UNKNOWN, EIO, OWN_NONE}, /* only gateways send 502, some with JSON */
    {504, 504, SERVICE_UNKNOWN, ETIMEDOUT, OWN_NONE},
    {0, INT_MAX, SERVICE_UNKNOWN, EIO, OWN_JSON},
};

static const struct outcome_row *find_row(int status)
{
    const struct outcome_row *row = by_status;
    while (status < row->first || status > row->last)
        row++;
    return row;
}

static bool is_foreign(enum own_body own, const struct http_response *response, const struct strbuf *text)
{
    struct error_body body;
    if (own == OWN_ANY || own == OWN_NONE)
        return own == OWN_NONE;
    error_body_init(&body, strbuf_str(text), text->len, response->is_html);
    bool is_json = json_is_object(body.json) || json_is_array(body.json);
    bool is_page = body.is_html;
    error_body_release(&body);
    return own == OWN_JSON ? !is_json : is_page;
}

static int error_without_answer(int error)
{
    switch (error) {
    case -ECANCELED:
        return EINTR;
    case -EHOSTUNREACH:
    case -ETIMEDOUT:
    case -ENOMEM:
    case -EMFILE:
    case -ENFILE:
        return -error;
    case -ECONNRESET:
        return EHOSTUNREACH;
    default:
        return EIO;
    }
}

void outcome_decide(const struct http_response *response, const struct strbuf *body, bool is_safe,
                    struct service_result *ret)
{
    *ret =
        (struct service_result){.http_status = response->status, .retry_after_ms = response->retry_after_ms};
    /* A refusal counts even if its body was cut off; a success needs a complete body. */
    if (response->error == 0 || response->status >= 300) {
        const struct outcome_row *row = find_row(response->status);
        ret->outcome = row->outcome;
        ret->error = row->error;
        ret->is_foreign = is_foreign(row->own, response, body);
        /* A refusal by a proxy shows nothing about the key or the message. */
        if (ret->is_foreign && row->outcome == SERVICE_UNAUTHORIZED) {
            ret->outcome = SERVICE_RETRY;
            ret->error = EHOSTUNREACH;
        }
    } else {
        ret->outcome = response->is_written ? SERVICE_UNKNOWN : SERVICE_RETRY;
        ret->error = error_without_answer(response->error);
    }
    if (is_safe && ret->outcome == SERVICE_UNKNOWN)
        ret->outcome = SERVICE_RETRY;
}

/* ---------------------------------------------------------------- the body of a refusal */

void error_body_init(struct error_body *body, const char *text, size_t len, bool is_html)
{
    *body = (struct error_body){
        .json = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL),
        .text = text,
        .len = len,
    };
    size_t begin = 0;
    while (begin < len && isspace((unsigned char)text[begin]))
        begin++;
    body->is_html = body->json == NULL && (is_html || (begin < len && text[begin] == '<'));
}

void error_body_release(struct error_body *body)
{
    json_decref(body->json);
    body->json = NULL;
}

static void append_location(const json_t *loc, struct strbuf *out)
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
        append_location(json_object_get(entry, "loc"), out);
        strbuf_append_str(out, text);
    }
}

/* Appends the text of a value: a string, a FastAPI list, or an object that contains such a value. */
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

static bool value_mentions(const json_t *value, const char *field, unsigned int depth)
{
    if (depth > 4)
        return false;
    if (json_is_string(value))
        return has_word(json_string_value(value), json_string_length(value), field);
    size_t i;
    const json_t *item;
    json_array_foreach (value, i, item) {
        if (value_mentions(item, field, depth + 1))
            return true;
    }
    if (!json_is_object(value))
        return false;
    const char *key;
    json_object_foreach ((json_t *)(uintptr_t)value, key, item) {
        if (strcmp(key, "input") == 0 || strcmp(key, "ctx") == 0 || strcmp(key, "url") == 0)
            continue;
        /* Some servers answer {"field": ["reason"]}. */
        if (strcmp(key, field) == 0 || value_mentions(item, field, depth + 1))
            return true;
    }
    return false;
}

bool error_body_mentions(const struct error_body *body, const char *field)
{
    if (body->is_html)
        return false;
    return body->json != NULL ? value_mentions(body->json, field, 0) : has_word(body->text, body->len, field);
}

/* ---------------------------------------------------------------- the reason */

/* Appends as many whole characters as fit. A run of white space and of characters that a terminal obeys
 * becomes one space; an invalid byte becomes `?`. */
static void append_reason(struct strbuf *reason, const char *text, size_t len)
{
    bool is_pending = false; /* a space comes before the next character */
    for (size_t i = 0; i < len;) {
        const struct character character = character_at(text + i, len - i);
        const char *shown = character.kind == CHARACTER_INVALID ? "?" : text + i;
        bool is_blank = character.code == ' ' || character.code == 0xa0 ||
                        (character.kind != CHARACTER_PLAIN && character.kind != CHARACTER_INVALID);
        i += character.len;
        if (is_blank) {
            is_pending = reason->len > 0;
            continue;
        }
        if (reason->len + character.len + (is_pending ? 1 : 0) >= OUTCOME_REASON_MAX_BYTES)
            return;
        if (is_pending && strbuf_str(reason)[reason->len - 1] != ' ')
            strbuf_append_char(reason, ' ');
        is_pending = false;
        strbuf_append(reason, shown, character.len);
    }
}

static const char *status_hint(int status)
{
    if (status >= 300 && status < 400)
        return " (a redirect, which is not followed: check the base URL)";
    if (status == 407)
        return " (a proxy on the way to the service wants a login)";
    return status == 401 ? " (the service refuses the API key)" : "";
}

/* Appends the text that append_value() finds, or the whole body if it finds none; a sentence instead of an
 * HTML page; nothing for an empty body. */
static void append_body_reason(const struct http_client *client, const struct http_response *response,
                               const struct strbuf *body, struct strbuf *reason)
{
    struct error_body parsed;
    error_body_init(&parsed, strbuf_str(body), body->len, response->is_html);
    _cleanup_strbuf_ struct strbuf raw = STRBUF_INIT(BODY_REASON_MAX_BYTES);
    if (parsed.is_html)
        strbuf_append_str(&raw, "an HTML page instead of an answer, perhaps of a proxy on the way");
    else if (parsed.json != NULL)
        append_value(parsed.json, &raw, 0);
    if (raw.len == 0)
        strbuf_append(&raw, parsed.text, parsed.len);
    error_body_release(&parsed);
    if (raw.len == 0)
        return;
    http_client_redact(client, raw.data, raw.len); /* before a cut could split the key */
    size_t status_len = reason->len;
    strbuf_append_str(reason, ": ");
    append_reason(reason, raw.data, raw.len);
    if (reason->len == status_len + 2)
        strbuf_truncate(reason, status_len);
}

char *outcome_describe(const struct http_client *client, const struct http_response *response,
                       const struct strbuf *body)
{
    _cleanup_strbuf_ struct strbuf reason = STRBUF_INIT(OUTCOME_REASON_MAX_BYTES);
    if (response->status < 300) {
        append_reason(&reason, response->reason, strlen(response->reason));
        if (response->status > 0)
            strbuf_appendf(&reason, " (the answer, HTTP %d, was cut off)", response->status);
    } else {
        strbuf_appendf(&reason, "HTTP %d%s", response->status, status_hint(response->status));
        append_body_reason(client, response, body, &reason);
    }
    return strbuf_take(&reason, NULL);
}

void outcome_set(struct service_result *result, enum service_outcome outcome, int error, const char *reason)
{
    _cleanup_strbuf_ struct strbuf cleaned = STRBUF_INIT(OUTCOME_REASON_MAX_BYTES);
    append_reason(&cleaned, reason, strlen(reason));
    free(result->detail);
    result->detail = error != 0 ? strbuf_take(&cleaned, NULL) : NULL;
    result->outcome = outcome;
    result->error = error;
    result->is_foreign = false;
}
