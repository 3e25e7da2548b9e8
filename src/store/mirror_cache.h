/* SPDX-License-Identifier: MIT */
/*
 * The mirror as it was when the program last ran, from the cache on disk; and the cache kept in shape: where
 * most of it says what no longer counts, it is written anew before it is used.
 */
#ifndef INBOXFS_STORE_MIRROR_CACHE_H
#define INBOXFS_STORE_MIRROR_CACHE_H

#include "store/mirror.h"

/* Fills an empty mirror from the cache in `dir_fd`, which it uses from then on (waits for the disk). On
 * failure the mirror is to be released all the same. 0 or -ENOMEM. */
int mirror_cache_open(struct mirror *mirror, int dir_fd);

#endif
