/* SPDX-License-Identifier: MIT */
/*
 * Statements that are kept: each run stands for itself.
 */
#include "sql/kept_queries.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum {
    BEGIN,
    COMMIT,
    ADD,
    COUNT,
    GET,
    BROKEN,
};

static const char *const texts[] = {
    [BEGIN] = "BEGIN",
    [COMMIT] = "COMMIT",
    [ADD] = "INSERT INTO t (id, name) VALUES (?, ?)",
    [COUNT] = "SELECT count(*), max(id) FROM t WHERE name IS ?",
    [GET] = "SELECT id FROM t WHERE name = ?",
    [BROKEN] = "SELECT nothing FROM nowhere",
};

static int set_up(void **state)
{
    static struct kept_queries queries;
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)", NULL, NULL, NULL),
                     SQLITE_OK);
    kept_queries_init(&queries, db, texts);
    *state = &queries;
    return 0;
}

static int tear_down(void **state)
{
    struct kept_queries *queries = *state;
    sqlite3 *db = queries->db;
    kept_queries_release(queries);
    return sqlite3_close(db) == SQLITE_OK ? 0 : -1;
}

static void statements_are_run_again_with_other_arguments(void **state)
{
    struct kept_queries *queries = *state;
    int64_t values[2];
    int64_t id = 0;
    assert_int_equal(kept_queries_execute(queries, ADD, "is", (int64_t)7, "one"), 0);
    assert_int_equal(kept_queries_execute(queries, ADD, "is", (int64_t)9, "one"), 0);
    assert_int_equal(kept_queries_execute(queries, ADD, "is", (int64_t)8, NULL), 0);
    assert_int_equal(kept_queries_integers(queries, COUNT, values, 2, "s", "one"), 0);
    assert_int_equal(values[0], 2);
    assert_int_equal(values[1], 9);
    /* What was bound before does not stay. */
    assert_int_equal(kept_queries_integers(queries, COUNT, values, 2, ""), 0);
    assert_int_equal(values[0], 1);
    assert_int_equal(values[1], 8);
    assert_int_equal(kept_queries_integers(queries, GET, &id, 1, "s", "one"), 0);
    assert_int_equal(id, 7);
    assert_int_equal(kept_queries_integers(queries, GET, &id, 1, "s", "two"), -ENOENT);
    assert_int_equal(id, 7);
}

static void what_fails_can_be_run_again(void **state)
{
    struct kept_queries *queries = *state;
    int64_t value;
    assert_int_equal(kept_queries_execute(queries, BEGIN, ""), 0);
    assert_int_equal(kept_queries_execute(queries, ADD, "is", (int64_t)1, "one"), 0);
    assert_int_equal(kept_queries_execute(queries, ADD, "is", (int64_t)1, "again"), -EEXIST);
    assert_int_equal(kept_queries_execute(queries, ADD, "is", (int64_t)2, "two"), 0);
    assert_int_equal(kept_queries_integers(queries, GET, &value, 1, "s", "two"), 0);
    /* A statement left open would keep this from succeeding. */
    assert_int_equal(kept_queries_execute(queries, COMMIT, ""), 0);
    assert_int_equal(kept_queries_integers(queries, BROKEN, &value, 1, ""), -EINVAL);
    assert_int_equal(kept_queries_integers(queries, BROKEN, &value, 1, ""), -EINVAL);
}

static void without_a_database_everything_fails(void **state)
{
    struct kept_queries queries;
    (void)state;
    kept_queries_init(&queries, NULL, texts);
    assert_int_equal(kept_queries_execute(&queries, BEGIN, ""), -EINVAL);
    kept_queries_release(&queries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(statements_are_run_again_with_other_arguments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_fails_can_be_run_again, set_up, tear_down),
        cmocka_unit_test(without_a_database_everything_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
