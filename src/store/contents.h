/* SPDX-License-Identifier: MIT */
/*
 * The store's content: cache, transfers, fetching ahead, and what is known of the service. The functions of
 * store_content.h are these.
 */
#ifndef INBOXFS_STORE_CONTENTS_H
#define INBOXFS_STORE_CONTENTS_H

#include "store/content_ahead.h"
#include "store/content_fetcher.h"
#include "store/store_content.h"

enum {
    CONTENTS_IN_MEMORY = 256 /* each with an open file */
};

struct contents {
    struct mirror *mirror;        /* borrowed */
    struct mail_service *service; /* borrowed */
    struct content_cache cache;
    struct content_fetcher fetcher;
    struct content_ahead ahead;
    pthread_mutex_t lock;
    struct store_content *loaded[CONTENTS_IN_MEMORY]; /* protected by lock, by number of email */
    atomic_bool has_content;
    atomic_bool has_raw;
    atomic_bool must_probe; /* what is known is in doubt */
    bool is_probing;        /* protected by lock, as is the next */
    bool is_stopping;
    uint64_t missing; /* the probe's: a hash of the emails that were missing, and of no use; 0: none */
    unsigned int probes_spared; /* the probe's: since they were asked for */
};

/* Takes over `dir_fd`, a folder of its own. NULL without memory. */
struct contents *contents_new(struct mirror *mirror, struct mail_service *service, struct contact *contact,
                              int dir_fd, uint64_t max_bytes);
void contents_stop(struct contents *contents);
/* NULL-safe. */
void contents_free(struct contents *contents);

/* The list of emails was brought up to date: a moment to find out what the service has, behind the scenes. */
void contents_note_sync(struct contents *contents);

int contents_get(struct contents *contents, uint32_t email, struct cancel *cancel,
                 struct store_content **ret_content);
struct store_content *contents_find(struct contents *contents, uint32_t email);
void contents_unref(struct contents *contents, struct store_content *content);
int contents_open_attachment(struct contents *contents, uint32_t email, const char *attachment_id,
                             struct cancel *cancel, struct store_bytes *ret_bytes);
int contents_open_raw(struct contents *contents, uint32_t email, struct cancel *cancel,
                      struct store_bytes *ret_bytes);
bool contents_find_raw_size(struct contents *contents, uint32_t email, uint64_t *ret_len);
void contents_prefetch_raw(struct contents *contents, const uint32_t *emails, size_t len);
int contents_read_head(const struct store_content *content, struct email_content *ret_head);

#endif
