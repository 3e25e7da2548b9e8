/* SPDX-License-Identifier: MIT */
/*
 * POST /api/v1/inbox/upsert: makes an inbox, or updates one in full. The account's first inbox is greeted by
 * an email.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "mail/address.h"
#include "mail/json_writer.h"
#include "service/delivery.h"
#include "service/endpoints.h"
#include "service/inbox.h"
#include "service/sending.h"

static int create(const struct service_context *context, sqlite3 *db, json_t *settings)
{
    int is_first = service_inbox_is_none(db);
    if (is_first < 0)
        return is_first;
    struct service_inbox inbox = {.record = settings};
    int error = service_inbox_insert(db, &inbox);
    return error == 0 && is_first ? sending_welcome(db, &inbox, context->domain) : error;
}

/* An inbox keeps the address it has, even where the service now runs for another domain. */
static bool may_have_address(const struct service_context *context, const struct service_inbox *current,
                             const json_t *settings)
{
    const char *address = json_string_value(json_object_get(settings, "email_address"));
    bool is_kept = current->record != NULL && address_equals(address, service_inbox_address(current));
    return is_kept || delivery_is_in_domain(address, context->domain);
}

/* Inside a write transaction, to be undone on an error. -EEXIST: another inbox has the address. */
static int upsert(const struct service_context *context, sqlite3 *db, const struct inbox_request *asked,
                  struct reply *reply)
{
    _cleanup_inbox_ struct service_inbox current = {0};
    int error = asked->id != NULL ? service_inbox_find_by_id(db, asked->id, &current) : 0;
    if (error == -ENOENT)
        reply_error(reply, MHD_HTTP_NOT_FOUND, "There is no inbox with this id.");
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    if (!may_have_address(context, &current, asked->settings))
        return reply_invalid_at(reply, json_pack("[s, s]", "body", "email_address"), "value_error",
                                "The address is not on the service's domain");
    error = asked->id != NULL ? service_inbox_update(db, &current, asked->settings)
                              : create(context, db, asked->settings);
    if (error != 0)
        return error;
    /* The secret that signs webhooks is in the administrator's file, and is shown to nobody. */
    json_object_set_new(asked->settings, "webhook_secret", json_null());
    reply_json(reply, MHD_HTTP_OK, json_incref(asked->settings));
    return 0;
}

static int carry_out(const struct service_context *context, const struct inbox_request *asked,
                     struct reply *reply)
{
    sqlite3 *db = NULL;
    int error = database_begin_write(context->database, &db);
    if (error == 0)
        error = database_end_write(context->database, upsert(context, db, asked, reply));
    if (error == -EEXIST)
        reply_error(reply, MHD_HTTP_CONFLICT, "The address is taken by another inbox.");
    return error == -EEXIST ? 0 : error;
}

int endpoint_inbox_upsert(struct request *request, struct reply *reply)
{
    _cleanup_json_ json_t *body = request_read_object(request, reply);
    if (body == NULL)
        return 0;
    _cleanup_validation_ struct validation validation = {0};
    struct inbox_request asked = {0};
    int error = inbox_request_read(body, &validation, &asked);
    if (error == 0 && validation.has_failed)
        reply_invalid(reply, &validation);
    else if (error == 0)
        error = carry_out(request->context, &asked, reply);
    inbox_request_release(&asked);
    return error;
}
