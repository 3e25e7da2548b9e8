/* SPDX-License-Identifier: MIT */
/*
 * Reads the date of a message from its header `Date`.
 */
#ifndef INBOXFS_MAIL_HEADER_DATE_H
#define INBOXFS_MAIL_HEADER_DATE_H

#include <stddef.h>
#include <stdint.h>

/* Reads a date of RFC 5322 (also in obsolete form) or ISO 8601, and common variants: "GMT+0100", "UTC+1",
 * "+01:00", "10:14:36 PM", the forms of ctime(3) and of JavaScript, encoded words. A leap second is the first
 * second of the next minute. Dates without a zone, or with a zone that RFC 5322 does not name, are UTC. Names
 * of months are English. A comment ends the date. The program must call g_mime_init() first. Return: 0;
 * -EBADMSG if the value is not a date, or is too long. */
int header_date_parse(const char *value, size_t len, int64_t *ret_ms);

#endif
