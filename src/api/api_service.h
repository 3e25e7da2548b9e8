/* SPDX-License-Identifier: MIT */
/*
 * A mail_service that calls the service's REST interface (version 1).
 */
#ifndef INBOXFS_API_API_SERVICE_H
#define INBOXFS_API_API_SERVICE_H

#include "mail/mail_service.h"

struct api_config {
    const char *base_url;    /* http(s)://host[:port][/path][/api/v1][/]; all forms are equivalent */
    const char *unix_socket; /* path of the socket to use instead of TCP, or NULL */
    const char *api_key;     /* the copy of it is wiped when the service is freed */
    const char *ca_path;     /* file or directory with the only authorities to trust; if NULL, the system's */
};

/* Starts no thread and makes no request. Return: 0; -EINVAL if the URL or the key is invalid; -ENOMEM. */
int api_service_new(const struct api_config *config, struct mail_service **ret_service);

/* No call may be in progress. NULL-safe. */
void api_service_free(struct mail_service *service);

#endif
