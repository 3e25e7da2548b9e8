/* SPDX-License-Identifier: MIT */
/*
 * The memory. What was known from an earlier run is looked at again at the first call.
 */
#include "api/capability_memory.h"

void capability_memory_init(struct capability_memory *memory, struct clock *clock,
                            const struct service_capabilities *known)
{
    *memory = (struct capability_memory){.clock = clock, .known = *known};
    pthread_mutex_init(&memory->lock, NULL);
}

void capability_memory_release(struct capability_memory *memory)
{
    pthread_mutex_destroy(&memory->lock);
}

struct service_capabilities capability_memory_get(struct capability_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    struct service_capabilities known = memory->known;
    pthread_mutex_unlock(&memory->lock);
    return known;
}

void capability_memory_note_authenticated(struct capability_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    memory->is_authenticated = true;
    pthread_mutex_unlock(&memory->lock);
}

bool capability_memory_is_authenticated(struct capability_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    bool is_authenticated = memory->is_authenticated;
    pthread_mutex_unlock(&memory->lock);
    return is_authenticated;
}

bool capability_memory_skips_inbox_list(struct capability_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    bool skips = memory->known.inbox_list == CAPABILITY_ABSENT && memory->calls_left > 0 &&
                 clock_monotonic_ms(memory->clock) < memory->retry_at_ms;
    if (skips)
        memory->calls_left--;
    pthread_mutex_unlock(&memory->lock);
    return skips;
}

void capability_memory_note_inbox_list(struct capability_memory *memory, bool is_present)
{
    pthread_mutex_lock(&memory->lock);
    memory->known.inbox_list = is_present ? CAPABILITY_PRESENT : CAPABILITY_ABSENT;
    memory->calls_left = ABSENCE_CALLS_MAX;
    memory->retry_at_ms = clock_monotonic_ms(memory->clock) + ABSENCE_MAX_MS;
    pthread_mutex_unlock(&memory->lock);
}

void capability_memory_note_key_refused(struct capability_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    memory->known.idempotency_key = CAPABILITY_ABSENT;
    pthread_mutex_unlock(&memory->lock);
}

void capability_memory_note_from_address(struct capability_memory *memory, bool takes_text)
{
    pthread_mutex_lock(&memory->lock);
    memory->known.from_address_text = takes_text ? CAPABILITY_PRESENT : CAPABILITY_ABSENT;
    pthread_mutex_unlock(&memory->lock);
}
