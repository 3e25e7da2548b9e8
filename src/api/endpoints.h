/* SPDX-License-Identifier: MIT */
/*
 * The operations of mail_service, by endpoint family.
 */
#ifndef INBOXFS_API_ENDPOINTS_H
#define INBOXFS_API_ENDPOINTS_H

#include "mail/mail_service.h"

void inboxes_list(struct mail_service *service, inbox_sink sink, void *context, struct cancel *cancel,
                  struct service_result *ret);
void inboxes_upsert(struct mail_service *service, const char *request, int64_t timeout_ms,
                    struct cancel *cancel, char **ret_id, struct service_result *ret);
void emails_list(struct mail_service *service, const struct email_query *query, email_sink sink,
                 void *context, struct cancel *cancel, unsigned int *ret_count, struct service_result *ret);
void attachments_upload(struct mail_service *service, const struct upload_request *request,
                        struct cancel *cancel, char **ret_id, struct service_result *ret);
void send_email(struct mail_service *service, const struct send_request *request, struct cancel *cancel,
                char **ret_id, struct service_result *ret);

#endif
