/* SPDX-License-Identifier: MIT */
/*
 * Dates are parsed without strptime(3), which knows no fractions of a second and few forms of UTC offsets.
 */
#include "mail/date.h"

#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

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
