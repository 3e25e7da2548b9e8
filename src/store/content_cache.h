/* SPDX-License-Identifier: MIT */
/*
 * The folder "content" in the state directory: what emails hold, a file for each part that was fetched. The
 * folder is bounded; the files that were not used for longest go first. Names are digests, never anything
 * that a service chose.
 *
 * A file holds the bytes of all entries one after the other, then a table of the entries, then a trailer, so
 * that bytes can be streamed into it before anything is known of them. Checksums cover everything. Nothing is
 * made durable: a file that a power cut or a bad disk damaged is found out when it is read, and fetched
 * again. The folder itself says what is in it. A kill leaves nothing to repair but temporary files, which the
 * next start removes.
 */
#ifndef INBOXFS_STORE_CONTENT_CACHE_H
#define INBOXFS_STORE_CONTENT_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "mail/content_folder.h"

enum {
    CONTENT_NAME_SIZE = 72, /* with its NUL */
};

enum content_part {
    CONTENT_PART_FOLDER,     /* all texts of an email */
    CONTENT_PART_RAW,        /* its raw message */
    CONTENT_PART_ATTACHMENT, /* one attachment */
};

enum content_check {
    CONTENT_CHECK_TABLE, /* what the entries are, and how long: costs the same for every file */
    CONTENT_CHECK_ALL,   /* their bytes, too: reads the whole file */
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

/* Finds out how much there is, removes temporary files of earlier processes, and makes room (reads the
 * folder). */
void content_cache_scan(struct content_cache *cache);

/* The name of a part. `attachment_id` counts for attachments alone. */
void content_cache_name(enum content_part part, const char *email_id, const char *attachment_id,
                        char ret_name[CONTENT_NAME_SIZE]);

/* A descriptor for reading, which stays good whatever becomes of the name; or -ENOENT, -errno. */
int content_cache_open(struct content_cache *cache, const char *name);
bool content_cache_has(struct content_cache *cache, const char *name);
/* It is damaged. */
void content_cache_remove(struct content_cache *cache, const char *name);
/* Reads the table of a file. Entries have `offset` and `len` instead of `bytes`. 0; -EBADMSG: what was
 * checked is damaged, or of another form; -errno. */
int content_cache_read(int fd, enum content_check check, struct content_folder *ret_folder);

/* A file to be written. 0 or -errno; then content_cache_end() has nothing to do. */
int content_cache_create(struct content_cache *cache, struct content_temporary *ret);
/* Writes the entries' bytes, the table and the trailer into an empty file. 0 or -errno. */
int content_cache_write(const struct content_temporary *file, const struct content_folder *folder);
/* Makes a whole file of `len` bytes that were written from offset 0 on: the table has one entry, of
 * CONTENT_BYTES. 0 or -errno. */
int content_cache_seal(const struct content_temporary *file, uint64_t len);
/* Gives it its name; what had that goes. Makes room where it is needed. 0 or -errno. */
int content_cache_keep(struct content_cache *cache, struct content_temporary *file, const char *name);
/* Closes it, and removes it unless it was kept. */
void content_cache_end(struct content_cache *cache, struct content_temporary *file);

#endif
