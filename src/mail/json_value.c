/* SPDX-License-Identifier: MIT */
#include "mail/json_value.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"

enum {
    ESCAPE_LEN = 6 /* \u1234 */
};

/* Returns the code of the escape \u1234 at the beginning of the text; -1 if the text begins otherwise. */
static int read_escape(const char *text, size_t len)
{
    int code = 0;
    if (len < ESCAPE_LEN || text[0] != '\\' || text[1] != 'u')
        return -1;
    for (size_t i = 2; i < ESCAPE_LEN; i++) {
        int digit = g_ascii_xdigit_value(text[i]);
        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

static bool is_between(int code, int first, int last)
{
    return code >= first && code <= last;
}

/* Copies the text, with U+FFFD for each half of a surrogate pair. The text need not be JSON. */
static void append_mended(const char *text, size_t len, struct strbuf *out)
{
    for (size_t i = 0, taken; i < len; i += taken) {
        int code = read_escape(text + i, len - i);
        bool is_pair = is_between(code, 0xd800, 0xdbff) && len - i >= ESCAPE_LEN &&
                       is_between(read_escape(text + i + ESCAPE_LEN, len - i - ESCAPE_LEN), 0xdc00, 0xdfff);
        if (is_pair)
            taken = 2 * (size_t)ESCAPE_LEN;
        else if (is_between(code, 0xd800, 0xdfff))
            taken = ESCAPE_LEN;
        else
            taken = text[i] == '\\' && i + 1 < len ? 2 : 1;
        if (taken == ESCAPE_LEN)
            strbuf_append_str(out, "\\ufffd");
        else
            strbuf_append(out, text + i, taken);
    }
}

static int errno_of(const json_error_t *problem)
{
    switch (json_error_code(problem)) {
    case json_error_invalid_utf8:
        return -EILSEQ;
    case json_error_duplicate_key:
        return -EEXIST;
    case json_error_stack_overflow:
        return -EMSGSIZE;
    default:
        return -EBADMSG;
    }
}

bool json_has_too_many_values(const char *text, size_t len, size_t max)
{
    size_t values = 1;
    bool is_quoted = false;
    if (len / 2 <= max)
        return false;
    for (size_t i = 0; i < len && values <= max; i++) {
        if (is_quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            is_quoted = !is_quoted;
        else
            values += !is_quoted && text[i] == ',';
    }
    return values > max;
}

int json_value_read(const char *text, size_t len, size_t flags, json_t **ret_value)
{
    json_error_t problem;
    if (len == 0 || memchr(text, '\0', len) != NULL) /* jansson would stop at a NUL */
        return -EBADMSG;
    if (json_has_too_many_values(text, len, JSON_VALUES_MAX))
        return -EMSGSIZE;
    json_t *value = json_loadb(text, len, flags | JSON_ALLOW_NUL, &problem);
    if (value == NULL) {
        _cleanup_strbuf_ struct strbuf mended = STRBUF_INIT(len);
        append_mended(text, len, &mended);
        value = json_loadb(mended.data, mended.len, flags | JSON_ALLOW_NUL, &problem);
    }
    if (value == NULL)
        return errno_of(&problem);
    *ret_value = value;
    return 0;
}

const char *json_value_text(const json_t *value)
{
    const char *text = json_string_value(value);
    return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

char *json_value_read_id(const json_t *value)
{
    char number[32];
    const char *text = json_value_text(value);
    if (json_is_integer(value)) {
        snprintf(number, sizeof(number), "%" PRId64, (int64_t)json_integer_value(value));
        text = number;
    }
    return text != NULL && text[0] != '\0' ? g_strdup(text) : NULL;
}
