/* SPDX-License-Identifier: MIT */
/*
 * A text that jansson refuses is copied with replacements for values that jansson cannot represent, and
 * parsed again. The copying only distinguishes strings from the text between them; jansson finds the errors.
 */
#include "mail/json_value.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Copies a character or an escape within a string. Returns the number of bytes that were read. */
static size_t append_mended_character(const char *text, size_t len, bool with_nuls, struct strbuf *out)
{
    int code = read_escape(text, len);
    bool is_pair = is_between(code, 0xd800, 0xdbff) &&
                   is_between(read_escape(text + ESCAPE_LEN, len - ESCAPE_LEN), 0xdc00, 0xdfff);
    if (!is_pair && ((code == 0 && with_nuls) || is_between(code, 0xd800, 0xdfff))) {
        strbuf_append_str(out, "\\ufffd");
        return ESCAPE_LEN;
    }
    size_t taken = is_pair ? 2 * (size_t)ESCAPE_LEN : *text == '\\' && len > 1 ? 2 : 1;
    strbuf_append(out, text, taken);
    return taken;
}

static bool is_too_large(const char *number)
{
    if (strpbrk(number, ".eE") != NULL)
        return isinf(g_ascii_strtod(number, NULL));
    errno = 0;
    (void)strtoll(number, NULL, 10);
    return errno == ERANGE;
}

/* Copies a number, or a character between strings. Returns the number of bytes that were read. */
static size_t append_mended_number(const char *text, size_t len, struct strbuf *out)
{
    size_t start = out->len;
    size_t taken = 0;
    while (taken < len &&
           (g_ascii_isdigit(text[taken]) || ((text[taken]) != '\0' && strchr("+-.eE", text[taken]) != NULL)))
        taken++;
    if (taken == 0)
        return strbuf_append(out, text, 1), 1;
    if (strbuf_append(out, text, taken) == 0 && is_too_large(out->data + start)) {
        strbuf_truncate(out, start);
        strbuf_append_char(out, '"');
        strbuf_append(out, text, taken);
        strbuf_append_char(out, '"');
    }
    return taken;
}

static void append_mended(const char *text, size_t len, bool with_nuls, struct strbuf *out)
{
    bool in_string = false;
    for (size_t i = 0, taken; i < len; i += taken) {
        taken = in_string ? append_mended_character(text + i, len - i, with_nuls, out)
                          : append_mended_number(text + i, len - i, out);
        if (text[i] == '"')
            in_string = !in_string;
    }
}

static int errno_of(const json_error_t *problem)
{
    switch (json_error_code(problem)) {
    case json_error_out_of_memory:
        return -ENOMEM;
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
    /* jansson stops at the first error, so it may find a NUL in a key only after the first replacements. */
    for (int round = 0; round < 2 && value == NULL; round++) {
        _cleanup_strbuf_ struct strbuf mended = STRBUF_INIT(2 * len);
        append_mended(text, len, json_error_code(&problem) == json_error_null_byte_in_key, &mended);
        if (mended.error != 0)
            return mended.error;
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

int json_value_read_id(const json_t *value, char **ret_id)
{
    char number[32];
    const char *text = json_value_text(value);
    if (json_is_integer(value)) {
        snprintf(number, sizeof(number), "%" PRId64, (int64_t)json_integer_value(value));
        text = number;
    }
    bool is_id = text != NULL && text[0] != '\0';
    *ret_id = is_id ? strdup(text) : NULL;
    return is_id && *ret_id == NULL ? -ENOMEM : 0;
}
