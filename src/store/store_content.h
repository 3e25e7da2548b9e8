/* SPDX-License-Identifier: MIT */
/*
 * The content of emails: texts, attachments, raw messages. A part is fetched from the service when somebody
 * first reads it, once, however many read it at the same time. It is kept in the cache, within a bound
 * (content_cache.h), and is there without the service from then on. An email's content does not change at the
 * service under its id; a part that was removed to make room is fetched again. For a reader who goes through
 * a listing the following emails are fetched ahead.
 *
 * After a sync a probe finds out whether the service has content and raw messages at all: it asks for those
 * of emails that were just listed.
 *
 * Errors of all functions that wait: -ENOENT (the service has no such email any more, no such attachment, or
 * nothing of the kind), -EHOSTUNREACH, -ETIMEDOUT (the wait took too long; the transfer goes on), -EACCES,
 * -EAGAIN (the service says: later), -EFBIG, -EINTR, -EIO, -ENOMEM.
 */
#ifndef INBOXFS_STORE_STORE_CONTENT_H
#define INBOXFS_STORE_STORE_CONTENT_H

#include <stdatomic.h>

#include "mail/content_folder.h"
#include "store/content_cache.h"
#include "store/store.h"

/* Returns true if the service is known to have content of emails, or raw messages: after the first sync of
 * this mount by asking it, before that by what an earlier mount found. False where store_config says that
 * there is none. Does not wait. store_listener.abilities_changed reports changes. */
bool store_has_content(struct store *store);
bool store_has_raw(struct store *store);

/* A part of one email: immutable, counted. It stays valid whatever becomes of the cache. */
struct store_content {
    atomic_uint references;
    uint32_t email;
    struct content_folder folder; /* of the texts: what the email shows (content_folder.h) */
    struct content_bytes bytes;   /* of the raw message or an attachment */
};

/* The texts of an email, which the caller gives back. Waits for the disk, and for the service where they are
 * not there. */
int store_content_get(struct store *store, uint32_t email, struct cancel *cancel,
                      struct store_content **ret_content);
/* The same of the bytes of an attachment (an entry's id), or of the raw message (NULL). */
int store_content_get_bytes(struct store *store, uint32_t email, const char *attachment_id,
                            struct cancel *cancel, struct store_content **ret_content);
/* How many bytes they are; what is in the cache is not read for that. */
int store_content_get_len(struct store *store, uint32_t email, const char *attachment_id,
                          struct cancel *cancel, uint64_t *ret_len);
/* NULL-safe. */
void store_content_unref(struct store_content *content);

/* Reads who wrote what to whom, as far as a reply needs it: no texts, no attachments. The caller releases it.
 * 0 or -EIO. */
int store_content_read_head(const struct store_content *content, struct email_content *ret_head);

/* ---------------------------------------------------------------- for the store alone */

struct contents;

/* `dir_fd`: the folder of the cache. `old_dir_fd`: the folder in which version 0.2 had a folder "content",
 * which is removed in the background. Both are borrowed. 0 or -errno. */
int contents_new(struct store *store, int dir_fd, int old_dir_fd, uint64_t max_bytes,
                 struct contents **ret_contents);
/* Ends transfers, and waits for that. Waits are cut short. NULL-safe. */
void contents_stop(struct contents *contents);
/* NULL-safe. */
void contents_free(struct contents *contents);

/* The list of emails was brought up to date: probes the service in the background. NULL-safe. */
void contents_probe(struct contents *contents);
/* Waits until the probe under way has ended, as long as a reader of content waits; what takes longer is not
 * waited for again. 0, -EINTR. NULL-safe. */
int contents_await_probe(struct contents *contents, struct cancel *cancel);

#endif
