/* SPDX-License-Identifier: MIT */
/*
 * The one account of the service: what the endpoints work on.
 */
#ifndef INBOXFS_SERVICE_ACCOUNT_H
#define INBOXFS_SERVICE_ACCOUNT_H

#include "service/database.h"
#include "service/service.h"

struct account {
    struct database *database;
    int pool_fd;        /* directory with a file for each attachment of the pool, its id as name */
    const char *domain; /* of all inboxes */
    const char *const
        *hosts;             /* further names that clients may know the service by, NULL at the end; or NULL */
    enum service_tier tier; /* decides how many emails a day */
};

#endif
