/* SPDX-License-Identifier: MIT */
/*
 * Dates as the interface has them (section 1): ISO 8601, read liberally and written in one form. In memory a
 * date is the number of milliseconds since 1970 UTC.
 */
#ifndef INBOXFS_MAIL_DATE_H
#define INBOXFS_MAIL_DATE_H

#include <stddef.h>
#include <stdint.h>

/* ISO 8601 in UTC with any number of fraction digits and `Z`, an offset, or no suffix; a date alone is its
 * midnight. 0 or -EBADMSG. */
int date_parse(const char *text, int64_t *ret_ms);

/* The value of a header `Date`, as mail programs write it: RFC 5322 with its obsolete forms, ISO 8601, and
 * what is near these: "GMT+0100", "UTC+1", "+01:00", "10:14:36 PM", the forms of ctime(3) and of JavaScript,
 * encoded words. A leap second is the next minute's first. Without a zone, and with a name that RFC 5322 does
 * not have, it is UTC. Names of months are English. 0, -EBADMSG or -ENOMEM. */
int date_parse_header(const char *value, size_t len, int64_t *ret_ms);

/* "2026-11-20T10:14:36.123Z" and a NUL: 24 characters for the years 0000 to 9999, to which it is clamped. */
void date_format(int64_t ms, char ret_text[32]);

#endif
