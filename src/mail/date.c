/* SPDX-License-Identifier: MIT */
/*
 * Days are counted in the proleptic Gregorian calendar, without the C library's time zones. Of a header's
 * date GMime reads the day and the names of zones; the time of day and the offset are read here, as it knows
 * no leap seconds and few of the ways in which offsets are written.
 */
#include "mail/date.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/header_text.h"
#include "mail/mime_library.h"

enum {
    MS_PER_SECOND = 1000,
    SECONDS_PER_DAY = 86400,
    DAYS_PER_ERA = 146097, /* 400 years */
    DAYS_TO_1970 = 719468  /* from 0000-03-01 */
};

static const int64_t first_ms = INT64_C(-62167219200000); /* 0000-01-01T00:00:00.000Z */
static const int64_t last_ms = INT64_C(253402300799999);  /* 9999-12-31T23:59:59.999Z */

/* Years start in March here, so that the leap day is the last day. */
static int64_t days_from_date(int year, int month, int day)
{
    int64_t shifted = month <= 2 ? year - 1 : year;
    int64_t era = (shifted >= 0 ? shifted : shifted - 399) / 400;
    int64_t year_of_era = shifted - era * 400;
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_PER_ERA + day_of_era - DAYS_TO_1970;
}

static void date_from_days(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
    days += DAYS_TO_1970;
    int64_t era = (days >= 0 ? days : days - (DAYS_PER_ERA - 1)) / DAYS_PER_ERA;
    int64_t day_of_era = days - era * DAYS_PER_ERA;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / (DAYS_PER_ERA - 1)) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153;
    *ret_day = (int)(day_of_year - (153 * month + 2) / 5 + 1);
    *ret_month = (int)(month < 10 ? month + 3 : month - 9);
    *ret_year = (int)(year_of_era + era * 400 + (*ret_month <= 2 ? 1 : 0));
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && is_leap ? 29 : days[month - 1];
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads so many digits, moves on, and returns their number; 0: there are fewer. */
static int take_digits(const char **text, int min, int max, int *ret_number)
{
    int number = 0;
    int count = 0;
    for (; count < max && is_digit((*text)[count]); count++)
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

/* Digits past the third are dropped. */
static bool take_fraction(const char **text, int *ret_ms)
{
    int ms = 0;
    int weight = 100;
    if (!is_digit(**text))
        return false;
    for (; is_digit(**text); (*text)++) {
        ms += (**text - '0') * weight;
        weight /= 10;
    }
    *ret_ms = ms;
    return true;
}

/* "+0100", "+01:00", "+01", and "+1:00", "+100" and "+1" of programs that write no zeros. */
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

/* The time of day in milliseconds; a leap second counts as the next minute's first. */
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
        if (take_char(text, '.', ',') && !take_fraction(text, &ms))
            return false;
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
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
        return -EBADMSG;

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
    *ret_ms = days_from_date(year, month, day) * SECONDS_PER_DAY * MS_PER_SECOND + time_ms -
              (int64_t)offset_minutes * 60 * MS_PER_SECOND;
    return 0;
}

/* ---- the date of a header */

enum {
    HEADER_DATE_MAX_BYTES = 998 /* a line; GMime takes many times as much memory as the text is long */
};

/* Without comments, and without blanks around colons. */
static void append_simplified(struct strbuf *date, const char *text)
{
    size_t depth = 0; /* of comments */
    for (; *text != '\0'; text++) {
        if (*text == '\\' && depth > 0 && text[1] != '\0')
            text++;
        else if (*text == '(')
            depth++;
        else if (*text == ')' && depth > 0)
            depth--;
        else if (depth == 0 && *text == ':')
            while (date->len > 0 && date->data[date->len - 1] == ' ')
                strbuf_truncate(date, date->len - 1);
        bool is_behind_colon = date->len > 0 && date->data[date->len - 1] == ':';
        if (depth == 0 && *text != ')' && !(*text == ' ' && is_behind_colon))
            strbuf_append_char(date, *text);
    }
}

/* Where the time of day begins: before a colon between digits. NULL: there is none. */
static char *find_time(char *date)
{
    char *colon = strchr(date, ':');
    while (colon != NULL && (colon == date || !is_digit(colon[-1]) || !is_digit(colon[1])))
        colon = strchr(colon + 1, ':');
    if (colon == NULL)
        return NULL;
    return colon - 1 > date && is_digit(colon[-2]) ? colon - 2 : colon - 1;
}

static bool take_word(const char **text, const char *word)
{
    const char *at = *text + strspn(*text, " ");
    if (strncasecmp(at, word, strlen(word)) != 0)
        return false;
    *text = at + strlen(word);
    return true;
}

/* Takes "10:14:36 PM" and "GMT+0100". A zone that has only a name stays. */
static bool take_time_and_offset(const char **text, int64_t *ret_ms)
{
    const int64_t noon_ms = INT64_C(12) * 3600 * MS_PER_SECOND;
    int64_t ms = 0;
    int minutes = 0;
    if (!take_time(text, &ms))
        return false;
    if (take_word(text, "AM") && ms >= noon_ms)
        ms -= noon_ms;
    else if (take_word(text, "PM") && ms < noon_ms)
        ms += noon_ms;
    const char *at = *text;
    if (!take_word(&at, "GMT") && !take_word(&at, "UTC"))
        take_word(&at, "UT");
    at += strspn(at, " ");
    if (take_offset(&at, &minutes))
        *text = at;
    *ret_ms = ms - (int64_t)minutes * 60 * MS_PER_SECOND;
    return true;
}

int date_parse_header(const char *value, size_t len, int64_t *ret_ms)
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

    _cleanup_strbuf_ struct strbuf day = STRBUF_INIT(2 * HEADER_DATE_MAX_BYTES);
    char *time = find_time(date.data);
    const char *behind = time;
    int64_t time_ms = 0;
    if (time != NULL) {
        if (!take_time_and_offset(&behind, &time_ms))
            return -EBADMSG;
        bool is_iso = time > date.data + 1 && strchr("Tt", time[-1]) != NULL && is_digit(time[-2]);
        strbuf_append(&day, date.data, (size_t)(time - date.data) - is_iso);
        strbuf_append_str(&day, " 00:00:00 ");
    }
    strbuf_append_str(&day, time != NULL ? behind : date.data);

    mime_library_init();
    GDateTime *midnight = g_mime_utils_header_decode_date(strbuf_str(&day));
    if (midnight == NULL)
        return day.error == -ENOMEM ? -ENOMEM : -EBADMSG;
    *ret_ms = g_date_time_to_unix(midnight) * MS_PER_SECOND + time_ms;
    g_date_time_unref(midnight);
    return 0;
}

/* ---- writing */

static void put_pair(char *to, unsigned int number)
{
    to[0] = (char)('0' + number / 10);
    to[1] = (char)('0' + number % 10);
}

void date_format(int64_t ms, char ret_text[32])
{
    if (ms < first_ms)
        ms = first_ms;
    if (ms > last_ms)
        ms = last_ms;

    const int64_t day_ms = (int64_t)SECONDS_PER_DAY * MS_PER_SECOND;
    int64_t days = ms / day_ms - (ms % day_ms < 0 ? 1 : 0);
    int time_ms = (int)(ms - days * day_ms);
    int year;
    int month;
    int day;
    date_from_days(days, &year, &month, &day);

    static const char form[] = "0000-00-00T00:00:00.000Z";
    memcpy(ret_text, form, sizeof(form));
    unsigned int second = (unsigned int)time_ms / MS_PER_SECOND;
    unsigned int part_ms = (unsigned int)time_ms % MS_PER_SECOND;
    put_pair(ret_text, (unsigned int)year / 100);
    put_pair(ret_text + 2, (unsigned int)year % 100);
    put_pair(ret_text + 5, (unsigned int)month);
    put_pair(ret_text + 8, (unsigned int)day);
    put_pair(ret_text + 11, second / 3600);
    put_pair(ret_text + 14, second / 60 % 60);
    put_pair(ret_text + 17, second % 60);
    ret_text[20] = (char)('0' + part_ms / 100);
    put_pair(ret_text + 21, part_ms % 100);
}
