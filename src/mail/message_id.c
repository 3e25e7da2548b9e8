/* SPDX-License-Identifier: MIT */
/*
 * Each byte is looked at once: what stands outside of brackets is skipped in whole comments and quoted
 * strings.
 */
#include "mail/message_id.h"

#include <string.h>
#include <strings.h>

#include "base/character.h"
#include "base/cleanup.h"

/* ---------------------------------------------------------------- the value of a header */

/* Behind the quoted string that begins here, or at the end. */
static const char *skip_quoted(const char *at)
{
    for (at++; *at != '\0' && *at != '"'; at++)
        if (*at == '\\' && at[1] != '\0')
            at++;
    return *at == '\0' ? at : at + 1;
}

/* The same of a comment, with those within it. */
static const char *skip_comment(const char *at)
{
    size_t depth = 0;
    for (; *at != '\0'; at++) {
        if (*at == '\\' && at[1] != '\0')
            at++;
        else if (*at == '(')
            depth++;
        else if (*at == ')' && --depth == 0)
            return at + 1;
    }
    return at;
}

/* Behind what begins at `<`: `>`, or what cannot be within. Its length in *ret_len; 0: it is none. */
static const char *read_brackets(const char *at, char ret_id[MESSAGE_ID_SIZE], size_t *ret_len)
{
    size_t len = 0;
    for (at++; *at != '\0' && *at != '<' && *at != '>'; at++) {
        if (!character_is_blank(*at) && len < MESSAGE_ID_SIZE)
            ret_id[len++] = *at;
    }
    bool is_whole = *at == '>' && len < MESSAGE_ID_SIZE;
    *ret_len = is_whole ? len : 0;
    ret_id[*ret_len] = '\0';
    return *at == '>' ? at + 1 : at;
}

bool message_id_next(const char **text, char ret_id[MESSAGE_ID_SIZE])
{
    const char *at = *text;
    size_t len = 0;
    while (*at != '\0' && len == 0) {
        if (*at == '<')
            at = read_brackets(at, ret_id, &len);
        else if (*at == '(')
            at = skip_comment(at);
        else if (*at == '"')
            at = skip_quoted(at);
        else
            at++;
    }
    *text = at;
    return len > 0;
}

/* ---------------------------------------------------------------- a message */

static size_t line_len(const char *bytes, size_t len)
{
    const char *newline = memchr(bytes, '\n', len);
    return newline == NULL ? len : (size_t)(newline - bytes) + 1;
}

static bool is_folded(const char *line, size_t len)
{
    return len > 0 && (line[0] == ' ' || line[0] == '\t');
}

bool message_id_of(const char *bytes, size_t len, char ret_id[MESSAGE_ID_SIZE])
{
    static const char name[] = "Message-ID:";
    size_t at = 0;
    size_t step;
    for (; at < len && bytes[at] != '\n' && bytes[at] != '\r'; at += step) {
        step = line_len(bytes + at, len - at);
        if (step < strlen(name) || strncasecmp(bytes + at, name, strlen(name)) != 0)
            continue;
        size_t begin = at + strlen(name);
        for (at += step; is_folded(bytes + at, len - at); at += step)
            step = line_len(bytes + at, len - at);
        _cleanup_free_ char *value = strndup(bytes + begin, at - begin);
        const char *text = value;
        return value != NULL && message_id_next(&text, ret_id);
    }
    return false;
}
