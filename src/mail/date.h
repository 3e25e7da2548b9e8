/* SPDX-License-Identifier: MIT */
/*
 * Dates as the interface has them (section 1): ISO 8601, read liberally and written in one form. In memory a
 * date is the number of milliseconds since 1970 UTC.
 */
#ifndef INBOXFS_MAIL_DATE_H
#define INBOXFS_MAIL_DATE_H

#include <stdbool.h>
#include <stdint.h>

/* ISO 8601 in UTC with any number of fraction digits and `Z`, an offset, or no suffix; a date alone is its
 * midnight. 0 or -EBADMSG. */
int date_parse(const char *text, int64_t *ret_ms);

/* Both take what the text begins with off it. False: the text begins with no such thing. The time of day in
 * milliseconds; a leap second counts as the next minute's first. The offset: "+0100", "+01:00", "+01", and
 * "+1:00", "+100" and "+1" of programs that write no zeros. */
bool date_take_time(const char **text, int64_t *ret_ms);
bool date_take_offset(const char **text, int *ret_minutes);

/* "2026-11-20T10:14:36.123Z" and a NUL: 24 characters for the years 0000 to 9999, to which it is clamped. */
void date_format(int64_t ms, char ret_text[32]);

#endif
