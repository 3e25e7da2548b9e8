/* SPDX-License-Identifier: MIT */
/*
 * A request to send (interface, POST /api/v1/email/send), read and checked. What the database knows of it
 * (the inbox, the attachments, the email replied to) is not looked at here.
 */
#ifndef INBOXFS_SERVICE_SUBMISSION_H
#define INBOXFS_SERVICE_SUBMISSION_H

#include <jansson.h>
#include <stdbool.h>

#include "service/validate.h"

enum message_type {
    MESSAGE_NEW,
    MESSAGE_REPLY,
    MESSAGE_FORWARD,
};

struct submission {
    /* Texts are borrowed from the request's body. */
    const char *from_address;
    const char *from_name; /* NULL: the inbox's */
    const char *subject;   /* NULL: the existing email's */
    const char *plain_text;
    const char *html; /* at least one of the two is there */
    const char *existing_email_id;
    const char *idempotency_key;  /* or NULL */
    const json_t *attachment_ids; /* array of strings; NULL: none */
    bool alternative_content;
    enum message_type type;
    json_t *to, *cc, *bcc, *reply_to; /* owned arrays of {"address", "name"} */
    char digest[65];                  /* of the request without its key and its nulls */
};

/* "new", "reply", "forward". */
const char *message_type_name(enum message_type type);

/* `body` is borrowed, for as long as the submission lives. What is wrong is added to `validation`, and then
 * the submission is not to be used but for its release. 0 or -ENOMEM. */
int submission_read(json_t *body, struct validation *validation, struct submission *ret_submission);
void submission_release(struct submission *submission);

#define _cleanup_submission_ __attribute__((cleanup(submission_release)))

#endif
