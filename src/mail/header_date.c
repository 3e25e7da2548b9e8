/* SPDX-License-Identifier: MIT */
/*
 * GMime reads the day and the names of zones. The time of day and the offset are read here, since GMime knows
 * no leap seconds and few forms of offsets.
 */
#include "mail/header_date.h"

#include <errno.h>
#include <gmime/gmime.h>
#include <stdbool.h>
#include <string.h>

#include "mail/header_text.h"

enum {
    HEADER_DATE_MAX_BYTES = 998 /* the longest line of RFC 5322; GMime needs memory of many times this size */
};

/* Matches "10:14", "T10:14:36.123+0100", "10 : 14 : 36 PM GMT+1". Fractions of a second are ignored. A zone
 * without an offset, such as "EST", is not part of the match. */
static const char time_pattern[] =
    "(?:(?<=[0-9])T|(?<![0-9]))(?<hour>[0-9]{1,2}) ?: ?(?<minute>[0-9]{1,2})"
    "(?: ?: ?(?<second>[0-9]{1,2})(?:[.,][0-9]+)?)? ?(?<half>AM|PM)?"
    "(?: ?(?:GMT|UTC?)? ?(?<sign>[+-])(?<offset_hours>[0-9]{1,2}?):?(?<offset_minutes>[0-9]{2})?(?![0-9]))?";

static void *compile_time_pattern(void *unused)
{
    return g_regex_new(time_pattern, G_REGEX_CASELESS | G_REGEX_RAW, 0, NULL);
}

/* Returns 0 for a group that is missing. */
static int64_t read_number(const GMatchInfo *match, const char *group)
{
    g_autofree char *digits = g_match_info_fetch_named(match, group);
    return digits != NULL ? g_ascii_strtoll(digits, NULL, 10) : 0;
}

/* Reads the time of day in UTC, in milliseconds. */
static bool read_time(const GMatchInfo *match, int64_t *ret_ms)
{
    int64_t hour = read_number(match, "hour");
    int64_t minute = read_number(match, "minute");
    int64_t second = read_number(match, "second");
    int64_t offset_hours = read_number(match, "offset_hours");
    int64_t offset_minutes = read_number(match, "offset_minutes");
    g_autofree char *half = g_match_info_fetch_named(match, "half");
    g_autofree char *sign = g_match_info_fetch_named(match, "sign");
    if (hour > 23 || minute > 59 || second > 60 || offset_hours > 23 || offset_minutes > 59)
        return false;
    if (half != NULL && half[0] != '\0')
        hour = hour % 12 + (g_ascii_toupper(half[0]) == 'P' ? 12 : 0);
    int64_t offset = (offset_hours * 60 + offset_minutes) * 60;
    bool is_west = g_strcmp0(sign, "-") == 0;
    *ret_ms = ((hour * 60 + minute) * 60 + second + (is_west ? offset : -offset)) * 1000;
    return true;
}

int header_date_parse(const char *value, size_t len, int64_t *ret_ms)
{
    static GOnce once = G_ONCE_INIT;
    const GRegex *pattern = g_once(&once, compile_time_pattern, NULL);
    if (len > HEADER_DATE_MAX_BYTES)
        return -EBADMSG;
    g_autofree char *date = header_text_decode(value, len);
    date[strcspn(date, "(")] = '\0'; /* a comment such as "(CET)" */
    g_autoptr(GMatchInfo) match = NULL;
    int64_t time_ms = 0;
    if (g_regex_match(pattern, date, 0, &match)) {
        if (!read_time(match, &time_ms))
            return -EBADMSG;
        char *day = g_regex_replace_literal(pattern, date, -1, 0, " 00:00:00 ", 0, NULL);
        g_free(date);
        date = day;
    }
    GDateTime *midnight = g_mime_utils_header_decode_date(date);
    if (midnight == NULL)
        return -EBADMSG;
    *ret_ms = g_date_time_to_unix(midnight) * 1000 + time_ms;
    g_date_time_unref(midnight);
    return 0;
}
