/* SPDX-License-Identifier: MIT */
/*
 * Outcomes of requests, and the first request of a mount, which shows whether the cache belongs to the key's
 * account.
 */
#include "store/contact.h"

#include <errno.h>
#include <string.h>

#include "base/character.h"
#include "base/lock.h"
#include "mail/reason.h"
#include "store/index.h"
#include "store/index_changes.h"
#include "store/result_errno.h"
#include "store/store_private.h"

enum {
    FIRST_CONTACT_TIMEOUT_MS = 10 * 1000,
    UNREACHABLE_MS = 2 * 1000,
    BUSY_MIN_MS = 5 * 1000,
};

void contact_init(struct contact *contact, const struct index *index)
{
    *contact = (struct contact){.index = index};
    pthread_mutex_init(&contact->lock, NULL);
}

void contact_release(struct contact *contact)
{
    pthread_mutex_destroy(&contact->lock);
}

/* ---------------------------------------------------------------- outcomes of requests */

static void report_online(struct contact *contact)
{
    pthread_mutex_lock(&contact->lock);
    bool was_offline = contact->state == CONTACT_OFFLINE;
    contact->state = CONTACT_ONLINE;
    contact->last_answer_ms = clock_realtime_ms(contact->index->clock);
    contact->error[0] = '\0';
    pthread_mutex_unlock(&contact->lock);
    if (was_offline)
        index_notify_event(contact->index, EVENT_ONLINE, NULL, NULL, NULL);
}

/* Truncates at a whole character. */
static void copy_truncated(char *to, size_t size, const char *reason)
{
    size_t len = character_cut(reason, strnlen(reason, size), size - 1);
    memcpy(to, reason, len);
    to[len] = '\0';
}

void contact_report_offline(struct contact *contact, const char *reason)
{
    pthread_mutex_lock(&contact->lock);
    bool was_offline = contact->state == CONTACT_OFFLINE;
    contact->state = CONTACT_OFFLINE;
    copy_truncated(contact->error, sizeof(contact->error), reason);
    pthread_mutex_unlock(&contact->lock);
    if (!was_offline)
        index_notify_event(contact->index, EVENT_OFFLINE, NULL, NULL, reason);
}

void contact_report(struct contact *contact, const struct service_result *result)
{
    bool is_unreachable = result->outcome == SERVICE_RETRY && result->error == EHOSTUNREACH;
    int64_t now_ms = clock_monotonic_ms(contact->index->clock);
    pthread_mutex_lock(&contact->lock);
    contact->unreachable_until_ms = is_unreachable ? now_ms + UNREACHABLE_MS : 0;
    if (result_is_busy(result))
        contact->busy_until_ms = now_ms + MAX(result->retry_after_ms, BUSY_MIN_MS);
    pthread_mutex_unlock(&contact->lock);
    if (result_is_answer(result))
        report_online(contact);
    else if (result->outcome == SERVICE_UNAUTHORIZED ||
             (result->http_status == 0 && result->error != EINTR && result->error != ETIMEDOUT))
        contact_report_offline(contact, result_reason(result));
}

void contact_report_sync(struct contact *contact, const char *reason)
{
    LOCK_GUARD(&contact->lock);
    copy_truncated(contact->sync_error, sizeof(contact->sync_error), reason != NULL ? reason : "");
}

/* ---------------------------------------------------------------- state */

bool contact_is_online(struct contact *contact)
{
    LOCK_GUARD(&contact->lock);
    return contact->state == CONTACT_ONLINE;
}

bool store_is_offline(struct store *store)
{
    return !contact_is_online(&store->contact);
}

static bool is_before(struct contact *contact, const int64_t *until_ms)
{
    int64_t now_ms = clock_monotonic_ms(contact->index->clock);
    LOCK_GUARD(&contact->lock);
    return now_ms < *until_ms;
}

bool contact_is_unreachable(struct contact *contact)
{
    return is_before(contact, &contact->unreachable_until_ms);
}

bool contact_is_busy(struct contact *contact)
{
    return is_before(contact, &contact->busy_until_ms);
}

void contact_get_status(struct contact *contact, struct store_status *ret)
{
    LOCK_GUARD(&contact->lock);
    ret->is_online = contact->state == CONTACT_ONLINE;
    ret->last_sync_ms = contact->last_answer_ms;
    memcpy(ret->error, contact->error, sizeof(ret->error));
    memcpy(ret->sync_error, contact->sync_error, sizeof(ret->sync_error));
}

/* ---------------------------------------------------------------- checking the service */

static int ignore_record(void *context, struct email_record *record)
{
    (void)context, (void)record;
    return 0;
}

/* Every service can list mail, and requires a valid key for that. */
static void list_one_email(struct mail_service *service, struct cancel *cancel, struct service_result *ret)
{
    const struct email_query query = {.inbox_id = NULL, .limit = 1};
    unsigned int count;
    service->ops->list_emails(service, &query, ignore_record, NULL, cancel, &count, ret);
}

void contact_check(struct contact *contact, struct mail_service *service, struct cancel *cancel)
{
    struct service_result result;
    list_one_email(service, cancel, &result);
    if (result_is_answer(&result))
        report_online(contact);
    else if (result.error != EINTR)
        contact_report_offline(contact, result_reason(&result));
    service_result_release(&result);
}

/* ---------------------------------------------------------------- the first contact */

static void release_record(gpointer record)
{
    inbox_record_release(record);
}

static int take_inbox(void *context, struct inbox_record *record)
{
    g_array_append_vals(context, record, 1);
    *record = (struct inbox_record){0};
    return 0;
}

/* Lists the inboxes, before the index changes. If the service does not list inboxes, lists one email, and
 * returns false. */
static bool list_inboxes_first(struct mail_service *service, GArray *ret_inboxes, struct cancel *cancel,
                               struct service_result *ret)
{
    service->ops->list_inboxes(service, take_inbox, ret_inboxes, cancel, ret);
    if (ret->outcome != SERVICE_ABSENT && ret->outcome != SERVICE_REJECTED)
        return ret->outcome == SERVICE_OK;
    service_result_release(ret);
    list_one_email(service, cancel, ret);
    return false;
}

/* The service never deletes inboxes, so an account that has none of the cached inboxes is another account. */
static bool is_foreign(struct store *store, const GArray *inboxes)
{
    struct index *index = &store->index;
    uint32_t number;
    for (guint i = 0; i < inboxes->len; i++)
        if (index_find_inbox_by_id(index, g_array_index(inboxes, struct inbox_record, i).id, &number))
            return false;
    return index_count_shown(index).inboxes > (index_find_inbox_of_no_name(index) == NUMBER_NONE ? 0 : 1);
}

static int take_first_inboxes(struct store *store, const GArray *inboxes, char **ret_reason)
{
    if (!store->adopt_state && is_foreign(store, inboxes))
        return reason_give(
            ret_reason, -ESTALE,
            inboxes->len == 0
                ? "the service lists no inbox at all, although the state has some: try again "
                  "later, or give --state-dir=DIR for a state of its own"
                : "the state is of another account, since none of its inboxes is this key's: give "
                  "--state-dir=DIR for a state of its own, or --adopt-state to take this one over");
    uint32_t listing = index_begin_listing(&store->index);
    int error = 0;
    for (guint i = 0; i < inboxes->len && error == 0; i++)
        error = index_put_inbox(&store->index, &g_array_index(inboxes, struct inbox_record, i), INBOX_LISTED,
                                listing, NULL);
    if (error == 0)
        index_end_inbox_list(&store->index, listing);
    return error == -EDQUOT ? 0 : error; /* the sync reports -EDQUOT */
}

int store_first_contact(struct store *store, struct cancel *cancel, char **ret_reason)
{
    struct cancel bounded = cancel_bounded(store->index.clock, FIRST_CONTACT_TIMEOUT_MS, cancel);
    struct service_result result;
    int error;
    GArray *inboxes = g_array_new(false, false, sizeof(struct inbox_record));
    g_array_set_clear_func(inboxes, release_record);
    bool is_listed = list_inboxes_first(store->service, inboxes, &bounded, &result);
    if (result.outcome == SERVICE_UNAUTHORIZED) {
        error = reason_give(ret_reason, -EACCES, "the service does not let this key in: %s",
                            result_reason(&result));
    } else if (result.outcome != SERVICE_OK) {
        contact_report_offline(&store->contact, result_reason(&result));
        error = reason_give(ret_reason, -EHOSTUNREACH, "%s", result_reason(&result));
    } else {
        report_online(&store->contact);
        error = is_listed ? take_first_inboxes(store, inboxes, ret_reason) : 0;
    }
    g_array_unref(inboxes);
    service_result_release(&result);
    return error;
}
