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
    *ret_ms = g_date_time_to_unix(midnight) * 1000 + time_ms;
    g_date_time_unref(midnight);
    return 0;
}
