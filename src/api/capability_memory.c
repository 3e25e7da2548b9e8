/* SPDX-License-Identifier: MIT */
/*
 * The memory. What was known from an earlier run is looked at again at the first call.
 */
#include "api/capability_memory.h"

#include <string.h>

#include "base/hash.h"

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

static enum service_capability *known_locked(struct capability_memory *memory,
                                             enum optional_endpoint endpoint)
{
    switch (endpoint) {
    case ENDPOINT_CONTENT:
        return &memory->known.content;
    case ENDPOINT_RAW:
        return &memory->known.raw;
    case ENDPOINT_OUTBOUND:
        return &memory->known.outbound;
    default:
        return &memory->known.inbox_list;
    }
}

enum service_capability capability_memory_find(struct capability_memory *memory,
                                               enum optional_endpoint endpoint)
{
    pthread_mutex_lock(&memory->lock);
    enum service_capability known = *known_locked(memory, endpoint);
    pthread_mutex_unlock(&memory->lock);
    return known;
}

bool capability_memory_skips(struct capability_memory *memory, enum optional_endpoint endpoint)
{
    struct absence *absence = &memory->absences[endpoint];
    pthread_mutex_lock(&memory->lock);
    bool skips = *known_locked(memory, endpoint) == CAPABILITY_ABSENT && absence->calls_left > 0 &&
                 clock_monotonic_ms(memory->clock) < absence->retry_at_ms;
    if (skips)
        absence->calls_left--;
    pthread_mutex_unlock(&memory->lock);
    return skips;
}

static void note_locked(struct capability_memory *memory, enum optional_endpoint endpoint, bool is_present)
{
    *known_locked(memory, endpoint) = is_present ? CAPABILITY_PRESENT : CAPABILITY_ABSENT;
    memory->absences[endpoint] = (struct absence){
        .calls_left = ABSENCE_CALLS_MAX,
        .retry_at_ms = clock_monotonic_ms(memory->clock) + ABSENCE_MAX_MS,
    };
}

void capability_memory_note(struct capability_memory *memory, enum optional_endpoint endpoint,
                            bool is_present)
{
    pthread_mutex_lock(&memory->lock);
    note_locked(memory, endpoint, is_present);
    pthread_mutex_unlock(&memory->lock);
}

bool capability_memory_note_missing(struct capability_memory *memory, enum optional_endpoint endpoint,
                                    const char *email_id)
{
    struct absence *absence = &memory->absences[endpoint];
    uint64_t witness = hash_bytes(0, email_id, strlen(email_id));
    pthread_mutex_lock(&memory->lock);
    bool is_absent = *known_locked(memory, endpoint) == CAPABILITY_ABSENT ||
                     (absence->has_witness && absence->witness != witness);
    if (is_absent) {
        note_locked(memory, endpoint, false);
    } else {
        absence->has_witness = true;
        absence->witness = witness;
    }
    pthread_mutex_unlock(&memory->lock);
    return is_absent;
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
