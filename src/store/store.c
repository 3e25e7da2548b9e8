/* SPDX-License-Identifier: MIT */
/*
 * Opens, stops and frees the parts of the store.
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
#include "store/store_content.h"
#include "store/store_private.h"
#include "store/sync.h"

/* ---------------------------------------------------------------- life */

static int open_parts(struct store *store, const struct store_config *config, int dir_fd)
{
    int error = cache_open(&store->cache, dir_fd);
    if (error == 0)
        error = index_open(&store->index, config->clock, &config->listener, &config->events, &store->cache);
    if (error != 0)
        return error;
    take_over_version_0_2(store, dir_fd, config->state_dir_fd);
    if (config->content_cache_bytes > 0)
        error = contents_new(store, dir_fd, config->content_cache_bytes, &store->contents);
    if (error == 0)
        store->sync = sync_new(store);
    return error;
}

int store_open(const struct store_config *config, struct store **ret_store, char **ret_reason)
{
    _cleanup_close_ int dir_fd = file_open_dir(config->state_dir_fd, "cache");
    if (dir_fd < 0)
        return reason_give(ret_reason, dir_fd, "the folder of the cache cannot be used: %s",
                           strerror(-dir_fd));
    struct store *store = g_new0(struct store, 1);
    store->service = config->service;
    store->adopt_state = config->adopt_state;
    store->poll_interval_ms = config->poll_interval_ms;
    contact_init(&store->contact, &store->index);
    pthread_mutex_init(&store->inbox_list_lock, NULL);
    int error = open_parts(store, config, dir_fd);
    if (error != 0) {
        store_free(store);
        return reason_give(ret_reason, error, "the cache (cache/mail.sqlite3) cannot be opened: %s",
                           strerror(-error));
    }
    *ret_store = store;
    return 0;
}

void store_stop(struct store *store)
{
    contents_stop(store->contents); /* ends the probe, which the sync thread may wait for */
    sync_stop(store->sync);
}

void store_free(struct store *store)
{
    if (store == NULL)
        return;
    sync_free(store->sync);
    contents_free(store->contents);
    contact_release(&store->contact);
    pthread_mutex_destroy(&store->inbox_list_lock);
    index_release(&store->index);
    cache_release(&store->cache);
    free(store);
}

/* ---------------------------------------------------------------- queries */

int store_find_by_message_id(struct store *store, const char *message_id, const char *from,
                             char **ret_email_id)
{
    struct cache *cache = &store->cache;
    _cleanup_reader_ struct connection *reader = NULL;
    _cleanup_statement_ struct statement statement = {0};
    struct email_view email;
    struct inbox_view inbox;
    int error = cache_report_error(cache, database_take_reader(cache->database, &reader));
    if (error == 0)
        error = cache_report_error(
            cache,
            query_begin(reader, &statement, "SELECT email FROM message_ids WHERE digest = ? ORDER BY number",
                        "i", cache_digest(message_id)));
    if (error != 0)
        return error;
    error = -ENOENT;
    int more = 0;
    while (error != 0 && (more = query_step(statement.row)) > 0) {
        const char *id = query_column_text(statement.row, 0); /* the id of an email of any inbox */
        if (!store_find_email_by_id(store, 0, id, &email) || !store_get_inbox(store, email.inbox, &inbox))
            continue;
        error = inbox.address != NULL && address_equals(inbox.address, from) ? 0 : -EXDEV;
        if (error == 0)
            *ret_email_id = g_strdup(id);
    }
    return error != 0 && more < 0 ? cache_report_error(cache, more) : error;
}

void store_get_status(struct store *store, struct store_status *ret)
{
    *ret = (struct store_status){0};
    contact_get_status(&store->contact, ret);
    sync_get_status(store->sync, ret);
    const struct index_shown shown = index_count_shown(&store->index);
    ret->inboxes = shown.inboxes;
    ret->emails = shown.emails;
    const struct index_size size = index_get_size(&store->index);
    ret->kept_emails = size.emails;
    ret->kept_emails_max = store->index.max.emails;
    ret->kept_bytes = size.bytes;
    ret->kept_bytes_max = store->index.max.bytes;
}
