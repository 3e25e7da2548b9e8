/* SPDX-License-Identifier: MIT */
/*
 * Prints how long a cache takes to open. Machines differ, so the time is not asserted. STORE_EMAILS=N sets
 * the number of emails (default 20,000). The test fills the index directly, so that it times only the store.
 */
#include <fcntl.h>
#include <unistd.h>

#include "support/test.h"

#include "base/file.h"
#include "store/index.h"
#include "store/index_changes.h"
#include "store/search_index.h"
#include "store/store_private.h"
#include "unit/store/store_fixture.h"

enum {
    DEFAULT_EMAILS = 20 * 1000,
    RECORD_BYTES = 600,
};

static uint32_t emails_wanted(void)
{
    const char *wanted = getenv("STORE_EMAILS");
    return wanted == NULL ? DEFAULT_EMAILS : (uint32_t)strtoul(wanted, NULL, 10);
}

/* Returns a `field` of /proc/self/status, in MB. */
static long memory_mb(const char *field)
{
    _cleanup_fclose_ FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    while (status != NULL && fgets(line, sizeof(line), status) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            return strtol(line + strlen(field) + 1, NULL, 10) / 1024;
    return 0;
}

static int64_t now_ms(void)
{
    return clock_monotonic_ms(clock_system());
}

static void open_index(struct store *store, int dir_fd)
{
    const struct store_listener nobody = {0};
    const struct event_listener no_ears = {0};
    assert_int_equal(cache_open(&store->cache, dir_fd), 0);
    assert_int_equal(index_open(&store->index, clock_system(), &nobody, &no_ears, &store->cache), 0);
}

static void close_index(struct store *store)
{
    index_release(&store->index);
    cache_release(&store->cache);
}

static void put(struct index *index, struct email_batch *batch, uint32_t inbox, uint32_t number)
{
    char key[40];
    char stem[80];
    char json[RECORD_BYTES + 1];
    bool is_changed;
    snprintf(key, sizeof(key), "%08x-0000-4000-8000-00000000%04x", number * 2654435761U, number & 0xffff);
    snprintf(stem, sizeof(stem), "20261120T100000Z_a-subject-of-about-the-usual-len_%.8s", key);
    int len = snprintf(json, sizeof(json),
                       "{\"id\": \"%s\", \"n\": %u, \"subject\": \"Word%u of a subject of the usual length\","
                       " \"from_address\": {\"address\": \"sender%u@example.org\", \"name\": \"A Sender\"},"
                       " \"to_addresses\": [{\"address\": \"alice@inbox.example\"}], \"x\": \"",
                       key, number, number % 5003, number % 307);
    memset(json + len, 'x', RECORD_BYTES - (size_t)len);
    memcpy(json + RECORD_BYTES - 3, "\"}\n", 4);
    struct email_record record = {.key = key,
                                  .stem = stem,
                                  .json = json,
                                  .json_len = RECORD_BYTES,
                                  .date_ms = number,
                                  .has_date = true};
    assert_int_equal(index_put_email(index, batch, inbox, &record, &is_changed), 0);
}

static void list_all(struct store *store, uint32_t emails)
{
    struct email_view views[64];
    uint64_t positions[64];
    uint64_t position = 0;
    uint32_t seen = 0;
    size_t count;
    while ((count = store_list_emails(store, 0, false, position, views, positions, 64)) > 0) {
        seen += (uint32_t)count;
        position = positions[count - 1];
    }
    assert_int_equal(seen, emails);
}

TEST(opening_a_full_cache_prints_its_time)
{
    struct temp_dir dir;
    struct store store = {.service = NULL};
    struct index *index = &store.index;
    struct email_batch batch = {.listing = 1};
    uint32_t emails = emails_wanted();
    uint32_t inbox;
    struct inbox_record record;
    temp_dir_init(&dir);
    long empty_mb = memory_mb("VmRSS");
    open_index(&store, dir.fd);
    assert_int_equal(inbox_record_from_id("in-1", &record), 0);
    assert_int_equal(index_put_inbox(index, &record, INBOX_CREATED, 0, &inbox), 0);
    inbox_record_release(&record);

    int64_t started = now_ms();
    for (uint32_t i = 0; i < emails; i++)
        put(index, &batch, inbox, i);
    assert_int_equal(email_batch_flush(&batch, index), 0);
    int64_t filled = now_ms();
    for (uint32_t i = 0; i < emails; i++)
        put(index, &batch, inbox, i);
    assert_int_equal(email_batch_flush(&batch, index), 0);
    int64_t compared = now_ms();
    email_batch_release(&batch);
    while (search_index_process_pending(&store.cache) > 0)
        ;
    int64_t indexed = now_ms();
    close_index(&store);

    int64_t closed = now_ms();
    open_index(&store, dir.fd);
    int64_t opened = now_ms();
    list_all(&store, emails);
    int64_t listed = now_ms();
    print_message("# %u emails: added in %lld ms, met again unchanged in %lld ms, indexed in %lld ms, closed "
                  "in %lld ms, "
                  "opened in %lld ms, listed in %lld ms; RSS %ld MB more than empty\n",
                  emails, (long long)(filled - started), (long long)(compared - filled),
                  (long long)(indexed - compared), (long long)(closed - indexed),
                  (long long)(opened - closed), (long long)(listed - opened), memory_mb("VmRSS") - empty_mb);
    close_index(&store);
    temp_dir_release(&dir);
}
