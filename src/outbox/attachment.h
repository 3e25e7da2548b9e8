/* SPDX-License-Identifier: MIT */
/*
 * Files of attachments/ and the pool of the service.
 *
 * Model. At its hand-in a message *binds* the files that it names: each becomes a piece of the message, whose
 * content is a link to the file's content or a copy. A later change of the file does not change the message.
 * A file is uploaded as soon as it is closed. The spool records the pool's id under the file's digest and
 * name, so a message does not upload a piece that the pool already has.
 */
#ifndef INBOXFS_OUTBOX_ATTACHMENT_H
#define INBOXFS_OUTBOX_ATTACHMENT_H

#include "mail/draft.h"
#include "outbox/change.h"

/* Binds the files that a draft names: appends them to change->next.pieces, makes their contents durable, and
 * adds their sizes to *ret_bytes. Sets change->awaits if a file is still being written. The caller has no
 * claim on an attachment. Waits for the disk and for claims on the files. Returns 0; -ENODATA, with
 * *ret_reason: a file does not exist or is empty; -ENOMEM; or the disk's error. */
int attachment_bind(struct outbox *outbox, struct change *change, const struct draft *draft,
                    int64_t *ret_bytes, char **ret_reason);

/* Uploads a content of the spool under a name, and sets *ret to the service's answer. Waits for the network.
 * Returns 0; or, before any request, -EBADMSG: the content's size is not `size` (0: any size); -ENOMEM; or
 * the disk's error. */
int content_upload(struct outbox *outbox, uint64_t content, const char *name, int64_t size,
                   struct cancel *cancel, char **ret_id, struct service_result *ret);

#endif
