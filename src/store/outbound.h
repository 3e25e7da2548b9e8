/* SPDX-License-Identifier: MIT */
/*
 * Mail that was sent from the account, whoever sent it: the service's outbound list, kept as the emails of an
 * inbox that is in no list of inboxes (INDEX_SENT). Each sync lists it along with the inboxes (sync.h).
 * Emails in it that the user hid are held back.
 */
#ifndef INBOXFS_STORE_OUTBOUND_H
#define INBOXFS_STORE_OUTBOUND_H

#include "mail/mail_service.h"
#include "store/index.h"

/* A service whose only inbox is the list. */
struct outbound {
    struct mail_service as_inbox; /* first */
    struct mail_service *service; /* borrowed, as is the next */
    struct index *index;
};

void outbound_init(struct outbound *outbound, struct mail_service *service, struct index *index);

#endif
