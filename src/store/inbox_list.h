/* SPDX-License-Identifier: MIT */
/*
 * The service's list of inboxes, kept in memory so that the caller can check it before the index changes.
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

/* Fetches the list (waits for the network). `list` is complete only if the outcome is SERVICE_OK. */
void inbox_list_fetch(struct inbox_list *list, struct mail_service *service, struct cancel *cancel,
                      struct service_result *ret);

/* Returns NULL if the list does not have the id. */
const struct inbox_record *inbox_list_find(const struct inbox_list *list, const char *id);

#endif
