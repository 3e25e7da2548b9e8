/* SPDX-License-Identifier: MIT */
/*
 * The service's REST interface (version 1) as a mail_service.
 */
#ifndef INBOXFS_API_API_SERVICE_H
#define INBOXFS_API_API_SERVICE_H

#include "mail/mail_service.h"

struct api_config {
    const char *base_url;    /* http(s)://host[:port][/path][/api/v1][/]; any of these forms means the same */
    const char *unix_socket; /* path of the socket to speak HTTP over instead of TCP; NULL: none */
    const char *api_key;     /* copied; wiped from memory at the end */
    const char *ca_path;     /* file or directory with the only authorities to trust; NULL: the system's */
};

/* 0, -EINVAL, or -ENOMEM. Starts no thread and makes no request. */
int api_service_new(const struct api_config *config, struct mail_service **ret_service);

/* NULL-safe. No call may be under way. */
void api_service_free(struct mail_service *service);

#endif
