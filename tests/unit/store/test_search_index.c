/* SPDX-License-Identifier: MIT */
/*
 * The full-text index by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "store/search_index.h"
#include "support/temp_dir.h"

struct fixture {
    struct temp_dir dir;
    struct search_index *index;
    struct strbuf found;
    size_t wanted;
    size_t hits;
    bool stops;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fixture->found = STRBUF_INIT(1 << 16);
    temp_dir_init(&fixture->dir);
    assert_int_equal(search_index_open(fixture->dir.fd, &fixture->index), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    search_index_free(fixture->index);
    strbuf_release(&fixture->found);
    temp_dir_release(&fixture->dir);
    free(fixture);
    return 0;
}

static void put(struct fixture *fixture, const char *key, int64_t date_ms, int64_t pass, const char *json)
{
    const struct search_entry entry = {.inbox_id = "in-1",
                                       .key = key,
                                       .digest = (int64_t)strlen(json) + json[strlen(json) / 2],
                                       .date_ms = date_ms,
                                       .json = json,
                                       .json_len = strlen(json)};
    assert_int_equal(search_index_begin(fixture->index), 0);
    assert_int_equal(search_index_put(fixture->index, &entry, pass), 0);
    assert_int_equal(search_index_end(fixture->index), 0);
}

static bool take(void *context, const char *inbox_id, const char *key)
{
    struct fixture *fixture = context;
    assert_string_equal(inbox_id, "in-1");
    strbuf_appendf(&fixture->found, "%s%s", fixture->found.len > 0 ? " " : "", key);
    return ++fixture->hits != fixture->wanted;
}

static bool look(void *context)
{
    const struct fixture *fixture = context;
    return fixture->stops;
}

static void parse(const char *text, struct search_query *ret_query)
{
    _cleanup_free_ char *reason = NULL;
    assert_int_equal(search_query_parse(text, 0, ret_query, &reason), 0);
}

static const char *find(struct fixture *fixture, const char *text)
{
    struct search_query query;
    strbuf_clear(&fixture->found);
    fixture->hits = 0;
    parse(text, &query);
    assert_int_equal(search_index_find(fixture->index, &query, take, look, fixture), 0);
    search_query_release(&query);
    return strbuf_str(&fixture->found);
}

static void reopen(struct fixture *fixture)
{
    search_index_free(fixture->index);
    assert_int_equal(search_index_open(fixture->dir.fd, &fixture->index), 0);
}

static void put_letters(struct fixture *fixture)
{
    put(fixture, "a", 1000, 1,
        "{\"subject\": \"Quarterly report\", \"from_address\": {\"address\": \"bob@x.example\", \"name\": "
        "\"Bob Smith\"}}");
    put(fixture, "b", 2000, 1,
        "{\"subject\": \"Re: the report of the quarter\", \"from_address\": {\"address\": "
        "\"carol@y.example\"}, \"to_addresses\": [{\"address\": \"alice@inbox.example\"}]}");
    put(fixture, "c", 3000, 1, "{\"subject\": \"Stra\u00dfe, \u00c4rger und \u4f1a\u8b70\"}");
}

static void words_phrases_and_senders_find_the_newest_first(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *query;
        const char *found;
    } rows[] = {
        {"report", "b a"},
        {"REPORT quarter", "b a"},
        {"quarterly", "a"},
        {"rep", "b a"},
        {"\"report of\"", "b"},
        {"\"rep\"", ""},
        {"report nothing", ""},
        {"report from:BOB", "a"},
        {"from:smith", "a"},
        {"from:x.ex from:bob", "a"},
        {"from:\"bob smith\" report", "a"},
        {"from:zoe report", ""},
        {"alice@inbox.example", "b"},
        {"arger", "c"},
        {"\u00e4rger", "c"},
        {"\u4f1a", "c"},
        {"report OR arger", "c b a"},
        {"report quarterly OR of", "b a"},
        {"quarterly OR arger report", "a"},
        {"subject:report", "b a"},
        {"subject:alice", ""},
        {"subject:\"the report\"", "b"},
        {"subject:\"the rep\"", ""},
        {"to:alice", "b"},
        {"to:carol", ""},
        {"from:carol OR from:smith", "b a"},
        {"from:alice", ""},
        {"subject:quarterly OR to:alice report", "b a"},
        {"has:attachment", ""},
        {"-has:attachment", ""},
    };
    put_letters(fixture);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_string_equal(find(fixture, rows[i].query), rows[i].found);
}

static void what_looks_like_a_language_is_only_words(void **state)
{
    struct fixture *fixture = *state;
    static const char *const hostile[] = {
        "report AND zzz",
        "subject:^zzz",
        "to:\"zzz OR report",
        "^zzz",
        "NEAR(zzz report)",
        "{subject people}:zzz",
        "zzz*",
        "zzz'",
        "zzz\"",
        "\"\"\"zzz\"\"\"",
        "zzz;DROP TABLE texts",
        "zzz' OR 'zzz'='1",
        "zzz/*",
        "zzz + zzz",
        "(zzz",
        "zzz)",
        "zzz\\",
        "?1 zzz",
        ":zzz",
        "@zzz",
        "$zzz",
        "zzz%",
        "zzz_",
        "rank zzz",
        "texts zzz",
        "\x01zzz",
        "zzz\xe2\x80\xae",
        "from:'x%' zzz",
        "zzz--",
        "#zzz",
        "zzz|zzz",
        "zzz,zzz",
    };
    put_letters(fixture);
    for (size_t i = 0; i < ARRAY_LEN(hostile); i++)
        assert_string_equal(find(fixture, hostile[i]), "");
    assert_string_equal(find(fixture, "report"), "b a");
    assert_false(search_index_is_damaged(fixture->index));
}

static int put_content(struct fixture *fixture, const char *key, bool has_attachment, const char *text)
{
    const struct search_content content = {has_attachment, text, strlen(text)};
    return search_index_put_content(fixture->index, "in-1", key, &content);
}

static void bodies_are_found_and_stay_when_the_record_changes(void **state)
{
    struct fixture *fixture = *state;
    static const char body[] = "Dear Alice, the walrus sends its regards.";
    put_letters(fixture);
    assert_int_equal(put_content(fixture, "a", false, body), 0);
    assert_int_equal(put_content(fixture, "unknown", false, body), -ENOENT);
    assert_string_equal(find(fixture, "walrus report"), "a");
    assert_string_equal(find(fixture, "subject:walrus OR to:dear"), "");
    put(fixture, "a", 1000, 1, "{\"subject\": \"Yearly summary\"}");
    assert_string_equal(find(fixture, "walrus yearly"), "a");
    assert_string_equal(find(fixture, "quarterly"), "");

    size_t len = SEARCH_BODY_MAX_BYTES + 100;
    _cleanup_free_ char *long_body = malloc(len + 1);
    memset(long_body, 'x', len);
    memcpy(long_body, "begin ", 6);
    memcpy(long_body + len - 4, " end", 5);
    assert_int_equal(put_content(fixture, "b", false, long_body), 0);
    assert_string_equal(find(fixture, "begin"), "b");
    assert_string_equal(find(fixture, "\"end\""), "");
}

static void what_has_an_attachment_is_known_with_its_content(void **state)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    assert_int_equal(put_content(fixture, "a", true, "menu.pdf"), 0);
    assert_int_equal(put_content(fixture, "b", false, ""), 0);
    assert_string_equal(find(fixture, "has:attachment"), "a");
    assert_string_equal(find(fixture, "-has:attachment"), "b");
    assert_string_equal(find(fixture, "has:attachment OR arger"), "c a");
    assert_string_equal(find(fixture, "attachment"), "");
    put(fixture, "a", 1000, 1, "{\"subject\": \"Yearly summary\"}");
    assert_string_equal(find(fixture, "has:attachment yearly menu"), "a");
}

static void what_is_removed_is_no_longer_found(void **state)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    assert_int_equal(search_index_remove(fixture->index, "in-1", "a"), 0);
    assert_int_equal(search_index_remove(fixture->index, "in-1", "a"), 0);
    assert_string_equal(find(fixture, "report"), "b");
    put(fixture, "c", 3000, 2, "{\"subject\": \"still there: report\"}");
    assert_int_equal(search_index_remove_others(fixture->index, 2), 0);
    assert_string_equal(find(fixture, "report"), "c");
}

static void what_an_empty_index_is_filled_with_can_be_changed_and_removed(void **state)
{
    struct fixture *fixture = *state;
    search_index_begin_filling(fixture->index);
    put_letters(fixture);
    search_index_end_filling(fixture->index);
    assert_string_equal(find(fixture, "report"), "b a");
    put_letters(fixture);
    assert_string_equal(find(fixture, "report"), "b a");
    put(fixture, "a", 1000, 1, "{\"subject\": \"Yearly summary\"}");
    assert_string_equal(find(fixture, "quarterly"), "");
    assert_string_equal(find(fixture, "yearly"), "a");
    assert_int_equal(search_index_remove(fixture->index, "in-1", "b"), 0);
    assert_string_equal(find(fixture, "report"), "");
    assert_string_equal(find(fixture, "yearly OR arger"), "c a");
}

static void filling_that_was_broken_off_goes_on_without_doubling(void **state)
{
    struct fixture *fixture = *state;
    search_index_begin_filling(fixture->index);
    put_letters(fixture);
    reopen(fixture);
    search_index_begin_filling(fixture->index); /* which it is not, any more */
    put_letters(fixture);
    put(fixture, "d", 4000, 1, "{\"subject\": \"One more report\"}");
    search_index_end_filling(fixture->index);
    assert_string_equal(find(fixture, "report"), "d b a");
    assert_string_equal(find(fixture, "report OR arger"), "d c b a");
}

static void a_batch_that_is_abandoned_leaves_nothing(void **state)
{
    struct fixture *fixture = *state;
    static const char json[] = "{\"subject\": \"A report nobody reads\"}";
    const struct search_entry entry = {
        .inbox_id = "in-1", .key = "z", .json = json, .json_len = strlen(json)};
    assert_int_equal(search_index_begin(fixture->index), 0);
    assert_int_equal(search_index_put(fixture->index, &entry, 1), 0);
    search_index_abandon(fixture->index);
    assert_string_equal(find(fixture, "report"), "");
    put_letters(fixture);
    put(fixture, "z", 5000, 1, json);
    assert_string_equal(find(fixture, "report"), "z b a");
}

static void a_search_ends_with_enough_or_when_told_to(void **state)
{
    struct fixture *fixture = *state;
    struct search_query query;
    put_letters(fixture);
    fixture->wanted = 1;
    assert_string_equal(find(fixture, "report"), "b");
    fixture->wanted = 0;
    for (int i = 0; i < 3000; i++) {
        char key[16];
        snprintf(key, sizeof(key), "m%d", i);
        put(fixture, key, i, 1, "{\"subject\": \"one of many\"}");
    }
    fixture->stops = true;
    parse("many", &query);
    assert_int_equal(search_index_find(fixture->index, &query, take, look, fixture), -EINTR);
    search_query_release(&query);
}

static void marks_and_mail_are_there_after_reopening(void **state)
{
    struct fixture *fixture = *state;
    int64_t value = 1;
    struct stat stat;
    put_letters(fixture);
    assert_int_equal(search_index_get_mark(fixture->index, "end", &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(search_index_set_mark(fixture->index, "end", 4711), 0);
    reopen(fixture);
    assert_int_equal(search_index_get_mark(fixture->index, "end", &value), 0);
    assert_int_equal(value, 4711);
    assert_string_equal(find(fixture, "report"), "b a");
    assert_int_equal(fstatat(fixture->dir.fd, "search.sqlite3", &stat, 0), 0);
    assert_int_equal(stat.st_mode & 07777, 0600);
}

static void write_over(const struct fixture *fixture, off_t offset, size_t len)
{
    _cleanup_free_ char *noise = malloc(len);
    memset(noise, 0xa5, len);
    int fd = openat(fixture->dir.fd, "search.sqlite3", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, noise, len, offset), len);
    close(fd);
}

static void a_damaged_index_starts_empty(void **state)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    search_index_free(fixture->index);
    write_over(fixture, 0, 4096);
    assert_int_equal(search_index_open(fixture->dir.fd, &fixture->index), 0);
    assert_string_equal(find(fixture, "report"), "");
    put_letters(fixture);
    assert_string_equal(find(fixture, "report"), "b a");
}

static void damage_found_by_a_search_is_told(void **state)
{
    struct fixture *fixture = *state;
    struct search_query query;
    put_letters(fixture);
    search_index_free(fixture->index); /* so that all is in the file */
    assert_int_equal(search_index_open(fixture->dir.fd, &fixture->index), 0);
    write_over(fixture, 4096, 200 * 1024);
    parse("report", &query);
    assert_int_equal(search_index_find(fixture->index, &query, take, look, fixture), -EUCLEAN);
    search_query_release(&query);
    assert_true(search_index_is_damaged(fixture->index));
    assert_int_equal(search_index_renew(fixture->index), 0);
    assert_false(search_index_is_damaged(fixture->index));
    put_letters(fixture);
    assert_string_equal(find(fixture, "report"), "b a");
}

static void execute(const struct fixture *fixture, const char *sql)
{
    sqlite3 *db = NULL;
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d/search.sqlite3", fixture->dir.fd);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* No lack of memory, which would never end. */
static void an_email_without_a_name_is_damage(void **state)
{
    struct fixture *fixture = *state;
    struct search_query query;
    put_letters(fixture);
    search_index_free(fixture->index);
    execute(fixture, "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET"
                     " sql = replace(sql, 'key TEXT NOT NULL', 'key TEXT') WHERE name = 'emails'");
    execute(fixture, "UPDATE emails SET key = NULL");
    assert_int_equal(search_index_open(fixture->dir.fd, &fixture->index), 0);
    parse("report", &query);
    assert_int_equal(search_index_find(fixture->index, &query, take, look, fixture), -EUCLEAN);
    search_query_release(&query);
    assert_true(search_index_is_damaged(fixture->index));
}

static void an_index_that_could_not_be_built_anew_is_tried_again(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(unlinkat(fixture->dir.fd, "search.sqlite3", 0), 0);
    assert_int_equal(mkdirat(fixture->dir.fd, "search.sqlite3", 0700), 0);
    assert_int_not_equal(search_index_renew(fixture->index), 0);
    assert_true(search_index_is_damaged(fixture->index));
    assert_int_equal(unlinkat(fixture->dir.fd, "search.sqlite3", AT_REMOVEDIR), 0);
    assert_int_equal(search_index_renew(fixture->index), 0);
    assert_false(search_index_is_damaged(fixture->index));
    put_letters(fixture);
    assert_string_equal(find(fixture, "report"), "b a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(words_phrases_and_senders_find_the_newest_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_looks_like_a_language_is_only_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bodies_are_found_and_stay_when_the_record_changes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_an_attachment_is_known_with_its_content, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_removed_is_no_longer_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_an_empty_index_is_filled_with_can_be_changed_and_removed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(filling_that_was_broken_off_goes_on_without_doubling, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_batch_that_is_abandoned_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_search_ends_with_enough_or_when_told_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(marks_and_mail_are_there_after_reopening, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_index_starts_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damage_found_by_a_search_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_email_without_a_name_is_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_index_that_could_not_be_built_anew_is_tried_again, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
