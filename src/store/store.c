/* SPDX-License-Identifier: MIT */
/*
 * The store: the index, what keeps it fresh, and what changes it, behind one door.
 */
#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "mail/address.h"
#include "mail/reason.h"
#include "store/index.h"
#include "store/search_feed.h"
#include "store/store_content.h"
#include "store/store_private.h"
#include "store/sync.h"

/* ---------------------------------------------------------------- life */

static int open_contents(struct store *store, const struct store_config *config, int dir_fd)
{
    if (config->content_cache_bytes == 0)
        return 0;
    return contents_new(store, dir_fd, config->state_dir_fd, config->content_cache_bytes, &store->contents);
}

/* Its listener takes the place of that for emails. */
static int open_outbound(struct store *store, const struct store_config *config, int dir_fd)
{
    const struct store_listener listener = {.inbox_changed = config->listener.sent_changed,
                                            .email_changed = config->listener.sent_changed,
                                            .context = config->listener.context};
    return outbound_open(&store->outbound, config->service, &listener, &store->index, dir_fd);
}

/* What changes in the index is to be found by searches, too. */
static void on_inbox_changed(void *context, uint32_t inbox, enum store_change change)
{
    const struct store *store = context;
    search_feed_wake(store->search_feed);
    if (store->listener.inbox_changed != NULL)
        store->listener.inbox_changed(store->listener.context, inbox, change);
}

static void on_email_changed(void *context, uint32_t email, enum store_change change)
{
    const struct store *store = context;
    search_feed_note(store->search_feed, email);
    if (store->listener.email_changed != NULL)
        store->listener.email_changed(store->listener.context, email, change);
}

static int open_parts(struct store *store, const struct store_config *config, int dir_fd)
{
    const struct store_listener listener = {
        .inbox_changed = on_inbox_changed, .email_changed = on_email_changed, .context = store};
    int error = cache_open(&store->cache, dir_fd);
    if (error == 0)
        error = records_open_file(&store->records, dir_fd);
    if (error == 0)
        error = index_open(&store->index, config->clock, &listener, &config->events, &store->records,
                           RECORDS_RECEIVED);
    if (error == 0)
        error = open_contents(store, config, dir_fd);
    if (error == 0)
        error = open_outbound(store, config, dir_fd);
    if (error != 0)
        return error;
    index_repair(&store->index);
    store->sync = sync_new(store);
    store->search_feed = search_feed_new(&store->index, dir_fd);
    if (store->sync == NULL || store->search_feed == NULL)
        return -ENOMEM;
    searcher_init(&store->searcher);
    return 0;
}

int store_open(const struct store_config *config, struct store **ret_store, char **ret_reason)
{
    _cleanup_close_ int dir_fd = file_open_dir(config->state_dir_fd, "cache");
    if (dir_fd < 0)
        return reason_give(ret_reason, dir_fd, "the folder of the cache cannot be used: %s",
                           strerror(-dir_fd));
    struct store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return -ENOMEM;
    store->service = config->service;
    store->adopt_state = config->adopt_state;
    store->listener = config->listener;
    store->poll_interval_ms = config->poll_interval_ms;
    contact_init(&store->contact, &store->index);
    pthread_mutex_init(&store->looking_again, NULL);
    int error = open_parts(store, config, dir_fd);
    if (error != 0) {
        store_free(store);
        return error;
    }
    *ret_store = store;
    return 0;
}

int store_start(struct store *store)
{
    int error = search_feed_start(store->search_feed);
    return error != 0 ? error : sync_start(store->sync);
}

void store_stop(struct store *store)
{
    sync_stop(store->sync);
    contents_stop(store->contents);
    search_feed_stop(store->search_feed);
}

void store_free(struct store *store)
{
    if (store == NULL)
        return;
    sync_free(store->sync);
    contents_free(store->contents);
    search_feed_free(store->search_feed);
    searcher_release(&store->searcher);
    outbound_release(&store->outbound);
    contact_release(&store->contact);
    pthread_mutex_destroy(&store->looking_again);
    index_release(&store->index);
    state_file_release(&store->records);
    cache_release(&store->cache);
    free(store);
}

/* ---------------------------------------------------------------- looking */

bool store_find_inbox(struct store *store, const char *name, struct inbox_view *ret)
{
    return index_find_inbox(&store->index, name, ret);
}

bool store_get_inbox(struct store *store, uint32_t inbox, struct inbox_view *ret)
{
    return index_get_inbox(&store->index, inbox, ret);
}

bool store_find_email(struct store *store, uint32_t inbox, const char *name, struct email_view *ret)
{
    return index_find_email(&store->index, inbox, name, ret);
}

bool store_get_email(struct store *store, uint32_t email, struct email_view *ret)
{
    return index_get_email(&store->index, email, ret);
}

bool store_find_email_by_id(struct store *store, uint32_t inbox, const char *id, struct email_view *ret)
{
    return index_find_email_by_id(&store->index, inbox, id, ret);
}

const char *store_get_email_id(struct store *store, uint32_t email)
{
    return index_email_id(&store->index, email);
}

int store_read_inbox(struct store *store, uint32_t inbox, char **ret_json, size_t *ret_len)
{
    return index_read_inbox(&store->index, inbox, ret_json, ret_len);
}

int store_read_email(struct store *store, uint32_t email, char **ret_json, size_t *ret_len)
{
    return index_read_email(&store->index, email, ret_json, ret_len);
}

size_t store_list_inboxes(struct store *store, uint64_t position, struct inbox_view *ret,
                          uint64_t *ret_positions, size_t max)
{
    return index_list_inboxes(&store->index, position, ret, ret_positions, max);
}

size_t store_list_emails(struct store *store, uint32_t inbox, uint64_t position, struct email_view *ret,
                         uint64_t *ret_positions, size_t max)
{
    return index_list_emails(&store->index, inbox, position, ret, ret_positions, max);
}

bool store_knows_all_mail(struct store *store)
{
    return atomic_load(&store->index.records.first_sync_done);
}

bool store_shows_held(struct store *store)
{
    return index_shows_held(&store->index);
}

bool store_find_held(struct store *store, uint32_t inbox, const char *name, struct email_view *ret)
{
    return index_find_held(&store->index, inbox, name, ret);
}

size_t store_list_held(struct store *store, uint32_t inbox, uint64_t position, struct email_view *ret,
                       uint64_t *ret_positions, size_t max)
{
    return index_list_held(&store->index, inbox, position, ret, ret_positions, max);
}

bool store_find_sent(struct store *store, const char *name, struct email_view *ret)
{
    return index_find_email(&store->outbound.index, store->outbound.inbox, name, ret);
}

bool store_find_sent_by_id(struct store *store, const char *id, struct email_view *ret)
{
    struct index *index = &store->outbound.index;
    struct email_view found;
    return index_find_email_by_id(index, store->outbound.inbox, id, &found) &&
           index_get_email(index, found.number, ret);
}

bool store_get_sent(struct store *store, uint32_t sent, struct email_view *ret)
{
    return index_get_email(&store->outbound.index, sent, ret);
}

int store_read_sent(struct store *store, uint32_t sent, char **ret_json, size_t *ret_len)
{
    return index_read_email(&store->outbound.index, sent, ret_json, ret_len);
}

const char *store_get_sent_id(struct store *store, uint32_t sent)
{
    return index_email_id(&store->outbound.index, sent);
}

void store_hide_sent(struct store *store, const char *id)
{
    struct service_capabilities capabilities;
    store->service->ops->get_capabilities(store->service, &capabilities);
    /* A service without the list brings nothing to be hidden. Without memory it shows once more. */
    if (capabilities.inbox_list != CAPABILITY_ABSENT && capabilities.outbound != CAPABILITY_ABSENT)
        (void)outbound_hide(&store->outbound, id);
}

size_t store_list_sent(struct store *store, uint64_t position, struct email_view *ret,
                       uint64_t *ret_positions, size_t max)
{
    return index_list_emails(&store->outbound.index, store->outbound.inbox, position, ret, ret_positions,
                             max);
}

int64_t store_inboxes_changed_ms(struct store *store)
{
    return index_inboxes_changed_ms(&store->index);
}

/* 0, -ENOENT, -EXDEV, as store_find_by_message_id(). */
static int check_inbox(struct store *store, const char *email_id, const char *from)
{
    struct email_view email;
    struct inbox_view inbox;
    /* Ids are the service's own, so it does not matter which inbox is looked through first. */
    if (!index_find_email_by_id(&store->index, 0, email_id, &email) ||
        !index_get_inbox(&store->index, email.inbox, &inbox))
        return -ENOENT;
    return inbox.address != NULL && address_equals(inbox.address, from) ? 0 : -EXDEV;
}

int store_find_by_message_id(struct store *store, const char *message_id, const char *from,
                             char **ret_email_id)
{
    char *email_ids[MESSAGE_IDS_EMAILS_MAX];
    size_t len;
    int error = message_ids_find(&store->cache, message_id, email_ids, &len);
    if (error != 0)
        return error;
    error = -ENOENT;
    for (size_t i = 0; i < len; i++) {
        int result = error == 0 ? -ENOENT : check_inbox(store, email_ids[i], from);
        if (result == 0)
            *ret_email_id = TAKE_PTR(email_ids[i]);
        if (result != -ENOENT)
            error = result;
        free(email_ids[i]);
    }
    return error;
}

bool store_is_offline(struct store *store)
{
    return !contact_is_online(&store->contact);
}

void store_get_status(struct store *store, struct store_status *ret)
{
    *ret = (struct store_status){0};
    contact_get_status(&store->contact, ret);
    sync_get_status(store->sync, ret);
    index_count(&store->index, &ret->inboxes, &ret->emails);
    const struct index_size size = index_get_size(&store->index);
    ret->kept_emails = size.emails;
    ret->kept_emails_max = store->index.max.emails;
    ret->kept_bytes = size.bytes;
    ret->kept_bytes_max = store->index.max.bytes;
}
