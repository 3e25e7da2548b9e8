/* SPDX-License-Identifier: MIT */
/*
 * The service's list of inboxes as a value, for when it has to be looked through before it is believed.
 */
#ifndef INBOXFS_STORE_INBOX_LIST_H
#define INBOXFS_STORE_INBOX_LIST_H

#include <stddef.h>

#include "base/wait.h"
#include "mail/mail_service.h"

struct inbox_list { /* empty: all zeros */
    struct inbox_record *items;
    size_t len;
    size_t capacity;
};

void inbox_list_release(struct inbox_list *list);

/* Asks the service (waits for the network). The list is right where the outcome is SERVICE_OK. */
void inbox_list_fetch(struct inbox_list *list, struct mail_service *service, struct cancel *cancel,
                      struct service_result *ret);

/* NULL: not in it. */
const struct inbox_record *inbox_list_find(const struct inbox_list *list, const char *id);

#endif
