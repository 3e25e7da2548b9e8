/* SPDX-License-Identifier: MIT */
/*
 * What the lists of received and sent mail can be asked for in the query, and their answer.
 */
#ifndef INBOXFS_SERVICE_LISTING_H
#define INBOXFS_SERVICE_LISTING_H

#include "service/request.h"

enum listing_side {
    LISTING_RECEIVED,
    LISTING_SENT,
};

/* Answers with the records that the request's query asks for, newest first. 0 or -errno. */
int listing_answer(struct request *request, enum listing_side side, struct reply *reply);

/* Answers with the records of all inboxes, oldest first. 0 or -errno. */
int listing_answer_inboxes(struct request *request, struct reply *reply);

#endif
