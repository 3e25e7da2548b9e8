/* SPDX-License-Identifier: MIT */
/*
 * Exponential backoff with equal jitter.
 */
#include "base/backoff.h"

#include "base/random.h"

int64_t backoff_next_ms(struct backoff *backoff)
{
    int64_t delay = backoff->min_ms;
    for (unsigned int i = 0; i < backoff->attempts && delay < backoff->max_ms; i++)
        delay *= 2;
    if (delay > backoff->max_ms)
        delay = backoff->max_ms;
    backoff->attempts++;

    uint32_t noise = 0;
    if (random_bytes(&noise, sizeof(noise)) != 0)
        return delay;
    return delay - (int64_t)(noise % (uint64_t)(delay / 2 + 1));
}

void backoff_reset(struct backoff *backoff)
{
    backoff->attempts = 0;
}
