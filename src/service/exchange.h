/* SPDX-License-Identifier: MIT */
/*
 * One request and its answer while they pass: what the HTTP library tells in pieces is put together here,
 * within bounds, and answered once.
 */
#ifndef INBOXFS_SERVICE_EXCHANGE_H
#define INBOXFS_SERVICE_EXCHANGE_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "service/account.h"

struct exchange;

/* `target`: path and query as they came. NULL without memory. */
struct exchange *exchange_new(const struct account *account, const char *target);

/* NULL-safe. */
void exchange_free(struct exchange *exchange);

/* It will be answered with 414, whatever follows. */
void exchange_refuse_target(struct exchange *exchange, size_t max_bytes, size_t max_parameters);

/* To be called first: the header is there; the key, the route and what is declared of the body are looked
 * at. False: that was done before. */
bool exchange_begin(struct exchange *exchange, struct MHD_Connection *connection, const char *method,
                    const char *version);

/* Whether nothing speaks against the request so far. */
bool exchange_is_accepted(const struct exchange *exchange);

/* A piece of the body. False: more came than will be thrown away; the connection is to be cut. */
bool exchange_receive(struct exchange *exchange, const char *bytes, size_t len);

/* Whether there is an answer already, and no reason to take the body first. */
bool exchange_is_settled(const struct exchange *exchange);

/* All is there: answers. `closes`: the connection is to end with it. */
enum MHD_Result exchange_answer(struct exchange *exchange, bool closes);

#endif
