/* SPDX-License-Identifier: MIT */
/*
 * The fields of a record that mean something to this program.
 */
#ifndef INBOXFS_MAIL_EMAIL_FIELD_H
#define INBOXFS_MAIL_EMAIL_FIELD_H

#include <stddef.h>

/* Those that a record's file begins with come first, and in its order. */
enum email_field {
    FIELD_ID,
    FIELD_DATE,
    FIELD_FROM_ADDRESS,
    FIELD_TO_ADDRESSES,
    FIELD_SUBJECT,
    FIRST_FIELDS, /* so many are those */
    FIELD_INBOX_ID = FIRST_FIELDS,
    FIELD_STATUS,
    FIELD_MARK,
    FIELD_OTHER,
};

/* `key`: as it is written, without quotes. */
enum email_field email_field_kind(const char *key, size_t len);

#endif
