/* SPDX-License-Identifier: MIT */
/*
 * Every function takes the lock for a few instructions, and returns copies.
 */
#include "api/server_profile.h"

#include <string.h>

#include "base/hash.h"
#include "base/lock.h"

/* The last complete answer to a query. */
struct known_answer {
    char etag[HTTP_ETAG_MAX_BYTES];
    unsigned int count;
};

void server_profile_init(struct server_profile *profile)
{
    *profile =
        (struct server_profile){.etags = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free)};
    pthread_mutex_init(&profile->lock, NULL);
}

void server_profile_release(struct server_profile *profile)
{
    g_hash_table_destroy(profile->etags);
    pthread_mutex_destroy(&profile->lock);
}

struct service_capabilities server_profile_get(struct server_profile *profile)
{
    LOCK_GUARD(&profile->lock);
    return profile->known;
}

void server_profile_note_authenticated(struct server_profile *profile)
{
    LOCK_GUARD(&profile->lock);
    profile->is_authenticated = true;
}

bool server_profile_is_authenticated(struct server_profile *profile)
{
    LOCK_GUARD(&profile->lock);
    return profile->is_authenticated;
}

/* ---------------------------------------------------------------- endpoints */

static enum service_capability *known_locked(struct server_profile *profile, enum optional_endpoint endpoint)
{
    enum service_capability *const known[OPTIONAL_ENDPOINTS] = {
        [ENDPOINT_INBOX_LIST] = &profile->known.inbox_list,
        [ENDPOINT_CONTENT] = &profile->known.content,
        [ENDPOINT_RAW] = &profile->known.raw,
        [ENDPOINT_OUTBOUND] = &profile->known.outbound,
    };
    return known[endpoint];
}

bool server_profile_is_present(struct server_profile *profile, enum optional_endpoint endpoint)
{
    LOCK_GUARD(&profile->lock);
    return *known_locked(profile, endpoint) == CAPABILITY_PRESENT;
}

bool server_profile_skips(struct server_profile *profile, enum optional_endpoint endpoint)
{
    struct absence *absence = &profile->absences[endpoint];
    LOCK_GUARD(&profile->lock);
    if (*known_locked(profile, endpoint) != CAPABILITY_ABSENT || absence->calls_left == 0)
        return false;
    absence->calls_left--;
    return true;
}

static void note_locked(struct server_profile *profile, enum optional_endpoint endpoint, bool is_present)
{
    *known_locked(profile, endpoint) = is_present ? CAPABILITY_PRESENT : CAPABILITY_ABSENT;
    profile->absences[endpoint] = (struct absence){.calls_left = ABSENCE_CALLS_MAX};
}

void server_profile_note(struct server_profile *profile, enum optional_endpoint endpoint, bool is_present)
{
    LOCK_GUARD(&profile->lock);
    note_locked(profile, endpoint, is_present);
}

bool server_profile_note_missing(struct server_profile *profile, enum optional_endpoint endpoint,
                                 const char *email_id)
{
    struct absence *absence = &profile->absences[endpoint];
    uint64_t hash = hash_bytes(0, email_id, strlen(email_id));
    LOCK_GUARD(&profile->lock);
    bool is_absent = *known_locked(profile, endpoint) == CAPABILITY_ABSENT ||
                     (absence->has_missing && absence->missing_hash != hash);
    if (is_absent) {
        note_locked(profile, endpoint, false);
    } else {
        absence->has_missing = true;
        absence->missing_hash = hash;
    }
    return is_absent;
}

/* ---------------------------------------------------------------- forms of a send request */

void server_profile_note_key_refused(struct server_profile *profile)
{
    LOCK_GUARD(&profile->lock);
    profile->known.idempotency_key = CAPABILITY_ABSENT;
}

void server_profile_note_from_address(struct server_profile *profile, bool takes_text)
{
    LOCK_GUARD(&profile->lock);
    profile->known.from_address_text = takes_text ? CAPABILITY_PRESENT : CAPABILITY_ABSENT;
}

/* ---------------------------------------------------------------- answers */

bool server_profile_find_etag(struct server_profile *profile, const char *target,
                              char ret_etag[HTTP_ETAG_MAX_BYTES], unsigned int *ret_count)
{
    LOCK_GUARD(&profile->lock);
    const struct known_answer *answer = g_hash_table_lookup(profile->etags, target);
    if (answer == NULL)
        return false;
    memcpy(ret_etag, answer->etag, HTTP_ETAG_MAX_BYTES);
    *ret_count = answer->count;
    return true;
}

void server_profile_set_etag(struct server_profile *profile, const char *target, const char *etag,
                             unsigned int count)
{
    LOCK_GUARD(&profile->lock);
    g_hash_table_remove(profile->etags, target);
    if (*etag == '\0' || g_hash_table_size(profile->etags) >= ETAG_QUERIES_MAX)
        return;
    struct known_answer *answer = g_new0(struct known_answer, 1);
    g_strlcpy(answer->etag, etag, sizeof(answer->etag));
    answer->count = count;
    g_hash_table_insert(profile->etags, g_strdup(target), answer);
}
