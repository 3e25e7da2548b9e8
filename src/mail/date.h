/* SPDX-License-Identifier: MIT */
/*
 * Dates of the interface (section 1): ISO 8601, read liberally and written in one form. In memory a date is
 * the number of milliseconds since 1970 UTC.
 */
#ifndef INBOXFS_MAIL_DATE_H
#define INBOXFS_MAIL_DATE_H

#include <stdint.h>

/* Reads ISO 8601 with up to twelve fraction digits, and with `Z`, an offset, or neither (UTC). Seconds may
 * be missing. A date without a time means 00:00 UTC. Return: 0; -EBADMSG if the text is not such a date. */
int date_parse(const char *text, int64_t *ret_ms);

/* Writes "2026-11-20T10:14:36.123Z" and a NUL. Dates outside the years 0001 to 9999 are clamped. */
void date_format(int64_t ms, char ret_text[32]);

#endif
