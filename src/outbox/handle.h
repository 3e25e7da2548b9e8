/* SPDX-License-Identifier: MIT */
/*
 * An open file of the outbox: of a content, with a descriptor of its own, or of a receipt, which is a text
 * made at open. Making handles is in handle.c, using them in handle_use.c.
 */
#ifndef INBOXFS_OUTBOX_HANDLE_H
#define INBOXFS_OUTBOX_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "mail/envelope.h"
#include "outbox/closing.h"
#include "outbox/item.h"
#include "outbox/outbox.h"

struct outbox_handle {
    struct outbox *outbox;
    struct item *item; /* referenced */
    enum envelope_kind kind;
    bool may_write;
    int fd; /* -1: a receipt */
    char *receipt;
    size_t receipt_len;
    pid_t opener;
    pid_t last_task; /* protected by outbox->lock, like all below: who wrote last, to ask /proc seldom */
    struct closing closing; /* closed since the last write, and not yet released */
    bool has_written;
    unsigned int generation; /* of the content that fd is open on */
};

/* Opens the content as it is now, also in place of an older one. */
int handle_open_content(struct outbox_handle *handle);

/* The handle is not the item's writer any more. NULL-safe. */
void handle_free(struct outbox_handle *handle);

#endif
