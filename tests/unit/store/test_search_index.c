/* SPDX-License-Identifier: MIT */
/*
 * The full-text index, without a store.
 */
#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "store/content_cache.h"
#include "store/search_index.h"
#include "support/temp_dir.h"

/* The email with number 0 is called a, the next one b, and so on. */
struct fixture {
    struct temp_dir dir;
    struct cache cache;
    struct content_cache contents;
    uint64_t next_record;
    GHashTable *hits; /* numbers of the emails that a group matches */
    struct strbuf found;
};

static void open_cache(struct fixture *fixture)
{
    assert_int_equal(cache_open(&fixture->cache, fixture->dir.fd), 0);
    assert_int_equal(content_cache_open(&fixture->contents, &fixture->cache, fixture->dir.fd, 1 << 20), 0);
}

static void close_cache(struct fixture *fixture)
{
    content_cache_release(&fixture->contents);
    cache_release(&fixture->cache);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct connection *connection = NULL;
    const struct inbox_row inbox = {.number = 0, .id = "in-1", .name = "name", .json = "{}", .json_len = 2};
    fixture->hits = g_hash_table_new(NULL, NULL);
    fixture->found = STRBUF_INIT(1 << 16);
    temp_dir_init(&fixture->dir);
    open_cache(fixture);
    assert_int_equal(cache_begin_write(&fixture->cache, &connection), 0);
    assert_int_equal(cache_end_write(&fixture->cache, cache_put_inbox(connection, &inbox)), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    close_cache(fixture);
    g_hash_table_unref(fixture->hits);
    strbuf_release(&fixture->found);
    temp_dir_release(&fixture->dir);
    free(fixture);
    return 0;
}

static void catch_up(struct fixture *fixture)
{
    int more = 1;
    while (more > 0)
        more = search_index_process_pending(&fixture->cache);
    assert_int_equal(more, 0);
}

static void name_key(uint32_t number, char ret_key[32])
{
    snprintf(ret_key, 32, "id-%u", (unsigned int)number);
}

/* Writes the record, and adds the email as pending. */
static void note(struct fixture *fixture, uint32_t number, const char *json)
{
    char key[32];
    struct connection *connection = NULL;
    name_key(number, key);
    const struct email_view email = {.number = number,
                                     .json_len = (uint32_t)strlen(json),
                                     .record = ++fixture->next_record,
                                     .name = "name"};
    assert_int_equal(cache_begin_write(&fixture->cache, &connection), 0);
    assert_int_equal(cache_add_record(connection, email.record, json, email.json_len), 0);
    assert_int_equal(cache_put_email(connection, &email, key), 0);
    assert_int_equal(cache_add_pending(connection, number, false), 0);
    assert_int_equal(cache_end_write(&fixture->cache, 0), 0);
}

static void put(struct fixture *fixture, uint32_t number, const char *json)
{
    note(fixture, number, json);
    catch_up(fixture);
}

static void remove_email(struct fixture *fixture, uint32_t number)
{
    struct connection *connection = NULL;
    assert_int_equal(cache_begin_write(&fixture->cache, &connection), 0);
    assert_int_equal(cache_delete_email(connection, number), 0);
    assert_int_equal(search_index_remove(connection, number), 0);
    assert_int_equal(cache_end_write(&fixture->cache, 0), 0);
}

static void take(void *context, uint32_t email)
{
    struct fixture *fixture = context;
    g_hash_table_add(fixture->hits, GUINT_TO_POINTER(email));
}

static void parse(const char *text, struct search_query *ret_query)
{
    _cleanup_free_ char *reason = NULL;
    assert_int_equal(search_query_parse(text, 0, ret_query, &reason), 0);
}

/* Returns the emails that match each group, in the order of their numbers. */
static const char *find(struct fixture *fixture, const char *text)
{
    struct search_query query;
    unsigned int matches[26] = {0};
    unsigned int groups = 0;
    size_t end;
    parse(text, &query);
    for (size_t i = 0; i < query.len; i = end, groups++) {
        end = search_query_group_end(&query, i);
        g_hash_table_remove_all(fixture->hits);
        assert_int_equal(search_index_find(&fixture->cache, &query.terms[i], end - i, take, fixture, NULL),
                         0);
        for (uint32_t email = 0; email < ARRAY_LEN(matches); email++)
            matches[email] += g_hash_table_contains(fixture->hits, GUINT_TO_POINTER(email));
    }
    search_query_release(&query);
    strbuf_clear(&fixture->found);
    for (uint32_t email = 0; email < ARRAY_LEN(matches); email++)
        if (matches[email] == groups)
            strbuf_appendf(&fixture->found, "%s%c", fixture->found.len > 0 ? " " : "", (char)('a' + email));
    return strbuf_str(&fixture->found);
}

static void put_letters(struct fixture *fixture)
{
    put(fixture, 0,
        "{\"subject\": \"Quarterly report\", \"from_address\": {\"address\": \"bob@x.example\", \"name\": "
        "\"Bob Smith\"}}");
    put(fixture, 1,
        "{\"subject\": \"Re: the report of the quarter\", \"from_address\": {\"address\": "
        "\"carol@y.example\"}, \"to_addresses\": [{\"address\": \"alice@inbox.example\"}]}");
    put(fixture, 2, "{\"subject\": \"Stra\u00dfe, \u00c4rger und \u4f1a\u8b70\"}");
}

TEST_WITH(words_phrases_and_senders_are_found, set_up, tear_down)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *query;
        const char *found;
    } rows[] = {
        {"report", "a b"},
        {"REPORT quarter", "a b"},
        {"quarterly", "a"},
        {"rep", "a b"},
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
        {"report OR arger", "a b c"},
        {"report quarterly OR of", "a b"},
        {"quarterly OR arger report", "a"},
        {"subject:report", "a b"},
        {"subject:alice", ""},
        {"subject:\"the report\"", "b"},
        {"subject:\"the rep\"", ""},
        {"to:alice", "b"},
        {"to:carol", ""},
        {"from:carol OR from:smith", "a b"},
        {"from:alice", ""},
        {"subject:quarterly OR to:alice report", "a b"},
        {"has:attachment", ""},
        {"-has:attachment", ""},
    };
    put_letters(fixture);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_string_equal(find(fixture, rows[i].query), rows[i].found);
}

TEST_WITH(operators_of_fts5_are_searched_as_words, set_up, tear_down)
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
    assert_string_equal(find(fixture, "report"), "a b");
    assert_false(atomic_load(&fixture->cache.is_damaged));
}

/* Stores a body and, unless its name is NULL, an attachment's name, as if they were fetched. */
static void note_content(struct fixture *fixture, uint32_t number, const char *body, const char *attachment)
{
    char key[32];
    struct content_folder folder;
    _cleanup_strbuf_ struct strbuf json = STRBUF_INIT(1 << 20);
    name_key(number, key);
    strbuf_appendf(&json, "{\"plain_text\": \"%s\", \"attachments\": [", body);
    if (attachment != NULL)
        strbuf_appendf(&json, "{\"id\": \"id\", \"filename\": \"%s\"}", attachment);
    strbuf_append_str(&json, "]}");
    assert_int_equal(content_folder_read(strbuf_str(&json), json.len, &folder), 0);
    struct content_bytes bytes = {.bytes = folder.packed, .fd = -1, .len = folder.packed_len};
    const struct content_new_part part = {.key = content_cache_key(CONTENT_PART_TEXTS, key, NULL),
                                          .bytes = &bytes,
                                          .email = number,
                                          .email_id = key,
                                          .has_texts = true};
    assert_int_equal(content_cache_put(&fixture->contents, &part), 0);
    content_folder_release(&folder);
}

static void run_sql(struct fixture *fixture, const char *sql)
{
    struct connection *connection = NULL;
    assert_int_equal(cache_begin_write(&fixture->cache, &connection), 0);
    assert_int_equal(cache_end_write(&fixture->cache, query_script(connection->db, sql)), 0);
}

static int64_t count(struct fixture *fixture, const char *sql)
{
    int64_t number = 0;
    _cleanup_reader_ struct connection *reader = NULL;
    assert_int_equal(database_take_reader(fixture->cache.database, &reader), 0);
    assert_int_equal(query_integers(reader, &number, 1, sql, ""), 0);
    return number;
}

TEST_WITH(bodies_are_found_and_stay_when_the_record_changes_and_the_body_is_evicted, set_up, tear_down)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    note_content(fixture, 0, "Dear Alice, the walrus sends its regards.", NULL);
    catch_up(fixture);
    run_sql(fixture, "DELETE FROM parts");
    assert_string_equal(find(fixture, "walrus report"), "a");
    assert_string_equal(find(fixture, "subject:walrus OR to:dear"), "");
    put(fixture, 0, "{\"subject\": \"Yearly summary\"}");
    assert_string_equal(find(fixture, "walrus yearly"), "a");
    assert_string_equal(find(fixture, "quarterly"), "");

    size_t len = SEARCH_BODY_MAX_BYTES + 100;
    _cleanup_free_ char *long_body = malloc(len + 1);
    memset(long_body, 'x', len);
    memcpy(long_body, "begin ", 6);
    memcpy(long_body + len - 4, " end", 5);
    note_content(fixture, 1, long_body, NULL);
    catch_up(fixture);
    assert_string_equal(find(fixture, "begin"), "b");
    assert_string_equal(find(fixture, "\"end\""), "");
}

TEST_WITH(a_body_that_is_added_before_its_record_is_indexed_with_the_record, set_up, tear_down)
{
    struct fixture *fixture = *state;
    note(fixture, 0, "{\"subject\": \"first\"}");
    note_content(fixture, 0, "the walrus", NULL);
    note(fixture, 0, "{\"subject\": \"second\"}");
    catch_up(fixture);
    assert_string_equal(find(fixture, "walrus second"), "a");
    assert_string_equal(find(fixture, "first"), "");
}

TEST_WITH(content_in_the_index_is_not_added_again, set_up, tear_down)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    note_content(fixture, 0, "the walrus", NULL);
    catch_up(fixture);
    note_content(fixture, 0, "a heron", NULL);
    assert_int_equal(count(fixture, "SELECT count(*) FROM search_pending"), 0);
    catch_up(fixture);
    assert_string_equal(find(fixture, "walrus"), "a");
    assert_string_equal(find(fixture, "heron"), "");
}

TEST_WITH(content_shows_whether_an_email_has_attachments, set_up, tear_down)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    note_content(fixture, 0, "", "menu.pdf");
    note_content(fixture, 1, "", NULL);
    catch_up(fixture);
    assert_string_equal(find(fixture, "has:attachment"), "a");
    assert_string_equal(find(fixture, "-has:attachment"), "b");
    assert_string_equal(find(fixture, "has:attachment OR arger"), "a c");
    assert_string_equal(find(fixture, "attachment"), "");
    put(fixture, 0, "{\"subject\": \"Yearly summary\"}");
    assert_string_equal(find(fixture, "has:attachment yearly menu"), "a");
}

TEST_WITH(an_email_that_is_removed_is_no_longer_found, set_up, tear_down)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    remove_email(fixture, 0);
    remove_email(fixture, 0);
    assert_string_equal(find(fixture, "report"), "b");
    /* An email that is removed before it is indexed is not found, even if its content is added later. */
    note(fixture, 3, "{\"subject\": \"another report\"}");
    remove_email(fixture, 3);
    note_content(fixture, 3, "report", NULL);
    catch_up(fixture);
    assert_string_equal(find(fixture, "report"), "b");
}

TEST_WITH(pending_emails_are_indexed_after_a_restart, set_up, tear_down)
{
    struct fixture *fixture = *state;
    note(fixture, 0, "{\"subject\": \"report\"}");
    note_content(fixture, 0, "the walrus", NULL);
    close_cache(fixture);
    open_cache(fixture);
    assert_string_equal(find(fixture, "report"), "");
    catch_up(fixture);
    assert_string_equal(find(fixture, "report walrus"), "a");
}

static int ignore_inbox(void *context, const struct inbox_row *row)
{
    return 0;
}

static int ignore_email(void *context, const struct email_view *email, const char *key)
{
    return 0;
}

static void load(struct fixture *fixture)
{
    const struct cache_visitor visitor = {ignore_inbox, ignore_email, NULL};
    struct cache_state loaded;
    assert_int_equal(cache_load(&fixture->cache, &visitor, &loaded), 0);
}

/* After a start, a new email may get the number of one that was removed. */
TEST_WITH(the_next_email_of_a_number_is_not_found_by_the_words_of_a_removed_one, set_up, tear_down)
{
    struct fixture *fixture = *state;
    put(fixture, 0, "{\"subject\": \"indexed\"}");
    note_content(fixture, 0, "the walrus", NULL);
    catch_up(fixture);
    note_content(fixture, 1, "a heron", NULL);
    remove_email(fixture, 0);
    remove_email(fixture, 1);
    run_sql(fixture, "DELETE FROM parts");
    load(fixture);
    note(fixture, 0, "{\"subject\": \"another\"}");
    note(fixture, 1, "{\"subject\": \"another\"}");
    catch_up(fixture);
    assert_string_equal(find(fixture, "another"), "a b");
    assert_string_equal(find(fixture, "indexed OR walrus OR heron"), "");
}

TEST_WITH(emails_of_an_inbox_that_is_gone_are_not_found_after_the_next_start, set_up, tear_down)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    note_content(fixture, 1, "the walrus", NULL);
    catch_up(fixture);
    run_sql(fixture, "UPDATE inboxes SET is_gone = 1");
    load(fixture);
    assert_string_equal(find(fixture, "report OR walrus"), "");
    assert_int_equal(count(fixture, "SELECT count(*) FROM search_rows"), 0);
}

TEST_WITH(texts_that_left_the_cache_before_they_were_indexed_are_indexed_when_they_return, set_up, tear_down)
{
    struct fixture *fixture = *state;
    note(fixture, 0, "{\"subject\": \"report\"}");
    note_content(fixture, 0, "the walrus", NULL);
    run_sql(fixture, "DELETE FROM parts");
    catch_up(fixture);
    assert_string_equal(find(fixture, "report"), "a");
    assert_string_equal(find(fixture, "walrus"), "");
    assert_string_equal(find(fixture, "-has:attachment"), "");
    note_content(fixture, 0, "the walrus", NULL);
    catch_up(fixture);
    assert_string_equal(find(fixture, "walrus -has:attachment"), "a");
}

static void take_unread(void *context, uint32_t email)
{
    struct fixture *fixture = context;
    strbuf_append_char(&fixture->found, (char)('a' + email));
}

TEST_WITH(emails_whose_content_is_not_indexed_are_listed, set_up, tear_down)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    note_content(fixture, 1, "the walrus", NULL);
    catch_up(fixture);
    assert_int_equal(search_index_find_unread(&fixture->cache, take_unread, fixture, NULL), 0);
    assert_string_equal(strbuf_str(&fixture->found), "ac");
}

TEST_WITH(an_index_of_mostly_outdated_rows_is_made_anew, set_up, tear_down)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    note_content(fixture, 1, "the walrus", "menu.pdf");
    catch_up(fixture);
    load(fixture);
    assert_int_equal(count(fixture, "SELECT count(*) FROM search_pending"), 0);
    run_sql(fixture, "INSERT INTO search_rows VALUES (20000, 1000)");
    cache_delete_replaced(&fixture->cache);
    assert_string_equal(find(fixture, "report"), "");
    catch_up(fixture);
    assert_string_equal(find(fixture, "report"), "a b");
    assert_string_equal(find(fixture, "walrus has:attachment"), "b");
    assert_int_equal(count(fixture, "SELECT max(number) FROM search_rows"), 4);
}

TEST_WITH(an_index_that_has_texts_is_made_anew_without_them, set_up, tear_down)
{
    struct fixture *fixture = *state;
    put_letters(fixture);
    note_content(fixture, 1, "the walrus", "menu.pdf");
    run_sql(fixture, "DROP TABLE search; DROP TABLE search_rows; DROP TABLE search_pending;"
                     "CREATE VIRTUAL TABLE search USING fts5 (subject, body);"
                     "INSERT INTO search (rowid, subject, body) VALUES (0, 'outdated', 'outdated');"
                     "CREATE TABLE search_pending (number INTEGER PRIMARY KEY, attached TEXT, body TEXT);"
                     "INSERT INTO search_pending VALUES (7, '', 'outdated');"
                     "PRAGMA user_version = 1");
    close_cache(fixture);
    open_cache(fixture);
    catch_up(fixture);
    assert_string_equal(find(fixture, "report"), "a b");
    assert_string_equal(find(fixture, "walrus has:attachment"), "b");
    assert_string_equal(find(fixture, "outdated"), "");
}

TEST_WITH(addresses_are_found_in_every_form, set_up, tear_down)
{
    struct fixture *fixture = *state;
    put(fixture, 0,
        "{\"from_address\": {\"address\": \"B@x.example\", \"name\": \"Bob \\\"B\\\" \\u00c4rger\"},"
        " \"to_addresses\": [{\"address\": \"ann@x.example\", \"name\": null}, \"carl@x.example\", 7, [], "
        "{}],"
        " \"cc_addresses\": \"dora\", \"bcc_addresses\": [], \"reply_to_addresses\": [\"eve@x.example\"],"
        " \"deep\": {\"subject\": \"no\", \"to_addresses\": [\"no\"]}, \"subject\": null}");
    put(fixture, 1, "{\"from_address\": \"fred@x.example\", \"subject\": 4}");
    static const char *const found[] = {"from:bob", "from:\"b arger\"", "to:ann",
                                        "to:carl",  "to:dora",          "eve"};
    static const char *const missing[] = {"to:eve", "to:bob",  "from:ann", "no",
                                          "name",   "address", "null",     "subject"};
    for (size_t i = 0; i < ARRAY_LEN(found); i++)
        assert_string_equal(find(fixture, found[i]), "a");
    for (size_t i = 0; i < ARRAY_LEN(missing); i++)
        assert_string_equal(find(fixture, missing[i]), "");
    assert_string_equal(find(fixture, "from:fred"), "b");
}

TEST_WITH(the_texts_of_many_recipients_are_cut, set_up, tear_down)
{
    struct fixture *fixture = *state;
    _cleanup_strbuf_ struct strbuf json = STRBUF_INIT(1 << 20);
    strbuf_append_str(&json, "{\"subject\": \"party\", \"to_addresses\": [");
    for (size_t i = 0; i < 20000; i++)
        strbuf_append_str(&json, "{\"address\": \"somebody@far-away.example\"},");
    assert_int_equal(strbuf_append_str(&json, "\"last@far-away.example\"]}"), 0);
    put(fixture, 0, strbuf_str(&json));
    assert_string_equal(find(fixture, "party to:somebody"), "a");
    assert_string_equal(find(fixture, "to:last"), "");
}

TEST_WITH(a_record_that_is_not_json_is_skipped, set_up, tear_down)
{
    struct fixture *fixture = *state;
    note(fixture, 0, "{\"subject\": \"report");
    note(fixture, 2, "[1, 2]");
    note(fixture, 1, "{\"subject\": \"report\"}");
    catch_up(fixture);
    assert_string_equal(find(fixture, "report"), "b");
}

TEST_WITH(a_cancelled_search_ends, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct search_query query;
    for (uint32_t i = 3; i < 5000; i++)
        note(fixture, i, "{\"subject\": \"one of many\"}");
    catch_up(fixture);
    struct cancel cancel;
    cancel_init(&cancel);
    cancel_set(&cancel);
    parse("many", &query);
    assert_int_equal(search_index_find(&fixture->cache, query.terms, query.len, take, fixture, &cancel),
                     -EINTR);
    cancel_release(&cancel);
    search_query_release(&query);
}
