/* SPDX-License-Identifier: MIT */
/*
 * Dates of the interface are parsed without strptime(3), which knows no fractions of a second and few forms
 * of UTC offsets. GMime reads the day and the names of zones in headers, but knows no leap seconds and few
 * forms of offsets, so this file reads the time of day and the offset.
 */
#include "mail/date.h"

#include <errno.h>
#include <glib.h>
#include <gmime/gmime.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"
#include "mail/header_text.h"

enum {
    MS_PER_SECOND = 1000,
};

static const int64_t first_ms = INT64_C(-62167219200000); /* 0000-01-01T00:00:00.000Z */
static const int64_t last_ms = INT64_C(253402300799999);  /* 9999-12-31T23:59:59.999Z */

/* Takes `min` to `max` digits. Returns the number of digits taken; 0 if there are fewer than `min`. */
static int take_digits(const char **text, int min, int max, int *ret_number)
{
    int number = 0;
    int count = 0;
    for (; count < max && g_ascii_isdigit((*text)[count]); count++)
        number = number * 10 + ((*text)[count] - '0');
    if (count < min)
        return 0;
    *text += count;
    *ret_number = number;
    return count;
}

static bool take_char(const char **text, char one, char other)
{
    if (**text != one && **text != other)
        return false;
    (*text)++;
    return true;
}

/* An offset is "+0100", "+01:00" or "+01", or lacks the first zero: "+100", "+1:00", "+1". */
static bool take_offset(const char **text, int *ret_minutes)
{
    int hours = 0;
    int minutes = 0;
    int sign = **text == '-' ? -1 : 1;
    if (!take_char(text, '+', '-'))
        return false;
    int digits = take_digits(text, 1, 4, &hours);
    if (digits > 2) {
        minutes = hours % 100;
        hours /= 100;
    } else if (digits == 0 || (take_char(text, ':', ':') && !take_digits(text, 2, 2, &minutes))) {
        return false;
    }
    *ret_minutes = sign * (hours * 60 + minutes);
    return hours <= 23 && minutes <= 59;
}

/* A leap second counts as the first second of the next minute. */
static bool take_time(const char **text, int64_t *ret_ms)
{
    int hour = 0;
    int minute = 0;
    int second = 0;
    int ms = 0;
    if (!take_digits(text, 1, 2, &hour) || !take_char(text, ':', ':') || !take_digits(text, 1, 2, &minute))
        return false;
    if (take_char(text, ':', ':')) {
        if (!take_digits(text, 1, 2, &second))
            return false;
        bool has_fraction = take_char(text, '.', ',');
        if (has_fraction && !g_ascii_isdigit(**text))
            return false;
        /* Digits after the third are ignored. */
        for (int weight = 100; has_fraction && g_ascii_isdigit(**text); (*text)++, weight /= 10)
            ms += (**text - '0') * weight;
    }
    *ret_ms = ((int64_t)hour * 3600 + minute * 60 + second) * MS_PER_SECOND + ms;
    return hour <= 23 && minute <= 59 && second <= 60;
}

int date_parse(const char *text, int64_t *ret_ms)
{
    int year = 0;
    int month = 0;
    int day = 0;
    if (!take_digits(&text, 4, 4, &year) || !take_char(&text, '-', '-') ||
        !take_digits(&text, 2, 2, &month) || !take_char(&text, '-', '-') || !take_digits(&text, 2, 2, &day))
        return -EBADMSG;
    struct tm date = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    int64_t midnight = timegm(&date);
    if (date.tm_mon != month - 1 || date.tm_mday != day)
        return -EBADMSG; /* a day such as February 30 */

    int64_t time_ms = 0;
    int offset_minutes = 0;
    if (*text != '\0') {
        if (!take_char(&text, 'T', 't') && !take_char(&text, ' ', ' '))
            return -EBADMSG;
        bool is_read = take_time(&text, &time_ms) &&
                       (*text == '\0' || take_char(&text, 'Z', 'z') || take_offset(&text, &offset_minutes));
        if (!is_read || *text != '\0')
            return -EBADMSG;
    }
    *ret_ms = (midnight - (int64_t)offset_minutes * 60) * MS_PER_SECOND + time_ms;
    return 0;
}

void date_format(int64_t ms, char ret_text[32])
{
    ms = ms < first_ms ? first_ms : ms > last_ms ? last_ms : ms;
    int part_ms = (int)(ms % MS_PER_SECOND);
    if (part_ms < 0)
        part_ms += MS_PER_SECOND;
    time_t seconds = (ms - part_ms) / MS_PER_SECOND;
    char year_to_second[128]; /* large enough for any struct tm, to avoid a compiler warning */
    struct tm date;
    gmtime_r(&seconds, &date);
    snprintf(year_to_second, sizeof(year_to_second), "%04d-%02d-%02dT%02d:%02d:%02d", date.tm_year + 1900,
             date.tm_mon + 1, date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec);
    snprintf(ret_text, 32, "%.19s.%03dZ", year_to_second, part_ms);
}

/* ---------------------------------------------------------------- headers */

enum {
    HEADER_DATE_MAX_BYTES = 998 /* the longest line of RFC 5322; GMime needs memory of many times this size */
};

enum time_group {
    GROUP_HOUR = 1,
    GROUP_MINUTE,
    GROUP_SECOND,
    GROUP_HALF, /* of the day: AM or PM */
    GROUP_SIGN, /* of the offset, like the two groups below */
    GROUP_OFFSET_HOURS,
    GROUP_OFFSET_MINUTES,
};

/* Matches "10:14", "T10:14:36.123+0100", "10 : 14 : 36 PM GMT+1". Fractions of a second are ignored. A zone
 * without an offset, such as "EST", is not part of the match. The empty group at the end has GLib list all
 * groups before it. */
static const char time_pattern[] =
    "(?:(?<=[0-9])T|(?<![0-9]))([0-9]{1,2}) ?: ?([0-9]{1,2})(?: ?: ?([0-9]{1,2})(?:[.,][0-9]+)?)? ?(AM|PM)?"
    "(?: ?(?:GMT|UTC?)? ?([+-])([0-9]{1,2}?):?([0-9]{2})?(?![0-9]))?()";

static void *compile_time_pattern(void *unused)
{
    return g_regex_new(time_pattern, G_REGEX_CASELESS | G_REGEX_RAW, 0, NULL);
}

/* Copies a date without comments, stray ")" and second blanks. A comment without an end extends to the end of
 * the text. */
static char *simplify(const char *text)
{
    GString *date = g_string_new(NULL);
    while (text != NULL && *text != '\0') {
        if (*text == '(') {
            text = header_text_skip_comment(text);
            continue;
        }
        bool follows_blank = date->len > 0 && date->str[date->len - 1] == ' ';
        if (*text != ')' && !(*text == ' ' && follows_blank))
            g_string_append_c(date, *text);
        text++;
    }
    return g_string_free(date, false);
}

/* Reads the time of day in UTC, in milliseconds. `groups` are "" if they are missing. */
static bool read_time(char *const *groups, int64_t *ret_ms)
{
    int64_t hour = g_ascii_strtoll(groups[GROUP_HOUR], NULL, 10);
    int64_t minute = g_ascii_strtoll(groups[GROUP_MINUTE], NULL, 10);
    int64_t second = g_ascii_strtoll(groups[GROUP_SECOND], NULL, 10);
    int64_t offset_hours = g_ascii_strtoll(groups[GROUP_OFFSET_HOURS], NULL, 10);
    int64_t offset_minutes = g_ascii_strtoll(groups[GROUP_OFFSET_MINUTES], NULL, 10);
    if (hour > 23 || minute > 59 || second > 60 || offset_hours > 23 || offset_minutes > 59)
        return false;
    if (g_ascii_strcasecmp(groups[GROUP_HALF], "AM") == 0 && hour >= 12)
        hour -= 12;
    else if (g_ascii_strcasecmp(groups[GROUP_HALF], "PM") == 0 && hour < 12)
        hour += 12;
    int64_t offset = (offset_hours * 60 + offset_minutes) * 60;
    bool is_west = groups[GROUP_SIGN][0] == '-';
    *ret_ms = ((hour * 60 + minute) * 60 + second + (is_west ? offset : -offset)) * MS_PER_SECOND;
    return true;
}

int date_parse_header(const char *value, size_t len, int64_t *ret_ms)
{
    static GOnce once = G_ONCE_INIT;
    const GRegex *pattern = g_once(&once, compile_time_pattern, NULL);
    _cleanup_free_ char *text = NULL;
    if (len > HEADER_DATE_MAX_BYTES)
        return -EBADMSG;
    if (header_text_decode(value, len, &text) != 0)
        return -ENOMEM;
    g_autofree char *date = simplify(text);
    g_autoptr(GMatchInfo) match = NULL;
    int64_t time_ms = 0;
    if (g_regex_match(pattern, date, 0, &match)) {
        g_auto(GStrv) groups = g_match_info_fetch_all(match);
        if (!read_time(groups, &time_ms))
            return -EBADMSG;
        g_auto(GStrv) halves = g_strsplit(date, groups[0], 2);
        g_free(date);
        date = g_strjoinv(" 00:00:00 ", halves);
    }
    GDateTime *midnight = g_mime_utils_header_decode_date(date);
    if (midnight == NULL)
        return -EBADMSG;
    *ret_ms = g_date_time_to_unix(midnight) * MS_PER_SECOND + time_ms;
    g_date_time_unref(midnight);
    return 0;
}
