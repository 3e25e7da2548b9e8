/* SPDX-License-Identifier: MIT */
/*
 * Which emails were opened since the mount: a bit for each.
 */
#ifndef INBOXFS_TREE_FIRST_OPENS_H
#define INBOXFS_TREE_FIRST_OPENS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct first_opens {
    pthread_mutex_t lock;
    uint64_t *words; /* protected by lock */
    size_t len;      /* protected by lock */
};

void first_opens_init(struct first_opens *opens);
void first_opens_release(struct first_opens *opens);

/* True the first time for each number. Without memory: never. */
bool first_opens_take(struct first_opens *opens, uint32_t number);

#endif
