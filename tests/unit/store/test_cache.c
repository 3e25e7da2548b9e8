/* SPDX-License-Identifier: MIT */
/*
 * The cache on disk: what a kill, a full disk or rot leave of it is shown, and the rest comes back.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "sql/query.h"
#include "store/store_private.h"
#include "unit/store/store_world.h"

static const char cache_path[] = "cache/records.sqlite3";
static const char log_path[] = "cache/records.sqlite3-wal";

enum {
    CACHE_MAX_BYTES = 64 << 20,
    STEP_BYTES = 509,
    PAGE_BYTES = 16 * 1024,
    MANY_EMAILS = 600,
    PAGE_EMAILS_MAX = 300, /* more than a page holds, and what is passed over behind it */
};

/* With the log beside it. */
static off_t cache_bytes(const struct store_world *world)
{
    struct stat file;
    struct stat log = {.st_size = 0};
    assert_int_equal(fstatat(world->dir.fd, cache_path, &file, 0), 0);
    (void)fstatat(world->dir.fd, log_path, &log, 0);
    return file.st_size + log.st_size;
}

static void write_cache(struct store_world *world, const char *bytes, size_t len)
{
    _cleanup_close_ int fd =
        openat(world->dir.fd, cache_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, bytes, len), 0);
}

static void read_cache(struct store_world *world, char **ret_bytes, size_t *ret_len)
{
    assert_int_equal(file_read_at(world->dir.fd, cache_path, CACHE_MAX_BYTES, ret_bytes, ret_len), 0);
}

static void a_cache_torn_anywhere_opens_and_is_made_whole(void **state)
{
    (void)state;
    struct store_world world;
    _cleanup_free_ char *bytes = NULL;
    _cleanup_free_ char *names = NULL;
    size_t len;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 3);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    names = world_emails(&world, "alice@inbox.example");
    world_close(&world);
    read_cache(&world, &bytes, &len);
    size_t most = 3;
    for (size_t torn = len; torn > STEP_BYTES; torn -= STEP_BYTES) {
        write_cache(&world, bytes, torn);
        world_open(&world);
        assert_true(world_count(&world) <= most);
        most = world_count(&world);
        if (torn / STEP_BYTES % 16 == 0) {
            assert_int_equal(store_start(world.store), 0);
            assert_int_equal(world_sync(&world), 0);
            assert_emails(&world, "alice@inbox.example", names);
        }
        world_close(&world);
    }
    assert_int_equal(most, 0);
    world_release(&world);
}

/* The place of these bytes. */
static char *find_bytes(char *bytes, size_t len, const char *text)
{
    char *found = memmem(bytes, len, text, strlen(text));
    assert_non_null(found);
    return found;
}

static void the_last_of_many_inboxes_is_there_after_the_others_went(void **state)
{
    (void)state;
    enum {
        INBOXES = 200
    };
    struct store_world world;
    world_init_with_alice(&world);
    for (int i = 2; i <= INBOXES; i++) {
        char json[128];
        snprintf(json, sizeof(json), "{\"id\": \"in-%d\", \"email_address\": \"box%d@inbox.example\"}", i, i);
        fake_service_add_inbox(world.fake, json);
    }
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    for (int i = 1; i < INBOXES; i++) {
        char id[16];
        snprintf(id, sizeof(id), "in-%d", i);
        fake_service_remove_inbox(world.fake, id);
    }
    assert_int_equal(world_sync_removal(&world), 0);
    for (int i = 0; i < 2; i++) {
        world_restart(&world);
        assert_inboxes(&world, "box200@inbox.example");
    }
    world_release(&world);
}

static void a_lost_inbox_does_not_lend_its_mail_to_another(void **state)
{
    (void)state;
    struct store_world world;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 3);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    world_close(&world);
    read_cache(&world, &bytes, &len);
    ++*find_bytes(bytes, len, "in-1alice@"); /* in the row of the inbox */
    write_cache(&world, bytes, len);
    fake_service_add_inbox(world.fake, "{\"id\": \"in-2\", \"email_address\": \"bob@inbox.example\"}");
    fake_service_remove_inbox(world.fake, "in-1");
    for (int i = 0; i < 2; i++) {
        world_start(&world);
        assert_int_equal(world_count(&world), 0);
        assert_int_equal(world_sync(&world), 0);
        assert_inboxes(&world, "bob@inbox.example");
        assert_emails(&world, "bob@inbox.example", "");
        world_close(&world);
    }
    world_release(&world);
}

/* A text that was lost leaves its number to nobody: else a new email's text would be taken for it, and
 * deleted with it. */
static void the_number_of_a_lost_text_is_not_given_again(void **state)
{
    (void)state;
    struct store_world world;
    char path[PATH_MAX];
    sqlite3 *db;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 3);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    world_close(&world);
    snprintf(path, sizeof(path), "%s/%s", world.dir.path, cache_path);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(query_execute(db, "DELETE FROM received_texts", ""), 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    world_add_emails(&world, "in-1", 3, 6);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(world_count(&world), 6);
    for (uint32_t i = 0; i < 6; i++) {
        _cleanup_free_ char *json = world_read(&world, i);
        assert_int_equal(json[0], '{');
    }
    world_release(&world);
}

static size_t count_readable(struct store_world *world)
{
    size_t count = 0;
    for (uint32_t i = 0; i < MANY_EMAILS; i++) {
        char *json = NULL;
        size_t len;
        if (store_read_email(world->store, i, &json, &len) == 0)
            count++;
        free(json);
    }
    return count;
}

static void write_damaged(struct store_world *world, const char *bytes, size_t len, size_t page)
{
    _cleanup_free_ char *damaged = malloc(len);
    assert_non_null(damaged);
    memcpy(damaged, bytes, len);
    memset(damaged + page * PAGE_BYTES, 0, PAGE_BYTES);
    write_cache(world, damaged, len);
}

/* How many emails are shown, and how many records can be read, of a file in which this page was overwritten,
 * without a service. */
static void count_left(struct store_world *world, const char *bytes, size_t len, size_t page,
                       size_t *ret_shown, size_t *ret_read)
{
    write_damaged(world, bytes, len, page);
    world_open(world);
    *ret_shown = world_count(world);
    *ret_read = count_readable(world);
    /* What was found damaged is mended by the next sync, even of a service that is down. */
    assert_int_equal(store_start(world->store), 0);
    assert_int_not_equal(world_sync(world), 0);
    assert_in_range(count_readable(world), *ret_read, MANY_EMAILS);
    world_close(world);
    world_open(world);
    assert_in_range(count_readable(world), *ret_read, MANY_EMAILS);
    world_close(world);
}

/* But for the few pages that all others hang from. */
static void a_page_that_cannot_be_read_costs_what_stood_there(void **state)
{
    (void)state;
    struct store_world world;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    size_t pages_of_much = 0;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, MANY_EMAILS);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    world_close(&world);
    read_cache(&world, &bytes, &len);
    fake_service_set_reachable(world.fake, false);
    for (size_t page = 0; page < len / PAGE_BYTES; page++) {
        size_t shown;
        size_t read;
        count_left(&world, bytes, len, page, &shown, &read);
        pages_of_much += shown < MANY_EMAILS - PAGE_EMAILS_MAX || read < MANY_EMAILS - PAGE_EMAILS_MAX;
    }
    assert_in_range(pages_of_much, 0, 4); /* the schema, the inbox, and the roots of emails and texts */
    world_release(&world);
}

static bool has_lost_some_texts(struct store_world *world)
{
    size_t read = count_readable(world);
    return world_count(world) == MANY_EMAILS && read < MANY_EMAILS && read >= MANY_EMAILS - PAGE_EMAILS_MAX;
}

/* Opened, without a page that held texts. */
static void lose_some_texts(struct store_world *world)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    read_cache(world, &bytes, &len);
    write_damaged(world, bytes, len, 0);
    world_open(world);
    for (size_t page = 1; !has_lost_some_texts(world); page++) {
        assert_true(page < len / PAGE_BYTES);
        world_close(world);
        write_damaged(world, bytes, len, page);
        world_open(world);
    }
}

static void what_is_made_anew_while_the_disk_is_full_is_written_when_it_is_not(void **state)
{
    (void)state;
    struct store_world world;
    struct rlimit limit;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, MANY_EMAILS);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    world_close(&world);
    fake_service_set_reachable(world.fake, false);
    lose_some_texts(&world);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 64 * 1024;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(store_start(world.store), 0);
    assert_int_not_equal(world_sync(&world), 0);
    limit.rlim_cur = RLIM_INFINITY;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_not_equal(world_sync(&world), 0);
    world_close(&world);
    world_open(&world);
    assert_in_range(count_readable(&world), MANY_EMAILS - PAGE_EMAILS_MAX, MANY_EMAILS - 1);
    world_release(&world);
}

/* With something to be cleared away, which the disk does not take. */
static void a_full_disk_at_the_start_is_no_damage(void **state)
{
    (void)state;
    struct store_world world;
    struct rlimit limit;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 20);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    fake_service_remove_email(world.fake, "00000007-in-1");
    assert_int_equal(world_sync_removal(&world), 0);
    world_close(&world);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    world_open(&world);
    limit.rlim_cur = RLIM_INFINITY;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(world_count(&world), 19);
    _cleanup_free_ char *json = world_read(&world, 19);
    assert_int_equal(json[0], '{');
    assert_int_equal(faccessat(world.dir.fd, "cache/records.sqlite3.set-aside", F_OK, 0), -1);
    world_release(&world);
}

static void a_cache_of_another_version_is_built_anew(void **state)
{
    (void)state;
    struct store_world world;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 3);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    world_close(&world);
    read_cache(&world, &bytes, &len);
    bytes[63]++; /* user_version */
    write_cache(&world, bytes, len);
    world_start(&world);
    assert_int_equal(world_count(&world), 0);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(world_count(&world), 3);
    assert_int_equal(faccessat(world.dir.fd, "cache/records.sqlite3.set-aside", F_OK, 0), 0);
    world_release(&world);
}

static void assert_index_has_lines(struct store_world *world, size_t lines)
{
    struct inbox_view view;
    struct store_index *index = NULL;
    size_t len = 0;
    size_t found = 0;
    assert_true(store_find_inbox(world->store, "alice@inbox.example", &view));
    assert_int_equal(store_index_new(world->store, world_inbox(world, "alice@inbox.example"), &index), 0);
    _cleanup_free_ char *text = malloc(view.index_bytes + 1);
    assert_non_null(text);
    assert_int_equal(store_index_read(index, 0, text, view.index_bytes, &len), 0);
    assert_int_equal(len, view.index_bytes);
    store_index_free(index);
    text[len] = '\0';
    for (char *at = text; (at = strstr(at, "}\n")) != NULL; at++)
        found++;
    assert_int_equal(found, lines);
}

static void a_full_disk_hides_no_mail(void **state)
{
    (void)state;
    enum {
        EMAILS = 2000
    };
    struct store_world world;
    struct rlimit limit;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, EMAILS);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 600 * 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(world_count(&world), EMAILS);
    assert_index_has_lines(&world, EMAILS);
    world_restart(&world);
    assert_in_range(world_count(&world), 10, EMAILS - 1);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(world_count(&world), EMAILS);
    limit.rlim_cur = RLIM_INFINITY;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    world_restart(&world);
    assert_int_equal(world_sync(&world), 0);
    world_restart(&world);
    assert_int_equal(world_count(&world), EMAILS);
    world_release(&world);
}

static void change_all(struct store_world *world, int emails, int round)
{
    for (int i = 0; i < emails; i++) {
        char id[64];
        char json[160];
        snprintf(id, sizeof(id), "%08d-in-1", i);
        snprintf(json, sizeof(json), "{\"id\": \"%s\", \"inbox_id\": \"in-1\", \"round\": %d}", id, round);
        fake_service_replace_email(world->fake, id, json);
    }
}

/* What is kept in memory is not kept once it was replaced, be it in memory again, or on the disk. */
static void what_changes_again_and_again_on_a_full_disk_takes_no_more_memory(void **state)
{
    (void)state;
    enum {
        EMAILS = 20,
        ROUNDS = 5
    };
    struct store_world world;
    struct rlimit limit;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, EMAILS);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    const struct map *in_memory = &world.store->index.records.in_memory;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int round = 0; round < ROUNDS; round++) {
        change_all(&world, EMAILS, round);
        assert_int_equal(world_sync(&world), 0);
        assert_int_equal(in_memory->len, EMAILS);
    }
    for (uint32_t i = 0; i < EMAILS; i++) {
        _cleanup_free_ char *json = world_read(&world, i);
        assert_non_null(strstr(json, "\"round\": 4"));
    }
    assert_index_has_lines(&world, EMAILS);
    limit.rlim_cur = RLIM_INFINITY;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    change_all(&world, EMAILS, ROUNDS);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(in_memory->len, 0);
    world_release(&world);
}

/* ---------------------------------------------------------------- a file that was being filled */

enum {
    FORMAT_OFFSET = 18, /* in the file, for writers and for readers */
    FORMAT_WITHOUT_LOG = 1,
    FORMAT_WITH_LOG = 2,
    FILL_EMAILS = 3000,
    FILL_KILLS = 4,
    FILL_WAIT_MS = 20000,
};

static off_t wait_for_size(const struct store_world *world, off_t size, pid_t child)
{
    struct stat file = {.st_size = 0};
    int64_t end_ms = clock_monotonic_ms(clock_system()) + FILL_WAIT_MS;
    while (file.st_size < size && waitpid(child, NULL, WNOHANG) == 0) {
        (void)fstatat(world->dir.fd, cache_path, &file, 0);
        assert_true(clock_monotonic_ms(clock_system()) < end_ms);
    }
    return file.st_size;
}

/* Another process, which is killed once the file has this size, or when it is done. */
static void fill_and_be_killed(struct store_world *world, off_t size)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        world_start(world);
        (void)world_sync(world);
        pause();
    }
    assert_true(wait_for_size(world, size, child) >= size);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static size_t count_right(struct store_world *world, size_t emails)
{
    size_t count = 0;
    for (uint32_t i = 0; i < emails; i++) {
        _cleanup_free_ char *json = NULL;
        struct email_view view;
        size_t len;
        assert_true(store_get_email(world->store, i, &view));
        if (store_read_email(world->store, i, &json, &len) != 0)
            continue;
        assert_int_equal(len, view.json_len);
        assert_non_null(strstr(json, "-in-1\""));
        count++;
    }
    return count;
}

static void is_right_and_made_whole(struct store_world *world)
{
    world_open(world);
    size_t shown = world_count(world);
    assert_in_range(shown, 0, FILL_EMAILS);
    (void)count_right(world, shown);
    assert_int_equal(store_start(world->store), 0);
    assert_int_equal(world_sync(world), 0);
    assert_int_equal(world_count(world), FILL_EMAILS);
    assert_int_equal(count_right(world, FILL_EMAILS), FILL_EMAILS);
    world_restart(world);
    assert_int_equal(world_count(world), FILL_EMAILS);
    assert_int_equal(count_right(world, FILL_EMAILS), FILL_EMAILS);
}

static void what_a_kill_leaves_of_a_first_sync_is_right_and_made_whole(void **state)
{
    (void)state;
    struct store_world worlds[FILL_KILLS];
    for (int i = 0; i < FILL_KILLS; i++) {
        world_init_with_alice(&worlds[i]);
        world_add_emails(&worlds[i], "in-1", 0, FILL_EMAILS);
        fill_and_be_killed(&worlds[i], (1 + 12 * i) * PAGE_BYTES);
    }
    for (int i = 0; i < FILL_KILLS; i++) {
        is_right_and_made_whole(&worlds[i]);
        world_release(&worlds[i]);
    }
}

/* As if the program had been killed, or the power cut, before the first sync was over. */
static void leave_being_filled(struct store_world *world, const char *bytes, size_t len, size_t page)
{
    _cleanup_free_ char *left = malloc(len);
    memcpy(left, bytes, len);
    left[FORMAT_OFFSET] = left[FORMAT_OFFSET + 1] = FORMAT_WITHOUT_LOG;
    if (page > 0)
        memset(left + page * PAGE_BYTES, 0, PAGE_BYTES);
    write_cache(world, left, len);
}

static void a_file_that_was_being_filled_is_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    struct store_world world;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, MANY_EMAILS);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    world_close(&world);
    read_cache(&world, &bytes, &len);
    for (size_t page = 0; page < len / PAGE_BYTES; page += 4) {
        leave_being_filled(&world, bytes, len, page);
        world_open(&world);
        assert_int_equal(world_count(&world), page == 0 ? MANY_EMAILS : 0);
        assert_int_equal(faccessat(world.dir.fd, "cache/records.sqlite3.set-aside", F_OK, 0),
                         page == 0 ? -1 : 0);
        assert_int_equal(store_start(world.store), 0);
        assert_int_equal(world_sync(&world), 0);
        assert_int_equal(count_right(&world, MANY_EMAILS), MANY_EMAILS);
        world_close(&world);
    }
    world_release(&world);
}

static void assert_format(const struct store_world *world, char format)
{
    char bytes[FORMAT_OFFSET + 2];
    _cleanup_close_ int fd = openat(world->dir.fd, cache_path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    assert_int_equal(bytes[FORMAT_OFFSET], format);
    assert_int_equal(bytes[FORMAT_OFFSET + 1], format);
}

static void a_file_is_filled_without_a_log_until_the_first_sync_is_done(void **state)
{
    (void)state;
    struct store_world world;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 3);
    world_start(&world);
    assert_format(&world, FORMAT_WITHOUT_LOG);
    assert_int_equal(faccessat(world.dir.fd, log_path, F_OK, 0), -1);
    assert_int_equal(world_sync(&world), 0);
    assert_format(&world, FORMAT_WITH_LOG);
    world_add_emails(&world, "in-1", 3, 6);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(faccessat(world.dir.fd, log_path, F_OK, 0), 0);
    world_restart(&world);
    assert_int_equal(world_count(&world), 6);
    world_release(&world);
    /* A program that ends before leaves a file that is whole. */
    world_init_with_alice(&world);
    world_open(&world);
    assert_format(&world, FORMAT_WITHOUT_LOG);
    world_close(&world);
    assert_format(&world, FORMAT_WITH_LOG);
    world_release(&world);
}

/* ---------------------------------------------------------------- others */

static void a_folder_that_cannot_be_made_is_an_error_in_words(void **state)
{
    (void)state;
    struct store_world world;
    struct store *store = NULL;
    _cleanup_free_ char *reason = NULL;
    world_init(&world);
    _cleanup_close_ int fd = openat(world.dir.fd, "cache", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    const struct store_config config = {
        .service = fake_service_as_service(world.fake),
        .clock = &world.clock.clock,
        .state_dir_fd = world.dir.fd,
    };
    assert_true(store_open(&config, &store, &reason) < 0);
    assert_null(store);
    assert_non_null(reason);
    world_release(&world);
}

/* A record that changes again and again fills the file with what no longer counts. */
static void what_no_longer_counts_is_cleared_away_at_the_start(void **state)
{
    (void)state;
    enum {
        FILLER_BYTES = 500 * 1000,
        CHANGES = 20
    };
    struct store_world world;
    struct store_index *index;
    _cleanup_free_ char *names = NULL;
    _cleanup_free_ char *filler = malloc(FILLER_BYTES + 1);
    _cleanup_free_ char *json = malloc(FILLER_BYTES + 200);
    memset(filler, 'x', FILLER_BYTES);
    filler[FILLER_BYTES] = '\0';
    world_init_with_alice(&world);
    fake_service_add_inbox(world.fake, "{\"id\": \"in-0\"}");
    world_add_emails(&world, "in-1", 0, 20);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    fake_service_remove_inbox(world.fake, "in-0");
    /* As long as somebody reads this, nothing is cleared away. */
    assert_int_equal(store_index_new(world.store, 0, &index), 0);
    for (int i = 0; i < CHANGES; i++) {
        snprintf(json, FILLER_BYTES + 200,
                 "{\"id\": \"00000007-in-1\", \"inbox_id\": \"in-1\", \"n\": %d, "
                 "\"subject\": \"%s\"}",
                 i, filler);
        fake_service_replace_email(world.fake, "00000007-in-1", json);
        assert_int_equal(world_sync_removal(&world), 0);
    }
    names = world_emails(&world, "alice@inbox.example");
    assert_true(cache_bytes(&world) > CHANGES * FILLER_BYTES);
    fake_service_remove_email(world.fake, "00000007-in-1");
    fake_service_add_simple_email(world.fake, "in-1", "00000007-in-1", "mail 7");
    assert_int_equal(world_sync(&world), 0);
    store_index_free(index);
    world_restart(&world);
    assert_true(cache_bytes(&world) < FILLER_BYTES);
    assert_inboxes(&world, "alice@inbox.example");
    assert_emails(&world, "alice@inbox.example", names);
    world_forget(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_changes(&world, "");
    fake_service_add_simple_email(world.fake, "in-1", "99999999", "News");
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(strncmp(strbuf_str(&world.events), "mail ", 5), 0);
    world_restart(&world);
    assert_int_equal(world_count(&world), 21);
    world_release(&world);
}

/* One email of an inbox changes with each of the runs. */
static void change_again_and_again(struct store_world *world, int changes, size_t bytes)
{
    _cleanup_free_ char *filler = calloc(1, bytes + 1);
    _cleanup_free_ char *json = malloc(bytes + 200);
    memset(filler, 'x', bytes);
    for (int i = 0; i < changes; i++) {
        snprintf(json, bytes + 200,
                 "{\"id\": \"00000007-in-1\", \"inbox_id\": \"in-1\", \"n\": %d, \"subject\": \"%s\"}", i,
                 filler);
        fake_service_replace_email(world->fake, "00000007-in-1", json);
        assert_int_equal(world_sync(world), 0);
    }
}

static void what_no_longer_counts_is_cleared_away_while_it_runs(void **state)
{
    (void)state;
    enum {
        FILLER_BYTES = 500 * 1000,
        CHANGES = 200,
        BYTES_MAX = 80 << 20 /* most of it is the log's */
    };
    struct store_world world;
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 20);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    change_again_and_again(&world, CHANGES, FILLER_BYTES);
    assert_int_equal(world_sync(&world), 0);
    assert_true(cache_bytes(&world) < BYTES_MAX);
    assert_int_equal(world_count(&world), 20);
    for (uint32_t i = 0; i < 20; i++) {
        _cleanup_free_ char *json = NULL;
        size_t len;
        assert_int_equal(store_read_email(world.store, i, &json, &len), 0);
        assert_int_equal(json[0], '{');
    }
    world_restart(&world);
    assert_int_equal(world_count(&world), 20);
    world_forget(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_changes(&world, "");
    world_release(&world);
}

/* Whoever reads index.jsonl goes on reading what was there when it was opened. */
static void what_an_open_index_shows_is_kept(void **state)
{
    (void)state;
    enum {
        FILLER_BYTES = 100 * 1000
    };
    struct store_world world;
    struct store_index *index;
    size_t len;
    _cleanup_free_ char *before = calloc(1, FILLER_BYTES);
    _cleanup_free_ char *after = calloc(1, FILLER_BYTES);
    world_init_with_alice(&world);
    world_add_emails(&world, "in-1", 0, 20);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(store_index_new(world.store, 0, &index), 0);
    assert_int_equal(store_index_read(index, 0, before, FILLER_BYTES, &len), 0);
    change_again_and_again(&world, 3, FILLER_BYTES);
    assert_int_equal(store_index_read(index, 0, after, FILLER_BYTES, &len), 0);
    assert_string_equal(before, after);
    store_index_free(index);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(store_index_new(world.store, 0, &index), 0);
    assert_int_equal(store_index_read(index, 0, after, FILLER_BYTES, &len), 0);
    assert_string_not_equal(before, after);
    store_index_free(index);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: it forks, which is only safe while no other thread was started. */
        cmocka_unit_test(what_a_kill_leaves_of_a_first_sync_is_right_and_made_whole),
        cmocka_unit_test(a_cache_torn_anywhere_opens_and_is_made_whole),
        cmocka_unit_test(the_last_of_many_inboxes_is_there_after_the_others_went),
        cmocka_unit_test(a_lost_inbox_does_not_lend_its_mail_to_another),
        cmocka_unit_test(the_number_of_a_lost_text_is_not_given_again),
        cmocka_unit_test(a_page_that_cannot_be_read_costs_what_stood_there),
        cmocka_unit_test(what_is_made_anew_while_the_disk_is_full_is_written_when_it_is_not),
        cmocka_unit_test(a_full_disk_at_the_start_is_no_damage),
        cmocka_unit_test(a_cache_of_another_version_is_built_anew),
        cmocka_unit_test(a_full_disk_hides_no_mail),
        cmocka_unit_test(what_changes_again_and_again_on_a_full_disk_takes_no_more_memory),
        cmocka_unit_test(a_file_that_was_being_filled_is_taken_whole_or_not_at_all),
        cmocka_unit_test(a_file_is_filled_without_a_log_until_the_first_sync_is_done),
        cmocka_unit_test(a_folder_that_cannot_be_made_is_an_error_in_words),
        cmocka_unit_test(what_no_longer_counts_is_cleared_away_at_the_start),
        cmocka_unit_test(what_no_longer_counts_is_cleared_away_while_it_runs),
        cmocka_unit_test(what_an_open_index_shows_is_kept),
    };
    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
