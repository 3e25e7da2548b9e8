/* SPDX-License-Identifier: MIT */
/*
 * Marking an email as valid or not by hand, which moves it between what its inbox shows and what it holds
 * back.
 */
#ifndef INBOXFS_STORE_EMAIL_MARK_H
#define INBOXFS_STORE_EMAIL_MARK_H

#include "base/cancel.h"
#include "mail/mail_service.h"
#include "store/contact.h"
#include "store/mirror.h"
#include "store/refresher.h"

/* All borrowed. */
struct email_marker {
    struct mirror *mirror;
    struct mail_service *service;
    struct contact *contact;
    struct refresher *refresher;
};

/* Contract: store_mark_email(). */
int email_mark(const struct email_marker *marker, uint32_t email, bool is_valid, struct cancel *cancel,
               char **ret_reason);

#endif
