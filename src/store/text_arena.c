/* SPDX-License-Identifier: MIT */
/*
 * Blocks filled from the front; a text longer than a block gets one of its own.
 */
#include "store/text_arena.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 64 * 1024 - 32
};

struct text_block {
    struct text_block *next;
    size_t capacity;
    char bytes[];
};

void text_arena_release(struct text_arena *arena)
{
    while (arena->blocks != NULL) {
        struct text_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    arena->used = 0;
}

const char *text_arena_add(struct text_arena *arena, const char *text, size_t len)
{
    struct text_block *block = arena->blocks;
    if (block == NULL || block->capacity - arena->used < len + 1) {
        size_t capacity = len + 1 > BLOCK_BYTES ? len + 1 : BLOCK_BYTES;
        block = malloc(sizeof(*block) + capacity);
        if (block == NULL)
            return NULL;
        block->next = arena->blocks;
        block->capacity = capacity;
        arena->blocks = block;
        arena->used = 0;
    }
    char *copy = block->bytes + arena->used;
    memcpy(copy, text, len);
    copy[len] = '\0';
    arena->used += len + 1;
    return copy;
}
