/* SPDX-License-Identifier: MIT */
/*
 * Writers that wait for their turn together share one commit: none returns before it is durable, each is
 * undone by itself, and where it fails, all of them hear of it.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "service/database.h"
#include "sql/query.h"
#include "support/temp_dir.h"

static atomic_uint syncs;
static atomic_uint returned; /* writers that database_end_write() has let go */
static atomic_uint returned_before_sync;
static atomic_bool is_disk_broken;

/* Stands before the C library's, for SQLite too. */
int fdatasync(int fd)
{
    returned_before_sync = returned;
    syncs++;
    if (!is_disk_broken)
        return (int)syscall(SYS_fdatasync, fd);
    errno = EIO;
    return -1;
}

struct writer {
    pthread_t thread;
    struct database *database;
    const char *statement; /* of its turn */
    int error;             /* with which it ends its turn, where the statement has none */
    atomic_int thread_id;  /* 0: not yet */
    int result;
};

static int write_in_turn(struct writer *writer, sqlite3 *db)
{
    int error = query_execute(db, writer->statement, "");
    return database_end_write(writer->database, error != 0 ? error : writer->error);
}

static void *run_writer(void *argument)
{
    struct writer *writer = argument;
    sqlite3 *db = NULL;
    writer->thread_id = (int)syscall(SYS_gettid);
    writer->result = database_begin_write(writer->database, &db);
    if (writer->result == 0)
        writer->result = write_in_turn(writer, db);
    returned++;
    return NULL;
}

static void await_sleep(const struct writer *writer)
{
    char path[64];
    char state = 'R';
    while (writer->thread_id == 0)
        sched_yield();
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", writer->thread_id);
    while (state != 'S') {
        sched_yield();
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_int_equal(1, fscanf(file, "%*d (%*[^)]) %c", &state));
        fclose(file);
    }
}

/* The first has its turn until all others wait for theirs. */
static void write_together(struct database *database, struct writer *writers, size_t len)
{
    sqlite3 *db = NULL;
    syncs = returned = returned_before_sync = 0;
    assert_int_equal(0, database_begin_write(database, &db));
    for (size_t i = 1; i < len; i++) {
        writers[i].database = database;
        assert_int_equal(0, pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]));
        await_sleep(&writers[i]);
    }
    writers[0].database = database;
    writers[0].result = write_in_turn(&writers[0], db);
    returned++;
    for (size_t i = 1; i < len; i++)
        pthread_join(writers[i].thread, NULL);
}

static int64_t count(struct database *database)
{
    sqlite3 *db = NULL;
    int64_t rows = -1;
    assert_int_equal(0, database_begin_read(database, &db));
    assert_int_equal(0,
                     query_integer(db, &rows, "SELECT count(*) FROM settings WHERE name LIKE 'test%'", ""));
    database_end_read(database, db);
    return rows;
}

struct fixture {
    struct temp_dir dir;
    struct database *database;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    temp_dir_init(&fixture->dir);
    assert_int_equal(0, database_open(fixture->dir.path, DATABASE_SHARED, &fixture->database));
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    is_disk_broken = false;
    database_free(fixture->database);
    temp_dir_release(&fixture->dir);
    free(fixture);
    return 0;
}

#define INSERT(name) "INSERT INTO settings VALUES ('test " name "', 1)"

static void who_waits_together_shares_a_commit(void **state)
{
    const struct fixture *fixture = *state;
    struct writer writers[] = {{.statement = INSERT("1")}, {.statement = INSERT("2")},
                               {.statement = INSERT("3")}, {.statement = INSERT("4")},
                               {.statement = INSERT("5")}, {.statement = INSERT("6")}};
    write_together(fixture->database, writers, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(0, writers[i].result);
    assert_int_equal(6, count(fixture->database));
    assert_int_equal(1, syncs);
    assert_int_equal(0, returned_before_sync);
}

static void a_commit_is_not_put_off_for_ever(void **state)
{
    enum {
        MANY = 100, /* more than share one */
    };
    const struct fixture *fixture = *state;
    struct writer writers[MANY];
    for (size_t i = 0; i < MANY; i++)
        writers[i] =
            (struct writer){.statement = "INSERT INTO settings SELECT 'test ' || count(*), 1 FROM settings"};
    write_together(fixture->database, writers, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(0, writers[i].result);
    assert_int_equal(MANY, count(fixture->database));
    assert_int_equal(2, syncs);
}

static void a_turn_is_undone_by_itself(void **state)
{
    const struct fixture *fixture = *state;
    for (size_t failing = 0; failing < 3; failing++) {
        struct writer writers[] = {
            {.statement = INSERT("1")}, {.statement = INSERT("2")}, {.statement = INSERT("3")}};
        writers[failing].error = -ENOENT;
        write_together(fixture->database, writers, 3);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(i == failing ? -ENOENT : 0, writers[i].result);
        assert_int_equal(2, count(fixture->database));
        struct writer cleaner = {.statement = "DELETE FROM settings WHERE name LIKE 'test%'"};
        write_together(fixture->database, &cleaner, 1);
        assert_int_equal(0, cleaner.result);
    }
}

/* It may tell of what it saw: that a key was used, or an address is taken. */
static void who_writes_nothing_waits_for_what_it_saw(void **state)
{
    const struct fixture *fixture = *state;
    for (size_t failing = 0; failing < 2; failing++) {
        struct writer writers[] = {
            {.statement = failing ? INSERT("1") : INSERT("2")},
            {.statement = "SELECT name FROM settings", .error = failing ? -EEXIST : 0}};
        write_together(fixture->database, writers, 2);
        assert_int_equal(0, writers[0].result);
        assert_int_equal(writers[1].error, writers[1].result);
        assert_int_equal(1, syncs);
        assert_int_equal(0, returned_before_sync);
    }
}

static void where_the_commit_fails_all_hear_of_it(void **state)
{
    const struct fixture *fixture = *state;
    struct writer writers[] = {{.statement = INSERT("1")},
                               {.statement = INSERT("2")},
                               {.statement = "SELECT name FROM settings", .error = -EEXIST}};
    is_disk_broken = true;
    write_together(fixture->database, writers, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(-EIO, writers[i].result);
    is_disk_broken = false;
    assert_int_equal(0, count(fixture->database));
    struct writer after = {.statement = INSERT("4")};
    write_together(fixture->database, &after, 1);
    assert_int_equal(0, after.result);
    assert_int_equal(1, count(fixture->database));
}

/* SQLite undoes the whole transaction by itself where the disk is full. */
static void what_a_full_disk_undoes_is_not_taken_for_done(void **state)
{
    const struct fixture *fixture = *state;
    for (size_t full = 0; full < 3; full++) {
        struct writer writers[] = {
            {.statement = INSERT("1")}, {.statement = INSERT("2")}, {.statement = INSERT("3")}};
        struct writer limit = {.statement = "PRAGMA max_page_count = 1"};
        write_together(fixture->database, &limit, 1);
        writers[full].statement = "INSERT INTO settings VALUES ('test big', zeroblob(1000000))";
        write_together(fixture->database, writers, 3);
        for (size_t i = 0; i <= full; i++)
            assert_int_equal(-ENOSPC, writers[i].result);
        for (size_t i = full + 1; i < 3; i++)
            assert_int_equal(0, writers[i].result);
        assert_int_equal(2 - full, count(fixture->database));
        struct writer cleaner = {.statement = "DELETE FROM settings WHERE name LIKE 'test%'"};
        write_together(fixture->database, &cleaner, 1);
    }
}

static void who_awaits_a_commit_hears_of_it(void **state)
{
    const struct fixture *fixture = *state;
    struct database *database = fixture->database;
    struct cancel cancel;
    cancel_init(&cancel);
    uint64_t seen = database_commits(database);
    int64_t now = clock_monotonic_ms(clock_system());
    assert_int_equal(-ETIMEDOUT, database_await_commit(database, seen, now + 20, &cancel));
    struct writer undone = {.statement = INSERT("1"), .error = -EEXIST};
    write_together(database, &undone, 1);
    assert_int_equal(seen, database_commits(database));
    struct writer writer = {.statement = INSERT("2")};
    write_together(database, &writer, 1);
    assert_int_equal(0, database_await_commit(database, seen, CLOCK_FOREVER, &cancel));
    cancel_set(&cancel);
    assert_int_equal(-EINTR, database_await_commit(database, seen + 1, CLOCK_FOREVER, &cancel));
    cancel_release(&cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_waits_together_shares_a_commit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_commit_is_not_put_off_for_ever, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_turn_is_undone_by_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_writes_nothing_waits_for_what_it_saw, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_the_commit_fails_all_hear_of_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_full_disk_undoes_is_not_taken_for_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_awaits_a_commit_hears_of_it, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
