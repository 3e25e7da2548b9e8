/* SPDX-License-Identifier: MIT */
/*
 * Changes that a user makes: a new inbox, the settings of an inbox, whether an email is valid, hidden sent
 * mail. The index changes only after the service has accepted the change. A refusal is reported to the
 * caller, and as an event, with its reason.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/lock.h"
#include "base/strbuf.h"
#include "mail/json_writer.h"
#include "mail/reason.h"
#include "store/index.h"
#include "store/index_changes.h"
#include "store/result_errno.h"
#include "store/store_private.h"
#include "store/sync.h"

enum {
    UPSERT_TIMEOUT_MS = 5 * 1000,
    UPDATE_TIMEOUT_MS = 15 * 1000, /* to read the settings, write them, and read them again */
    MARK_TIMEOUT_MS = 5 * 1000,
    INBOX_LIST_TIMEOUT_MS = 5 * 1000,
    INBOX_LIST_SLOW_MS = 1000,
    INBOX_LIST_PAUSE_MS = 30 * 1000, /* pause after a slow list of inboxes */
};

/* The caller frees *ret_id, which may be NULL, and releases `ret`. */
static int request_upsert(struct store *store, const char *request, struct cancel *cancel, char **ret_id,
                          struct service_result *ret)
{
    store->service->ops->upsert_inbox(store->service, request, UPSERT_TIMEOUT_MS, cancel, ret_id, ret);
    contact_report(&store->contact, ret);
    return result_errno_of_change(ret);
}

static int refuse_edit(struct store *store, const char *name, const char *id, int error, const char *reason,
                       char **ret_reason)
{
    g_autofree char *path = g_strdup_printf("inboxes/%s", name);
    index_notify_event(&store->index, EVENT_INBOX, path, id, reason);
    return reason_give(ret_reason, error, "%s", reason);
}

/* ---------------------------------------------------------------- inboxes made elsewhere */

/* Adds or updates an inbox that the service lists. Ignores errors: the next sync lists the inbox again. */
static int put_listed_inbox(void *context, struct inbox_record *record)
{
    struct store *store = context;
    (void)index_put_inbox(&store->index, record, INBOX_LISTED, 0, NULL);
    return 0;
}

/* While online, lists the inboxes once (waits for the network, INBOX_LIST_TIMEOUT_MS). Concurrent callers
 * share the next list. A slow list is not repeated for INBOX_LIST_PAUSE_MS: each of many messages that are
 * handed in at once calls this function, and rm of an attachment waits for all of them. */
static void find_new_inboxes(struct store *store, struct cancel *cancel)
{
    struct clock *clock = store->index.clock;
    unsigned int lists = atomic_load(&store->inbox_lists);
    struct service_result result;
    if (!contact_is_online(&store->contact))
        return;
    LOCK_GUARD(&store->inbox_list_lock);
    int64_t began_ms = clock_monotonic_ms(clock);
    if (atomic_load(&store->inbox_lists) != lists || began_ms < store->inbox_list_due_ms)
        return;
    struct cancel bounded = cancel_bounded(clock, INBOX_LIST_TIMEOUT_MS, cancel);
    atomic_fetch_add(&store->inbox_lists, 1);
    store->service->ops->list_inboxes(store->service, put_listed_inbox, store, &bounded, &result);
    contact_report(&store->contact, &result);
    service_result_release(&result);
    int64_t ended_ms = clock_monotonic_ms(clock);
    if (ended_ms - began_ms >= INBOX_LIST_SLOW_MS)
        store->inbox_list_due_ms = ended_ms + INBOX_LIST_PAUSE_MS;
}

int store_find_sender(struct store *store, const char *address, char **ret_address)
{
    int error = index_find_sender(&store->index, address, ret_address);
    if (error != -EADDRNOTAVAIL || (address == NULL && index_count_shown(&store->index).inboxes > 0))
        return error;
    find_new_inboxes(store, NULL);
    return index_find_sender(&store->index, address, ret_address);
}

/* ---------------------------------------------------------------- a new inbox */

int store_create_inbox(struct store *store, const char *address, struct cancel *cancel, uint32_t *ret_inbox,
                       char **ret_reason)
{
    struct inbox_record record = {0};
    struct service_result result;
    _cleanup_free_ char *request = NULL;
    _cleanup_free_ char *id = NULL;
    int error = inbox_request_create(address, &request);
    if (error != 0)
        return refuse_edit(store, address, NULL, error, "not an email address that an inbox can have here",
                           ret_reason);
    if (index_has_address(&store->index, address))
        return reason_give(ret_reason, -EEXIST, "there is an inbox with this address already");
    error = request_upsert(store, request, cancel, &id, &result);
    if (error != 0)
        error = refuse_edit(store, address, NULL, error, result_reason(&result), ret_reason);
    else if (id == NULL)
        error = refuse_edit(store, address, NULL, -EHOSTUNREACH,
                            "the service's answer carries no id of an inbox", ret_reason);
    else
        error = inbox_record_from_request(request, id, &record);
    if (error == 0)
        error = index_put_inbox(&store->index, &record, INBOX_CREATED, 0, ret_inbox);
    /* After an unknown outcome the inbox may exist: a sync lists the inboxes. */
    if (error == 0)
        sync_request(store->sync, *ret_inbox, SYNC_COMPLETE);
    else if (error == -EEXIST)
        find_new_inboxes(store, cancel);
    else if (result.outcome == SERVICE_UNKNOWN || result.outcome == SERVICE_OK)
        sync_request(store->sync, SYNC_ALL, SYNC_COMPLETE);
    inbox_record_release(&record);
    service_result_release(&result);
    return error;
}

/* ---------------------------------------------------------------- the settings of an inbox */

/* The record of one inbox in the service's list. */
struct wanted_inbox {
    const char *id;
    struct inbox_record record; /* all zeros until the list has the inbox */
};

static int take_wanted_inbox(void *context, struct inbox_record *record)
{
    struct wanted_inbox *wanted = context;
    if (strcmp(record->id, wanted->id) != 0 || wanted->record.id != NULL)
        return 0;
    wanted->record = *record;
    *record = (struct inbox_record){0};
    return 0;
}

/* Fetches the current record of the inbox. The caller releases it, also after a failure. */
static int fetch_record(struct store *store, const char *id, struct cancel *cancel,
                        struct inbox_record *ret_record, char **ret_reason)
{
    struct wanted_inbox wanted = {.id = id};
    struct service_result result;
    int error = 0;
    store->service->ops->list_inboxes(store->service, take_wanted_inbox, &wanted, cancel, &result);
    contact_report(&store->contact, &result);
    if (result.outcome == SERVICE_ABSENT)
        error = reason_give(ret_reason, -EPERM,
                            "the service does not let an inbox's settings be read; they are not overwritten");
    else if (result.outcome != SERVICE_OK)
        error = reason_give(ret_reason, result_errno_of_change(&result), "%s", result_reason(&result));
    else if (wanted.record.id == NULL)
        error = reason_give(ret_reason, -ENOENT, "the service no longer knows this inbox");
    service_result_release(&result);
    *ret_record = wanted.record;
    return error;
}

/* The update has succeeded even if the new record cannot be read. */
static void show_updated_inbox(struct store *store, const char *id, struct cancel *cancel)
{
    struct inbox_record record;
    _cleanup_free_ char *reason = NULL;
    if (fetch_record(store, id, cancel, &record, &reason) != 0 ||
        index_put_inbox(&store->index, &record, INBOX_LISTED, 0, NULL) != 0)
        sync_request(store->sync, SYNC_ALL, SYNC_COMPLETE);
    inbox_record_release(&record);
}

static int update_inbox(struct store *store, const char *id, const char *text, size_t len,
                        struct cancel *cancel, char **ret_reason)
{
    struct inbox_record current;
    struct service_result result;
    _cleanup_free_ char *request = NULL;
    _cleanup_free_ char *answered_id = NULL;
    int error = fetch_record(store, id, cancel, &current, ret_reason);
    if (error == 0)
        error = inbox_request_update(&current, text, len, &request, ret_reason);
    inbox_record_release(&current);
    if (error != 0)
        return error;
    error = request_upsert(store, request, cancel, &answered_id, &result);
    if (error == 0)
        show_updated_inbox(store, id, cancel);
    else
        error = reason_give(ret_reason, error, "%s", result_reason(&result));
    service_result_release(&result);
    return error;
}

int store_update_inbox(struct store *store, uint32_t inbox, const char *text, size_t len,
                       struct cancel *cancel, char **ret_reason)
{
    struct inbox_view view;
    _cleanup_free_ char *reason = NULL;
    struct cancel bounded = cancel_bounded(store->index.clock, UPDATE_TIMEOUT_MS, cancel);
    if (!store_get_inbox(store, inbox, &view))
        return reason_give(ret_reason, -ENOENT, "there is no such inbox any more");
    if (index_find_inbox_of_no_name(&store->index) == inbox)
        return reason_give(ret_reason, -EPERM, "this is not an inbox of the service");
    int error = update_inbox(store, view.id, text, len, &bounded, &reason);
    if (error == -EINTR && !cancel_is_set(cancel))
        error = -EHOSTUNREACH; /* after UPDATE_TIMEOUT_MS */
    return error == 0 ? 0
                      : refuse_edit(store, view.name, view.id, error,
                                    reason != NULL ? reason : strerror(-error), ret_reason);
}

/* ---------------------------------------------------------------- whether an email is valid */

static int refuse_mark(struct store *store, const struct email_view *email, const char *id, int error,
                       const char *reason, char **ret_reason)
{
    struct inbox_view inbox;
    g_autofree char *path = NULL;
    if (store_get_inbox(store, email->inbox, &inbox))
        path = g_strdup_printf("inboxes/%s/%s%s", inbox.name, email->is_quarantined ? ".invalid/" : "",
                               email->name);
    index_notify_event(&store->index, EVENT_REFUSED, path, id, reason);
    return reason_give(ret_reason, error, "%s", reason);
}

/* Puts the record of the answer into the index. Returns false if the answer lacks it, or on an error. */
static bool put_marked_record(struct index *index, uint32_t inbox, const char *id,
                              const struct email_record *record)
{
    return record->key != NULL && strcmp(record->key, id) == 0 &&
           index_put_one_email(index, inbox, record) == 0;
}

/* Syncs the inbox of a marked email, to get its new record. Waits at most until `until_ms`, since the kernel
 * locks the folder during a mark. After a failure, requests another sync. */
static int sync_marked_inbox(struct store *store, const struct email_view *email, const char *id,
                             int64_t until_ms, struct cancel *cancel, char **ret_reason)
{
    _cleanup_free_ char *reason = NULL;
    int error = sync_wait(store->sync, email->inbox, until_ms, cancel, &reason);
    if (error == 0)
        return 0;
    sync_request(store->sync, email->inbox, SYNC_COMPLETE);
    return refuse_mark(store, email, id, error, reason != NULL ? reason : strerror(-error), ret_reason);
}

int store_mark_email(struct store *store, uint32_t email, bool is_valid, struct cancel *cancel,
                     char **ret_reason)
{
    struct index *index = &store->index;
    struct email_view view;
    struct email_record record = {.key = NULL};
    struct service_result result;
    int64_t until_ms = clock_monotonic_ms(index->clock) + MARK_TIMEOUT_MS;
    const char *id = store_get_email_id(store, email);
    if (id == NULL || !store_get_email(store, email, &view))
        return reason_give(ret_reason, -EPERM, "this email has no id");
    store->service->ops->mark_email(store->service, id, is_valid, MARK_TIMEOUT_MS, cancel, &record, &result);
    contact_report(&store->contact, &result);
    int error = result_errno_of_change(&result);
    if (result.outcome == SERVICE_ABSENT)
        error = -EPERM;
    else if (result.outcome == SERVICE_REJECTED && result.error == ENOENT)
        error = -ENOENT;
    if (error != 0)
        error = refuse_mark(store, &view, id, error, result_reason(&result), ret_reason);
    else if (!put_marked_record(index, view.inbox, id, &record))
        error = sync_marked_inbox(store, &view, id, until_ms, cancel, ret_reason);
    struct email_view marked = {.is_quarantined = is_valid};
    (void)store_get_email(store, email, &marked);
    if (error == 0 && marked.is_quarantined == is_valid)
        error = refuse_mark(store, &view, id, -EPERM,
                            is_valid ? "the service holds this email back all the same"
                                     : "the service counts this email as valid all the same",
                            ret_reason);
    if (result.outcome == SERVICE_UNKNOWN)
        sync_request(store->sync, view.inbox, SYNC_COMPLETE);
    email_record_release(&record);
    service_result_release(&result);
    return error;
}

/* ---------------------------------------------------------------- sent mail */

/* Reads the record of sent mail, or makes one if the service has not listed the email yet. */
static int make_sent_record(struct store *store, const char *id, struct email_record *ret_record)
{
    struct email_view view;
    _cleanup_free_ char *json = NULL;
    size_t len;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(EMAIL_RECORD_MAX_BYTES);
    struct json_writer writer;
    if (store_find_sent_by_id(store, id, &view) && store_read_email(store, view.number, &json, &len) == 0)
        return email_record_from_text(json, len, ret_record);
    json_writer_init(&writer, &text, 2);
    json_begin_object(&writer);
    json_member_string(&writer, "id", id);
    json_end_object(&writer);
    return text.error != 0 ? text.error : email_record_from_text(text.data, text.len, ret_record);
}

void store_hide_sent(struct store *store, const char *id)
{
    struct service_capabilities capabilities;
    struct email_record record = {.key = NULL};
    store->service->ops->get_capabilities(store->service, &capabilities);
    /* If the service has no list of sent mail, there is nothing to hide. */
    if (capabilities.inbox_list == CAPABILITY_ABSENT || capabilities.outbound == CAPABILITY_ABSENT)
        return;
    if (make_sent_record(store, id, &record) != 0)
        return;
    record.is_quarantined = true;
    (void)index_put_one_email(&store->index, STORE_SENT, &record);
    email_record_release(&record);
}
