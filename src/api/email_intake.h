/* SPDX-License-Identifier: MIT */
/*
 * Takes a list of emails apart. A list that turns out to be long is read in a thread of its own
 * (record_pipeline.h); what the service is slow to send never is.
 */
#ifndef INBOXFS_API_EMAIL_INTAKE_H
#define INBOXFS_API_EMAIL_INTAKE_H

#include "api/list_intake.h"
#include "api/record_pipeline.h"
#include "mail/mail_service.h"

enum {
    EMAIL_INTAKE_SHORT_BYTES = 256 * 1024
};

struct email_intake {
    struct list_intake base; /* first */
    struct record_stream stream;
    struct email_reader *reader;
    email_sink sink;
    void *context;
    struct pipeline_limit *limit;
    struct record_pipeline *pipeline; /* NULL: none yet, or none is to be had */
    bool has_tried;                   /* to have one */
    bool is_ahead;                    /* the stream is fed by the pipeline's thread */
    size_t fed;                       /* bytes, until it was tried */
    int error;                        /* sticky: of the stream, or what the sink said */
};

/* `sink` is called as that of mail_service's list_emails(), for at most `most` records. 0 or -ENOMEM. */
int email_intake_init(struct email_intake *intake, email_sink sink, size_t most, void *context,
                      struct pipeline_limit *limit);
void email_intake_release(struct email_intake *intake);

#endif
