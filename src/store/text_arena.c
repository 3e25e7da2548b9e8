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

/* Room for `len` bytes; NULL without memory. */
static char *take_room(struct text_arena *arena, size_t len)
{
    struct text_block *block = arena->blocks;
    if (block == NULL || block->capacity - arena->used < len) {
        size_t capacity = len > BLOCK_BYTES ? len : BLOCK_BYTES;
        block = malloc(sizeof(*block) + capacity);
        if (block == NULL)
            return NULL;
        block->next = arena->blocks;
        block->capacity = capacity;
        arena->blocks = block;
        arena->used = 0;
    }
    arena->used += len;
    return block->bytes + arena->used - len;
}

const char *text_arena_add(struct text_arena *arena, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = take_room(arena, size);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}

const char *text_arena_add_two(struct text_arena *arena, const char *first, const char *second)
{
    size_t first_size = strlen(first) + 1;
    size_t second_size = strlen(second) + 1;
    char *copy = take_room(arena, first_size + second_size);
    if (copy == NULL)
        return NULL;
    memcpy(copy + first_size, second, second_size);
    return memcpy(copy, first, first_size);
}
