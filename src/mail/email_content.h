/* SPDX-License-Identifier: MIT */
/*
 * The content of one email (interface, GET /api/v1/email/{id}): its bodies, what is attached to it, and the
 * thread before it. A field in another shape than the published one is passed over, never
 * refused, as long as it is the content of an email at all.
 */
#ifndef INBOXFS_MAIL_EMAIL_CONTENT_H
#define INBOXFS_MAIL_EMAIL_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mail/address.h"

enum {
    EMAIL_CONTENT_MAX_BYTES = 96 * 1024 * 1024, /* of its JSON text */
    EMAIL_CONTENT_ATTACHMENTS_MAX = 1000,
    EMAIL_CONTENT_PREVIOUS_MAX = 1000,
};

/* UTF-8, may hold NULs; a NUL stands behind it. `bytes` is NULL where the service has none. */
struct email_text {
    char *bytes;
    size_t len;
};

struct email_attachment {
    char *id;       /* never NULL: one that cannot be asked for is left out */
    char *filename; /* or NULL, as the sender wrote it: for file names see file_name.h */
};

/* Every pointer is owned, and NULL where the service sent none (or something else than text). */
struct email_content {
    char *id;
    char *subject;
    int64_t date_ms; /* since 1970 UTC; 0 when has_date is false */
    bool has_date;
    struct address_list from; /* at most one. What is no address is kept in `unusable` of these lists */
    struct address_list to;
    struct address_list cc;
    struct address_list reply_to;
    char *message_id;
    bool is_in_thread; /* its headers name an email that it answers */
    struct email_text prompt;
    struct email_text thread_prompt;
    struct email_text plain_text;
    struct email_text html;
    bool alternative_content; /* both bodies say the same; false only where the service says so */
    struct email_attachment *attachments;
    size_t attachments_len;
    struct email_content *previous_emails; /* oldest first, as the service has them; themselves without */
    size_t previous_emails_len;
};

/* Reads the JSON text. 0; -EBADMSG: not an object with anything of a content in it (a metadata record is
 * none); -EMSGSIZE: longer than EMAIL_CONTENT_MAX_BYTES, or nested too deep; -EILSEQ: not UTF-8; -ENOMEM. */
int email_content_from_text(const char *text, size_t len, struct email_content *ret_content);

/* All zeros afterwards, which is a content too: one without anything. */
void email_content_release(struct email_content *content);

#define _cleanup_email_content_ __attribute__((cleanup(email_content_release)))

#endif
