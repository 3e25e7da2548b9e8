/* SPDX-License-Identifier: MIT */
/*
 * POST /api/v1/inbox/upsert: makes an inbox, or updates one in full. The service sends a welcome to the
 * account's first inbox.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "mail/address.h"
#include "mail/json_writer.h"
#include "service/delivery.h"
#include "service/endpoints.h"
#include "service/inbox.h"
#include "service/sending.h"
#include "sql/query.h"

/* Return: 0; -EEXIST if another inbox has the address; -errno. */
static int upsert(const struct service_context *context, struct connection *turn, json_t *settings,
                  struct reply *reply)
{
    _cleanup_inbox_ struct service_inbox current = {0};
    const struct service_inbox inbox = {.record = settings};
    const char *id = service_inbox_id(&inbox);
    const char *address = service_inbox_address(&inbox);
    int error = id != NULL ? service_inbox_find_by_id(turn, id, &current) : 0;
    if (error == -ENOENT)
        return reply_error(reply, MHD_HTTP_NOT_FOUND, "There is no inbox with this id.");
    if (error != 0)
        return error;
    /* An inbox may keep its address, even if the service now runs for another domain. */
    bool keeps_address = id != NULL && address_equals(address, service_inbox_address(&current));
    if (!keeps_address && !delivery_is_in_domain(address, context->domain))
        return reply_invalid_at(reply, json_pack("[s, s]", "body", "email_address"), "value_error",
                                "The address is not on the service's domain");
    int64_t is_first = 0;
    error = query_integers(turn, &is_first, 1, "SELECT NOT EXISTS (SELECT 1 FROM inboxes)", "");
    if (error == 0)
        error = service_inbox_store(turn, current.seq, settings);
    if (error == 0 && is_first != 0)
        error = sending_welcome(turn, &inbox, context->domain);
    if (error != 0)
        return error;
    /* The secret that signs webhooks is in the administrator's file, and no answer shows it. */
    json_object_set_new(settings, "webhook_secret", json_null());
    reply_json(reply, MHD_HTTP_OK, json_incref(settings));
    return 0;
}

int endpoint_inbox_upsert(struct request *request, struct reply *reply)
{
    _cleanup_json_ json_t *body = request_read_object(request, reply);
    if (body == NULL)
        return 0;
    _cleanup_validation_ struct validation validation = {0};
    _cleanup_json_ json_t *settings = inbox_settings_read(body, &validation);
    if (validation.problems != NULL)
        return reply_invalid(reply, &validation);
    const struct service_context *context = request->context;
    struct connection *connection = NULL;
    int error = database_begin_write(context->database, &connection);
    if (error == 0)
        error = database_end_write(context->database, upsert(context, connection, settings, reply));
    return error != -EEXIST ? error
                            : reply_error(reply, MHD_HTTP_CONFLICT, "The address is taken by another inbox.");
}
