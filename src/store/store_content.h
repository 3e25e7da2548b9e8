/* SPDX-License-Identifier: MIT */
/*
 * The content of an email consists of parts: its texts, its attachments, its raw message. The first read of a
 * part fetches the part from the service; threads that read the part at the same time share one transfer. The
 * cache keeps the part, within a bound (content_cache.h), for later reads. Content never changes under an
 * email's id. When a program reads the emails of a listing in order, the next emails are fetched ahead.
 *
 * After a sync, the probe requests the content of some listed emails, to learn whether the service offers
 * content and raw messages at all.
 *
 * The functions that wait return 0 or:
 * -ENOENT when the service has no such email or attachment, or offers no content at all;
 * -EHOSTUNREACH when the service does not answer, -EACCES when it refuses the key, -EAGAIN when it is busy;
 * -ETIMEDOUT after 30 s (the transfer continues), -EINTR when `cancel` is set (a part that the
 *   cache has is read all the same) or the store stops;
 * -EFBIG when the part is too long, -EIO when the answer cannot be used, -ENOMEM.
 */
#ifndef INBOXFS_STORE_STORE_CONTENT_H
#define INBOXFS_STORE_STORE_CONTENT_H

#include <stdatomic.h>

#include "mail/content_folder.h"
#include "store/content_cache.h"
#include "store/store.h"

/* Return true if the last probe, in this or an earlier mount, found content or raw messages; false if
 * store_config turns content off. Do not wait. store_listener.abilities_changed reports changes. */
bool store_has_content(struct store *store);
bool store_has_raw(struct store *store);

/* A part of one email. It is immutable, and remains valid when the cache removes the part. */
struct store_content {
    atomic_uint references;
    uint32_t email;
    struct content_folder folder; /* texts: the files of the email's folder (content_folder.h) */
    struct content_bytes bytes;   /* raw message or attachment */
};

/* Gets the texts of an email. The caller releases them by store_content_unref(). Waits for the disk, and for
 * the service unless the cache has the texts. */
int store_content_get(struct store *store, uint32_t email, struct cancel *cancel,
                      struct store_content **ret_content);
/* Like store_content_get(), for the attachment with this content_entry.id, or the raw message (NULL). */
int store_content_get_bytes(struct store *store, uint32_t email, const char *attachment_id,
                            struct cancel *cancel, struct store_content **ret_content);
/* Gets the length in bytes of a part, as store_content_get_bytes() would; reads no bytes from the cache. */
int store_content_get_len(struct store *store, uint32_t email, const char *attachment_id,
                          struct cancel *cancel, uint64_t *ret_len);
/* NULL-safe. */
void store_content_unref(struct store_content *content);

/* ---------------------------------------------------------------- internal to the store */

struct contents;

/* `dir_fd` (borrowed): the folder of the cache. Return: 0; -errno when a folder or a thread cannot be made.
 */
int contents_new(struct store *store, int dir_fd, uint64_t max_bytes, struct contents **ret_contents);
/* Cancels transfers and the probe, waits until the transfers have ended, and makes waiting readers return
 * -EINTR. NULL-safe. */
void contents_stop(struct contents *contents);
/* NULL-safe. */
void contents_free(struct contents *contents);

/* Probes the service, for at most 30 s. NULL-safe. */
void contents_probe(struct contents *contents);

#endif
