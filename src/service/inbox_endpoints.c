/* SPDX-License-Identifier: MIT */
/*
 * POST /api/v1/inbox/upsert: makes an inbox, or updates one in full. The account's first inbox is greeted by
 * an email.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "mail/address.h"
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

static bool is_on_domain(const char *address, const char *domain)
{
    const char *at = strrchr(address, '@');
    return at != NULL && strcasecmp(at + 1, domain) == 0;
}

/* An inbox keeps the address it has, even where the service now runs for another domain. */
static bool check_address(const struct service_context *context, const struct service_inbox *current,
                          const json_t *settings, struct validation *validation)
{
    const char *address = json_string_value(json_object_get(settings, "email_address"));
    bool is_kept = current->record != NULL && address_equals(address, service_inbox_address(current));
    if (is_kept || is_on_domain(address, context->domain))
        return true;
    struct location body = {.name = "body"};
    struct location location = {.parent = &body, .name = "email_address"};
    validation_fail(validation, &location, "value_error", "The address is not on the service's domain");
    return false;
}

enum upsert_outcome {
    UPSERT_DONE,
    UPSERT_NO_INBOX,      /* of the id that is given */
    UPSERT_BAD_ADDRESS,   /* as `validation` says */
    UPSERT_TAKEN_ADDRESS, /* by another inbox */
};

/* Inside a write transaction, to be undone on an error, which there is with UPSERT_TAKEN_ADDRESS too. */
static int upsert(const struct service_context *context, sqlite3 *db, const struct inbox_request *asked,
                  struct validation *validation, enum upsert_outcome *ret_outcome)
{
    _cleanup_inbox_ struct service_inbox current = {0};
    *ret_outcome = UPSERT_DONE;
    int error = asked->id != NULL ? service_inbox_find_by_id(db, asked->id, &current) : 0;
    if (error == -ENOENT)
        *ret_outcome = UPSERT_NO_INBOX;
    else if (error == 0 && !check_address(context, &current, asked->settings, validation))
        *ret_outcome = UPSERT_BAD_ADDRESS;
    if (*ret_outcome != UPSERT_DONE || error != 0)
        return *ret_outcome != UPSERT_DONE ? 0 : error;
    error = asked->id != NULL ? service_inbox_update(db, &current, asked->settings)
                              : create(context, db, asked->settings);
    if (error == -EEXIST)
        *ret_outcome = UPSERT_TAKEN_ADDRESS;
    return error;
}

static void answer(enum upsert_outcome outcome, const struct inbox_request *asked,
                   const struct validation *validation, struct reply *reply)
{
    switch (outcome) {
    case UPSERT_DONE:
        /* The secret that signs webhooks is in the administrator's file, and is shown to nobody. */
        json_object_set_new(asked->settings, "webhook_secret", json_null());
        reply_json(reply, MHD_HTTP_OK, json_incref(asked->settings));
        break;
    case UPSERT_NO_INBOX:
        reply_error(reply, MHD_HTTP_NOT_FOUND, "There is no inbox with this id.");
        break;
    case UPSERT_BAD_ADDRESS:
        reply_invalid(reply, validation);
        break;
    case UPSERT_TAKEN_ADDRESS:
        reply_error(reply, MHD_HTTP_CONFLICT, "The address is taken by another inbox.");
        break;
    }
}

static int carry_out(const struct service_context *context, const struct inbox_request *asked,
                     struct validation *validation, struct reply *reply)
{
    sqlite3 *db = NULL;
    int error = database_begin_write(context->database, &db);
    if (error != 0)
        return error;
    enum upsert_outcome outcome;
    error = upsert(context, db, asked, validation, &outcome);
    error = database_end_write(context->database, error);
    if (error != 0 && !(error == -EEXIST && outcome == UPSERT_TAKEN_ADDRESS))
        return error;
    answer(outcome, asked, validation, reply);
    return 0;
}

int endpoint_inbox_upsert(struct request *request, struct reply *reply)
{
    json_t *body = request_read_object(request, reply);
    if (body == NULL)
        return 0;
    struct validation validation = {0};
    struct inbox_request asked = {0};
    int error = validation_init(&validation);
    if (error == 0)
        error = inbox_request_read(body, &validation, &asked);
    if (error == 0 && validation_has_failed(&validation))
        reply_invalid(reply, &validation);
    else if (error == 0)
        error = carry_out(request->context, &asked, &validation, reply);
    inbox_request_release(&asked);
    validation_release(&validation);
    json_decref(body);
    return error;
}
