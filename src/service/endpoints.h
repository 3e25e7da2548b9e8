/* SPDX-License-Identifier: MIT */
/*
 * The endpoints: one function for each row of the interface's tables (docs/INTERFACE.md). The table of routes
 * in server.c has the method and path of each. The request's key was checked, and its body has arrived in
 * full. 0: `reply` is the answer, whatever its status; -errno: the request could not be carried out.
 *
 * inbox_endpoints.c changes inboxes, list_endpoints.c has the lists, email_endpoints.c all of one email,
 * pool.c takes attachments, sending.c sends.
 */
#ifndef INBOXFS_SERVICE_ENDPOINTS_H
#define INBOXFS_SERVICE_ENDPOINTS_H

#include "service/reply.h"
#include "service/request.h"

int endpoint_inbox_list(struct request *request, struct reply *reply);
int endpoint_email_list(struct request *request, struct reply *reply);

int endpoint_inbox_upsert(struct request *request, struct reply *reply);

/* The content record of a valid email, as GET /api/v1/email/{id} answers with it. The caller owns it. 0,
 * -ENOENT or -errno. */
int email_load_content(sqlite3 *db, const char *id, json_t **ret_record);

int endpoint_email_content(struct request *request, struct reply *reply);
int endpoint_email_attachment(struct request *request, struct reply *reply);
int endpoint_email_raw(struct request *request, struct reply *reply);
int endpoint_email_mark(struct request *request, struct reply *reply);

int endpoint_pool_add(struct request *request, struct reply *reply);
int endpoint_send(struct request *request, struct reply *reply);

#endif
