/* SPDX-License-Identifier: MIT */
/*
 * The endpoints are the functions that carry out the requests of docs/INTERFACE.md. The table of routes in
 * server.c has the methods and paths of each. Before server.c calls an endpoint, it has checked the API key
 * and collected the whole body. Return: 0 if `reply` is the answer, whatever its status; -errno if the
 * request could not be carried out.
 */
#ifndef INBOXFS_SERVICE_ENDPOINTS_H
#define INBOXFS_SERVICE_ENDPOINTS_H

#include "service/message.h"
#include "service/reply.h"
#include "service/request.h"

/* list_endpoints.c */
int endpoint_inbox_list(struct request *request, struct reply *reply);
int endpoint_email_list(struct request *request, struct reply *reply);

/* inbox_endpoints.c */
int endpoint_inbox_upsert(struct request *request, struct reply *reply);

/* email_endpoints.c */
int endpoint_email_content(struct request *request, struct reply *reply);
int endpoint_email_attachment(struct request *request, struct reply *reply);
int endpoint_email_raw(struct request *request, struct reply *reply);
int endpoint_email_mark(struct request *request, struct reply *reply);

/* Loads the content record of an email, the answer to GET /api/v1/email/{id}; a received email must be valid.
 * The caller owns *ret_record. Return: 0; -ENOENT if there is no such email; -errno. */
int email_load_content(struct connection *reader, enum email_side side, const char *id, json_t **ret_record);

/* pool.c */
int endpoint_pool_add(struct request *request, struct reply *reply);

/* Fills a zeroed attachment from a file of the pool. The caller owns its values, on failure too. Return: 0;
 * -ENOENT if the pool has no such file; -EMSGSIZE if the file is larger than `max_bytes`; -errno. */
int pool_load(const struct service_context *context, struct connection *reader, const char *id,
              size_t max_bytes, struct message_attachment *attachment);

/* sending.c */
int endpoint_send(struct request *request, struct reply *reply);

#endif
