/* SPDX-License-Identifier: MIT */
/*
 * The query of a list request (interface, GET /api/v1/email), read and checked.
 */
#ifndef INBOXFS_SERVICE_LISTING_QUERY_H
#define INBOXFS_SERVICE_LISTING_QUERY_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "service/validate.h"

struct listing_query {
    json_t *inbox_ids;      /* array of strings; NULL: all inboxes. Owned */
    json_t *from_addresses; /* array of strings; NULL: any. Owned */
    char *search_term;      /* folded; NULL: none. Owned */
    int64_t limit;
    bool valid_only;
};

/* What is wrong is added to `validation`. 0 or -ENOMEM. */
int listing_query_read(struct MHD_Connection *connection, struct validation *validation,
                       struct listing_query *ret_query);
void listing_query_release(struct listing_query *query);

#endif
