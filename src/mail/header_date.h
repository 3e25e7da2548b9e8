/* SPDX-License-Identifier: MIT */
/*
 * The date of a message, as mail programs write it into the header `Date`.
 */
#ifndef INBOXFS_MAIL_HEADER_DATE_H
#define INBOXFS_MAIL_HEADER_DATE_H

#include <stddef.h>
#include <stdint.h>

/* Reads the value of the header: RFC 5322 with its obsolete forms, ISO 8601, and
 * what is near these: "GMT+0100", "UTC+1", "+01:00", "10:14:36 PM", the forms of ctime(3) and of JavaScript,
 * encoded words. A leap second is the next minute's first. Without a zone, and with a name that RFC 5322 does
 * not have, it is UTC. Names of months are English. The program called g_mime_init() before. 0, -EBADMSG or
 * -ENOMEM. */
int header_date_parse(const char *value, size_t len, int64_t *ret_ms);

#endif
