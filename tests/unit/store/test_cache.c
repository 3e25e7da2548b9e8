/* SPDX-License-Identifier: MIT */
/*
 * The cache on disk after a kill, a full disk or damage: intact rows are shown, and a sync restores all
 * others.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

#include "base/file.h"
#include "base/log.h"
#include "store/store_private.h"
#include "support/disk.h"
#include "unit/store/store_fixture.h"

static const char cache_path[] = "cache/mail.sqlite3";
static const char log_path[] = "cache/mail.sqlite3-wal";
static const char aside_path[] = "cache/mail.sqlite3.set-aside";

enum {
    CACHE_MAX_BYTES = 64 << 20,
    STEP_BYTES = 509,
    FLIP_STEP_BYTES = 1021,
    PAGE_BYTES = 8192,
    MANY_EMAILS = 600,
};

/* Returns the size of the cache with its write-ahead log. */
static off_t cache_bytes(const struct store_fixture *fixture)
{
    struct stat file;
    struct stat log = {.st_size = 0};
    assert_int_equal(fstatat(fixture->dir.fd, cache_path, &file, 0), 0);
    (void)fstatat(fixture->dir.fd, log_path, &log, 0);
    return file.st_size + log.st_size;
}

static void write_cache(struct store_fixture *fixture, const char *bytes, size_t len)
{
    _cleanup_close_ int fd =
        openat(fixture->dir.fd, cache_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, bytes, len), 0);
}

static void read_cache(struct store_fixture *fixture, char **ret_bytes, size_t *ret_len)
{
    assert_int_equal(file_read_at(fixture->dir.fd, cache_path, CACHE_MAX_BYTES, ret_bytes, ret_len), 0);
}

TEST(a_cache_cut_at_any_byte_opens_and_is_filled_again)
{
    struct store_fixture fixture;
    _cleanup_free_ char *bytes = NULL;
    _cleanup_free_ char *names = NULL;
    size_t len;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 3);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    names = fixture_emails(&fixture, "alice@inbox.example");
    fixture_close(&fixture);
    read_cache(&fixture, &bytes, &len);
    size_t most = 3;
    for (size_t torn = len; torn > STEP_BYTES; torn -= STEP_BYTES) {
        write_cache(&fixture, bytes, torn);
        fixture_open(&fixture);
        assert_true(fixture_count(&fixture) <= most);
        most = fixture_count(&fixture);
        if (torn / STEP_BYTES % 64 == 0) {
            assert_int_equal(store_start(fixture.store), 0);
            assert_int_equal(fixture_sync(&fixture), 0);
            assert_emails(&fixture, "alice@inbox.example", names);
        }
        fixture_close(&fixture);
    }
    assert_int_equal(most, 0);
    fixture_release(&fixture);
}

TEST(removing_the_other_inboxes_keeps_the_last_one)
{
    enum {
        INBOXES = 200
    };
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    for (int i = 2; i <= INBOXES; i++) {
        char json[128];
        snprintf(json, sizeof(json), "{\"id\": \"in-%d\", \"email_address\": \"box%d@inbox.example\"}", i, i);
        fake_service_add_inbox(fixture.fake, json);
    }
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    for (int i = 1; i < INBOXES; i++) {
        char id[16];
        snprintf(id, sizeof(id), "in-%d", i);
        fake_service_remove_inbox(fixture.fake, id);
    }
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    for (int i = 0; i < 2; i++) {
        fixture_restart(&fixture);
        assert_inboxes(&fixture, "box200@inbox.example");
    }
    fixture_release(&fixture);
}

static bool exists(const struct store_fixture *fixture, const char *path)
{
    return faccessat(fixture->dir.fd, path, F_OK, 0) == 0;
}

/* Checks that each readable record is that of its email. Returns the number of readable records. */
static size_t count_right(struct store_fixture *fixture, size_t emails)
{
    size_t count = 0;
    for (uint32_t i = 0; i < emails; i++) {
        _cleanup_free_ char *json = NULL;
        char id[32];
        size_t len;
        if (store_read_email(fixture->store, i, &json, &len) != 0)
            continue;
        const char *found = store_get_email_id(fixture->store, i);
        assert_non_null(found);
        snprintf(id, sizeof(id), "\"%.12s", found);
        assert_non_null(strstr(json, id));
        count++;
    }
    return count;
}

static void assert_whole(struct store_fixture *fixture, size_t emails)
{
    assert_int_equal(fixture_count(fixture), emails);
    assert_int_equal(count_right(fixture, emails), emails);
}

/* The next sync completes the cache. */
TEST(a_changed_byte_in_the_cache_never_shows_wrong_data)
{
    enum {
        EMAILS = 30
    };
    struct store_fixture fixture;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, EMAILS);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    _cleanup_free_ char *names = fixture_emails(&fixture, "alice@inbox.example");
    fixture_close(&fixture);
    read_cache(&fixture, &bytes, &len);
    for (size_t at = 7; at < len; at += FLIP_STEP_BYTES) {
        bytes[at] ^= 0x15;
        write_cache(&fixture, bytes, len);
        bytes[at] ^= 0x15;
        fixture_open(&fixture);
        assert_true(fixture_count(&fixture) <= EMAILS);
        (void)count_right(&fixture, EMAILS);
        assert_int_equal(store_start(fixture.store), 0);
        assert_int_equal(fixture_sync(&fixture), 0);
        assert_emails(&fixture, "alice@inbox.example", names);
        assert_whole(&fixture, EMAILS);
        fixture_close(&fixture);
    }
    fixture_release(&fixture);
}

/* Overwrites the file while the store has it open. */
static void damage_pages(const struct store_fixture *fixture)
{
    static const char zeros[PAGE_BYTES];
    _cleanup_close_ int fd = openat(fixture->dir.fd, cache_path, O_WRONLY | O_CLOEXEC);
    struct stat file;
    assert_int_equal(fstat(fd, &file), 0);
    for (off_t at = PAGE_BYTES; at < file.st_size; at += PAGE_BYTES)
        assert_int_equal(pwrite(fd, zeros, PAGE_BYTES, at), PAGE_BYTES);
}

TEST(the_next_sync_repairs_a_cache_damaged_in_use)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fake_service_use_etags(fixture.fake);
    fixture_add_emails(&fixture, "in-1", 0, MANY_EMAILS);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_restart(&fixture); /* empties the log */
    assert_int_equal(fixture_sync(&fixture), 0);
    damage_pages(&fixture);
    assert_in_range(count_right(&fixture, MANY_EMAILS), 0, MANY_EMAILS - 1);
    assert_int_equal(fixture_count(&fixture), MANY_EMAILS);
    fixture_forget(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_whole(&fixture, MANY_EMAILS);
    assert_true(exists(&fixture, aside_path));
    assert_null(strstr(strbuf_str(&fixture.changes), "removed"));
    assert_null(strstr(strbuf_str(&fixture.changes), "added"));
    assert_events(&fixture, "");
    fixture_restart(&fixture);
    assert_whole(&fixture, MANY_EMAILS);
    fixture_release(&fixture);
}

/* A restored email is not announced; a new email is. */
TEST(mail_that_returns_after_damage_is_not_announced)
{
    static const char noise[PAGE_BYTES] = "no database";
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 5);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_close(&fixture);
    write_cache(&fixture, noise, sizeof(noise));
    fixture_start(&fixture);
    assert_inboxes(&fixture, "");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 5);
    assert_events(&fixture, "");
    fixture_add_emails(&fixture, "in-1", 5, 6);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(strncmp(strbuf_str(&fixture.events), "mail ", 5), 0);
    fixture_release(&fixture);
}

/* The start must delete rows, which the full disk does not allow. */
TEST(a_full_disk_at_the_start_does_not_count_as_damage)
{
    struct store_fixture fixture;
    struct email_view view;
    uint64_t position;
    fixture_init_with_alice(&fixture);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-2\", \"email_address\": \"bob@inbox.example\"}");
    fixture_add_emails(&fixture, "in-1", 0, 20);
    fixture_add_emails(&fixture, "in-2", 0, 2);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_remove_email(fixture.fake, "00000007-in-1");
    fake_service_remove_inbox(fixture.fake, "in-2");
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    fixture_close(&fixture);
    disk_fill(64);
    fixture_open(&fixture);
    disk_empty();
    assert_int_equal(fixture_count(&fixture), 19);
    /* Threads that list one inbox each give the numbers. */
    uint32_t alice = fixture_inbox(&fixture, "alice@inbox.example");
    assert_int_equal(store_list_emails(fixture.store, alice, false, 0, &view, &position, 1), 1);
    _cleanup_free_ char *json = fixture_read(&fixture, view.number);
    assert_int_equal(json[0], '{');
    assert_false(exists(&fixture, aside_path));
    fixture_release(&fixture);
}

TEST(a_cache_of_another_version_is_rebuilt)
{
    struct store_fixture fixture;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 3);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fixture_close(&fixture);
    read_cache(&fixture, &bytes, &len);
    bytes[63]++; /* user_version */
    write_cache(&fixture, bytes, len);
    fixture_start(&fixture);
    assert_int_equal(fixture_count(&fixture), 0);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), 3);
    assert_true(exists(&fixture, aside_path));
    fixture_release(&fixture);
}

TEST(mail_that_a_full_disk_refused_is_shown_when_there_is_room)
{
    enum {
        EMAILS = 4000
    };
    struct store_fixture fixture;
    struct store_status status;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 20);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    disk_fill(200 * 1000);
    fixture_add_emails(&fixture, "in-1", 20, EMAILS);
    assert_int_equal(fixture_sync(&fixture), -EFBIG); /* from disk_fill(); a full disk gives -ENOSPC */
    store_get_status(fixture.store, &status);
    assert_true(status.sync_error[0] != '\0');
    /* Every email that is shown can be read, also after a restart. */
    size_t shown = fixture_count(&fixture);
    assert_in_range(shown, 20, EMAILS - 1);
    assert_int_equal(count_right(&fixture, shown), shown);
    fixture_restart(&fixture);
    assert_whole(&fixture, shown);
    disk_empty();
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_whole(&fixture, EMAILS);
    fixture_restart(&fixture);
    assert_whole(&fixture, EMAILS);
    fixture_release(&fixture);
}

/* Returns how many lines `index` has. Each must name another file. */
static size_t count_lines(struct store_jsonl *index)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(CACHE_MAX_BYTES);
    char piece[4096];
    size_t len = sizeof(piece);
    g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, free, NULL);
    size_t lines = 0;
    while (len > 0) {
        assert_int_equal(store_jsonl_read(index, text.len, piece, sizeof(piece), &len), 0);
        strbuf_append(&text, piece, len);
    }
    for (const char *line = strbuf_str(&text); *line != '\0'; line = strchr(line, '\n') + 1, lines++) {
        const char *name = strstr(line, "\"file\":\"");
        assert_true(g_hash_table_add(names, strndup(name, strcspn(name, "\n"))));
    }
    return lines;
}

TEST(an_open_index_jsonl_shows_mail_of_a_first_sync_that_met_a_full_disk)
{
    enum {
        EMAILS = 3000
    };
    struct store_fixture fixture;
    struct store_jsonl *index = NULL;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, EMAILS);
    fixture_start(&fixture);
    disk_fill(1000 * 1000);
    assert_int_equal(fixture_sync(&fixture), -EFBIG);
    assert_int_equal(store_jsonl_new(fixture.store, fixture_inbox(&fixture, "alice@inbox.example"), &index),
                     0);
    size_t shown = fixture_count(&fixture);
    assert_in_range(shown, 0, EMAILS - 1);
    assert_int_equal(count_lines(index), shown);
    assert_int_equal(fixture_sync(&fixture), -EFBIG);
    assert_int_equal(count_lines(index), fixture_count(&fixture));
    disk_empty();
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_whole(&fixture, EMAILS);
    assert_int_equal(count_lines(index), EMAILS);
    _cleanup_free_ char *names = fixture_emails(&fixture, "alice@inbox.example");
    store_jsonl_free(index);
    fixture_restart(&fixture);
    assert_whole(&fixture, EMAILS);
    assert_emails(&fixture, "alice@inbox.example", names);
    fixture_release(&fixture);
}

TEST(a_sync_saves_an_inbox_that_a_full_disk_refused)
{
    struct store_fixture fixture;
    fixture_init_with_alice(&fixture);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    disk_fill(1);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-2\", \"email_address\": \"bob@inbox.example\"}");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_inboxes(&fixture, "alice@inbox.example bob@inbox.example");
    disk_empty();
    fixture_add_emails(&fixture, "in-2", 0, 3);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_set_reachable(fixture.fake, false);
    fixture_restart(&fixture);
    assert_inboxes(&fixture, "alice@inbox.example bob@inbox.example");
    assert_whole(&fixture, 3);
    fixture_release(&fixture);
}

/* ---------------------------------------------------------------- killed */

enum {
    FILL_EMAILS = 3000,
    FILL_KILLS = 4,
    FILL_WAIT_MS = 20000,
};

static void wait_for_size(const struct store_fixture *fixture, off_t size, pid_t child)
{
    int64_t end_ms = clock_monotonic_ms(clock_system()) + FILL_WAIT_MS;
    struct stat log = {.st_size = 0};
    while (log.st_size < size && waitpid(child, NULL, WNOHANG) == 0) {
        (void)fstatat(fixture->dir.fd, log_path, &log, 0);
        assert_true(clock_monotonic_ms(clock_system()) < end_ms);
    }
}

/* Fills the cache in another process, and kills the process when the log has this size. */
static void fill_and_be_killed(struct store_fixture *fixture, off_t size)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fixture_start(fixture);
        (void)fixture_sync(fixture);
        pause();
    }
    wait_for_size(fixture, size, child);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void is_right_and_made_whole(struct store_fixture *fixture)
{
    fixture_open(fixture);
    size_t shown = fixture_count(fixture);
    assert_in_range(shown, 0, FILL_EMAILS);
    assert_int_equal(count_right(fixture, shown), shown);
    assert_int_equal(store_start(fixture->store), 0);
    assert_int_equal(fixture_sync(fixture), 0);
    assert_whole(fixture, FILL_EMAILS);
    assert_null(strstr(strbuf_str(&fixture->events), "mail "));
    fixture_restart(fixture);
    assert_whole(fixture, FILL_EMAILS);
}

TEST(the_next_start_completes_a_killed_first_sync)
{
    struct store_fixture fixtures[FILL_KILLS];
    for (int i = 0; i < FILL_KILLS; i++) {
        fixture_init_with_alice(&fixtures[i]);
        fixture_add_emails(&fixtures[i], "in-1", 0, FILL_EMAILS);
        fill_and_be_killed(&fixtures[i], 1 + (off_t)100000 * i);
    }
    for (int i = 0; i < FILL_KILLS; i++) {
        is_right_and_made_whole(&fixtures[i]);
        fixture_release(&fixtures[i]);
    }
}

/* ---------------------------------------------------------------- others */

TEST(opening_fails_with_a_reason_if_the_folder_cannot_be_made)
{
    struct store_fixture fixture;
    struct store *store = NULL;
    _cleanup_free_ char *reason = NULL;
    fixture_init(&fixture);
    _cleanup_close_ int fd = openat(fixture.dir.fd, "cache", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    const struct store_config config = {
        .service = fake_service_as_service(fixture.fake),
        .clock = &fixture.clock.clock,
        .state_dir_fd = fixture.dir.fd,
    };
    assert_true(store_open(&config, &store, &reason) < 0);
    assert_null(store);
    assert_non_null(reason);
    fixture_release(&fixture);
}

TEST(opening_fails_with_a_reason_if_the_file_cannot_be_opened)
{
    struct store_fixture fixture;
    struct store *store = NULL;
    _cleanup_free_ char *reason = NULL;
    fixture_init(&fixture);
    const struct store_config config = {
        .service = fake_service_as_service(fixture.fake),
        .clock = &fixture.clock.clock,
        .state_dir_fd = fixture.dir.fd,
    };
    disk_fill(1);
    assert_true(store_open(&config, &store, &reason) < 0);
    disk_empty();
    assert_null(store);
    assert_non_null(strstr(reason, "mail.sqlite3"));
    fixture_release(&fixture);
}

TEST(files_of_version_0_2_are_removed)
{
    static const char *const names[] = {"records.sqlite3", "records.sqlite3-wal", "search.sqlite3"};
    struct store_fixture fixture;
    fixture_init(&fixture);
    _cleanup_close_ int dir_fd = file_open_dir(fixture.dir.fd, "cache");
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_int_equal(file_replace_at(dir_fd, names[i], "old", 3, 0600), 0);
    fixture_open(&fixture);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_int_equal(faccessat(dir_fd, names[i], F_OK, 0), -1);
    fixture_release(&fixture);
}

static int64_t count_rows(struct store_fixture *fixture, const char *table)
{
    struct connection *connection = NULL;
    struct database *database = fixture->store->cache.database;
    char sql[64];
    int64_t count = -1;
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s", table);
    assert_int_equal(database_take_reader(database, &connection), 0);
    assert_int_equal(query_integers(connection, &count, 1, sql, ""), 0);
    database_return_reader(connection);
    return count;
}

/* Records that change often would otherwise fill the file. */
TEST(replaced_records_are_deleted_at_the_start)
{
    enum {
        FILLER_BYTES = 500 * 1000,
        CHANGES = 20
    };
    struct store_fixture fixture;
    struct store_jsonl *index;
    _cleanup_free_ char *names = NULL;
    _cleanup_free_ char *filler = malloc(FILLER_BYTES + 1);
    _cleanup_free_ char *json = malloc(FILLER_BYTES + 200);
    memset(filler, 'x', FILLER_BYTES);
    filler[FILLER_BYTES] = '\0';
    fixture_init_with_alice(&fixture);
    fake_service_add_inbox(fixture.fake, "{\"id\": \"in-0\"}");
    fixture_add_emails(&fixture, "in-1", 0, 20);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    fake_service_remove_inbox(fixture.fake, "in-0");
    /* While index.jsonl is open, no record is deleted. */
    assert_int_equal(store_jsonl_new(fixture.store, 0, &index), 0);
    for (int i = 0; i < CHANGES; i++) {
        snprintf(json, FILLER_BYTES + 200,
                 "{\"id\": \"00000007-in-1\", \"inbox_id\": \"in-1\", \"n\": %d, "
                 "\"subject\": \"%s\"}",
                 i, filler);
        fake_service_replace_email(fixture.fake, "00000007-in-1", json);
        assert_int_equal(fixture_sync_removal(&fixture), 0);
    }
    names = fixture_emails(&fixture, "alice@inbox.example");
    assert_true(cache_bytes(&fixture) > CHANGES * FILLER_BYTES);
    fake_service_remove_email(fixture.fake, "00000007-in-1");
    fake_service_add_simple_email(fixture.fake, "in-1", "00000007-in-1", "mail 7");
    assert_int_equal(fixture_sync(&fixture), 0);
    store_jsonl_free(index);
    fixture_restart(&fixture);
    assert_int_equal(count_rows(&fixture, "records"), 20);
    assert_int_equal(count_rows(&fixture, "replaced_records"), 0);
    assert_inboxes(&fixture, "alice@inbox.example");
    assert_emails(&fixture, "alice@inbox.example", names);
    fixture_forget(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_changes(&fixture, "");
    fake_service_add_simple_email(fixture.fake, "in-1", "99999999", "News");
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(strncmp(strbuf_str(&fixture.events), "mail ", 5), 0);
    fixture_restart(&fixture);
    assert_int_equal(fixture_count(&fixture), 21);
    fixture_release(&fixture);
}

/* Changes one email before each sync. */
static void change_again_and_again(struct store_fixture *fixture, int changes, size_t bytes)
{
    _cleanup_free_ char *filler = calloc(1, bytes + 1);
    _cleanup_free_ char *json = malloc(bytes + 200);
    memset(filler, 'x', bytes);
    for (int i = 0; i < changes; i++) {
        snprintf(json, bytes + 200,
                 "{\"id\": \"00000007-in-1\", \"inbox_id\": \"in-1\", \"n\": %d, \"subject\": \"%s\"}", i,
                 filler);
        fake_service_replace_email(fixture->fake, "00000007-in-1", json);
        assert_int_equal(fixture_sync(fixture), 0);
    }
}

TEST(replaced_records_are_deleted_while_the_store_runs)
{
    enum {
        FILLER_BYTES = 500 * 1000,
        CHANGES = 25
    };
    struct store_fixture fixture;
    char *deleted = NULL;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 20);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    change_again_and_again(&fixture, CHANGES, FILLER_BYTES);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(count_rows(&fixture, "records"), 20);
    assert_int_equal(count_rows(&fixture, "replaced_records"), 0);
    /* A reader may still look for a deleted record. */
    assert_int_equal(cache_read_record(&fixture.store->cache, 21, 1, &deleted), -ENOENT);
    assert_int_equal(fixture_count(&fixture), 20);
    for (uint32_t i = 0; i < 20; i++) {
        _cleanup_free_ char *json = NULL;
        size_t len;
        assert_int_equal(store_read_email(fixture.store, i, &json, &len), 0);
        assert_int_equal(json[0], '{');
    }
    fixture_restart(&fixture);
    assert_int_equal(fixture_count(&fixture), 20);
    fixture_forget(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_changes(&fixture, "");
    fixture_release(&fixture);
}

/* A reader of index.jsonl reads the records that existed when it opened the file. */
TEST(replaced_records_of_an_open_index_jsonl_are_kept)
{
    enum {
        FILLER_BYTES = 100 * 1000
    };
    struct store_fixture fixture;
    struct store_jsonl *index;
    size_t len;
    _cleanup_free_ char *before = calloc(1, FILLER_BYTES);
    _cleanup_free_ char *after = calloc(1, FILLER_BYTES);
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, 20);
    fixture_start(&fixture);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(store_jsonl_new(fixture.store, 0, &index), 0);
    assert_int_equal(store_jsonl_read(index, 0, before, FILLER_BYTES, &len), 0);
    change_again_and_again(&fixture, 3, FILLER_BYTES);
    assert_int_equal(store_jsonl_read(index, 0, after, FILLER_BYTES, &len), 0);
    assert_string_equal(before, after);
    store_jsonl_free(index);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(store_jsonl_new(fixture.store, 0, &index), 0);
    assert_int_equal(store_jsonl_read(index, 0, after, FILLER_BYTES, &len), 0);
    assert_string_not_equal(before, after);
    store_jsonl_free(index);
    fixture_release(&fixture);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    return test_run();
}
