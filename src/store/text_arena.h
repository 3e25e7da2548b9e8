/* SPDX-License-Identifier: MIT */
/*
 * Short texts that live as long as the arena: no overhead a text but its NUL.
 */
#ifndef INBOXFS_STORE_TEXT_ARENA_H
#define INBOXFS_STORE_TEXT_ARENA_H

#include <stddef.h>

struct text_arena { /* empty: all zeros */
    struct text_block *blocks;
    size_t used; /* bytes of the first block */
};

void text_arena_release(struct text_arena *arena);

/* A copy of `text`, which never moves; NULL without memory. */
const char *text_arena_add(struct text_arena *arena, const char *text);

/* The same of two, the second of which begins behind the NUL of the first. */
const char *text_arena_add_two(struct text_arena *arena, const char *first, const char *second);

#endif
