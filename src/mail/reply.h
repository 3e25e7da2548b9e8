/* SPDX-License-Identifier: MIT */
/*
 * Replies and forwards: to whom, under what subject and from where an email is answered, as mail users expect
 * it. The result is a part of a send request; the fields that a user writes besides (draft.h) take the
 * place of its fields.
 */
#ifndef INBOXFS_MAIL_REPLY_H
#define INBOXFS_MAIL_REPLY_H

#include <stddef.h>

#include "mail/email_content.h"

enum {
    REPLY_MAX_BYTES = 4 * 1000 * 1000
};

enum reply_kind {
    REPLY_SENDER,
    REPLY_ALL,
    REPLY_FORWARD,
};

/* What is answered. */
struct reply_original {
    const char *email_id;
    const char *inbox_address;        /* of the inbox that it is in; NULL: not known */
    const struct email_content *head; /* its subject and its addresses */
    const char *const *own_addresses; /* of all inboxes: left out of an answer to all */
    size_t own_addresses_len;
};

/* The request, as JSON text without the bodies (the caller frees): from_address, to_addresses, cc_addresses,
 * subject, existing_email_id, message_type; a list that would be empty is left out. A reply goes to Reply-To
 * (but not to one of a stranger that is the inbox itself), else From, to all also to To and Cc; where From is
 * the inbox itself, to whom the original went. A forward has no recipients. What is no address stands in its
 * list as the text that it is: draft_parse() refuses a message that would need it. The same original gives
 * the same text. 0, -EMSGSIZE (too many recipients for REPLY_MAX_BYTES), -ENOMEM. */
int reply_make(enum reply_kind kind, const struct reply_original *original, char **ret_reply);

/* "Re: Dinner" of "AW: Re: Dinner", "Fwd: Re: Dinner" of "Re: Dinner": what other programs and languages put
 * before a subject is known, and not doubled; control characters, line ends and what turns the direction of
 * text become blanks. The caller frees; NULL
 * without memory. `subject` may be NULL. */
char *reply_subject(enum reply_kind kind, const char *subject);

/* The mark that a subject begins with, in any language: of a reply ("AW: dinner"), or of a forward. */
enum reply_mark {
    REPLY_MARK_NONE,
    REPLY_MARK_REPLY,
    REPLY_MARK_FORWARD,
};

enum reply_mark reply_mark_of(const char *subject);

/* A name for the file of an answer to that reply_make() made: "re-dinner.eml". The caller frees; NULL without
 * memory. */
char *reply_file_name(const char *reply);

#endif
