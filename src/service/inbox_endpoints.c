/* SPDX-License-Identifier: MIT */
/*
 * Inboxes over HTTP: the list, and the upsert, which is a full update.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/random.h"
#include "mail/address.h"
#include "mail/email_record.h"
#include "service/delivery.h"
#include "service/endpoints.h"
#include "service/inboxes.h"
#include "service/listing.h"
#include "service/upsert_request.h"

int endpoint_inbox_list(struct request *request, struct reply *reply)
{
    return listing_answer_inboxes(request, reply);
}

/* `settings` is completed to the published record. */
static int stamp(json_t *settings, const char *id)
{
    char date[32];
    date_format(clock_realtime_ms(clock_system()), date);
    json_t *record = json_pack("{s:s}", "id", id);
    if (record == NULL || json_object_update(record, settings) != 0 ||
        json_object_set_new(record, "updated_at", json_string(date)) != 0) {
        json_decref(record);
        return -ENOMEM;
    }
    json_object_clear(settings);
    int result = json_object_update(settings, record);
    json_decref(record);
    return result == 0 ? 0 : -ENOMEM;
}

static int create(const struct account *account, sqlite3 *db, json_t *settings)
{
    char id[37];
    int error = random_uuid(id);
    if (error == 0)
        error = stamp(settings, id);
    if (error != 0)
        return error;
    int is_first = inboxes_is_empty(db);
    if (is_first < 0)
        return is_first;
    struct inbox inbox = {.record = settings};
    error = inboxes_insert(db, &inbox);
    return error == 0 && is_first ? delivery_welcome(db, &inbox, account->domain) : error;
}

static int update(sqlite3 *db, const struct inbox *current, json_t *settings)
{
    int error = stamp(settings, inbox_id(current));
    struct inbox inbox = {.seq = current->seq, .record = settings};
    return error == 0 ? inboxes_update(db, &inbox) : error;
}

static bool is_on_domain(const char *address, const char *domain)
{
    const char *at = strrchr(address, '@');
    return at != NULL && strcasecmp(at + 1, domain) == 0;
}

/* An inbox keeps the address it has, even where the service now runs for another domain. */
static bool check_address(const struct account *account, const struct inbox *current, const json_t *settings,
                          struct validation *validation)
{
    const char *address = json_string_value(json_object_get(settings, "email_address"));
    bool is_kept = current->record != NULL && address_equals(address, inbox_address(current));
    if (is_kept || is_on_domain(address, account->domain))
        return true;
    struct place body = {.name = "body"};
    struct place place = {.parent = &body, .name = "email_address"};
    validation_fail(validation, &place, "value_error", "The address is not on the service's domain");
    return false;
}

/* Inside a write transaction. True: to be committed; else *ret_error or the reply says why not. */
static bool upsert(const struct account *account, sqlite3 *db, const struct upsert_request *asked,
                   struct validation *validation, struct reply *reply, int *ret_error)
{
    _cleanup_inbox_ struct inbox current = {0};
    int error = asked->id != NULL ? inboxes_find_by_id(db, asked->id, &current) : 0;
    if (error == -ENOENT) {
        reply_error(reply, MHD_HTTP_NOT_FOUND, "There is no inbox with this id.");
        return false;
    }
    if (error == 0 && !check_address(account, &current, asked->settings, validation)) {
        reply_invalid(reply, validation);
        return false;
    }
    if (error == 0)
        error =
            asked->id != NULL ? update(db, &current, asked->settings) : create(account, db, asked->settings);
    if (error == -EEXIST) {
        reply_error(reply, MHD_HTTP_CONFLICT, "The address is taken by another inbox.");
        return false;
    }
    *ret_error = error;
    return error == 0;
}

static int carry_out(const struct account *account, const struct upsert_request *asked,
                     struct validation *validation, struct reply *reply)
{
    sqlite3 *db = NULL;
    int error = database_begin_write(account->database, &db);
    if (error != 0)
        return error;
    if (!upsert(account, db, asked, validation, reply, &error)) {
        database_rollback(account->database);
        return error;
    }
    error = database_commit(account->database);
    if (error != 0)
        return error;
    /* No webhooks are sent from here, so there is no secret to sign them with. */
    json_t *record = json_incref(asked->settings);
    json_object_set_new(record, "webhook_secret", json_null());
    reply_json(reply, MHD_HTTP_OK, record);
    return 0;
}

int endpoint_inbox_upsert(struct request *request, struct reply *reply)
{
    json_t *body = request_read_object(request, reply);
    if (body == NULL)
        return 0;
    struct validation validation = {0};
    struct upsert_request asked = {0};
    int error = validation_init(&validation);
    if (error == 0)
        error = upsert_request_read(body, &validation, &asked);
    if (error == 0 && validation_has_failed(&validation))
        reply_invalid(reply, &validation);
    else if (error == 0)
        error = carry_out(request->account, &asked, &validation, reply);
    upsert_request_release(&asked);
    validation_release(&validation);
    json_decref(body);
    return error;
}
