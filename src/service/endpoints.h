/* SPDX-License-Identifier: MIT */
/*
 * The endpoints: one function for each row of the interface's tables (docs/INTERFACE.md). The table of routes
 * in server.c has the method and path of each. The caller has checked the key and collected the whole body.
 * Return: 0 if `reply` is the answer, whatever its status; -errno if the request could not be carried out.
 *
 * inbox_endpoints.c changes inboxes, list_endpoints.c lists, email_endpoints.c shows and marks one email,
 * pool.c takes attachments, and sending.c sends.
 */
#ifndef INBOXFS_SERVICE_ENDPOINTS_H
#define INBOXFS_SERVICE_ENDPOINTS_H

#include "service/reply.h"
#include "service/request.h"

int endpoint_inbox_list(struct request *request, struct reply *reply);
int endpoint_email_list(struct request *request, struct reply *reply);

int endpoint_inbox_upsert(struct request *request, struct reply *reply);

/* Loads the content record of a valid email, the answer to GET /api/v1/email/{id}. The caller owns it.
 * Return: 0; -ENOENT if there is no such email; -errno. */
int email_load_content(sqlite3 *db, const char *id, json_t **ret_record);

int endpoint_email_content(struct request *request, struct reply *reply);
int endpoint_email_attachment(struct request *request, struct reply *reply);
int endpoint_email_raw(struct request *request, struct reply *reply);
int endpoint_email_mark(struct request *request, struct reply *reply);

int endpoint_pool_add(struct request *request, struct reply *reply);
int endpoint_send(struct request *request, struct reply *reply);

#endif
