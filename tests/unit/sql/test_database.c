/* SPDX-License-Identifier: MIT */
/*
 * Covers turns (writers that wait together share one commit), the steps of a format, and files that are
 * damaged, foreign or of a newer version: they are refused, or set aside if the format is expendable.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/test.h"

#include "sql/database.h"
#include "support/disk.h"
#include "support/temp_dir.h"

static atomic_uint returned; /* writers that have returned from database_end_write() */
static atomic_uint returned_before_sync;

static void note_returned_before_sync(int fd)
{
    returned_before_sync = returned;
}

struct writer {
    pthread_t thread;
    struct database *database;
    const char *statement; /* executed in the turn */
    int error;             /* result of the turn if the statement succeeds */
    atomic_int thread_id;  /* 0 before the thread runs */
    int result;
};

static int write_in_turn(struct writer *writer, struct connection *connection)
{
    int error = query_execute(connection, writer->statement, "");
    return database_end_write(writer->database, error != 0 ? error : writer->error);
}

static void *run_writer(void *argument)
{
    struct writer *writer = argument;
    struct connection *connection = NULL;
    writer->thread_id = (int)syscall(SYS_gettid);
    writer->result = database_begin_write(writer->database, &connection);
    if (writer->result == 0)
        writer->result = write_in_turn(writer, connection);
    returned++;
    return NULL;
}

static void await_sleep(const atomic_int *thread_id)
{
    char path[64];
    char state = 'R';
    while (*thread_id == 0)
        sched_yield();
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", *thread_id);
    while (state != 'S') {
        sched_yield();
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_int_equal(1, fscanf(file, "%*d (%*[^)]) %c", &state));
        fclose(file);
    }
}

/* The first writer keeps its turn until all others wait for theirs. */
static void write_together(struct database *database, struct writer *writers, size_t len)
{
    struct connection *connection = NULL;
    returned = returned_before_sync = 0;
    disk_forget_syncs();
    disk_call_before_syncs(note_returned_before_sync);
    assert_int_equal(0, database_begin_write(database, &connection));
    for (size_t i = 1; i < len; i++) {
        writers[i].database = database;
        assert_int_equal(0, pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]));
        await_sleep(&writers[i].thread_id);
    }
    writers[0].database = database;
    writers[0].result = write_in_turn(&writers[0], connection);
    returned++;
    for (size_t i = 1; i < len; i++)
        pthread_join(writers[i].thread, NULL);
}

static int64_t count(struct database *database)
{
    struct connection *connection = NULL;
    int64_t rows = -1;
    assert_int_equal(0, database_begin_read(database, &connection));
    assert_int_equal(0, query_integers(connection, &rows, 1, "SELECT count(*) FROM settings", ""));
    database_return_reader(connection);
    return rows;
}

static const struct database_step steps[] = {{"CREATE TABLE settings (name TEXT PRIMARY KEY, value)", NULL}};
static const struct database_format format = {.name = "db", .steps = steps, .steps_len = ARRAY_LEN(steps)};
static const struct database_format expendable = {
    .name = "db", .steps = steps, .steps_len = ARRAY_LEN(steps), .is_expendable = true};

struct fixture {
    struct temp_dir dir;
    struct database *database;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    temp_dir_init(&fixture->dir);
    assert_int_equal(0, database_open(fixture->dir.fd, &format, DATABASE_ALONE, &fixture->database));
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    disk_reset();
    database_free(fixture->database);
    temp_dir_release(&fixture->dir);
    free(fixture);
    return 0;
}

#define INSERT(name) "INSERT INTO settings VALUES ('test " name "', 1)"

TEST_WITH(writers_that_wait_together_share_a_commit, set_up, tear_down)
{
    const struct fixture *fixture = *state;
    struct writer writers[] = {{.statement = INSERT("1")}, {.statement = INSERT("2")},
                               {.statement = INSERT("3")}, {.statement = INSERT("4")},
                               {.statement = INSERT("5")}, {.statement = INSERT("6")}};
    write_together(fixture->database, writers, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(0, writers[i].result);
    assert_int_equal(6, count(fixture->database));
    assert_int_equal(1, disk_count_syncs(""));
    assert_int_equal(0, returned_before_sync);
}

TEST_WITH(a_transaction_ends_after_64_turns, set_up, tear_down)
{
    enum {
        MANY = 100, /* more turns than one transaction has */
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
    assert_int_equal(2, disk_count_syncs(""));
}

TEST_WITH(a_turn_is_undone_without_the_other_turns, set_up, tear_down)
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

/* The caller may report what it read, such as a used key, so the writes that it saw must be durable. */
TEST_WITH(a_turn_without_writes_waits_for_the_commit_that_it_saw, set_up, tear_down)
{
    const struct fixture *fixture = *state;
    for (size_t failing = 0; failing < 2; failing++) {
        struct writer writers[] = {
            {.statement = failing ? INSERT("1") : INSERT("2")},
            {.statement = "SELECT name FROM settings", .error = failing ? -EEXIST : 0}};
        write_together(fixture->database, writers, 2);
        assert_int_equal(0, writers[0].result);
        assert_int_equal(writers[1].error, writers[1].result);
        assert_int_equal(1, disk_count_syncs(""));
        assert_int_equal(0, returned_before_sync);
    }
}

TEST_WITH(a_failed_commit_fails_every_turn_in_it, set_up, tear_down)
{
    const struct fixture *fixture = *state;
    struct writer writers[] = {{.statement = INSERT("1")},
                               {.statement = INSERT("2")},
                               {.statement = "SELECT name FROM settings", .error = -EEXIST}};
    disk_fail_syncs("", EIO);
    write_together(fixture->database, writers, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(-EIO, writers[i].result);
    disk_fail_syncs("", 0);
    assert_int_equal(0, count(fixture->database));
    struct writer after = {.statement = INSERT("4")};
    write_together(fixture->database, &after, 1);
    assert_int_equal(0, after.result);
    assert_int_equal(1, count(fixture->database));
}

/* On a full disk, SQLite itself undoes the whole transaction. */
TEST_WITH(turns_that_a_full_disk_undoes_fail, set_up, tear_down)
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

TEST_WITH(await_commit_waits_for_a_commit_a_deadline_or_a_cancel, set_up, tear_down)
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

/* ---------------------------------------------------------------- steps and damage */

static void execute(struct database *database, const char *sql)
{
    struct connection *connection = NULL;
    assert_int_equal(0, database_begin_write(database, &connection));
    assert_int_equal(0, database_end_write(database, query_script(connection->db, sql)));
}

static int reopen(struct fixture *fixture, const struct database_format *as)
{
    database_free(fixture->database);
    fixture->database = NULL;
    return database_open(fixture->dir.fd, as, DATABASE_ALONE, &fixture->database);
}

static int copy_name(struct connection *connection)
{
    return query_execute(connection, "INSERT INTO copies SELECT name FROM settings", "");
}

TEST_WITH(an_older_file_is_updated_by_the_missing_steps, set_up, tear_down)
{
    struct fixture *fixture = *state;
    const struct database_step more[] = {
        steps[0], {"CREATE TABLE copies (name)", copy_name}, {"DELETE FROM settings", NULL}};
    const struct database_format newer = {.name = "db", .steps = more, .steps_len = ARRAY_LEN(more)};
    execute(fixture->database, INSERT("1"));
    assert_int_equal(0, reopen(fixture, &newer));
    assert_int_equal(0, count(fixture->database));
    execute(fixture->database, "INSERT INTO settings SELECT name, 1 FROM copies");
    assert_int_equal(1, count(fixture->database));
    assert_int_equal(-EPROTO, reopen(fixture, &format));
}

static int run_out_of_memory(struct connection *connection)
{
    return -ENOMEM;
}

TEST_WITH(a_step_that_fails_changes_nothing, set_up, tear_down)
{
    struct fixture *fixture = *state;
    const struct database_step more[] = {steps[0], {"DROP TABLE settings", NULL}, {"", run_out_of_memory}};
    const struct database_format newer = {.name = "db", .steps = more, .steps_len = ARRAY_LEN(more)};
    execute(fixture->database, INSERT("1"));
    assert_int_equal(-ENOMEM, reopen(fixture, &newer));
    assert_int_equal(0, reopen(fixture, &format));
    assert_int_equal(1, count(fixture->database));
}

static void write_garbage(const struct fixture *fixture)
{
    _cleanup_close_ int fd = openat(fixture->dir.fd, "db", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(20, write(fd, "this is no database\n", 20));
}

TEST_WITH(a_damaged_file_is_refused_and_not_changed, set_up, tear_down)
{
    struct fixture *fixture = *state;
    database_free(fixture->database);
    fixture->database = NULL;
    write_garbage(fixture);
    assert_int_equal(-EUCLEAN, reopen(fixture, &format));
    assert_int_equal(0, faccessat(fixture->dir.fd, "db", F_OK, 0));
    assert_int_not_equal(0, faccessat(fixture->dir.fd, "db.set-aside", F_OK, 0));
}

TEST_WITH(an_expendable_file_that_is_damaged_is_set_aside, set_up, tear_down)
{
    struct fixture *fixture = *state;
    database_free(fixture->database);
    fixture->database = NULL;
    write_garbage(fixture);
    assert_int_equal(0, reopen(fixture, &expendable));
    assert_int_equal(0, count(fixture->database));
    assert_int_equal(0, faccessat(fixture->dir.fd, "db.set-aside", F_OK, 0));
}

TEST_WITH(an_expendable_file_of_another_version_is_set_aside, set_up, tear_down)
{
    struct fixture *fixture = *state;
    static const char *const foreign[] = {"PRAGMA user_version = 2", "PRAGMA user_version = 0"};
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
        execute(fixture->database, INSERT("1"));
        struct connection *connection = NULL;
        assert_int_equal(0, database_take_reader(fixture->database, &connection));
        assert_int_equal(0, query_execute(connection, foreign[i], ""));
        database_return_reader(connection);
        assert_int_equal(0, reopen(fixture, &expendable));
        assert_int_equal(0, count(fixture->database));
    }
}

TEST_WITH(a_symbolic_link_in_place_of_the_file_is_set_aside, set_up, tear_down)
{
    struct fixture *fixture = *state;
    database_free(fixture->database);
    fixture->database = NULL;
    assert_int_equal(0, unlinkat(fixture->dir.fd, "db", 0));
    assert_int_equal(0, symlinkat("elsewhere", fixture->dir.fd, "db"));
    assert_int_equal(0, reopen(fixture, &expendable));
    assert_int_not_equal(0, faccessat(fixture->dir.fd, "elsewhere", F_OK, 0));
}

static atomic_int renewing_thread;

static void *renew(void *argument)
{
    struct fixture *fixture = argument;
    renewing_thread = (int)syscall(SYS_gettid);
    assert_int_equal(0, database_renew(fixture->database));
    return NULL;
}

TEST_WITH(a_renewal_waits_for_readers_and_empties_the_file, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct connection *connection = NULL;
    pthread_t thread;
    int64_t rows = 0;
    assert_int_equal(0, reopen(fixture, &expendable));
    execute(fixture->database, INSERT("1"));
    assert_int_equal(0, database_begin_read(fixture->database, &connection));
    assert_int_equal(0, pthread_create(&thread, NULL, renew, fixture));
    await_sleep(&renewing_thread);
    assert_int_equal(0, query_integers(connection, &rows, 1, "SELECT count(*) FROM settings", ""));
    assert_int_equal(1, rows);
    database_return_reader(connection);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(0, count(fixture->database));
    execute(fixture->database, INSERT("2"));
    assert_int_equal(0, reopen(fixture, &expendable));
    assert_int_equal(1, count(fixture->database));
}

TEST_WITH(a_renewal_stopped_by_a_full_disk_can_be_repeated, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct connection *connection = NULL;
    assert_int_equal(0, reopen(fixture, &expendable));
    execute(fixture->database, INSERT("1"));
    disk_fill(0);
    int renewed = database_renew(fixture->database);
    int written = database_begin_write(fixture->database, &connection);
    int read = database_begin_read(fixture->database, &connection);
    disk_empty();
    assert_true(renewed < 0);
    assert_int_equal(renewed, written);
    assert_int_not_equal(0, read);
    assert_int_equal(0, database_renew(fixture->database));
    execute(fixture->database, INSERT("2"));
    assert_int_equal(1, count(fixture->database));
}

TEST_WITH(an_expendable_commit_does_not_wait_for_the_disk, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(0, reopen(fixture, &expendable));
    execute(fixture->database, INSERT("1")); /* begins the log, whose head is synced */
    disk_forget_syncs();
    execute(fixture->database, INSERT("2"));
    assert_int_equal(0, disk_count_syncs(""));
}
