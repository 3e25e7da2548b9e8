/* SPDX-License-Identifier: MIT */
/*
 * First opens.
 */
#include "tree/first_opens.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORD_BITS = 64,
    GROWTH_WORDS = 256, /* 16,384 emails */
};

void first_opens_init(struct first_opens *opens)
{
    *opens = (struct first_opens){.words = NULL};
    pthread_mutex_init(&opens->lock, NULL);
}

void first_opens_release(struct first_opens *opens)
{
    free(opens->words);
    pthread_mutex_destroy(&opens->lock);
}

static bool has_room_locked(struct first_opens *opens, size_t word)
{
    if (word < opens->len)
        return true;
    size_t len = word + GROWTH_WORDS;
    uint64_t *words = realloc(opens->words, len * sizeof(*words));
    if (words == NULL)
        return false;
    memset(words + opens->len, 0, (len - opens->len) * sizeof(*words));
    opens->words = words;
    opens->len = len;
    return true;
}

bool first_opens_take(struct first_opens *opens, uint32_t number)
{
    size_t word = number / WORD_BITS;
    uint64_t bit = UINT64_C(1) << (number % WORD_BITS);
    pthread_mutex_lock(&opens->lock);
    bool is_first = has_room_locked(opens, word) && (opens->words[word] & bit) == 0;
    if (is_first)
        opens->words[word] |= bit;
    pthread_mutex_unlock(&opens->lock);
    return is_first;
}
