/* SPDX-License-Identifier: MIT */
/*
 * The cache of fetched content, in parts: the texts of an email, its raw message, each attachment. A part has
 * a key, which is made from the service's ids. The bytes of a short part are compressed in a row of the cache
 * (cache.h: parts, part_bytes); the bytes of a long part are a file in the folder cache/parts, named by the
 * number of the part.
 *
 * The bytes of all parts are bounded. While the parts have less than nine tenths of the bound, a new part is
 * *settled*. Otherwise it is *passing*, and becomes settled when it is read again a minute or more later. So
 * one pass over more content than fits replaces only the last tenth. Passing parts are removed before settled
 * ones, and within a kind the least recently used first; the newest part is never removed.
 *
 * No write is durable. A damaged part is removed and counts as missing. Every function may be called from any
 * thread, and waits for the disk.
 */
#ifndef INBOXFS_STORE_CONTENT_CACHE_H
#define INBOXFS_STORE_CONTENT_CACHE_H

#include <glib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mail/content_folder.h"
#include "store/cache.h"

enum content_part {
    CONTENT_PART_TEXTS,
    CONTENT_PART_RAW,
    CONTENT_PART_ATTACHMENT,
};

enum {
    CONTENT_ROW_MAX_BYTES = 64 * 1024 /* a longer raw message or attachment is a file */
};

/* The bytes of a part: in memory, or in a file. */
struct content_bytes {
    char *bytes; /* owned, with a NUL after them; NULL if they are in the file */
    int fd;      /* owned; the bytes begin at offset 0; -1 if they are in memory */
    uint64_t len;
    int64_t new_file; /* number of a file that no part has yet; 0 if there is none */
};

struct content_cache {
    struct cache *cache;      /* borrowed */
    int dir_fd;               /* the folder of the files */
    uint64_t max_bytes;       /* bound of `bytes` */
    atomic_llong last_number; /* the highest number of a part or file so far */
    pthread_mutex_t lock;     /* a leaf: no lock is taken while it is held */
    GHashTable *used;         /* last uses that are not in the database yet: seconds since 1970 by the part's
                                 number; protected by lock */
    /* Only the thread that has the turn to write uses the members below. */
    atomic_bool is_counted; /* `bytes` is valid */
    unsigned int renewals;  /* cache.renewals when the parts were counted */
    uint64_t bytes;         /* total size of all parts */
};

/* Opens the folder "parts" in `dir_fd` (borrowed), and removes files that have no row. Return: 0; -errno when
 * the folder cannot be made or opened. */
int content_cache_open(struct content_cache *content, struct cache *cache, int dir_fd, uint64_t max_bytes);
/* Writes which parts were used, and closes the folder. Accepts a zeroed struct. */
void content_cache_release(struct content_cache *content);

/* Makes the key of a part. `attachment_id` is ignored unless the part is an attachment. */
int64_t content_cache_key(enum content_part part, const char *email_id, const char *attachment_id);

/* Reads a part. The caller releases *ret. Return: 0; -ENOENT when the part is missing or damaged; -errno when
 * the cache cannot be read. */
int content_cache_read(struct content_cache *content, int64_t key, struct content_bytes *ret);
/* Gets the length of a part, even if its bytes are damaged. Return: as content_cache_read(). */
int content_cache_get_len(struct content_cache *content, int64_t key, uint64_t *ret_len);
/* Reads the texts of an email, which do not count as used. The caller releases *ret_folder. Return: 0;
 * -ENOENT when they are missing or damaged; -errno of SQLite. */
int content_cache_read_texts(struct connection *connection, const char *email_id,
                             struct content_folder *ret_folder);
void content_bytes_release(struct content_bytes *bytes);

/* Creates a file in the folder for bytes that arrive in pieces: sets fd and new_file. The caller passes `ret`
 * to content_cache_put() or content_cache_drop_file(). Return: 0; -errno. */
int content_cache_create_file(struct content_cache *content, struct content_bytes *ret);
/* Removes the new file, if there is one. Its descriptor can still be read. */
void content_cache_drop_file(struct content_cache *content, struct content_bytes *bytes);

struct content_new_part {
    int64_t key;
    struct content_bytes *bytes; /* a new file becomes the part's */
    uint32_t email;
    const char *email_id;
    /* Written in the same transaction as the part: */
    const char *message_id; /* the email's Message-ID, without brackets; or NULL */
    bool has_texts;         /* the part has the email's texts, which become pending in the search index */
};

/* Stores a part, and removes others if there is no room. Return: 0; -EFBIG when the part alone exceeds the
 * bound; another -errno when it cannot be written. */
int content_cache_put(struct content_cache *content, const struct content_new_part *part);

#endif
