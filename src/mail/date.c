/* SPDX-License-Identifier: MIT */
#include "mail/date.h"

#include <errno.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum {
    MS_PER_SECOND = 1000,
};

static const int64_t first_ms = INT64_C(-62135596800000); /* 0001-01-01T00:00:00.000Z */
static const int64_t last_ms = INT64_C(253402300799999);  /* 9999-12-31T23:59:59.999Z */

/* Makes what GLib insists on: a time, capital letters, and seconds, which some services leave out if they are
 * zero. */
static char *complete(const char *text)
{
    static const size_t day_len = sizeof("2026-11-20") - 1;
    static const size_t minute_len = sizeof("2026-11-20T10:14") - 1;
    GString *whole = g_string_ascii_up(g_string_new(text));
    if (whole->len == day_len)
        g_string_append(whole, "T00:00:00");
    else if (whole->len >= minute_len && text[minute_len - 3] == ':' &&
             strchr("Z+-", whole->str[minute_len]) != NULL) /* or the end */
        g_string_insert(whole, (gssize)minute_len, ":00");
    return g_string_free(whole, false);
}

int date_parse(const char *text, int64_t *ret_ms)
{
    g_autofree char *whole = complete(text);
    g_autoptr(GTimeZone) utc = g_time_zone_new_utc();
    g_autoptr(GDateTime) date = g_date_time_new_from_iso8601(whole, utc);
    if (date == NULL)
        return -EBADMSG;
    *ret_ms = g_date_time_to_unix(date) * MS_PER_SECOND + g_date_time_get_microsecond(date) / 1000;
    return 0;
}

static void write_number(char *to, int number, size_t digits)
{
    for (; digits > 0; number /= 10)
        to[--digits] = (char)('0' + number % 10);
}

/* Each email of a list needs its date for its file name, and snprintf() takes eight times as long. */
void date_format(int64_t ms, char ret_text[32])
{
    ms = ms < first_ms ? first_ms : ms > last_ms ? last_ms : ms;
    int part_ms = (int)(ms % MS_PER_SECOND);
    if (part_ms < 0)
        part_ms += MS_PER_SECOND;
    time_t seconds = (ms - part_ms) / MS_PER_SECOND;
    struct tm date;
    gmtime_r(&seconds, &date);
    memcpy(ret_text, "0000-00-00T00:00:00.000Z", sizeof("0000-00-00T00:00:00.000Z"));
    write_number(ret_text, date.tm_year + 1900, 4);
    write_number(ret_text + 5, date.tm_mon + 1, 2);
    write_number(ret_text + 8, date.tm_mday, 2);
    write_number(ret_text + 11, date.tm_hour, 2);
    write_number(ret_text + 14, date.tm_min, 2);
    write_number(ret_text + 17, date.tm_sec, 2);
    write_number(ret_text + 20, part_ms, 3);
}
