/* SPDX-License-Identifier: MIT */
/*
 * Files of attachments/ and the pool of the service.
 *
 * Model. A message *binds* the files that it names, at its hand-in: each becomes a piece of the message, with
 * a content of its own, which is a link to the file's or a copy of it. So whatever becomes of the file later,
 * the message has what was there. A file is uploaded as soon as it is closed, and what the pool calls it is
 * remembered by its digest and name; a message that finds a piece there need not upload it.
 */
#ifndef INBOXFS_OUTBOX_ATTACHMENT_H
#define INBOXFS_OUTBOX_ATTACHMENT_H

#include "mail/draft.h"
#include "outbox/change.h"

/* Binds the files that a draft names: appends them to change->next.pieces, durably, and adds up their sizes.
 * Waits for those that are just changing. Sets change->awaits for one that is still being written. The caller
 * has no claim of an attachment. Returns 0, -ENODATA (with words: there is no such file), -ENOMEM, or of the
 * disk. */
int attachment_bind(struct outbox *outbox, struct change *change, const struct draft *draft,
                    int64_t *ret_bytes, char **ret_reason);

/* libmagic's data, of one thread at a time. All zeros is one that was not used yet. */
struct content_type {
    void *magic; /* NULL: not opened yet, or there is no database */
    bool is_opened;
};
void content_type_release(struct content_type *type);

/* Uploads a content of the spool under a name, and says in *ret what came of it (waits for the network).
 * Returns 0; -EBADMSG: it has not the size that it was handed in with (0: not known); or of the disk: nothing
 * was asked then. */
int content_upload(struct outbox *outbox, struct content_type *type, uint64_t content, const char *name,
                   int64_t size, struct cancel *cancel, char **ret_id, struct service_result *ret);

#endif
