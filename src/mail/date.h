/* SPDX-License-Identifier: MIT */
/*
 * Dates. Those of the interface (section 1) are ISO 8601, read liberally and written in one form; those of
 * messages are as mail programs write them. In memory a date is the number of milliseconds since 1970 UTC.
 */
#ifndef INBOXFS_MAIL_DATE_H
#define INBOXFS_MAIL_DATE_H

#include <stddef.h>
#include <stdint.h>

/* Reads ISO 8601 with any number of fraction digits, and with `Z`, an offset, or neither (UTC). A date
 * without a time means 00:00 UTC. Return: 0; -EBADMSG if the text is not such a date. */
int date_parse(const char *text, int64_t *ret_ms);

/* Reads the header `Date`: a date of RFC 5322 (also in obsolete form) or ISO 8601, and common variants:
 * "GMT+0100", "UTC+1", "+01:00", "10:14:36 PM", the forms of ctime(3) and of JavaScript, encoded words. A
 * leap second is the first second of the next minute. Dates without a zone, or with a zone that RFC 5322 does
 * not name, are UTC. Names of months are English. The program must call g_mime_init() first. Return: 0;
 * -EBADMSG if the value is not a date, or is too long; -ENOMEM. */
int date_parse_header(const char *value, size_t len, int64_t *ret_ms);

/* Writes "2026-11-20T10:14:36.123Z" and a NUL. Dates outside the years 0000 to 9999 are clamped. */
void date_format(int64_t ms, char ret_text[32]);

#endif
