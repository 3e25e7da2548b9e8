/* SPDX-License-Identifier: MIT */
/*
 * A mail_service that calls the service's REST interface (version 1).
 */
#ifndef INBOXFS_API_API_SERVICE_H
#define INBOXFS_API_API_SERVICE_H

#include "http/http_client.h"
#include "mail/mail_service.h"

/* Copies the configuration; its base URL is in the normal form (base_url.h). Starts no thread and makes no
 * request. Return: 0; -EINVAL if the URL or the key is invalid; -ENOMEM. */
int api_service_new(const struct http_config *config, struct mail_service **ret_service);

/* No call may be in progress. NULL-safe. */
void api_service_free(struct mail_service *service);

#endif
