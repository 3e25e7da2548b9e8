/* SPDX-License-Identifier: MIT */
/*
 * The table of Message-IDs: a row for each fetched message, within bounds.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"

#include "base/file.h"
#include "store/cache.h"
#include "store/store_content.h"
#include "unit/store/store_fixture.h"

/* ---------------------------------------------------------------- the table */

struct box {
    struct temp_dir dir;
    struct cache cache;
};

static void box_init(struct box *box)
{
    temp_dir_init(&box->dir);
    assert_int_equal(cache_open(&box->cache, box->dir.fd), 0);
}

static void box_release(struct box *box)
{
    cache_release(&box->cache);
    temp_dir_release(&box->dir);
}

static void add_row(struct box *box, const char *message_id, const char *email_id)
{
    struct connection *writer = NULL;
    assert_int_equal(cache_begin_write(&box->cache, &writer), 0);
    assert_int_equal(cache_end_write(&box->cache, cache_add_message_id(writer, message_id, email_id)), 0);
}

/* Returns the ids of the emails with this Message-ID, with a blank after each. The caller frees them. */
static char *find_emails(struct box *box, const char *message_id)
{
    struct connection *reader;
    struct statement statement;
    struct strbuf all = STRBUF_INIT(1 << 16);
    assert_int_equal(database_take_reader(box->cache.database, &reader), 0);
    assert_int_equal(query_begin(reader, &statement,
                                 "SELECT email FROM message_ids WHERE digest = ? ORDER BY number", "i",
                                 cache_digest(message_id)),
                     0);
    int more;
    while ((more = query_step(statement.row)) > 0)
        strbuf_appendf(&all, "%s ", query_column_text(statement.row, 0));
    assert_int_equal(more, 0);
    query_end(&statement);
    database_return_reader(reader);
    return strbuf_take(&all, NULL);
}

static void assert_emails_of(struct box *box, const char *message_id, const char *expected)
{
    _cleanup_free_ char *emails = find_emails(box, message_id);
    assert_string_equal(emails, expected);
}

TEST(message_ids_are_found_after_a_restart)
{
    struct box box;
    box_init(&box);
    assert_emails_of(&box, "a@b", "");
    add_row(&box, "a@b", "e2");
    add_row(&box, "c@d", "e3");
    add_row(&box, "a@b", "e1");
    add_row(&box, "a@b", "e2");
    assert_emails_of(&box, "a@b", "e2 e1 ");
    assert_emails_of(&box, "c@d", "e3 ");
    assert_emails_of(&box, "A@b", "");
    cache_release(&box.cache);
    assert_int_equal(cache_open(&box.cache, box.dir.fd), 0);
    assert_emails_of(&box, "a@b", "e2 e1 ");
    box_release(&box);
}

TEST(the_oldest_message_ids_are_removed_first)
{
    struct box box;
    struct connection *writer = NULL;
    box_init(&box);
    add_row(&box, "a@x", "a");
    add_row(&box, "b@x", "b");
    assert_int_equal(cache_begin_write(&box.cache, &writer), 0);
    assert_int_equal(query_execute(writer, "INSERT INTO message_ids VALUES (?, 1, 'z')", "i",
                                   (int64_t)CACHE_MESSAGE_IDS_MAX),
                     0);
    assert_int_equal(cache_end_write(&box.cache, 0), 0);
    assert_emails_of(&box, "a@x", "a ");
    add_row(&box, "c@x", "c");
    assert_emails_of(&box, "a@x", "");
    assert_emails_of(&box, "b@x", "b ");
    assert_emails_of(&box, "c@x", "c ");
    box_release(&box);
}

TEST(the_first_emails_of_a_message_id_are_kept)
{
    struct box box;
    _cleanup_strbuf_ struct strbuf expected = STRBUF_INIT(1 << 16);
    box_init(&box);
    for (int i = 0; i < CACHE_EMAILS_OF_MESSAGE_ID_MAX + 10; i++) {
        char id[16];
        snprintf(id, sizeof(id), "e%d", i);
        add_row(&box, "a@b", id);
        if (i < CACHE_EMAILS_OF_MESSAGE_ID_MAX)
            strbuf_appendf(&expected, "%s ", id);
    }
    assert_emails_of(&box, "a@b", strbuf_str(&expected));
    box_release(&box);
}

TEST(an_email_id_that_is_too_long_is_not_added)
{
    struct box box;
    char id[300];
    memset(id, 'x', sizeof(id));
    id[256] = '\0';
    box_init(&box);
    add_row(&box, "a@b", id);
    assert_emails_of(&box, "a@b", "");
    box_release(&box);
}

/* ---------------------------------------------------------------- the store */

static void add_message(struct store_fixture *fixture, const char *id, const char *message_id)
{
    char json[256];
    char raw[256];
    snprintf(json, sizeof(json), "{\"id\":\"%s\",\"plain_text\":\"x\",\"message_id\":\"<%s>\"}", id,
             message_id);
    snprintf(raw, sizeof(raw), "Subject: x\r\nMessage-ID: <%s>\r\n\r\nx\r\n", message_id);
    fake_service_set_content(fixture->fake, id, json);
    fake_service_set_bytes(fixture->fake, id, NULL, raw, strlen(raw));
}

/* Alice and Bob got the message m1@x, and Alice m2@x. No sync follows, so neither a probe nor fetching ahead
 * reads content. */
static void set_up(struct store_fixture *fixture)
{
    fixture_init_with_alice(fixture);
    fake_service_add_inbox(fixture->fake,
                           "{\"id\": \"in-2\", \"name\": \"bob\", \"email_address\": \"bob@inbox.example\"}");
    fixture->content_cache_bytes = 1 << 20;
    fake_service_add_simple_email(fixture->fake, "in-1", "a1", "one");
    fake_service_add_simple_email(fixture->fake, "in-1", "a2", "two");
    fake_service_add_simple_email(fixture->fake, "in-2", "b1", "one");
    fixture_start(fixture);
    assert_int_equal(fixture_sync(fixture), 0);
    add_message(fixture, "a1", "m1@x");
    add_message(fixture, "a2", "m2@x");
    add_message(fixture, "b1", "m1@x");
}

static uint32_t number_of(struct store_fixture *fixture, const char *id)
{
    struct email_view view;
    assert_true(store_find_email_by_id(fixture->store, 0, id, &view));
    return view.number;
}

static void read_message(struct store_fixture *fixture, const char *id)
{
    struct store_content *raw;
    assert_int_equal(store_content_get_bytes(fixture->store, number_of(fixture, id), NULL, NULL, &raw), 0);
    store_content_unref(raw);
}

static void assert_answers(struct store_fixture *fixture, const char *message_id, const char *from, int error,
                           const char *expected)
{
    _cleanup_free_ char *id = NULL;
    assert_int_equal(store_find_by_message_id(fixture->store, message_id, from, &id), error);
    if (expected != NULL)
        assert_string_equal(id, expected);
    else
        assert_null(id);
}

#define FROM_ALICE "alice@inbox.example"
#define FROM_BOB "bob@inbox.example"

TEST(reading_a_raw_message_adds_its_message_id)
{
    struct store_fixture fixture;
    set_up(&fixture);
    assert_answers(&fixture, "m1@x", FROM_ALICE, -ENOENT, NULL);
    read_message(&fixture, "a1");
    assert_answers(&fixture, "m1@x", FROM_ALICE, 0, "a1");
    assert_answers(&fixture, "m1@x", "Alice@Inbox.example", 0, "a1");
    assert_answers(&fixture, "m2@x", FROM_ALICE, -ENOENT, NULL);
    fixture_restart(&fixture);
    assert_answers(&fixture, "m1@x", FROM_ALICE, 0, "a1");
    fixture_release(&fixture);
}

TEST(reading_texts_adds_the_message_id)
{
    struct store_fixture fixture;
    struct store_content *content;
    set_up(&fixture);
    assert_int_equal(store_content_get(fixture.store, number_of(&fixture, "a2"), NULL, &content), 0);
    store_content_unref(content);
    assert_answers(&fixture, "m2@x", FROM_ALICE, 0, "a2");
    fixture_release(&fixture);
}

TEST(a_message_id_finds_the_email_of_the_answering_inbox)
{
    struct store_fixture fixture;
    set_up(&fixture);
    read_message(&fixture, "a1");
    assert_answers(&fixture, "m1@x", FROM_BOB, -EXDEV, NULL);
    read_message(&fixture, "b1");
    assert_answers(&fixture, "m1@x", FROM_BOB, 0, "b1");
    assert_answers(&fixture, "m1@x", FROM_ALICE, 0, "a1");
    assert_answers(&fixture, "m1@x", "carol@inbox.example", -EXDEV, NULL);
    fixture_release(&fixture);
}

TEST(a_message_id_does_not_find_mail_that_is_gone)
{
    struct store_fixture fixture;
    set_up(&fixture);
    read_message(&fixture, "a1");
    fake_service_remove_email(fixture.fake, "a1");
    assert_int_equal(fixture_sync_removal(&fixture), 0);
    assert_answers(&fixture, "m1@x", FROM_ALICE, -ENOENT, NULL);
    fixture_release(&fixture);
}

TEST(a_message_without_a_message_id_can_be_read)
{
    struct store_fixture fixture;
    set_up(&fixture);
    fake_service_set_bytes(fixture.fake, "a1", NULL, "", 0);
    fake_service_set_bytes(fixture.fake, "a2", NULL, "Subject: x\n\n<m2@x>\n", 19);
    read_message(&fixture, "a1");
    read_message(&fixture, "a2");
    assert_answers(&fixture, "m2@x", FROM_ALICE, -ENOENT, NULL);
    fixture_release(&fixture);
}
