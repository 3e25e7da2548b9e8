/* SPDX-License-Identifier: MIT */
/*
 * Dates of the interface (section 1): ISO 8601, read liberally and written in one form. In memory a date is
 * the number of milliseconds since 1970 UTC.
 */
#ifndef INBOXFS_MAIL_DATE_H
#define INBOXFS_MAIL_DATE_H

#include <stdbool.h>
#include <stdint.h>

/* Reads ISO 8601 with any number of fraction digits, and with `Z`, an offset, or neither (UTC). A date
 * without a time means 00:00 UTC. Return: 0; -EBADMSG if the text is not such a date. */
int date_parse(const char *text, int64_t *ret_ms);

/* Read a time of day (in milliseconds) or an offset (in minutes) at the beginning of *text, and advance *text
 * by its length. Return false if the text begins otherwise. A leap second counts as the first second of the
 * next minute. An offset is "+0100", "+01:00" or "+01", or lacks the first zero: "+100", "+1:00", "+1". */
bool date_take_time(const char **text, int64_t *ret_ms);
bool date_take_offset(const char **text, int *ret_minutes);

/* Writes "2026-11-20T10:14:36.123Z" and a NUL. Dates outside the years 0000 to 9999 are clamped. */
void date_format(int64_t ms, char ret_text[32]);

#endif
