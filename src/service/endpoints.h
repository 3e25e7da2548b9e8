/* SPDX-License-Identifier: MIT */
/*
 * What answers requests: one function for each row of the interface's tables. The key is checked, the body
 * there in full. 0: `reply` is the answer, whatever its status; -errno: it could not be carried out.
 */
#ifndef INBOXFS_SERVICE_ENDPOINTS_H
#define INBOXFS_SERVICE_ENDPOINTS_H

#include "service/request.h"

int endpoint_inbox_list(struct request *request, struct reply *reply);
int endpoint_inbox_upsert(struct request *request, struct reply *reply);

int endpoint_email_list(struct request *request, struct reply *reply);
int endpoint_email_content(struct request *request, struct reply *reply);
int endpoint_email_attachment(struct request *request, struct reply *reply);
int endpoint_email_raw(struct request *request, struct reply *reply);
int endpoint_email_mark(struct request *request, struct reply *reply);

int endpoint_outbound_list(struct request *request, struct reply *reply);
int endpoint_outbound_content(struct request *request, struct reply *reply);
int endpoint_outbound_attachment(struct request *request, struct reply *reply);

int endpoint_pool_add(struct request *request, struct reply *reply);
int endpoint_send(struct request *request, struct reply *reply);

#endif
