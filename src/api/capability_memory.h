/* SPDX-License-Identifier: MIT */
/*
 * What was learned of the server (interface sections 2 and 3): which endpoint it lacks, which forms of a
 * request it refuses. Safe from several threads.
 */
#ifndef INBOXFS_API_CAPABILITY_MEMORY_H
#define INBOXFS_API_CAPABILITY_MEMORY_H

#include <pthread.h>
#include <stdint.h>

#include "base/clock.h"
#include "mail/mail_service.h"

enum {
    ABSENCE_CALLS_MAX = 20,          /* an absence is looked at again after so many calls, */
    ABSENCE_MAX_MS = 60 * 60 * 1000, /* or after so long */
};

/* Endpoints that a server may lack. */
enum optional_endpoint {
    ENDPOINT_INBOX_LIST,
    ENDPOINT_CONTENT,
    ENDPOINT_RAW,
    ENDPOINT_OUTBOUND,
    OPTIONAL_ENDPOINTS,
};

struct absence {
    unsigned int calls_left; /* until the endpoint is tried again */
    int64_t retry_at_ms;     /* likewise, on the monotonic clock */
    bool has_witness;        /* one email was missing that should be there: */
    uint64_t witness;        /* a hash of its id */
};

struct capability_memory {
    struct clock *clock; /* borrowed */
    pthread_mutex_t lock;
    struct service_capabilities known; /* protected by lock, with all below */
    bool is_authenticated;             /* a request with this key succeeded */
    struct absence absences[OPTIONAL_ENDPOINTS];
};

void capability_memory_init(struct capability_memory *memory, struct clock *clock,
                            const struct service_capabilities *known);
void capability_memory_release(struct capability_memory *memory);

struct service_capabilities capability_memory_get(struct capability_memory *memory);

/* A request with the key was answered as it should be. */
void capability_memory_note_authenticated(struct capability_memory *memory);
bool capability_memory_is_authenticated(struct capability_memory *memory);

enum service_capability capability_memory_find(struct capability_memory *memory,
                                               enum optional_endpoint endpoint);

/* Whether the endpoint is known to be absent and not to be looked at again yet. Counts as a call. */
bool capability_memory_skips(struct capability_memory *memory, enum optional_endpoint endpoint);

void capability_memory_note(struct capability_memory *memory, enum optional_endpoint endpoint,
                            bool is_present);

/* The endpoint knew nothing of an email that is there. Two different ones without a success between them mean
 * that it is absent; whether it is now. */
bool capability_memory_note_missing(struct capability_memory *memory, enum optional_endpoint endpoint,
                                    const char *email_id);

void capability_memory_note_key_refused(struct capability_memory *memory);
/* `takes_text`: from_address is taken as a string; else as an object. */
void capability_memory_note_from_address(struct capability_memory *memory, bool takes_text);

#endif
