/* SPDX-License-Identifier: MIT */
/*
 * What is known of the server: which endpoints it lacks, which forms of a request it refuses (interface
 * sections 2 and 3), whether it took the key, and the ETag of each query's last whole answer. Everything that
 * is learned of a server is learned from its answers and kept here. Safe from several threads: one lock
 * protects all of it and is never held for long.
 *
 * An absence is not for ever: after ABSENCE_CALLS_MAX calls the endpoint is asked again. One missing
 * email is no absence; a second, different one is.
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
    unsigned int calls_left; /* until the endpoint is asked again */
    bool has_missing;        /* one email was missing that should be there: */
    uint64_t missing_hash;   /* of its id */
};

struct server_profile {
    pthread_mutex_t lock;
    struct service_capabilities known; /* protected by lock, with all below */
    bool is_authenticated;             /* a request with this key succeeded */
    struct absence absences[OPTIONAL_ENDPOINTS];
    GHashTable *etags; /* struct known_answer by the target of its query */
};

void server_profile_init(struct server_profile *profile);
void server_profile_release(struct server_profile *profile);

struct service_capabilities server_profile_get(struct server_profile *profile);

/* A request with the key was answered as it should be. */
void server_profile_note_authenticated(struct server_profile *profile);
bool server_profile_is_authenticated(struct server_profile *profile);

/* ---------------------------------------------------------------- endpoints */

bool server_profile_is_present(struct server_profile *profile, enum optional_endpoint endpoint);

/* Returns true if the endpoint is known to be absent and not to be asked again yet. Counts as a call. */
bool server_profile_skips(struct server_profile *profile, enum optional_endpoint endpoint);

void server_profile_note(struct server_profile *profile, enum optional_endpoint endpoint, bool is_present);

/* The endpoint knew nothing of an email that is there. Two different ones without a success between them mean
 * that it is absent. Returns true if it is absent now. */
bool server_profile_note_missing(struct server_profile *profile, enum optional_endpoint endpoint,
                                 const char *email_id);

/* ---------------------------------------------------------------- forms of a send request */

void server_profile_note_key_refused(struct server_profile *profile);
/* `takes_text`: from_address is taken as a string; else as an object. */
void server_profile_note_from_address(struct server_profile *profile, bool takes_text);

/* ---------------------------------------------------------------- answers */

/* The ETag of the target's last whole answer, copied, and how many records that had: asking again with it
 * spares the transfer where nothing has changed (RFC 9110 section 13.1.2). False: none is known. */
bool server_profile_find_etag(struct server_profile *profile, const char *target,
                              char ret_etag[HTTP_ETAG_MAX_BYTES], unsigned int *ret_count);

/* Keeps the tag; "" forgets it. Nothing is kept beyond ETAG_QUERIES_MAX. */
void server_profile_set_etag(struct server_profile *profile, const char *target, const char *etag,
                             unsigned int count);

#endif
