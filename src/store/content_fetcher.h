/* SPDX-License-Identifier: MIT */
/*
 * Brings parts of emails from the service into the cache, each once, however many want it at the same time.
 * A transfer belongs to nobody: who loses patience leaves, and it goes on for those who come after. One that
 * has not begun when the last one leaves never does.
 */
#ifndef INBOXFS_STORE_CONTENT_FETCHER_H
#define INBOXFS_STORE_CONTENT_FETCHER_H

#include "base/cancel.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/thread.h"
#include "mail/mail_service.h"
#include "store/contact.h"
#include "store/content_cache.h"

enum {
    CONTENT_TRANSFERS_MAX = 16,                 /* for readers */
    CONTENT_FILE_MAX_BYTES = 512 * 1024 * 1024, /* of an attachment or a raw message */
    CONTENT_AHEAD_MAX_BYTES = 2 * 1024 * 1024,  /* of the JSON of what is fetched ahead */
};

struct content_fetcher {
    struct mail_service *service; /* borrowed, like all of these */
    struct clock *clock;
    struct content_cache *cache;
    struct contact *contact;
    struct cancel cancel; /* set at the end */
    struct worker_pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct map flights;           /* protected by lock, by the name of the file; of struct content_flight */
    int64_t unreachable_until_ms; /* protected by lock: the service is not asked before */
    int64_t busy_until_ms;        /* protected by lock: nothing is fetched ahead before */
    bool is_stopping;             /* protected by lock */
};

/* 0 or -ENOMEM. */
int content_fetcher_init(struct content_fetcher *fetcher, struct mail_service *service, struct clock *clock,
                         struct content_cache *cache, struct contact *contact);
/* Ends transfers, and waits for that. Waits are cut short. */
void content_fetcher_stop(struct content_fetcher *fetcher);
void content_fetcher_release(struct content_fetcher *fetcher);

struct content_wish {
    enum content_part part;
    const char *email_id;
    const char *attachment_id; /* or NULL */
    bool is_known_to_exist;    /* struct content_query */
    bool must_ask;             /* whatever the cache has */
};

/* Asks the service for what the cache does not have, and waits, at most `timeout_ms`. 0 and a descriptor of
 * the file as it is in the cache; -ENOENT (no such email or attachment, or nothing of the kind at this
 * service); -EHOSTUNREACH, -ETIMEDOUT, -EACCES, -EAGAIN (429), -EFBIG, -EINTR, -EIO, or what the disk said.
 */
int content_fetch(struct content_fetcher *fetcher, const struct content_wish *wish, int64_t timeout_ms,
                  struct cancel *cancel, int *ret_fd);
/* The same ahead of readers, by the calling thread itself, which waits to the end. -EAGAIN while the service
 * has more to do than it likes: what it still answers is for readers. -EFBIG: the content, which is held in
 * memory, is longer than CONTENT_AHEAD_MAX_BYTES, and left to readers, too (who joined meanwhile fetches it
 * then): so AHEAD_AT_ONCE transfers hold 100 MB of text at most, whatever is sent. */
int content_fetch_here(struct content_fetcher *fetcher, const struct content_wish *wish, int *ret_fd);

#endif
