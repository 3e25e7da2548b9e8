/* SPDX-License-Identifier: MIT */
#include "api/outcome.h"

#include <ctype.h>
#include <errno.h>
#include <glib.h>
#include <jansson.h>
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

/* ---------------------------------------------------------------- the body of a refusal */

struct refusal {
    json_t *json; /* owned; NULL if the body is not JSON */
    bool is_page; /* the body is HTML */
};

static struct refusal parse_refusal(const struct strbuf *body, bool is_html)
{
    const char *text = strbuf_str(body);
    json_t *json = json_loadb(text, body->len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool is_page = json == NULL && (is_html || text[strspn(text, " \t\r\n")] == '<');
    return (struct refusal){.json = json, .is_page = is_page};
}

static bool is_foreign(enum own_body own, const struct refusal *refusal)
{
    if (own == OWN_NO_PAGE)
        return refusal->is_page;
    bool is_json = json_is_object(refusal->json) || json_is_array(refusal->json);
    return own == OWN_NONE || (own == OWN_JSON && !is_json);
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

static bool has_word(const char *text, const char *word)
{
    const char *hit = text;
    while ((hit = strstr(hit, word)) != NULL) {
        bool begins = hit == text || !is_word_byte(hit[-1]);
        if (begins && !is_word_byte(hit[strlen(word)]))
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
        return has_word(json_string_value(value), field);
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

bool outcome_mentions(const struct strbuf *body, const char *field)
{
    const struct refusal refusal = parse_refusal(body, false);
    if (refusal.json == NULL)
        return !refusal.is_page && has_word(strbuf_str(body), field);
    bool is_found = value_mentions(refusal.json, field, 0);
    json_decref(refusal.json);
    return is_found;
}

/* ---------------------------------------------------------------- the reason */

/* Appends as many whole characters as fit. A run of white space and of characters that a terminal obeys
 * becomes one space. */
static void append_reason(struct strbuf *reason, const char *text, size_t len)
{
    g_autofree char *line = g_utf8_make_valid(text, (gssize)len);
    character_replace(line, CHARACTER_NOT_PLAIN, ' ');
    g_strstrip(line);
    size_t line_len = 0;
    for (const char *c = line; *c != '\0'; c++)
        if (c[0] != ' ' || c[1] != ' ')
            line[line_len++] = *c;
    strbuf_append(reason, line, character_cut(line, line_len, OUTCOME_REASON_MAX_BYTES - reason->len));
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
static void append_body_reason(const struct http_client *client, const struct refusal *refusal,
                               const struct strbuf *body, struct strbuf *reason)
{
    _cleanup_strbuf_ struct strbuf raw = STRBUF_INIT(BODY_REASON_MAX_BYTES);
    if (refusal->is_page)
        strbuf_append_str(&raw, "an HTML page instead of an answer, perhaps of a proxy on the way");
    else if (refusal->json != NULL)
        append_value(refusal->json, &raw, 0);
    if (raw.len == 0)
        strbuf_append(&raw, strbuf_str(body), body->len);
    if (raw.len == 0)
        return;
    http_client_redact(client, raw.data, raw.len); /* before a cut could split the key */
    size_t status_len = reason->len;
    strbuf_append_str(reason, ": ");
    append_reason(reason, raw.data, raw.len);
    if (reason->len == status_len + 2)
        strbuf_truncate(reason, status_len);
}

/* ---------------------------------------------------------------- the outcome */

static int error_without_answer(int error)
{
    switch (error) {
    case -EINTR:
    case -EHOSTUNREACH:
    case -ETIMEDOUT:
    case -ENOMEM:
    case -EMFILE:
    case -ENFILE:
        return -error;
    default:
        return EIO;
    }
}

static void decide_without_answer(const struct http_response *response, struct service_result *ret)
{
    _cleanup_strbuf_ struct strbuf reason = STRBUF_INIT(OUTCOME_REASON_MAX_BYTES);
    append_reason(&reason, response->reason, strlen(response->reason));
    if (response->status > 0)
        strbuf_appendf(&reason, " (the answer, HTTP %d, was cut off)", response->status);
    ret->outcome = response->is_written ? SERVICE_UNKNOWN : SERVICE_RETRY;
    ret->error = error_without_answer(response->error);
    ret->detail = strbuf_take(&reason, NULL);
}

static void decide_refusal(const struct http_client *client, const struct http_response *response,
                           const struct strbuf *body, struct service_result *ret)
{
    const struct outcome_row *row = find_row(response->status);
    const struct refusal refusal = parse_refusal(body, response->is_html);
    _cleanup_strbuf_ struct strbuf reason = STRBUF_INIT(OUTCOME_REASON_MAX_BYTES);
    if (response->status == 0)
        strbuf_append_str(&reason, "the head of the answer was cut off");
    else
        strbuf_appendf(&reason, "HTTP %d%s", response->status, status_hint(response->status));
    append_body_reason(client, &refusal, body, &reason);
    ret->outcome = row->outcome;
    ret->error = row->error;
    ret->is_foreign = is_foreign(row->own, &refusal);
    /* A refusal by a proxy shows nothing about the key or the message. */
    if (ret->is_foreign && row->outcome == SERVICE_UNAUTHORIZED) {
        ret->outcome = SERVICE_RETRY;
        ret->error = EHOSTUNREACH;
    }
    ret->detail = strbuf_take(&reason, NULL);
    json_decref(refusal.json);
}

/* A refusal counts even if its body was cut off; a success needs a complete body, whose parser decides. */
void outcome_decide(const struct http_client *client, const struct http_response *response,
                    const struct strbuf *body, bool is_safe, struct service_result *ret)
{
    *ret = (struct service_result){
        .outcome = SERVICE_OK, .http_status = response->status, .retry_after_ms = response->retry_after_ms};
    bool is_success = response->status >= 200 && response->status < 300;
    if (response->status >= 300 || (response->error == 0 && !is_success))
        decide_refusal(client, response, body, ret);
    else if (response->error != 0)
        decide_without_answer(response, ret);
    if (is_safe && ret->outcome == SERVICE_UNKNOWN)
        ret->outcome = SERVICE_RETRY;
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
