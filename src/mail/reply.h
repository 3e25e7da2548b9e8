/* SPDX-License-Identifier: MIT */
/*
 * Replies and forwards: chooses the recipients, the subject and the sender of an answer, as mail users expect
 * them. The result is a part of a send request; fields that the user writes (draft.h) replace its fields.
 */
#ifndef INBOXFS_MAIL_REPLY_H
#define INBOXFS_MAIL_REPLY_H

#include <stddef.h>

#include "mail/email_head.h"

enum {
    REPLY_MAX_BYTES = 4 * 1000 * 1000
};

enum reply_kind {
    REPLY_SENDER,
    REPLY_ALL,
    REPLY_FORWARD,
};

/* The email that is answered. */
struct reply_original {
    const char *email_id;
    const char *inbox_address; /* address of the inbox that has the email, or NULL */
    const struct email_head *head;
    const char *const *own_addresses; /* addresses of all inboxes; an answer leaves them out of To and Cc */
    size_t own_addresses_len;
};

/* Makes the request, as JSON text without the bodies (the caller frees): from_address, to_addresses,
 * cc_addresses, subject, existing_email_id, message_type, without empty lists. A reply goes to Reply-To, or
 * to From if Reply-To is empty or the inbox itself. If From is the inbox as well, the reply goes to To
 * without own addresses, or to From if To has no others. A reply to all also goes to To and Cc. A forward has
 * no recipients. A text that is not an address is kept in its list, and draft_parse() refuses a message that
 * needs the text. Equal originals give equal texts. Return: 0; -EMSGSIZE above REPLY_MAX_BYTES. */
int reply_make(enum reply_kind kind, const struct reply_original *original, char **ret_reply);

/* The mark at the beginning of a subject, in any language: of a reply ("AW: dinner"), or of a forward. */
enum reply_mark {
    REPLY_MARK_NONE,
    REPLY_MARK_REPLY,
    REPLY_MARK_FORWARD,
};

enum reply_mark reply_mark_of(const char *subject);

/* Names the file of an answer, "re-dinner.eml", by the result of reply_make(). The caller frees. */
char *reply_file_name(const char *reply);

#endif
