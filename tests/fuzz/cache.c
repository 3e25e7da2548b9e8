/* SPDX-License-Identifier: MIT */
/*
 * The store's cache, which any program may have written. The store opens it and makes an index; each email of
 * the index can be listed and found by its name, and a second opening makes the same index.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/hash.h"
#include "fuzz/state_folder.h"
#include "store/store_private.h"

static void on_event(void *context, const struct event *event)
{
    (void)context, (void)event;
}

static uint64_t hash_emails(struct store *store, uint32_t inbox, uint64_t hash)
{
    struct email_view view;
    struct email_view found;
    for (uint64_t position = 0; store_list_emails(store, inbox, false, position, &view, &position, 1) == 1;) {
        char *json = NULL;
        size_t len = 0;
        FUZZ_CHECK(store_find_email(store, inbox, false, view.name, &found));
        /* A listed email may have lost its record. */
        int error = store_read_email(store, view.number, &json, &len);
        FUZZ_CHECK(error == 0 ? len == view.json_len : error == -EIO);
        hash = hash_bytes(hash, view.name, strlen(view.name));
        if (error == 0)
            hash = hash_bytes(hash, json, len);
        free(json);
    }
    return hash;
}

/* Opens the index. Returns a hash of all its inboxes and emails. */
static uint64_t open_index(int dir_fd)
{
    static const struct store_listener listener = {.context = NULL};
    static const struct event_listener events = {.notify = on_event};
    struct store store = {.service = NULL};
    struct inbox_view inbox;
    struct inbox_view found;
    uint64_t hash = 0;
    FUZZ_CHECK(cache_open(&store.cache, dir_fd) == 0);
    FUZZ_CHECK(index_open(&store.index, clock_system(), &listener, &events, &store.cache) == 0);
    for (uint64_t position = 0; store_next_inbox(&store, &position, &inbox);) {
        char *json = NULL;
        size_t len = 0;
        FUZZ_CHECK(store_find_inbox(&store, inbox.name, &found) && found.number == inbox.number);
        FUZZ_CHECK(store_read_inbox(&store, inbox.number, &json, &len) == 0 && len == inbox.json_len);
        hash = hash_bytes(hash, inbox.name, strlen(inbox.name));
        hash = hash_bytes(hash, json, len);
        free(json);
        hash = hash_emails(&store, inbox.number, hash);
    }
    (void)index_renew_cache(&store.index);
    index_release(&store.index);
    cache_release(&store.cache);
    return hash;
}

/* Adds a row with any texts and any numbers, even those of other rows. The first byte chooses its kind. */
static void put_row(struct connection *connection, const uint8_t *bytes, size_t len)
{
    _cleanup_free_ char *rest = fuzz_string(bytes + 4, len - 4);
    size_t half = strlen(rest) / 2;
    _cleanup_free_ char *key = fuzz_string(rest, half);
    const struct inbox_row inbox = {.number = bytes[1],
                                    .origin = (enum inbox_origin)(bytes[2] % 5),
                                    .is_backfilling = (bytes[3] & 1) != 0,
                                    .is_gone = (bytes[3] & 2) != 0,
                                    .id = key,
                                    .name = rest + half,
                                    .json = rest,
                                    .json_len = strlen(rest)};
    const struct email_view email = {.number = bytes[1],
                                     .inbox = bytes[2],
                                     .json_len = bytes[2],
                                     .line_len = bytes[3],
                                     .is_quarantined = (bytes[3] & 1) != 0,
                                     .record = bytes[3],
                                     .name = rest + half};
    if (bytes[0] % 4 == 0)
        (void)cache_put_inbox(connection, &inbox);
    else if (bytes[0] % 4 == 1)
        (void)cache_put_email(connection, &email, key);
    else if (bytes[0] % 4 == 2)
        (void)cache_add_record(connection, bytes[3], rest, strlen(rest));
    else
        (void)cache_add_replaced(connection, bytes[3]);
}

/* Makes a file of intact rows that may contradict each other. In the input each row is a length and bytes. */
static void put_rows(int dir_fd, const uint8_t *bytes, size_t len)
{
    struct cache cache;
    struct connection *connection;
    FUZZ_CHECK(cache_open(&cache, dir_fd) == 0);
    FUZZ_CHECK(cache_begin_write(&cache, &connection) == 0);
    for (size_t at = 0; at + 1 < len;) {
        size_t left = len - at - 1;
        size_t row = bytes[at] < left ? bytes[at] : left;
        if (row >= 4)
            put_row(connection, bytes + at + 1, row);
        at += 1 + row;
    }
    FUZZ_CHECK(cache_end_write(&cache, 0) == 0);
    cache_release(&cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    int dir_fd = state_folder();
    size_t rows = len > 1 ? (len - 1) * (bytes[0] & 15) / 15 : 0;
    put_rows(dir_fd, bytes + 1, rows);
    if (len > 1)
        state_folder_damage(dir_fd, "mail.sqlite3", bytes + 1 + rows, len - 1 - rows);
    (void)open_index(dir_fd);
    /* The first opening repairs damage. */
    uint64_t hash = open_index(dir_fd);
    FUZZ_CHECK(open_index(dir_fd) == hash);
    return 0;
}
