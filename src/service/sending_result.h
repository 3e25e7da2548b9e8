/* SPDX-License-Identifier: MIT */
/*
 * What became of a request to send.
 */
#ifndef INBOXFS_SERVICE_SENDING_RESULT_H
#define INBOXFS_SERVICE_SENDING_RESULT_H

#include <stddef.h>

enum sending_outcome {
    SENDING_DONE,
    SENDING_REPEATED,           /* the key was used for the same request before; nothing was done now */
    SENDING_KEY_REUSED,         /* the key was used for another request */
    SENDING_LIMIT_REACHED,      /* no more emails this UTC day */
    SENDING_NO_INBOX,           /* from_address is no inbox */
    SENDING_NO_EMAIL,           /* existing_email_id is not known */
    SENDING_NO_ATTACHMENT,      /* an attachment id is not known: `index` */
    SENDING_TOO_LARGE,          /* the attachments together */
    SENDING_FORWARDED_TOO_OFTEN /* the forwarded email encloses too many others */
};

struct sending_result {
    enum sending_outcome outcome;
    char id[37];  /* of the sent email: SENDING_DONE and SENDING_REPEATED */
    size_t index; /* SENDING_NO_ATTACHMENT */
};

#endif
