/* SPDX-License-Identifier: MIT */
/*
 * Every function takes the one lock for a few instructions and copies what it gives out. The ETags are in a
 * map by the target of their query.
 */
#include "api/server_profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* The last whole answer to a query. */
struct known_answer {
    char etag[HTTP_ETAG_MAX_BYTES];
    unsigned int count;
    char target[];
};

void server_profile_init(struct server_profile *profile, struct clock *clock,
                         const struct service_capabilities *known)
{
    *profile = (struct server_profile){.clock = clock, .known = *known};
    pthread_mutex_init(&profile->lock, NULL);
}

void server_profile_release(struct server_profile *profile)
{
    size_t position = 0;
    struct known_answer *answer;
    while ((answer = map_next(&profile->etags, &position)) != NULL)
        free(answer);
    map_release(&profile->etags);
    pthread_mutex_destroy(&profile->lock);
}

struct service_capabilities server_profile_get(struct server_profile *profile)
{
    pthread_mutex_lock(&profile->lock);
    struct service_capabilities known = profile->known;
    pthread_mutex_unlock(&profile->lock);
    return known;
}

void server_profile_note_authenticated(struct server_profile *profile)
{
    pthread_mutex_lock(&profile->lock);
    profile->is_authenticated = true;
    pthread_mutex_unlock(&profile->lock);
}

bool server_profile_is_authenticated(struct server_profile *profile)
{
    pthread_mutex_lock(&profile->lock);
    bool is_authenticated = profile->is_authenticated;
    pthread_mutex_unlock(&profile->lock);
    return is_authenticated;
}

/* ---------------------------------------------------------------- endpoints */

static enum service_capability *known_locked(struct server_profile *profile, enum optional_endpoint endpoint)
{
    switch (endpoint) {
    case ENDPOINT_CONTENT:
        return &profile->known.content;
    case ENDPOINT_RAW:
        return &profile->known.raw;
    case ENDPOINT_OUTBOUND:
        return &profile->known.outbound;
    default:
        return &profile->known.inbox_list;
    }
}

bool server_profile_is_present(struct server_profile *profile, enum optional_endpoint endpoint)
{
    pthread_mutex_lock(&profile->lock);
    bool is_present = *known_locked(profile, endpoint) == CAPABILITY_PRESENT;
    pthread_mutex_unlock(&profile->lock);
    return is_present;
}

bool server_profile_skips(struct server_profile *profile, enum optional_endpoint endpoint)
{
    struct absence *absence = &profile->absences[endpoint];
    pthread_mutex_lock(&profile->lock);
    bool skips = *known_locked(profile, endpoint) == CAPABILITY_ABSENT && absence->calls_left > 0 &&
                 clock_monotonic_ms(profile->clock) < absence->retry_at_ms;
    if (skips)
        absence->calls_left--;
    pthread_mutex_unlock(&profile->lock);
    return skips;
}

static void note_locked(struct server_profile *profile, enum optional_endpoint endpoint, bool is_present)
{
    *known_locked(profile, endpoint) = is_present ? CAPABILITY_PRESENT : CAPABILITY_ABSENT;
    profile->absences[endpoint] = (struct absence){
        .calls_left = ABSENCE_CALLS_MAX,
        .retry_at_ms = clock_monotonic_ms(profile->clock) + ABSENCE_MAX_MS,
    };
}

void server_profile_note(struct server_profile *profile, enum optional_endpoint endpoint, bool is_present)
{
    pthread_mutex_lock(&profile->lock);
    note_locked(profile, endpoint, is_present);
    pthread_mutex_unlock(&profile->lock);
}

bool server_profile_note_missing(struct server_profile *profile, enum optional_endpoint endpoint,
                                 const char *email_id)
{
    struct absence *absence = &profile->absences[endpoint];
    uint64_t hash = hash_bytes(0, email_id, strlen(email_id));
    pthread_mutex_lock(&profile->lock);
    bool is_absent = *known_locked(profile, endpoint) == CAPABILITY_ABSENT ||
                     (absence->has_missing && absence->missing_hash != hash);
    if (is_absent) {
        note_locked(profile, endpoint, false);
    } else {
        absence->has_missing = true;
        absence->missing_hash = hash;
    }
    pthread_mutex_unlock(&profile->lock);
    return is_absent;
}

/* ---------------------------------------------------------------- forms of a send request */

void server_profile_note_key_refused(struct server_profile *profile)
{
    pthread_mutex_lock(&profile->lock);
    profile->known.idempotency_key = CAPABILITY_ABSENT;
    pthread_mutex_unlock(&profile->lock);
}

void server_profile_note_from_address(struct server_profile *profile, bool takes_text)
{
    pthread_mutex_lock(&profile->lock);
    profile->known.from_address_text = takes_text ? CAPABILITY_PRESENT : CAPABILITY_ABSENT;
    pthread_mutex_unlock(&profile->lock);
}

/* ---------------------------------------------------------------- answers */

bool server_profile_find_etag(struct server_profile *profile, const char *target,
                              char ret_etag[HTTP_ETAG_MAX_BYTES], unsigned int *ret_count)
{
    pthread_mutex_lock(&profile->lock);
    const struct known_answer *answer = map_find(&profile->etags, target);
    if (answer != NULL) {
        memcpy(ret_etag, answer->etag, HTTP_ETAG_MAX_BYTES);
        *ret_count = answer->count;
    }
    pthread_mutex_unlock(&profile->lock);
    return answer != NULL;
}

static void set_etag_locked(struct server_profile *profile, const char *target, const char *etag,
                            unsigned int count)
{
    free(map_remove(&profile->etags, target));
    if (*etag == '\0' || strlen(etag) >= HTTP_ETAG_MAX_BYTES || profile->etags.len >= ETAG_QUERIES_MAX)
        return;
    size_t target_size = strlen(target) + 1;
    struct known_answer *answer = calloc(1, sizeof(*answer) + target_size);
    if (answer == NULL)
        return;
    memcpy(answer->etag, etag, strlen(etag) + 1);
    memcpy(answer->target, target, target_size);
    answer->count = count;
    if (map_set(&profile->etags, answer->target, answer) < 0)
        free(answer);
}

void server_profile_set_etag(struct server_profile *profile, const char *target, const char *etag,
                             unsigned int count)
{
    pthread_mutex_lock(&profile->lock);
    set_etag_locked(profile, target, etag, count);
    pthread_mutex_unlock(&profile->lock);
}
