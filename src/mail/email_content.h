/* SPDX-License-Identifier: MIT */
/*
 * The content of one email (interface, GET /api/v1/email/{id}): its bodies, its attachments, and the earlier
 * emails of its thread. The reader ignores every field whose type differs from the published one.
 */
#ifndef INBOXFS_MAIL_EMAIL_CONTENT_H
#define INBOXFS_MAIL_EMAIL_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mail/address.h"

enum {
    EMAIL_CONTENT_MAX_BYTES = 96 * 1024 * 1024, /* length of the JSON text */
    EMAIL_CONTENT_ATTACHMENTS_MAX = 1000,
    EMAIL_CONTENT_PREVIOUS_MAX = 1000,
};

/* UTF-8 with a NUL at its end, perhaps with other NULs. `bytes` is NULL if the service has no such text. */
struct email_text {
    char *bytes;
    size_t len;
};

struct email_attachment {
    char *id;       /* never NULL: the reader leaves out attachments without an id */
    char *filename; /* unchanged from the sender, so not a safe file name (file_name.h); or NULL */
};

/* Every pointer is owned, and NULL if the service sent no such field or one of another type. */
struct email_content {
    char *id;
    char *subject;
    int64_t date_ms; /* since 1970 UTC; 0 when has_date is false */
    bool has_date;
    struct address_list from; /* `unusable` of each list is its first text that is not an address */
    struct address_list to;
    struct address_list cc;
    struct address_list reply_to;
    char *message_id;
    bool is_in_thread; /* the headers name an email that this email answers */
    struct email_text prompt;
    struct email_text thread_prompt;
    struct email_text plain_text;
    struct email_text html;
    bool alternative_content; /* both bodies have the same text; false only if the service says so */
    struct email_attachment *attachments;
    size_t attachments_len;
    struct email_content *previous_emails; /* in the service's order (oldest first); not nested further */
    size_t previous_emails_len;
};

/* Reads the JSON text. The caller releases the content. Return: 0; -EBADMSG if the text is not a JSON object
 * with at least one field of content (a metadata record has none); -EMSGSIZE if it is longer than
 * EMAIL_CONTENT_MAX_BYTES, nested too deep, or has too many values (json_value.h); -EILSEQ if it is not
 * UTF-8; -ENOMEM. */
int email_content_from_text(const char *text, size_t len, struct email_content *ret_content);

/* Releases all fields and sets them to zero, which is an empty content. */
void email_content_release(struct email_content *content);

#define _cleanup_email_content_ __attribute__((cleanup(email_content_release)))

#endif
