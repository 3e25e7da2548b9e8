/* SPDX-License-Identifier: MIT */
/*
 * Brings a file into the attachment pool.
 */
#ifndef INBOXFS_OUTBOX_UPLOADER_H
#define INBOXFS_OUTBOX_UPLOADER_H

#include "base/cancel.h"
#include "outbox/content_type.h"
#include "outbox/item.h"

struct outbox;

/* One attempt. The item is claimed for the service and in ITEM_UPLOADING; afterwards it is uploaded, failed,
 * or waits. Waits for the network. */
void uploader_run(struct outbox *outbox, struct item *item, struct content_type *type, struct cancel *cancel);

#endif
