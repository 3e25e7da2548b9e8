/* SPDX-License-Identifier: MIT */
/*
 * Content of emails: the probe, transfers, the cache and its bound, and fetching ahead.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"

#include "base/file.h"
#include "mail/email_head.h"
#include "sql/query.h"
#include "store/content_cache.h"
#include "store/store_content.h"
#include "unit/store/store_fixture.h"

#define MEGABYTE (UINT64_C(1) << 20)

static void add_content(struct store_fixture *fixture, const char *id, const char *body)
{
    _cleanup_free_ char *json = NULL;
    assert_true(asprintf(&json,
                         "{\"id\":\"%s\",\"subject\":\"S\",\"plain_text\":\"%s\",\"html\":\"<p>x</p>\","
                         "\"attachments\":[{\"id\":\"a1\",\"filename\":\"r.pdf\"}]}",
                         id, body) > 0);
    fake_service_set_content(fixture->fake, id, json);
    fake_service_set_bytes(fixture->fake, id, NULL, body, strlen(body));
    fake_service_set_bytes(fixture->fake, id, "a1", "PDF", 3);
}

/* Adds emails with content, beginning with 00000000-in-1. */
static void set_up(struct store_fixture *fixture, int emails)
{
    fixture_init_with_alice(fixture);
    fixture->content_cache_bytes = 100 * MEGABYTE;
    fixture_add_emails(fixture, "in-1", 0, emails);
    for (int i = 0; i < emails; i++) {
        char id[64];
        char body[32];
        snprintf(id, sizeof(id), "%08d-in-1", i);
        snprintf(body, sizeof(body), "body %d", i);
        add_content(fixture, id, body);
    }
}

static bool hears(struct store_fixture *fixture, const char *word)
{
    pthread_mutex_lock(&fixture->lock);
    bool is_heard = strstr(strbuf_str(&fixture->changes), word) != NULL;
    pthread_mutex_unlock(&fixture->lock);
    return is_heard;
}

static void await(bool (*condition)(struct store_fixture *fixture), struct store_fixture *fixture)
{
    for (int i = 0; i < 2000 && !condition(fixture); i++)
        usleep(10 * 1000);
    assert_true(condition(fixture));
}

static bool has_all(struct store_fixture *fixture)
{
    return store_has_content(fixture->store) && store_has_raw(fixture->store) && hears(fixture, "content;");
}

static void start_and_sync(struct store_fixture *fixture)
{
    fixture_start(fixture);
    assert_int_equal(fixture_sync(fixture), 0);
}

static uint32_t find(struct store_fixture *fixture, const char *id)
{
    struct email_view view;
    assert_true(
        store_find_email_by_id(fixture->store, fixture_inbox(fixture, "alice@inbox.example"), id, &view));
    return view.number;
}

/* Returns the first line of a file in the email's folder. */
static char *read_text(struct store_fixture *fixture, uint32_t email, const char *name)
{
    struct store_content *content;
    assert_int_equal(store_content_get(fixture->store, email, NULL, &content), 0);
    const struct content_entry *entry = content_folder_find(&content->folder, CONTENT_TEXT, name);
    assert_non_null(entry);
    char *text = calloc(1, entry->len + 1);
    memcpy(text, entry->bytes, entry->len);
    store_content_unref(content);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static void assert_text(struct store_fixture *fixture, const char *id, const char *expected)
{
    _cleanup_free_ char *text = read_text(fixture, find(fixture, id), "body.txt");
    assert_string_equal(text, expected);
}

struct reader {
    struct store_fixture *fixture;
    uint32_t email;
    struct cancel *cancel; /* NULL if the reader is not interrupted */
    char *text;
    int error;
    atomic_bool is_done;
};

/* ---------------------------------------------------------------- the probe */

TEST(the_first_sync_finds_content_and_raw_messages)
{
    struct store_fixture fixture;
    set_up(&fixture, 3);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    fixture_restart(&fixture);
    assert_true(store_has_content(fixture.store)); /* from the cache, without a request */
    assert_true(store_has_raw(fixture.store));
    fixture_release(&fixture);
}

TEST(content_without_raw_messages_is_remembered_for_the_next_mount)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture.content_cache_bytes = MEGABYTE;
    fixture_add_emails(&fixture, "in-1", 0, 1);
    fake_service_set_content(fixture.fake, "00000000-in-1",
                             "{\"id\":\"00000000-in-1\",\"plain_text\":\"x\"}");
    start_and_sync(&fixture);
    assert_true(store_has_content(fixture.store));
    fixture_restart(&fixture);
    assert_true(store_has_content(fixture.store));
    assert_false(store_has_raw(fixture.store));
    fixture_release(&fixture);
}

TEST(a_sync_of_all_inboxes_waits_for_the_probe)
{
    struct store_fixture fixture;
    set_up(&fixture, 3);
    start_and_sync(&fixture);
    assert_true(has_all(&fixture));
    fixture_release(&fixture);
}

TEST(the_next_sync_finds_the_first_content_of_an_account)
{
    struct store_fixture fixture;
    set_up(&fixture, 0);
    start_and_sync(&fixture);
    assert_false(store_has_content(fixture.store));
    fixture_add_emails(&fixture, "in-1", 0, 1);
    add_content(&fixture, "00000000-in-1", "body 0");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_true(has_all(&fixture));
    fixture_release(&fixture);
}

static void *sync_it(void *argument)
{
    struct reader *reader = argument;
    _cleanup_free_ char *reason = NULL;
    reader->error = store_sync(reader->fixture->store, NULL, reader->cancel, &reason);
    reader->is_done = true;
    return NULL;
}

TEST(an_interrupted_sync_does_not_wait_for_the_probe)
{
    struct store_fixture fixture;
    struct cancel cancel;
    pthread_t thread;
    set_up(&fixture, 3);
    cancel_init(&cancel);
    fixture_start(&fixture);
    fake_service_close_gate(fixture.fake, FAKE_GET_CONTENT);
    struct reader interrupted = {.fixture = &fixture, .cancel = &cancel};
    assert_int_equal(pthread_create(&thread, NULL, sync_it, &interrupted), 0);
    fake_service_wait_at_gate(fixture.fake, FAKE_GET_CONTENT, 1);
    cancel_set(&cancel);
    pthread_join(thread, NULL);
    assert_int_equal(interrupted.error, -EINTR);
    fixture_close(&fixture); /* does not wait for the probe either */
    cancel_release(&cancel);
    fixture_release(&fixture);
}

TEST(an_unanswered_probe_ends_after_half_a_minute)
{
    struct store_fixture fixture;
    pthread_t thread;
    set_up(&fixture, 3);
    fixture_start(&fixture);
    fake_service_close_gate(fixture.fake, FAKE_GET_CONTENT);
    struct reader patient = {.fixture = &fixture};
    assert_int_equal(pthread_create(&thread, NULL, sync_it, &patient), 0);
    fake_service_wait_at_gate(fixture.fake, FAKE_GET_CONTENT, 1);
    fake_clock_advance(&fixture.clock, 29 * 1000);
    assert_false(patient.is_done);
    fake_clock_advance(&fixture.clock, 1000);
    pthread_join(thread, NULL);
    assert_int_equal(patient.error, 0);
    assert_false(store_has_content(fixture.store));
    fake_service_open_gate(fixture.fake, FAKE_GET_CONTENT);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_true(has_all(&fixture));
    fixture_release(&fixture);
}

static bool was_asked_for_two(struct store_fixture *fixture)
{
    return fake_service_count(fixture->fake, FAKE_GET_CONTENT) >= 2;
}

TEST(no_content_is_reported_for_a_service_without_content)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture.content_cache_bytes = MEGABYTE;
    fixture_add_emails(&fixture, "in-1", 0, 3);
    start_and_sync(&fixture);
    await(was_asked_for_two, &fixture);
    fixture_close(&fixture);
    assert_false(hears(&fixture, "content;"));
    fixture_release(&fixture);
}

TEST(a_store_without_a_content_cache_requests_no_content)
{
    struct store_fixture fixture;
    set_up(&fixture, 3);
    fixture.content_cache_bytes = 0;
    start_and_sync(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    struct store_content *content;
    assert_int_equal(store_content_get(fixture.store, find(&fixture, "00000001-in-1"), NULL, &content),
                     -ENOENT);
    assert_false(store_has_content(fixture.store));
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_CONTENT), 0);
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- transfers and the cache */

TEST(content_is_fetched_once_and_read_offline)
{
    struct store_fixture fixture;
    set_up(&fixture, 3);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    assert_text(&fixture, "00000001-in-1", "body 1");
    struct store_content *bytes;
    uint32_t email = find(&fixture, "00000001-in-1");
    assert_int_equal(store_content_get_bytes(fixture.store, email, "a1", NULL, &bytes), 0);
    assert_int_equal(bytes->bytes.len, 3);
    store_content_unref(bytes);
    fixture_close(&fixture);

    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_CONTENT);
    fake_service_set_reachable(fixture.fake, false);
    fixture_open(&fixture);
    assert_text(&fixture, "00000001-in-1", "body 1");
    email = find(&fixture, "00000001-in-1");
    assert_int_equal(store_content_get_bytes(fixture.store, email, "a1", NULL, &bytes), 0);
    store_content_unref(bytes);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_CONTENT), before);
    fixture_release(&fixture);
}

static int open_raw(struct store_fixture *fixture, const char *id)
{
    struct store_content *bytes = NULL;
    int error = store_content_get_bytes(fixture->store, find(fixture, id), NULL, NULL, &bytes);
    store_content_unref(bytes);
    return error;
}

TEST(the_probe_does_not_read_a_long_message_to_its_end)
{
    size_t len = 3 * MEGABYTE;
    struct store_fixture fixture;
    _cleanup_free_ char *text = calloc(1, len);
    assert_non_null(text);
    set_up(&fixture, 1);
    fake_service_set_bytes(fixture.fake, "00000000-in-1", NULL, text, len);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_RAW), 1);
    assert_int_equal(open_raw(&fixture, "00000000-in-1"), 0); /* the probe did not store it */
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_RAW), 2);
    fixture_release(&fixture);
}

static void *read_it(void *argument)
{
    struct reader *reader = argument;
    reader->text = read_text(reader->fixture, reader->email, "body.txt");
    return NULL;
}

TEST(twenty_readers_share_one_request)
{
    enum {
        READERS = 20
    };
    struct store_fixture fixture;
    struct reader readers[READERS];
    pthread_t threads[READERS];
    set_up(&fixture, 6);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_CONTENT);
    fake_service_close_gate(fixture.fake, FAKE_GET_CONTENT);
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.fixture = &fixture, .email = find(&fixture, "00000002-in-1")};
        assert_int_equal(pthread_create(&threads[i], NULL, read_it, &readers[i]), 0);
    }
    fake_service_wait_at_gate(fixture.fake, FAKE_GET_CONTENT, 1);
    fake_service_open_gate(fixture.fake, FAKE_GET_CONTENT);
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        assert_string_equal(readers[i].text, "body 2");
        free(readers[i].text);
    }
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_CONTENT), before + 1);
    fixture_release(&fixture);
}

static void *get_it(void *argument)
{
    struct reader *reader = argument;
    struct store_content *content;
    reader->error = store_content_get(reader->fixture->store, reader->email, reader->cancel, &content);
    if (reader->error == 0)
        store_content_unref(content);
    return NULL;
}

TEST(an_interrupted_reader_leaves_the_transfer_to_others)
{
    struct store_fixture fixture;
    struct cancel cancel;
    pthread_t thread;
    set_up(&fixture, 6);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    cancel_init(&cancel);
    fake_service_close_gate(fixture.fake, FAKE_GET_CONTENT);
    struct reader reader = {.fixture = &fixture, .email = find(&fixture, "00000003-in-1"), .cancel = &cancel};
    assert_int_equal(pthread_create(&thread, NULL, get_it, &reader), 0);
    fake_service_wait_at_gate(fixture.fake, FAKE_GET_CONTENT, 1);
    cancel_set(&cancel);
    pthread_join(thread, NULL);
    assert_int_equal(reader.error, -EINTR);
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_CONTENT);
    fake_service_open_gate(fixture.fake, FAKE_GET_CONTENT);
    assert_text(&fixture, "00000003-in-1", "body 3");
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_CONTENT), before + 1);
    cancel_release(&cancel);
    fixture_release(&fixture);
}

/* The thread that reads the device must not wait for the service (fs/request_loop.h). */
TEST(a_read_with_a_set_cancel_gets_content_from_the_cache_alone)
{
    struct store_fixture fixture;
    struct cancel cancel;
    struct store_content *content;
    set_up(&fixture, 6);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    assert_text(&fixture, "00000003-in-1", "body 3");
    fixture_restart(&fixture);
    cancel_init(&cancel);
    cancel_set(&cancel);
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_CONTENT);
    assert_int_equal(store_content_get(fixture.store, find(&fixture, "00000003-in-1"), &cancel, &content), 0);
    store_content_unref(content);
    assert_int_equal(store_content_get(fixture.store, find(&fixture, "00000002-in-1"), &cancel, &content),
                     -EINTR);
    fixture_close(&fixture); /* ends queued transfers */
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_CONTENT), before);
    cancel_release(&cancel);
    fixture_release(&fixture);
}

struct ending {
    struct store_fixture *fixture;
    atomic_bool is_over;
};

static void *end_it(void *argument)
{
    struct ending *ending = argument;
    store_stop(ending->fixture->store);
    ending->is_over = true;
    return NULL;
}

/* An unmount must not wait for the service. */
TEST(stopping_the_store_waits_for_no_transfer)
{
    struct store_fixture fixture;
    struct ending ending = {.fixture = &fixture};
    pthread_t reading;
    pthread_t stopping;
    set_up(&fixture, 6);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    fake_service_close_gate(fixture.fake, FAKE_GET_CONTENT);
    struct reader reader = {.fixture = &fixture, .email = find(&fixture, "00000003-in-1")};
    assert_int_equal(pthread_create(&reading, NULL, get_it, &reader), 0);
    fake_service_wait_at_gate(fixture.fake, FAKE_GET_CONTENT, 1);
    assert_int_equal(pthread_create(&stopping, NULL, end_it, &ending), 0);
    for (int i = 0; i < 2000 && !ending.is_over; i++)
        usleep(10 * 1000);
    assert_true(ending.is_over);
    pthread_join(stopping, NULL);
    pthread_join(reading, NULL);
    assert_int_not_equal(reader.error, 0);
    fake_service_open_gate(fixture.fake, FAKE_GET_CONTENT);
    fixture_release(&fixture);
}

TEST(a_transfer_without_readers_is_not_begun)
{
    enum {
        AT_ONCE = 16,
        APART = 10 /* positions between the emails that are read, so that nothing is fetched ahead */
    };
    struct store_fixture fixture;
    struct cancel cancel;
    struct reader readers[AT_ONCE + 1];
    pthread_t threads[AT_ONCE];
    set_up(&fixture, (AT_ONCE + 2) * APART);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    for (int i = 0; i <= AT_ONCE; i++) {
        char id[64];
        snprintf(id, sizeof(id), "%08d-in-1", i * APART + APART / 2);
        readers[i] = (struct reader){.fixture = &fixture, .email = find(&fixture, id)};
    }
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_CONTENT);
    fake_service_close_gate(fixture.fake, FAKE_GET_CONTENT);
    for (size_t i = 0; i < AT_ONCE; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_it, &readers[i]), 0);
    fake_service_wait_at_gate(fixture.fake, FAKE_GET_CONTENT, AT_ONCE);
    cancel_init(&cancel);
    cancel_set(&cancel);
    readers[AT_ONCE].cancel = &cancel;
    get_it(&readers[AT_ONCE]);
    assert_int_equal(readers[AT_ONCE].error, -EINTR);
    fake_service_open_gate(fixture.fake, FAKE_GET_CONTENT);
    for (size_t i = 0; i < AT_ONCE; i++) {
        pthread_join(threads[i], NULL);
        free(readers[i].text);
    }
    fixture_close(&fixture); /* ends queued transfers */
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_CONTENT), before + AT_ONCE);
    cancel_release(&cancel);
    fixture_release(&fixture);
}

TEST(a_read_times_out_after_half_a_minute_and_the_transfer_continues)
{
    struct store_fixture fixture;
    pthread_t thread;
    set_up(&fixture, 6);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_CONTENT);
    fake_service_close_gate(fixture.fake, FAKE_GET_CONTENT);
    struct reader reader = {.fixture = &fixture, .email = find(&fixture, "00000002-in-1")};
    assert_int_equal(pthread_create(&thread, NULL, get_it, &reader), 0);
    fake_service_wait_at_gate(fixture.fake, FAKE_GET_CONTENT, 1);
    fake_clock_await_waiters(&fixture.clock, 2); /* the reader, and the thread of the sync */
    fake_clock_advance(&fixture.clock, 30 * 1000);
    pthread_join(thread, NULL);
    assert_int_equal(reader.error, -ETIMEDOUT);
    fake_service_open_gate(fixture.fake, FAKE_GET_CONTENT);
    assert_text(&fixture, "00000002-in-1", "body 2");
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_CONTENT), before + 1);
    fixture_release(&fixture);
}

TEST(each_failure_of_a_content_request_has_its_errno)
{
    static const struct {
        struct fake_outcome outcome;
        int error;
    } cases[] = {
        {{.outcome = SERVICE_REJECTED, .http_status = 404, .error = ENOENT}, -ENOENT},
        {{.outcome = SERVICE_ABSENT}, -ENOENT},
        {{.outcome = SERVICE_UNAUTHORIZED}, -EACCES},
        {{.outcome = SERVICE_RETRY, .http_status = 500, .error = EIO}, -EIO},
        {{.outcome = SERVICE_RETRY, .error = ETIMEDOUT}, -ETIMEDOUT},
        {{.outcome = SERVICE_REJECTED, .http_status = 400}, -EIO},
        {{.outcome = SERVICE_RETRY, .http_status = 429, .error = EAGAIN, .retry_after_ms = 3600000}, -EAGAIN},
        {{.outcome = SERVICE_RETRY}, -EHOSTUNREACH},
    };
    struct store_fixture fixture;
    struct store_content *content;
    set_up(&fixture, 6);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    uint32_t email = find(&fixture, "00000002-in-1");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fake_service_push(fixture.fake, FAKE_GET_CONTENT, cases[i].outcome);
        int error = store_content_get(fixture.store, email, NULL, &content);
        if (error != cases[i].error)
            fail_msg("case %zu: %d", i, error);
    }
    /* For some seconds no reader tries the unreachable service again. */
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_CONTENT);
    assert_int_equal(store_content_get(fixture.store, email, NULL, &content), -EHOSTUNREACH);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_CONTENT), before);
    fake_clock_advance(&fixture.clock, 10 * 1000);
    assert_text(&fixture, "00000002-in-1", "body 2");
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- the cache on the disk */

/* Executes a statement on the cache of a closed store. */
static void change_cache(struct store_fixture *fixture, const char *sql)
{
    char path[4096];
    sqlite3 *db;
    snprintf(path, sizeof(path), "%s/cache/mail.sqlite3", fixture->dir.path);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(query_script(db, sql), 0);
    assert_true(sqlite3_changes(db) > 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Stores the texts and the raw message of an email in the cache, and closes the store. */
static void keep_two_parts(struct store_fixture *fixture)
{
    assert_text(fixture, "00000001-in-1", "body 1");
    assert_int_equal(open_raw(fixture, "00000001-in-1"), 0);
    fixture_close(fixture);
}

TEST(damaged_content_is_fetched_again)
{
    static const char *const damages[] = {
        "UPDATE part_bytes SET bytes = CAST(substr(bytes, 1, 9) || x'ff' || substr(bytes, 11) AS BLOB)",
        "UPDATE part_bytes SET bytes = CAST(substr(bytes, 1, length(bytes) / 2) AS BLOB)",
        "UPDATE part_bytes SET bytes = x''",
        "UPDATE parts SET len = len + 1",
        "DELETE FROM part_bytes",
    };
    struct store_fixture fixture;
    set_up(&fixture, 3);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        struct store_content *raw;
        keep_two_parts(&fixture);
        change_cache(&fixture, damages[i]);
        fixture_start(&fixture);
        assert_text(&fixture, "00000001-in-1", "body 1");
        assert_int_equal(
            store_content_get_bytes(fixture.store, find(&fixture, "00000001-in-1"), NULL, NULL, &raw), 0);
        assert_int_equal(raw->bytes.len, 6);
        assert_string_equal(raw->bytes.bytes, "body 1");
        store_content_unref(raw);
    }
    fixture_release(&fixture);
}

/* Raw messages may have 512 MB. */
TEST(the_length_of_a_part_is_known_without_reading_its_bytes)
{
    struct store_fixture fixture;
    uint64_t len = 0;
    set_up(&fixture, 3);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    keep_two_parts(&fixture);
    change_cache(&fixture, "UPDATE part_bytes SET bytes = x'00'");
    fixture_start(&fixture);
    uint32_t email = find(&fixture, "00000001-in-1");
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_RAW);
    assert_int_equal(store_content_get_len(fixture.store, email, NULL, NULL, &len), 0);
    assert_int_equal(len, strlen("body 1"));
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_RAW), before);
    assert_int_equal(open_raw(&fixture, "00000001-in-1"), 0);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_RAW), before + 1);
    fixture_release(&fixture);
}

/* Calls `act`, which may damage the file, for each file in cache/parts. Returns the number of files. */
static unsigned int for_each_file(struct store_fixture *fixture, void (*act)(int fd))
{
    unsigned int files = 0;
    int dir_fd = openat(fixture->dir.fd, "cache/parts", O_RDONLY | O_DIRECTORY);
    DIR *dir = fdopendir(dir_fd);
    assert_non_null(dir);
    const struct dirent *item;
    while ((item = readdir(dir)) != NULL) {
        if (item->d_name[0] == '.')
            continue;
        _cleanup_close_ int fd = openat(dir_fd, item->d_name, O_RDWR);
        files++;
        if (act != NULL)
            act(fd);
    }
    closedir(dir);
    return files;
}

static void flip_a_byte(int fd)
{
    char c;
    assert_int_equal(pread(fd, &c, 1, 2), 1);
    c = (char)(c ^ 1);
    assert_int_equal(pwrite(fd, &c, 1, 2), 1);
}

static void cut_in_two(int fd)
{
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(ftruncate(fd, status.st_size / 2), 0);
}

TEST(a_long_message_is_a_file_and_is_fetched_again_if_damaged)
{
    static void (*const damages[])(int fd) = {flip_a_byte, cut_in_two};
    struct store_fixture fixture;
    struct store_content *raw;
    set_up(&fixture, 3);
    size_t len = 3 * MEGABYTE;
    _cleanup_free_ char *big = calloc(1, len);
    fake_service_set_bytes(fixture.fake, "00000001-in-1", NULL, big, len);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        char bytes[4] = "";
        assert_int_equal(open_raw(&fixture, "00000001-in-1"), 0);
        unsigned int before = fake_service_count(fixture.fake, FAKE_GET_RAW);
        fixture_restart(&fixture);
        assert_int_equal(open_raw(&fixture, "00000001-in-1"), 0);
        assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_RAW), before);
        assert_int_equal(for_each_file(&fixture, damages[i]), 1);
        assert_int_equal(
            store_content_get_bytes(fixture.store, find(&fixture, "00000001-in-1"), NULL, NULL, &raw), 0);
        assert_int_equal(raw->bytes.len, len);
        assert_int_equal(pread(raw->bytes.fd, bytes, sizeof(bytes), 1), sizeof(bytes));
        assert_memory_equal(bytes, "\0\0\0\0", sizeof(bytes));
        store_content_unref(raw);
        assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_RAW), before + 1);
    }
    fixture_release(&fixture);
}

static bool has_no_old_folder(struct store_fixture *fixture)
{
    return faccessat(fixture->dir.fd, "content", F_OK, 0) != 0;
}

TEST(unfinished_files_and_files_of_version_0_2_are_removed)
{
    struct store_fixture fixture;
    set_up(&fixture, 1);
    start_and_sync(&fixture);
    fixture_close(&fixture);
    assert_int_equal(mkdirat(fixture.dir.fd, "content", 0700), 0);
    close(openat(fixture.dir.fd, "content/new-0badcafe-1", O_WRONLY | O_CREAT, 0600));
    close(openat(fixture.dir.fd, "cache/parts/new-1", O_WRONLY | O_CREAT, 0600));
    close(openat(fixture.dir.fd, "cache/parts/123", O_WRONLY | O_CREAT, 0600));
    start_and_sync(&fixture);
    assert_int_equal(for_each_file(&fixture, NULL), 0);
    await(has_no_old_folder, &fixture);
    fixture_release(&fixture);
}

TEST(content_can_be_read_on_a_full_disk_but_is_not_stored)
{
    struct store_fixture fixture;
    set_up(&fixture, 3);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    fixture_close(&fixture);
    change_cache(&fixture,
                 "CREATE TRIGGER full BEFORE INSERT ON parts BEGIN SELECT RAISE(ABORT, 'full'); END;"
                 "UPDATE marks SET value = value");
    fixture_start(&fixture);
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_RAW);
    assert_text(&fixture, "00000001-in-1", "body 1");
    for (unsigned int i = 1; i <= 2; i++) {
        assert_int_equal(open_raw(&fixture, "00000001-in-1"), 0);
        assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_RAW), before + i);
    }
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- the bound of the cache */

enum {
    PART_BYTES = 1000,
    PARTS_THAT_FIT = 100,
};

struct small_cache {
    struct temp_dir dir;
    struct cache cache;
    struct content_cache content;
};

static void small_cache_open(struct small_cache *small)
{
    assert_int_equal(cache_open(&small->cache, small->dir.fd), 0);
    assert_int_equal(content_cache_open(&small->content, &small->cache, small->dir.fd,
                                        (uint64_t)PARTS_THAT_FIT * PART_BYTES),
                     0);
}

static void small_cache_init(struct small_cache *small)
{
    temp_dir_init(&small->dir);
    small_cache_open(small);
}

static void small_cache_close(struct small_cache *small)
{
    content_cache_release(&small->content);
    cache_release(&small->cache);
}

/* Stores under this number a part that takes PART_BYTES with its row. */
static void put(struct small_cache *small, int64_t number)
{
    char random[PART_BYTES];
    int fd = open("/dev/urandom", O_RDONLY);
    assert_int_equal(read(fd, random, sizeof(random)), sizeof(random));
    close(fd);
    struct content_bytes bytes = {.bytes = random, .fd = -1, .len = 880};
    const struct content_new_part part = {.key = number, .bytes = &bytes};
    assert_int_equal(content_cache_put(&small->content, &part), 0);
}

static bool has(struct small_cache *small, int64_t number)
{
    struct content_bytes bytes;
    int error = content_cache_read(&small->content, number, &bytes);
    if (error == 0)
        content_bytes_release(&bytes);
    return error == 0;
}

static unsigned int count_kept(struct small_cache *small, int64_t first, int64_t end)
{
    unsigned int kept = 0;
    for (int64_t number = first; number < end; number++)
        kept += has(small, number);
    return kept;
}

TEST(one_pass_over_more_than_the_cache_holds_keeps_most_of_the_cache)
{
    struct small_cache small;
    small_cache_init(&small);
    for (int pass = 0; pass < 3; pass++) {
        unsigned int found = 0;
        for (int64_t number = 0; number < 3 * (int64_t)PARTS_THAT_FIT; number++) {
            bool is_there = has(&small, number);
            found += is_there;
            if (!is_there)
                put(&small, number);
        }
        assert_true(pass == 0 || found >= PARTS_THAT_FIT * 85 / 100);
    }
    assert_true(count_kept(&small, 0, (int64_t)3 * PARTS_THAT_FIT) <= PARTS_THAT_FIT);
    assert_true(has(&small, 3 * PARTS_THAT_FIT - 1)); /* the part that was stored last */
    small_cache_close(&small);
    temp_dir_release(&small.dir);
}

/* Moves the time of each part's last use two hours back. */
static void change_use_times(struct small_cache *small)
{
    char path[4096];
    sqlite3 *db;
    snprintf(path, sizeof(path), "%s/mail.sqlite3", small->dir.path);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(query_script(db, "UPDATE parts SET used_s = used_s - 7200"), 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

TEST(content_that_is_read_again_replaces_content_that_is_not)
{
    struct small_cache small;
    small_cache_init(&small);
    for (int64_t number = 0; number < PARTS_THAT_FIT; number++)
        put(&small, number);
    for (int64_t number = 1000; number < 1000 + PARTS_THAT_FIT; number++) {
        put(&small, number);
        small_cache_close(&small);
        change_use_times(&small);
        small_cache_open(&small);
        assert_true(has(&small, number));
    }
    assert_true(count_kept(&small, 1000, 1000 + PARTS_THAT_FIT) >= PARTS_THAT_FIT * 85 / 100);
    assert_true(count_kept(&small, 0, PARTS_THAT_FIT) <= PARTS_THAT_FIT * 15 / 100);
    small_cache_close(&small);
    temp_dir_release(&small.dir);
}

TEST(earlier_mail_of_a_thread_keeps_its_date)
{
    struct store_fixture fixture;
    set_up(&fixture, 1);
    fake_service_set_content(fixture.fake, "00000000-in-1",
                             "{\"id\":\"00000000-in-1\",\"plain_text\":\"x\",\"previous_emails\":["
                             "{\"id\":\"p\",\"date\":\"2026-11-20T10:14:36Z\",\"plain_text\":\"y\"}]}");
    start_and_sync(&fixture);
    for (int round = 0; round < 2; round++) {
        struct store_content *content;
        int64_t date_ms = 0;
        assert_int_equal(store_content_get(fixture.store, find(&fixture, "00000000-in-1"), NULL, &content),
                         0);
        for (size_t i = 0; i < content->folder.len; i++)
            if (content->folder.entries[i].kind == CONTENT_PREVIOUS)
                date_ms = content->folder.entries[i].date_ms;
        store_content_unref(content);
        assert_int_equal(date_ms, INT64_C(1795169676000));
        fixture_restart(&fixture);
    }
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- fetching ahead */

static bool all_are_fetched(struct store_fixture *fixture)
{
    return fake_service_count(fixture->fake, FAKE_GET_CONTENT) >= 20;
}

TEST(reading_emails_in_order_fetches_ahead)
{
    struct store_fixture fixture;
    set_up(&fixture, 20);
    start_and_sync(&fixture);
    for (int i = 19; i > 10; i--) {
        char id[64];
        char body[32];
        snprintf(id, sizeof(id), "%08d-in-1", i);
        snprintf(body, sizeof(body), "body %d", i);
        assert_text(&fixture, id, body);
    }
    await(all_are_fetched, &fixture);
    assert_true(fake_service_most_at_once(fixture.fake, FAKE_GET_CONTENT) <= 50 + 2);
    fixture_release(&fixture);
}

static bool most_are_fetched(struct store_fixture *fixture)
{
    return fake_service_count(fixture->fake, FAKE_GET_CONTENT) >= 15;
}

TEST(reading_every_second_email_fetches_ahead)
{
    struct store_fixture fixture;
    set_up(&fixture, 20);
    start_and_sync(&fixture);
    for (int i = 19; i > 10; i -= 2) {
        char id[64];
        char body[32];
        snprintf(id, sizeof(id), "%08d-in-1", i);
        snprintf(body, sizeof(body), "body %d", i);
        assert_text(&fixture, id, body);
    }
    await(most_are_fetched, &fixture);
    fixture_release(&fixture);
}

static bool all_raw_were_asked_for(struct store_fixture *fixture)
{
    return fake_service_count(fixture->fake, FAKE_GET_RAW) >= 10;
}

/* Returns true if no file of content is open; the folder may be. */
static bool no_content_is_open(struct store_fixture *fixture)
{
    bool is_open = false;
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *item;
    assert_non_null(dir);
    while ((item = readdir(dir)) != NULL) {
        char path[4096];
        ssize_t len = readlinkat(dirfd(dir), item->d_name, path, sizeof(path) - 1);
        path[len > 0 ? len : 0] = '\0';
        is_open |= strstr(path, "/parts/") != NULL;
    }
    closedir(dir);
    return !is_open;
}

TEST(raw_messages_are_fetched_ahead)
{
    struct store_fixture fixture;
    set_up(&fixture, 10);
    start_and_sync(&fixture);
    assert_int_equal(open_raw(&fixture, "00000009-in-1"), 0);
    assert_int_equal(open_raw(&fixture, "00000008-in-1"), 0);
    assert_int_equal(open_raw(&fixture, "00000007-in-1"), 0);
    await(all_raw_were_asked_for, &fixture);
    await(no_content_is_open, &fixture);
    fixture_release(&fixture);
}

/* Fifty long messages at once would need more disk than the cache. */
TEST(long_raw_messages_are_not_fetched_ahead)
{
    struct store_fixture fixture;
    uint64_t len = 0;
    set_up(&fixture, 10);
    _cleanup_free_ char *big = calloc(1, 3 * MEGABYTE);
    fake_service_set_bytes(fixture.fake, "00000005-in-1", NULL, big, 3 * MEGABYTE);
    start_and_sync(&fixture);
    assert_int_equal(open_raw(&fixture, "00000009-in-1"), 0);
    assert_int_equal(open_raw(&fixture, "00000008-in-1"), 0);
    assert_int_equal(open_raw(&fixture, "00000007-in-1"), 0);
    await(all_raw_were_asked_for, &fixture);
    await(no_content_is_open, &fixture);
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_RAW);
    uint32_t email = find(&fixture, "00000005-in-1");
    assert_int_equal(store_content_get_len(fixture.store, email, NULL, NULL, &len), 0);
    assert_int_equal(len, 3 * MEGABYTE);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_RAW), before + 1);
    fixture_release(&fixture);
}

/* Files that are open when the mount ends can still be read from the disk. */
TEST(reading_while_the_store_ends_fetches_nothing_ahead)
{
    enum {
        EMAILS = 200,
        READ = 5
    };
    struct store_fixture fixture;
    set_up(&fixture, EMAILS);
    start_and_sync(&fixture);
    for (int round = 0; round < 2; round++) {
        for (int i = EMAILS - 1; i >= EMAILS - READ; i--) {
            char id[64];
            char body[32];
            snprintf(id, sizeof(id), "%08d-in-1", i);
            snprintf(body, sizeof(body), "body %d", i);
            assert_text(&fixture, id, body);
        }
        if (round == 0) {
            fixture_close(&fixture);
            fixture_open(&fixture);
            store_stop(fixture.store);
        }
    }
    fixture_release(&fixture);
}

static bool all_were_asked_for(struct store_fixture *fixture)
{
    return fake_service_count(fixture->fake, FAKE_GET_CONTENT) >= 20;
}

TEST(large_content_is_not_fetched_ahead)
{
    struct store_fixture fixture;
    set_up(&fixture, 20);
    _cleanup_free_ char *big = malloc(3 * MEGABYTE + 1);
    memset(big, 'b', 3 * MEGABYTE);
    big[3 * MEGABYTE] = '\0';
    add_content(&fixture, "00000010-in-1", big);
    start_and_sync(&fixture);
    for (int i = 19; i > 11; i--) {
        char id[64];
        char body[32];
        snprintf(id, sizeof(id), "%08d-in-1", i);
        snprintf(body, sizeof(body), "body %d", i);
        assert_text(&fixture, id, body);
    }
    await(all_were_asked_for, &fixture);
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_CONTENT);
    assert_text(&fixture, "00000010-in-1", big);
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_CONTENT), before + 1);
    fixture_release(&fixture);
}

TEST(a_reader_gets_content_that_is_too_large_to_be_fetched_ahead)
{
    struct store_fixture fixture;
    pthread_t threads[2];
    set_up(&fixture, 20);
    _cleanup_free_ char *big = malloc(3 * MEGABYTE + 1);
    memset(big, 'b', 3 * MEGABYTE);
    big[3 * MEGABYTE] = '\0';
    add_content(&fixture, "00000012-in-1", big);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    assert_text(&fixture, "00000019-in-1", "body 19");
    assert_text(&fixture, "00000018-in-1", "body 18");
    fake_service_close_gate(fixture.fake, FAKE_GET_CONTENT);
    struct reader readers[] = {{.fixture = &fixture, .email = find(&fixture, "00000017-in-1")},
                               {.fixture = &fixture, .email = find(&fixture, "00000012-in-1")}};
    assert_int_equal(pthread_create(&threads[0], NULL, get_it, &readers[0]), 0);
    fake_service_wait_at_gate(fixture.fake, FAKE_GET_CONTENT,
                              17); /* all emails but three, which were fetched before */
    assert_int_equal(pthread_create(&threads[1], NULL, get_it, &readers[1]), 0);
    fake_clock_await_waiters(&fixture.clock, 3); /* the readers, and the thread of the sync */
    fake_service_open_gate(fixture.fake, FAKE_GET_CONTENT);
    for (size_t i = 0; i < ARRAY_LEN(readers); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].error, 0);
    }
    fixture_release(&fixture);
}

TEST(nothing_is_fetched_ahead_while_the_service_is_busy)
{
    struct store_fixture fixture;
    set_up(&fixture, 20);
    start_and_sync(&fixture);
    await(has_all, &fixture);
    unsigned int before = fake_service_count(fixture.fake, FAKE_GET_CONTENT);
    fake_service_push(
        fixture.fake, FAKE_GET_CONTENT,
        (struct fake_outcome){
            .outcome = SERVICE_RETRY, .http_status = 429, .error = EAGAIN, .retry_after_ms = 60000});
    struct store_content *content;
    assert_int_equal(store_content_get(fixture.store, find(&fixture, "00000018-in-1"), NULL, &content),
                     -EAGAIN);
    for (int i = 17; i > 11; i--) {
        char id[64];
        char body[32];
        snprintf(id, sizeof(id), "%08d-in-1", i);
        snprintf(body, sizeof(body), "body %d", i);
        assert_text(&fixture, id, body);
    }
    fixture_close(&fixture); /* ends fetching ahead */
    assert_int_equal(fake_service_count(fixture.fake, FAKE_GET_CONTENT), before + 1 + 6);
    fixture_release(&fixture);
}

TEST(reading_slightly_out_of_order_fetches_ahead)
{
    static const int order[] = {19, 17, 18, 16, 14, 15, 13, 11, 12};
    struct store_fixture fixture;
    set_up(&fixture, 20);
    start_and_sync(&fixture);
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        char id[64];
        char body[32];
        snprintf(id, sizeof(id), "%08d-in-1", order[i]);
        snprintf(body, sizeof(body), "body %d", order[i]);
        assert_text(&fixture, id, body);
    }
    await(all_are_fetched, &fixture);
    fixture_release(&fixture);
}

TEST(the_headers_for_a_reply_are_stored_with_the_content)
{
    struct store_fixture fixture;
    struct store_content *content;
    set_up(&fixture, 1);
    fake_service_set_content(fixture.fake, "00000000-in-1",
                             "{\"id\":\"00000000-in-1\",\"subject\":\"Hi\",\"message_id\":\"<m@x>\","
                             "\"references\":[\"<r@x>\"],\"plain_text\":\"t\","
                             "\"reply_to_addresses\":[{\"address\":\"a@b.example\",\"name\":\"A\"}]}");
    start_and_sync(&fixture);
    assert_int_equal(store_content_get(fixture.store, find(&fixture, "00000000-in-1"), NULL, &content), 0);
    _cleanup_email_head_ struct email_head head = {0};
    const struct content_entry *entry = content_folder_find(&content->folder, CONTENT_HEAD, "");
    assert_int_equal(email_head_read(entry->bytes, entry->len, &head), 0);
    assert_string_equal(head.subject, "Hi");
    assert_string_equal(head.reply_to.items[0].name, "A");
    store_content_unref(content);
    fixture_release(&fixture);
}
