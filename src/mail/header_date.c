/* SPDX-License-Identifier: MIT */
/*
 * GMime reads the day and the names of zones. The time of day and the offset are read here, since GMime knows
 * no leap seconds and few forms of offsets.
 */
#include "mail/header_date.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/date.h"
#include "mail/header_text.h"

enum {
    HEADER_DATE_MAX_BYTES = 998 /* the longest line of RFC 5322; GMime needs memory of many times this size */
};

/* Appends the date without comments, stray ")" and blanks around colons. A comment without an end extends to
 * the end of the text. */
static void append_simplified(struct strbuf *date, const char *text)
{
    while (text != NULL && *text != '\0') {
        if (*text == '(') {
            text = header_text_skip_comment(text);
            continue;
        }
        if (*text == ':')
            while (date->len > 0 && date->data[date->len - 1] == ' ')
                strbuf_truncate(date, date->len - 1);
        bool follows_colon = date->len > 0 && date->data[date->len - 1] == ':';
        if (*text != ')' && !(*text == ' ' && follows_colon))
            strbuf_append_char(date, *text);
        text++;
    }
}

/* Replaces the dots of times such as "2026 10.14.36", which some programs write, by colons. */
static void replace_dots_of_time(char *date)
{
    for (char *blank = date; (blank = strchr(blank, ' ')) != NULL; blank++) {
        bool follows_year = blank - date >= 4 && strspn(blank - 4, "0123456789") == 4;
        int len = 0;
        sscanf(blank, " %*2u.%*2u.%*2u%n", &len);
        for (int i = 0; follows_year && i < len; i++)
            if (blank[i] == '.')
                blank[i] = ':';
    }
}

/* Finds the time of day by the first colon between digits. Returns its beginning, or NULL. */
static char *find_time(char *date)
{
    char *colon = strchr(date, ':');
    while (colon != NULL && (colon == date || !g_ascii_isdigit(colon[-1]) || !g_ascii_isdigit(colon[1])))
        colon = strchr(colon + 1, ':');
    if (colon == NULL)
        return NULL;
    return colon - 1 > date && g_ascii_isdigit(colon[-2]) ? colon - 2 : colon - 1;
}

static bool take_word(const char **text, const char *word)
{
    const char *at = *text + strspn(*text, " ");
    if (strncasecmp(at, word, strlen(word)) != 0)
        return false;
    *text = at + strlen(word);
    return true;
}

/* Takes "10:14:36 PM" and "GMT+0100", but leaves a zone without an offset, such as "EST", to GMime. */
static bool take_time_and_offset(const char **text, int64_t *ret_ms)
{
    const int64_t noon_ms = INT64_C(12) * 3600 * 1000;
    int64_t ms = 0;
    int minutes = 0;
    if (!date_take_time(text, &ms))
        return false;
    if (take_word(text, "AM") && ms >= noon_ms)
        ms -= noon_ms;
    else if (take_word(text, "PM") && ms < noon_ms)
        ms += noon_ms;
    const char *at = *text;
    if (!take_word(&at, "GMT") && !take_word(&at, "UTC"))
        take_word(&at, "UT");
    at += strspn(at, " ");
    if (date_take_offset(&at, &minutes))
        *text = at;
    *ret_ms = ms - (int64_t)minutes * 60 * 1000;
    return true;
}

int header_date_parse(const char *value, size_t len, int64_t *ret_ms)
{
    _cleanup_free_ char *text = NULL;
    if (len > HEADER_DATE_MAX_BYTES)
        return -EBADMSG;
    if (header_text_decode(value, len, &text) != 0)
        return -ENOMEM;
    _cleanup_strbuf_ struct strbuf date = STRBUF_INIT(HEADER_DATE_MAX_BYTES);
    append_simplified(&date, text);
    if (date.error != 0 || date.len == 0)
        return date.error == -ENOMEM ? -ENOMEM : -EBADMSG;

    replace_dots_of_time(date.data);
    _cleanup_strbuf_ struct strbuf day = STRBUF_INIT(2 * HEADER_DATE_MAX_BYTES);
    char *time = find_time(date.data);
    const char *after = time;
    int64_t time_ms = 0;
    if (time != NULL) {
        if (!take_time_and_offset(&after, &time_ms))
            return -EBADMSG;
        bool is_iso = time > date.data + 1 && strchr("Tt", time[-1]) != NULL && g_ascii_isdigit(time[-2]);
        strbuf_append(&day, date.data, (size_t)(time - date.data) - is_iso);
        strbuf_append_str(&day, " 00:00:00 ");
    }
    strbuf_append_str(&day, time != NULL ? after : date.data);

    GDateTime *midnight = g_mime_utils_header_decode_date(strbuf_str(&day));
    if (midnight == NULL)
        return day.error == -ENOMEM ? -ENOMEM : -EBADMSG;
    *ret_ms = g_date_time_to_unix(midnight) * 1000 + time_ms;
    g_date_time_unref(midnight);
    return 0;
}
