/* SPDX-License-Identifier: MIT */
/*
 * Texts of records that were replaced: what is done with them, and who waits for it.
 */
#include "store/records.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "support/temp_dir.h"

enum {
    TEXTS = 5000,
    DELETED_AT_ONCE_MAX = 2 * 2000, /* each has two rows */
};

struct world {
    struct temp_dir dir;
    struct state_file file;
    struct records records;
};

static int visit_no_inbox(void *context, const struct inbox_row *row)
{
    (void)context;
    (void)row;
    return 0;
}

static int visit_no_email(void *context, const struct email_row *row)
{
    (void)context;
    (void)row;
    return 0;
}

static int set_up(void **state)
{
    static struct world world;
    const struct records_visitor visitor = {visit_no_inbox, visit_no_email, NULL};
    temp_dir_init(&world.dir);
    assert_int_equal(records_open_file(&world.file, world.dir.fd), 0);
    assert_int_equal(records_load(&world.records, &world.file, RECORDS_RECEIVED, &visitor), 0);
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    records_release(&world->records);
    state_file_release(&world->file);
    temp_dir_release(&world->dir);
    return 0;
}

struct deletions {
    unsigned int now; /* in this transaction */
    unsigned int most;
    unsigned int all;
};

static void note_row(void *context, int change, const char *database, const char *table, sqlite3_int64 row)
{
    struct deletions *deletions = context;
    (void)database;
    (void)table;
    (void)row;
    if (change != SQLITE_DELETE)
        return;
    deletions->all++;
    if (++deletions->now > deletions->most)
        deletions->most = deletions->now;
}

static int note_commit(void *context)
{
    ((struct deletions *)context)->now = 0;
    return 0;
}

/* Whoever reads a text waits for each. */
static void many_replaced_texts_go_in_pieces(void **state)
{
    struct world *world = *state;
    struct records *records = &world->records;
    struct deletions deletions = {0};
    char *json = NULL;
    assert_int_equal(records_begin(records), 0);
    for (uint64_t text = 1; text <= TEXTS + 1; text++) {
        assert_int_equal(records_add_text(records, text, "{}", 2), 0);
        if (text <= TEXTS)
            assert_int_equal(records_note_replaced(records, text), 0);
    }
    assert_int_equal(records_commit(records), 0);
    sqlite3_update_hook(world->file.db, note_row, &deletions);
    sqlite3_commit_hook(world->file.db, note_commit, &deletions);
    records_clean(records);
    sqlite3_update_hook(world->file.db, NULL, NULL);
    sqlite3_commit_hook(world->file.db, NULL, NULL);
    assert_int_equal(deletions.all, 2 * TEXTS);
    assert_in_range(deletions.most, 1, DELETED_AT_ONCE_MAX);
    assert_int_equal(records_read_text(records, 1, 2, &json), -EIO);
    assert_int_equal(records_read_text(records, TEXTS, 2, &json), -EIO);
    assert_int_equal(records_read_text(records, TEXTS + 1, 2, &json), 0);
    free(json);
}

/* A text that somebody is about to read may be freed: its number says so, and is not given again. */
static void what_is_in_memory_is_freed_once_it_is_unused(void **state)
{
    struct world *world = *state;
    struct records *records = &world->records;
    char *json = NULL;
    uint64_t texts[3];
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_int_equal(records_keep_in_memory(records, "{}", 2, -ENOSPC, &texts[i]), 0);
    records_note_unused(records, texts[0]);
    assert_int_equal(records_read_text(records, texts[0], 2, &json), 0);
    free(json);
    records_clean(records);
    assert_int_equal(records_read_text(records, texts[0], 2, &json), -EIO);
    assert_int_equal(records_keep_in_memory(records, "[]", 2, -ENOSPC, &texts[2]), 0);
    assert_int_equal(records_read_text(records, texts[0], 2, &json), -EIO);
    assert_int_equal(records_read_text(records, texts[1], 2, &json), 0);
    assert_string_equal(json, "{}");
    free(json);
    records_note_unused(records, texts[0]);
    records_note_unused(records, 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        TEST(many_replaced_texts_go_in_pieces),
        TEST(what_is_in_memory_is_freed_once_it_is_unused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
