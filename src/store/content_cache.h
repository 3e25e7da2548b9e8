/* SPDX-License-Identifier: MIT */
/*
 * A folder of content files, bounded: the least recently used go first. What is in it is known from the disk
 * alone, so that a kill at any moment leaves nothing to repair but files half written, which are cleared away
 * at the start. Names are digests, never anything that a service chose.
 */
#ifndef INBOXFS_STORE_CONTENT_CACHE_H
#define INBOXFS_STORE_CONTENT_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    CONTENT_NAME_SIZE = 72, /* with its NUL */
};

enum content_part {
    CONTENT_PART_FOLDER,     /* all texts of an email */
    CONTENT_PART_RAW,        /* its raw message */
    CONTENT_PART_ATTACHMENT, /* one attachment */
};

struct content_cache {
    int dir_fd;
    uint64_t max_bytes;
    char prefix[24]; /* of files being written */
    pthread_mutex_t lock;
    uint64_t bytes;       /* protected by lock: of all files, as far as is known */
    bool is_trimming;     /* protected by lock: somebody makes room */
    uint64_t temporaries; /* protected by lock: how many files were ever begun */
};

struct content_temporary {
    int fd;
    char name[CONTENT_NAME_SIZE]; /* "": it has its place */
};

/* Takes over `dir_fd`, also when it fails. */
void content_cache_init(struct content_cache *cache, int dir_fd, uint64_t max_bytes);
void content_cache_release(struct content_cache *cache);

/* Looks at what there is, and clears away what was left half written (reads the folder). */
void content_cache_scan(struct content_cache *cache);

/* The name of a part. `attachment_id` is looked at for attachments alone. */
void content_cache_name(enum content_part part, const char *email_id, const char *attachment_id,
                        char ret_name[CONTENT_NAME_SIZE]);

/* A descriptor for reading, which stays good whatever becomes of the name; or -ENOENT, -errno. */
int content_cache_open(struct content_cache *cache, const char *name);
bool content_cache_has(struct content_cache *cache, const char *name);

/* A file to be written. 0 or -errno; then content_cache_end() has nothing to do. */
int content_cache_create(struct content_cache *cache, struct content_temporary *ret);
/* Gives it its name; what had that goes. Makes room where it is needed. 0 or -errno. */
int content_cache_keep(struct content_cache *cache, struct content_temporary *temporary, const char *name);
/* Closes it, and removes it unless it was kept. */
void content_cache_end(struct content_cache *cache, struct content_temporary *temporary);

/* It is damaged. */
void content_cache_remove(struct content_cache *cache, const char *name);

#endif
