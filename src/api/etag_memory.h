/* SPDX-License-Identifier: MIT */
/*
 * The ETag of each query's last whole answer, and how many records it had: asking again with it spares the
 * transfer where nothing has changed (RFC 9110 section 13.1.2). Safe from several threads, bounded.
 */
#ifndef INBOXFS_API_ETAG_MEMORY_H
#define INBOXFS_API_ETAG_MEMORY_H

#include <pthread.h>

#include "base/map.h"
#include "http/http_client.h"

enum {
    ETAG_QUERIES_MAX = 4096
};

struct etag_memory {
    pthread_mutex_t lock;
    struct map entries; /* protected by lock; of struct etag_entry, by target */
};

void etag_memory_init(struct etag_memory *memory);
void etag_memory_release(struct etag_memory *memory);

/* Copies the tag. False: none is known. */
bool etag_memory_find(struct etag_memory *memory, const char *target, char ret_etag[HTTP_ETAG_MAX_BYTES],
                      unsigned int *ret_count);

/* Keeps the tag; "" forgets it. Nothing is kept when memory or the bound is met. */
void etag_memory_set(struct etag_memory *memory, const char *target, const char *etag, unsigned int count);

#endif
