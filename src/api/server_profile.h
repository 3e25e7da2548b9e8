/* SPDX-License-Identifier: MIT */
/*
 * The server profile keeps the facts that the answers of a server have shown: which endpoints it lacks, which
 * forms of a request it refuses (interface sections 2 and 3), whether it accepts the key, and the ETag of
 * each query's last complete answer. Threads may share a profile: its lock is a leaf and is held only
 * briefly.
 *
 * After ABSENCE_CALLS_MAX skipped calls, an absent endpoint is tried again. One missing email does not show
 * that an endpoint is absent; a second, different missing email does.
 */
#ifndef INBOXFS_API_SERVER_PROFILE_H
#define INBOXFS_API_SERVER_PROFILE_H

#include <glib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "http/http_client.h"
#include "mail/mail_service.h"

enum {
    ABSENCE_CALLS_MAX = 20,
    ETAG_QUERIES_MAX = 4096,
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
    unsigned int calls_left; /* calls to skip before the endpoint is tried again */
    bool has_missing;        /* the endpoint answered 404 for an email that exists */
    uint64_t missing_hash;   /* hash of that email's id */
};

struct server_profile {
    pthread_mutex_t lock;
    struct service_capabilities known; /* protected by lock, like all below */
    bool is_authenticated;             /* a request with this key succeeded */
    struct absence absences[OPTIONAL_ENDPOINTS];
    GHashTable *etags; /* from the target of a query to its struct known_answer */
};

void server_profile_init(struct server_profile *profile);
void server_profile_release(struct server_profile *profile);

struct service_capabilities server_profile_get(struct server_profile *profile);

/* Remembers that a request with the key succeeded. */
void server_profile_note_authenticated(struct server_profile *profile);
bool server_profile_is_authenticated(struct server_profile *profile);

/* ---------------------------------------------------------------- endpoints */

bool server_profile_is_present(struct server_profile *profile, enum optional_endpoint endpoint);

/* Returns true if the endpoint is absent and this call must be skipped; counts the call. */
bool server_profile_skips(struct server_profile *profile, enum optional_endpoint endpoint);

void server_profile_note(struct server_profile *profile, enum optional_endpoint endpoint, bool is_present);

/* Remembers that the endpoint did not find an email that exists. A second, different email without a success
 * in between makes the endpoint absent. Returns true if the endpoint is absent now. */
bool server_profile_note_missing(struct server_profile *profile, enum optional_endpoint endpoint,
                                 const char *email_id);

/* ---------------------------------------------------------------- forms of a send request */

void server_profile_note_key_refused(struct server_profile *profile);
/* `takes_text`: the server takes from_address as a string; else as an object. */
void server_profile_note_from_address(struct server_profile *profile, bool takes_text);

/* ---------------------------------------------------------------- answers */

/* Copies the ETag of the target's last complete answer, and its number of records. If nothing has changed, a
 * request with this ETag transfers nothing (RFC 9110 section 13.1.2). Returns false if no ETag is known. */
bool server_profile_find_etag(struct server_profile *profile, const char *target,
                              char ret_etag[HTTP_ETAG_MAX_BYTES], unsigned int *ret_count);

/* Keeps the ETag of a target; "" removes it. At most ETAG_QUERIES_MAX targets are kept. */
void server_profile_set_etag(struct server_profile *profile, const char *target, const char *etag,
                             unsigned int count);

#endif
