/* SPDX-License-Identifier: MIT */
/*
 * The subject and the addresses of an email, as an answer to it needs them. The reader ignores every field
 * whose type differs from the published one.
 */
#ifndef INBOXFS_MAIL_EMAIL_HEAD_H
#define INBOXFS_MAIL_EMAIL_HEAD_H

#include <stddef.h>

#include "mail/address.h"

struct email_head {
    char *subject;            /* owned; NULL if the service sent none */
    struct address_list from; /* `unusable` of each list is its first text that is not an address */
    struct address_list to;
    struct address_list cc;
    struct address_list reply_to;
};

/* Reads the JSON object of an email. The caller releases the head. Return: 0; -EBADMSG if the text is not a
 * JSON object; another error of json_value_read(). */
int email_head_read(const char *json, size_t len, struct email_head *ret_head);

/* Releases all fields and sets them to zero, which is an empty head. */
void email_head_release(struct email_head *head);

#define _cleanup_email_head_ __attribute__((cleanup(email_head_release)))

#endif
