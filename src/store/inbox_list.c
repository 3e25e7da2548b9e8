/* SPDX-License-Identifier: MIT */
/*
 * The service's list of inboxes: each record is copied into an array as it arrives, and found there by its
 * id.
 */
#include "store/inbox_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void inbox_list_release(struct inbox_list *list)
{
    for (size_t i = 0; i < list->len; i++)
        inbox_record_release(&list->items[i]);
    free(list->items);
    *list = (struct inbox_list){0};
}

static int take_inbox(void *context, struct inbox_record *record)
{
    struct inbox_list *list = context;
    if (list->len == list->capacity) {
        size_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
        struct inbox_record *items = realloc(list->items, capacity * sizeof(*items));
        if (items == NULL)
            return -ENOMEM;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->len++] = *record;
    *record = (struct inbox_record){0};
    return 0;
}

void inbox_list_fetch(struct inbox_list *list, struct mail_service *service, struct cancel *cancel,
                      struct service_result *ret)
{
    service->ops->list_inboxes(service, take_inbox, list, cancel, ret);
}

const struct inbox_record *inbox_list_find(const struct inbox_list *list, const char *id)
{
    for (size_t i = 0; i < list->len; i++)
        if (strcmp(list->items[i].id, id) == 0)
            return &list->items[i];
    return NULL;
}
