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
void emails_list_outbound(struct mail_service *service, const struct email_query *query, email_sink sink,
                          void *context, struct cancel *cancel, unsigned int *ret_count,
                          struct service_result *ret);
void content_get(struct mail_service *service, const struct content_query *query, struct cancel *cancel,
                 struct email_content *ret_content, struct service_result *ret);
void content_get_attachment(struct mail_service *service, const struct content_query *query,
                            const char *attachment_id, const struct content_target *target,
                            struct cancel *cancel, uint64_t *ret_len, struct service_result *ret);
void content_get_raw(struct mail_service *service, const struct content_query *query,
                     const struct content_target *target, struct cancel *cancel, uint64_t *ret_len,
                     struct service_result *ret);
void marks_set(struct mail_service *service, const char *email_id, bool is_valid, int64_t timeout_ms,
               struct cancel *cancel, struct email_record *ret_record, struct service_result *ret);
void attachments_upload(struct mail_service *service, const struct upload_request *request,
                        struct cancel *cancel, char **ret_id, struct service_result *ret);
void send_email(struct mail_service *service, const struct send_request *request, struct cancel *cancel,
                char **ret_id, struct service_result *ret);

#endif
