/* SPDX-License-Identifier: MIT */
/*
 * What a user changes about inboxes: a new one, or the settings of one. At the service first, and in the
 * mirror when that has succeeded.
 */
#ifndef INBOXFS_STORE_INBOX_EDIT_H
#define INBOXFS_STORE_INBOX_EDIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/cancel.h"
#include "mail/mail_service.h"
#include "store/contact.h"
#include "store/mirror.h"
#include "store/refresher.h"

struct inbox_editor {
    struct mirror *mirror; /* all borrowed */
    struct mail_service *service;
    struct contact *contact;
    struct refresher *refresher;
};

/* Contracts: store_create_inbox() and store_update_inbox(). */
int inbox_create(const struct inbox_editor *editor, const char *address, struct cancel *cancel,
                 uint32_t *ret_inbox, char **ret_reason);
int inbox_update(const struct inbox_editor *editor, uint32_t inbox, const char *text, size_t len,
                 struct cancel *cancel, char **ret_reason);

#endif
