/* SPDX-License-Identifier: MIT */
/*
 * What emails hold: texts, attachments, raw messages. A part is fetched from the service when somebody first
 * reads it, once, however many read it at the same time. It is kept on the disk, in a folder with a bound
 * (content_cache.h), and is there without the service from then on. An email's content does not change at the
 * service under its id; what was thrown out to make room is fetched again. Who reads many emails one after
 * the other gets the following ones fetched ahead.
 *
 * After a sync a probe finds out whether the service has content and raw messages at all: it asks for those
 * of emails that were just listed.
 *
 * Errors of what waits, all the same: -ENOENT (the service has no such email any more, no such attachment, or
 * nothing of the kind), -EHOSTUNREACH, -ETIMEDOUT (the wait took too long; the transfer goes on), -EACCES,
 * -EAGAIN (it says: later), -EFBIG, -EINTR, -EIO, -ENOMEM, or what the disk said (-ENOSPC).
 */
#ifndef INBOXFS_STORE_STORE_CONTENT_H
#define INBOXFS_STORE_STORE_CONTENT_H

#include "mail/content_folder.h"
#include "store/store.h"

/* Whether the service is known to have content of emails, and raw messages: by asking it after the first sync
 * of this mount, before that by what an earlier one found. Never where store_config says that there is none.
 * No wait. store_listener.abilities_changed tells when it changes. */
bool store_has_content(struct store *store);
bool store_has_raw(struct store *store);

/* The content of one email: immutable, shared, counted. Valid beyond its place in any cache. */
struct store_content {
    uint32_t email;
    unsigned int references;      /* the store's */
    int fd;                       /* the bytes of CONTENT_TEXT and CONTENT_PREVIOUS, at their offsets */
    struct content_folder folder; /* what it shows (content_folder.h) */
};

/* Waits for the disk, and for the service where it is not there. */
int store_content_get(struct store *store, uint32_t email, struct cancel *cancel,
                      struct store_content **ret_content);
void store_content_unref(struct store *store, struct store_content *content);

/* The bytes of an attachment (an entry's id), or of the raw message (NULL): from offset 0 on, `len` bytes.
 * These wait as store_content_get(). */
struct store_bytes {
    int fd; /* the caller closes */
    uint64_t len;
};
int store_bytes_open(struct store *store, uint32_t email, const char *attachment_id, struct cancel *cancel,
                     struct store_bytes *ret_bytes);
/* How many they are. Bytes that are on the disk are not read for that. */
int store_bytes_size(struct store *store, uint32_t email, const char *attachment_id, struct cancel *cancel,
                     uint64_t *ret_len);

/* Has raw messages fetched in the background, several at a time. Does not wait. What is asked for while many
 * are still to come is passed over. */
void store_prefetch_raw(struct store *store, const uint32_t *emails, size_t len);

/* Who wrote what to whom, as far as a reply needs it: no texts, no attachments. Released by the caller. */
int store_content_read_head(const struct store_content *content, struct email_content *ret_head);

/* ---------------------------------------------------------------- for the store alone */

struct contents;

/* `dir_fd`, a folder of its own, is taken over, also when this fails. NULL without memory. */
struct contents *contents_new(struct store *store, int dir_fd, uint64_t max_bytes);
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
