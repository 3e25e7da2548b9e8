/* SPDX-License-Identifier: MIT */
/*
 * SQLite's result codes become errno values; a file that cannot be opened gives the errno of the system. The
 * runs of a kept statement do not affect each other.
 */
#include "sql/query.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/temp_dir.h"
#include "support/test.h"

static int open_and_use(const char *path)
{
    sqlite3 *db = NULL;
    int result = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL);
    int error = query_error_on(db, result);
    sqlite3_close(db);
    return error;
}

TEST(a_failed_open_returns_the_systems_errno)
{
    assert_int_equal(open_and_use("/nowhere/at/all"), -ENOENT);
    assert_int_equal(query_error_on(NULL, SQLITE_CANTOPEN), -EACCES);
}

/* SQLite opens the other files, such as the journal, only when a statement needs them. */
TEST(too_many_open_files_give_emfile)
{
    struct temp_dir dir;
    struct connection connection = {0};
    char path[sizeof(dir.path) + 8];
    struct rlimit before;
    temp_dir_init(&dir);
    snprintf(path, sizeof(path), "%s/db", dir.path);
    assert_int_equal(sqlite3_open(path, &connection.db), SQLITE_OK);
    assert_int_equal(query_execute(&connection, "CREATE TABLE numbers (n)", ""), 0);

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(dir.fd);
    close(next);
    const struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int opened = open_and_use(path);
    int written = query_execute(&connection, "INSERT INTO numbers VALUES (1)", "");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(opened, -EMFILE);
    assert_int_equal(written, -EMFILE);
    assert_int_equal(query_execute(&connection, "INSERT INTO numbers VALUES (1)", ""), 0);
    connection_close(&connection);
    temp_dir_release(&dir);
}

TEST(bound_values_are_read_back)
{
    static const int64_t numbers[] = {0, -1, INT64_MAX, INT64_MIN, INT64_C(1795168800000)};
    static const char bytes[] = "a\0b";
    struct connection connection = {0};
    assert_int_equal(sqlite3_open(":memory:", &connection.db), SQLITE_OK);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        int64_t read = 7;
        assert_int_equal(query_integers(&connection, &read, 1, "SELECT ?", "i", numbers[i]), 0);
        assert_true(read == numbers[i]);
    }
    mallopt(M_PERTURB, 0x5a); /* no byte is zero by chance */
    for (size_t len = 0; len < 100; len++) {
        struct statement statement;
        size_t copied = 0;
        char text[101];
        memset(text, 'x', len);
        text[len] = '\0';
        assert_int_equal(
            query_begin(&connection, &statement, "SELECT ?, ?, NULL", "sb", text, bytes, sizeof(bytes)), 0);
        memset(text, 'y', len); /* SQLite has a copy of the text */
        assert_int_equal(query_step(statement.row), 1);
        char *copy = query_column_copy(statement.row, 0, &copied);
        assert_int_equal(copied, len);
        assert_int_equal(strspn(copy, "x"), len);
        assert_int_equal(copy[len], '\0');
        free(copy);
        copy = query_column_copy(statement.row, 1, &copied);
        assert_int_equal(copied, sizeof(bytes));
        assert_memory_equal(copy, bytes, sizeof(bytes));
        free(copy);
        assert_null(query_column_copy(statement.row, 2, NULL));
        query_end(&statement);
    }
    mallopt(M_PERTURB, 0);
    connection_close(&connection);
}

/* ---------------------------------------------------------------- statements that run again */

#define ADD "INSERT INTO t (id, name) VALUES (?, ?)"
#define COUNT "SELECT count(*), max(id) FROM t WHERE name IS ?"
#define GET "SELECT id FROM t WHERE name = ?"

static int set_up(void **state)
{
    static struct connection connection;
    assert_int_equal(sqlite3_open(":memory:", &connection.db), SQLITE_OK);
    assert_int_equal(query_script(connection.db, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"), 0);
    *state = &connection;
    return 0;
}

static int tear_down(void **state)
{
    connection_close(*state);
    return 0;
}

TEST_WITH(a_statement_can_run_again_with_other_arguments, set_up, tear_down)
{
    struct connection *connection = *state;
    int64_t values[2];
    int64_t id = 0;
    assert_int_equal(query_execute(connection, ADD, "is", (int64_t)7, "one"), 0);
    assert_int_equal(query_execute(connection, ADD, "is", (int64_t)9, "one"), 0);
    assert_int_equal(query_execute(connection, ADD, "is", (int64_t)8, NULL), 0);
    assert_int_equal(query_integers(connection, values, 2, COUNT, "s", "one"), 0);
    assert_int_equal(values[0], 2);
    assert_int_equal(values[1], 9);
    /* Earlier bindings do not remain. */
    assert_int_equal(query_integers(connection, values, 2, COUNT, ""), 0);
    assert_int_equal(values[0], 1);
    assert_int_equal(values[1], 8);
    assert_int_equal(query_integers(connection, &id, 1, GET, "s", "one"), 0);
    assert_int_equal(id, 7);
    assert_int_equal(query_integers(connection, &id, 1, GET, "s", "two"), -ENOENT);
    assert_int_equal(id, 7);
}

TEST_WITH(a_failed_statement_can_run_again, set_up, tear_down)
{
    static const char broken[] = "SELECT nothing FROM nowhere";
    struct connection *connection = *state;
    int64_t value;
    assert_int_equal(query_execute(connection, "BEGIN", ""), 0);
    assert_int_equal(query_execute(connection, ADD, "is", (int64_t)1, "one"), 0);
    assert_int_equal(query_execute(connection, ADD, "is", (int64_t)1, "again"), -EEXIST);
    assert_int_equal(query_execute(connection, ADD, "is", (int64_t)2, "two"), 0);
    assert_int_equal(query_integers(connection, &value, 1, GET, "s", "two"), 0);
    /* COMMIT would fail if a statement was still open. */
    assert_int_equal(query_execute(connection, "COMMIT", ""), 0);
    assert_int_equal(query_integers(connection, &value, 1, broken, ""), -EINVAL);
    assert_int_equal(query_integers(connection, &value, 1, broken, ""), -EINVAL);
}

TEST_WITH(a_value_that_is_too_long_is_refused, set_up, tear_down)
{
    struct connection *connection = *state;
    int64_t count;
    sqlite3_limit(connection->db, SQLITE_LIMIT_LENGTH, 100);
    char text[200];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(query_execute(connection, ADD, "is", (int64_t)7, text), -EMSGSIZE);
    assert_int_equal(query_integers(connection, &count, 1, COUNT, ""), 0);
    assert_int_equal(count, 0);
}

static size_t count_prepared(const struct connection *connection)
{
    size_t count = 0;
    for (sqlite3_stmt *at = NULL; (at = sqlite3_next_stmt(connection->db, at)) != NULL;)
        count++;
    return count;
}

TEST_WITH(a_statement_that_ended_is_used_again, set_up, tear_down)
{
    struct connection *connection = *state;
    struct statement first, second;
    assert_int_equal(query_begin(connection, &first, COUNT, ""), 0);
    const sqlite3_stmt *prepared = first.row;
    query_end(&first);
    assert_null(first.row);
    /* The text counts, not its address. */
    char *copy = strdup(COUNT);
    assert_int_equal(query_first(connection, &second, copy, ""), 0);
    free(copy);
    assert_ptr_equal(second.row, prepared);
    assert_int_equal(count_prepared(connection), 1);
    query_end(&second);
}

TEST_WITH(a_statement_in_use_is_not_shared, set_up, tear_down)
{
    struct connection *connection = *state;
    struct statement outer, inner;
    for (int64_t id = 1; id <= 3; id++)
        assert_int_equal(query_execute(connection, ADD, "is", id, "one"), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(query_first(connection, &outer, GET, "s", "one"), 0);
        assert_int_equal(query_first(connection, &inner, GET, "s", "two"), -ENOENT);
        assert_int_equal(query_first(connection, &inner, GET, "s", "one"), 0);
        assert_int_equal(query_step(outer.row), 1);
        assert_int_equal(sqlite3_column_int64(outer.row, 0), 2);
        assert_int_equal(sqlite3_column_int64(inner.row, 0), 1);
        query_end(&inner);
        assert_int_equal(query_step(outer.row), 1);
        assert_int_equal(query_step(outer.row), 0);
        query_end(&outer);
        assert_int_equal(count_prepared(connection), 2); /* ADD and one GET */
    }
}

TEST_WITH(a_connection_keeps_at_most_64_statements, set_up, tear_down)
{
    struct connection *connection = *state;
    for (int64_t i = 0; i < 200; i++) {
        char sql[32];
        int64_t value = -1;
        snprintf(sql, sizeof(sql), "SELECT %d", (int)i);
        assert_int_equal(query_integers(connection, &value, 1, sql, ""), 0);
        assert_int_equal(value, i);
    }
    assert_int_equal(count_prepared(connection), 64);
}

TEST_WITH(query_first_returns_enoent_without_a_row, set_up, tear_down)
{
    static const char sql[] = "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)"
                              " SELECT i FROM n WHERE ?1 <= 3";
    struct connection *connection = *state;
    struct statement statement;
    assert_int_equal(query_first(connection, &statement, sql, "i", INT64_C(2)), 0);
    assert_int_equal(sqlite3_column_int64(statement.row, 0), 2);
    assert_int_equal(query_step(statement.row), 1);
    assert_int_equal(sqlite3_column_int64(statement.row, 0), 3);
    assert_int_equal(query_step(statement.row), 0);
    query_end(&statement);
    assert_int_equal(query_first(connection, &statement, sql, "i", INT64_C(4)), -ENOENT);
    assert_null(statement.row);
    assert_int_equal(query_first(connection, &statement, "SELECT nothing", ""), -EINVAL);
    assert_null(statement.row);
}
