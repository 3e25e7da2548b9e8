/* SPDX-License-Identifier: MIT */
/*
 * The cache of what emails hold, as far as it was fetched. It is kept in *parts*: all texts of an email are
 * one, its raw message is one, and each attachment. A part has a key, made of the service's ids. Its bytes
 * are compressed, in a row of the cache (cache.h: parts, part_bytes), or, where they are many, in a file of
 * the folder cache/parts, which is named by the part's number.
 *
 * The bytes of all parts are bounded. While there is room a part is *settled*; once there is none, a new part
 * is *passing*, and only those that are read again later become settled. A tenth of the room is for passing
 * parts, so somebody who reads more than fits goes through that tenth, and finds nine tenths of it the next
 * time. Parts of either kind that were not used for longest go first, and never the newest.
 *
 * Nothing is durable. A part that is damaged counts as missing, and is removed. Callable from any thread;
 * everything waits for the disk.
 */
#ifndef INBOXFS_STORE_CONTENT_CACHE_H
#define INBOXFS_STORE_CONTENT_CACHE_H

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
    CONTENT_ROW_MAX_BYTES = 64 * 1024, /* of a raw message or an attachment; a longer one is a file */
    CONTENT_USED_MAX = 256,
};

/* The bytes of a part: in memory, or in a file. */
struct content_bytes {
    char *bytes; /* owned; NULL: in the file. A NUL stands behind them */
    int fd;      /* owned; -1: in memory. From offset 0 on */
    uint64_t len;
};

struct content_cache {
    struct cache *cache; /* borrowed */
    int dir_fd;          /* of the files */
    uint64_t max_bytes;
    pthread_mutex_t lock;           /* a leaf */
    int64_t used[CONTENT_USED_MAX]; /* protected by lock: keys of parts that were read, to be written down */
    size_t used_len;                /* protected by lock */
    uint64_t files;                 /* protected by lock: how many were ever begun */
    /* The next four belong to the thread that has the turn to write. */
    atomic_bool is_counted;
    unsigned int renewals; /* of the cache, when it was counted */
    uint64_t bytes;        /* of all parts */
    int64_t last_number;
};

/* Opens the folder in the directory `dir_fd`, and removes files that no row knows. 0 or -errno. */
int content_cache_open(struct content_cache *content, struct cache *cache, int dir_fd, uint64_t max_bytes);
/* Writes down which parts were used. All zeros are fine, too. */
void content_cache_release(struct content_cache *content);

/* `attachment_id` counts for attachments alone. */
int64_t content_cache_key(enum content_part part, const char *email_id, const char *attachment_id);

/* The bytes of a part, which the caller releases. 0; -ENOENT: it is not there, or is damaged; -errno. */
int content_cache_read(struct content_cache *content, int64_t key, struct content_bytes *ret);
/* Their number alone. */
int content_cache_get_len(struct content_cache *content, int64_t key, uint64_t *ret_len);
void content_bytes_release(struct content_bytes *bytes);

/* A file in the folder for bytes that come in pieces. *ret_name is for content_cache_put(), or for _unlink().
 * A descriptor that the caller closes, or -errno. */
enum {
    CONTENT_FILE_NAME_SIZE = 32
};
int content_cache_create_file(struct content_cache *content, char ret_name[CONTENT_FILE_NAME_SIZE]);
void content_cache_unlink(struct content_cache *content, const char *name);

struct content_new_part {
    int64_t key;
    const struct content_bytes *bytes;
    const char
        *file_name; /* of content_cache_create_file(), where the bytes are in a file; it gets another */
    uint32_t email;
    const char *email_id;
    /* Noted together with the part: */
    const char *message_id;             /* of the email (message_ids.h); or NULL */
    const struct content_folder *texts; /* for searches (search_index.h); or NULL */
};

/* Keeps a part, and makes room for it. 0 or -errno: it is not kept. */
int content_cache_put(struct content_cache *content, const struct content_new_part *part);

/* The texts of an email as bytes, and back. */
int content_cache_pack(const struct content_folder *folder, struct content_bytes *ret);
/* 0, -EBADMSG, -ENOMEM. */
int content_cache_unpack(const struct content_bytes *bytes, struct content_folder *ret_folder);

#endif
