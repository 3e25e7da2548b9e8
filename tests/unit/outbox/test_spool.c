/* SPDX-License-Identifier: MIT */
/*
 * The spool: rows are read back as they were saved, a turn is saved completely or not at all, contents are
 * linked and copied, and the next start removes the remains of a crash.
 */
#include "outbox_fixture.h"

#include <inttypes.h>

#include "outbox/change.h"
#include "outbox/migration.h"
#include "outbox/spool.h"
#include "support/test.h"

struct spooled {
    struct temp_dir dir;
    struct spool *spool;
};

static void open_it(struct spooled *spooled)
{
    char *reason = NULL;
    if (spool_open(spooled->dir.fd, &spooled->spool, &reason) != 0)
        fail_msg("%s", reason);
    assert_int_equal(migration_run(spooled->spool, &reason), 0);
}

static int set_up(void **state)
{
    struct spooled *spooled = calloc(1, sizeof(*spooled));
    temp_dir_init(&spooled->dir);
    open_it(spooled);
    *state = spooled;
    return 0;
}

static int tear_down(void **state)
{
    struct spooled *spooled = *state;
    spool_free(spooled->spool);
    temp_dir_release(&spooled->dir);
    free(spooled);
    return 0;
}

static void reopen(struct spooled *spooled)
{
    spool_free(TAKE_PTR(spooled->spool));
    open_it(spooled);
}

/* ---------------------------------------------------------------- rows */

static void fill(struct row *row, uint64_t number)
{
    *row = (struct row){
        .number = number,
        .position = number + 2,
        .kind = ITEM_MESSAGE,
        .state = ITEM_QUEUED,
        .name = strdup("m \xc3\xa4.eml"),
        .key = "3c90c3cc-0d44-4b50-8888-8dd25736052a",
        .digest = "digest",
        .reply_template = strdup("{\"existing_email_id\":\"e1\"}"),
        .from = strdup("me@inbox.example"),
        .replies_to = strdup("e2"),
        .sequence = "sequence",
        .may_have_been_sent = true,
        .was_unknown = true,
        .was_reuploaded = true,
        .quota_day = 20412,
        .attempts = 3,
        .accepted_ms = 1795176000000,
        .finished_ms = 1795176001234,
        .http_status = 503,
        .id = strdup("id"),
        .error = strdup("words"),
        .receipt_bytes = 77,
        .replaces = 5,
    };
    row_add_not_carried(row, "one");
    row_add_not_carried(row, "a \"second\" one");
    struct piece *file = row_add_piece(row, "a.pdf");
    file->content = 11;
    file->size = 12;
    snprintf(file->digest, sizeof(file->digest), "of it");
    row_add_piece(row, NULL);
    row_set_string(&row->pieces[1].pool_id, "part");
}

static int save(struct spool *spool, const struct row *row, int error)
{
    struct connection *turn;
    assert_int_equal(spool_begin(spool, &turn), 0);
    assert_int_equal(spool_save_row(turn, row), 0);
    assert_int_equal(spool_save_request(turn, row->number, "{\"a\":1}"), 0);
    assert_int_equal(spool_count_sent(turn, 20412), 0);
    return spool_end(spool, turn, error);
}

static int take_row(void *context, struct row *row)
{
    struct row *found = context;
    assert_int_equal(found->number, 0); /* there is only one row */
    *found = *row;
    *row = (struct row){0};
    return 0;
}

TEST_WITH(a_saved_row_is_read_back, set_up, tear_down)
{
    struct spooled *spooled = *state;
    struct row row;
    struct row copy;
    struct row found = {0};
    _cleanup_free_ char *request = NULL;
    struct spool_head head;
    fill(&row, 7);
    row_copy(&row, &copy);
    row_release(&row);
    assert_int_equal(save(spooled->spool, &copy, 0), 0);
    assert_int_equal(save(spooled->spool, &copy, 0), 0); /* replaces the first row */
    reopen(spooled);
    assert_int_equal(spool_load(spooled->spool, take_row, &found), 0);
    assert_int_equal(found.number, 7);
    assert_int_equal(found.position, 9);
    assert_int_equal(found.state, ITEM_QUEUED);
    assert_string_equal(found.name, copy.name);
    assert_string_equal(found.key, copy.key);
    assert_string_equal(found.digest, "digest");
    assert_string_equal(found.sequence, "sequence");
    assert_string_equal(found.reply_template, copy.reply_template);
    assert_string_equal(found.from, copy.from);
    assert_string_equal(found.replies_to, "e2");
    assert_string_equal(found.not_carried, "one\na \"second\" one");
    assert_true(found.may_have_been_sent && found.was_unknown && found.was_reuploaded);
    assert_int_equal(found.quota_day, 20412);
    assert_int_equal(found.attempts, 3);
    assert_int_equal(found.accepted_ms, copy.accepted_ms);
    assert_int_equal(found.finished_ms, copy.finished_ms);
    assert_int_equal(found.http_status, 503);
    assert_string_equal(found.id, "id");
    assert_string_equal(found.error, "words");
    assert_int_equal(found.receipt_bytes, 77);
    assert_int_equal(found.replaces, 5);
    assert_int_equal(found.pieces_len, 2);
    assert_string_equal(found.pieces[0].name, "a.pdf");
    assert_int_equal(found.pieces[0].content, 11);
    assert_int_equal(found.pieces[0].size, 12);
    assert_string_equal(found.pieces[0].digest, "of it");
    assert_null(found.pieces[0].pool_id);
    assert_null(found.pieces[1].name);
    assert_string_equal(found.pieces[1].pool_id, "part");
    assert_int_equal(spool_read_request(spooled->spool, 7, &request), 0);
    assert_string_equal(request, "{\"a\":1}");
    assert_int_equal(spool_read_head(spooled->spool, &head), 0);
    assert_int_equal(head.day, 20412);
    assert_int_equal(head.sent, 2);
    row_release(&found);
    row_release(&copy);
}

TEST_WITH(a_failed_turn_saves_nothing, set_up, tear_down)
{
    struct spooled *spooled = *state;
    struct row row;
    struct row found = {0};
    fill(&row, 7);
    assert_int_equal(save(spooled->spool, &row, -EIO), -EIO);
    assert_int_equal(spool_load(spooled->spool, take_row, &found), 0);
    assert_int_equal(found.number, 0);
    row_release(&row);
}

TEST_WITH(no_number_is_given_twice, set_up, tear_down)
{
    struct spooled *spooled = *state;
    struct row row;
    uint64_t number = spool_take_number(spooled->spool);
    fill(&row, number);
    assert_int_equal(save(spooled->spool, &row, 0), 0);
    spool_skip_number(spooled->spool, number + 100);
    reopen(spooled); /* a number that was taken but not saved may be used again */
    assert_true(spool_take_number(spooled->spool) > number);
    row_release(&row);
}

TEST_WITH(pool_ids_are_remembered_by_digest_and_name, set_up, tear_down)
{
    struct spooled *spooled = *state;
    struct piece piece = {.name = (char *)"a.pdf", .digest = "one", .pool_id = (char *)"pool-1"};
    struct connection *turn;
    assert_int_equal(spool_begin(spooled->spool, &turn), 0);
    assert_int_equal(spool_end(spooled->spool, turn, spool_save_pool_id(turn, &piece)), 0);
    _cleanup_free_ char *found = spool_find_pool_id(spooled->spool, "one", "a.pdf");
    assert_string_equal(found, "pool-1");
    assert_null(spool_find_pool_id(spooled->spool, "one", "b.pdf"));
    assert_null(spool_find_pool_id(spooled->spool, "two", "a.pdf"));
    spool_forget_pool_id(spooled->spool, "pool-1");
    assert_null(spool_find_pool_id(spooled->spool, "one", "a.pdf"));
}

/* ---------------------------------------------------------------- contents */

static void put_content(struct spooled *spooled, uint64_t number, const char *text)
{
    _cleanup_close_ int fd = -1;
    assert_int_equal(spool_open_content(spooled->spool, number, O_RDWR | O_CREAT | O_EXCL, &fd), 0);
    assert_int_equal(file_write_all(fd, text, strlen(text)), 0);
}

static void expect_content(struct spooled *spooled, uint64_t number, const char *text)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    assert_int_equal(spool_read_content(spooled->spool, number, 1000, &bytes, &len), 0);
    assert_string_equal(bytes, text);
}

TEST_WITH(a_new_content_leaves_the_linked_one_unchanged, set_up, tear_down)
{
    struct spooled *spooled = *state;
    _cleanup_close_ int fd = -1;
    bool is_renewed = true;
    put_content(spooled, 1, "bound");
    assert_int_equal(spool_renew_content(spooled->spool, 1, &is_renewed), 0);
    assert_false(is_renewed);
    assert_int_equal(spool_link_content(spooled->spool, 1, 2), 0);
    assert_int_equal(spool_renew_content(spooled->spool, 1, &is_renewed), 0);
    assert_true(is_renewed);
    assert_int_equal(spool_open_content(spooled->spool, 1, O_WRONLY, &fd), 0);
    assert_int_equal(file_pwrite_all(fd, "B", 1, 0), 0);
    expect_content(spooled, 1, "Bound");
    expect_content(spooled, 2, "bound");
}

TEST_WITH(a_symbolic_link_is_not_opened_as_content, set_up, tear_down)
{
    struct spooled *spooled = *state;
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    put_content(spooled, 1, "secret");
    assert_int_equal(symlinkat("1.data", spool_dir_fd(spooled->spool), "2.data"), 0);
    assert_int_equal(spool_read_content(spooled->spool, 2, 1000, &bytes, &len), -ELOOP);
}

/* ---------------------------------------------------------------- remains, in a whole outbox */

static void put_file(struct fixture *fixture, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof(path), "spool/%s", name);
    assert_int_equal(file_replace_at(fixture->dir.fd, path, text, strlen(text), 0600), 0);
}

static bool is_there(struct fixture *fixture, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "spool/%s", name);
    return faccessat(fixture->dir.fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

FIXTURE_TEST(contents_without_a_row_are_removed_and_foreign_files_set_aside)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 3; i++) { /* uses up some numbers */
        assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
        assert_int_equal(settle(fixture), 0);
    }
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_SENT, "m.eml"), 0);
    char content[64];
    snprintf(content, sizeof(content), "spool/%" PRIu64 ".data", number_of(fixture, SENT, "m-2.eml"));
    fixture_close(fixture);
    put_file(fixture, "1.data", "of a removal that was cut short");
    put_file(fixture, "99999.data", "of another database");
    assert_int_equal(linkat(fixture->dir.fd, content, fixture->dir.fd, "spool/88888.data", 0), 0);
    put_file(fixture, "message.eml", "foreign");
    put_file(fixture, "7.data.new", "an unfinished copy");
    fixture_open(fixture);
    assert_false(is_there(fixture, "1.data"));
    assert_false(is_there(fixture, "7.data.new"));
    assert_false(is_there(fixture, "88888.data")); /* a link for a message that never got a row */
    assert_false(is_there(fixture, "quarantine/88888.data"));
    assert_true(is_there(fixture, "quarantine/99999.data"));
    assert_true(is_there(fixture, "quarantine/message.eml"));
    assert_true(is_listed(fixture, SENT, "m-2.eml"));
    assert_int_equal(sends(fixture), 3);
}

static void say_that_it_replaces(struct spool *spool, uint64_t number, uint64_t replaced, const char *name)
{
    struct connection *turn;
    assert_int_equal(spool_begin(spool, &turn), 0);
    int error = query_execute(turn, "UPDATE item SET replaces = ?, name = ? WHERE number = ?", "isi",
                              (int64_t)replaced, name, (int64_t)number);
    assert_int_equal(spool_end(spool, turn, error), 0);
}

static void set_column(struct spool *spool, uint64_t number, const char *assignment)
{
    char sql[200];
    struct connection *turn;
    snprintf(sql, sizeof(sql), "UPDATE item SET %s WHERE number = ?", assignment);
    assert_int_equal(spool_begin(spool, &turn), 0);
    assert_int_equal(spool_end(spool, turn, query_execute(turn, sql, "i", (int64_t)number)), 0);
}

/* The program ended while two drafts replaced waiting messages. */
FIXTURE_TEST(replaced_messages_are_removed_at_the_next_start)
{
    static const char *const names[] = {"a.eml", "b.eml", "new a", "new b"};
    struct fixture *fixture = *state;
    struct spool *spool = NULL;
    char *reason = NULL;
    uint64_t numbers[4];
    fake_service_set_reachable(fixture->fake, false);
    for (unsigned int i = 0; i < ARRAY_LEN(names); i++) {
        char content[80];
        snprintf(content, sizeof(content), "To: bob@x.example\nSubject: %s\n\nb\n", names[i]);
        assert_int_equal(mail(fixture, names[i], content), 0);
        numbers[i] = number_of(fixture, OUT, names[i]);
    }
    fixture_close(fixture);
    assert_int_equal(spool_open(fixture->dir.fd, &spool, &reason), 0);
    for (unsigned int i = 0; i < 2; i++)
        say_that_it_replaces(spool, numbers[2 + i], numbers[i], names[i]);
    spool_free(spool);
    fixture_open(fixture);
    for (unsigned int i = 0; i < 2; i++)
        assert_int_equal(number_of(fixture, OUT, names[i]), numbers[2 + i]);
    struct outbox_status status;
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.queued, 2);
}

/* The program ended when a draft had replaced a message of which the disk says that its request may have
 * left. */
FIXTURE_TEST(a_replaced_message_that_may_have_been_sent_stays)
{
    struct fixture *fixture = *state;
    struct spool *spool = NULL;
    char *reason = NULL;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "a.eml", MESSAGE), 0);
    assert_int_equal(mail(fixture, "new a", MESSAGE), 0);
    uint64_t replaced = number_of(fixture, OUT, "a.eml");
    uint64_t number = number_of(fixture, OUT, "new a");
    fixture_close(fixture);
    assert_int_equal(spool_open(fixture->dir.fd, &spool, &reason), 0);
    set_column(spool, replaced, "state = 'sending'");
    say_that_it_replaces(spool, number, replaced, "a.eml");
    spool_free(spool);
    fixture_open(fixture);
    assert_true(is_listed(fixture, FAILED, "a.eml"));
    assert_true(shown_contains(fixture, FAILED, "a.eml.receipt.json", "unknown outcome"));
    assert_int_equal(number_of(fixture, OUT, "a-2.eml"), number);
}

/* A disk that fails to read the request, when a message is sent, cannot measure the receipt. */
FIXTURE_TEST(a_row_that_is_saved_again_has_the_size_of_its_receipt)
{
    struct fixture *fixture = *state;
    struct outbox *outbox = fixture->outbox;
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), 0);
    pthread_mutex_lock(&outbox->lock);
    struct item *item = item_table_find(&outbox->table, OUTBOX_FOLDER_SENT, "m.eml");
    item->row.receipt_bytes = 0;
    item->is_unsaved = true;
    outbox->unsaved++;
    pthread_mutex_unlock(&outbox->lock);
    unsigned int unsaved;
    do { /* or a worker saves it */
        (void)change_save_again(outbox);
        pthread_mutex_lock(&outbox->lock);
        unsaved = outbox->unsaved;
        pthread_mutex_unlock(&outbox->lock);
    } while (unsaved > 0);
    assert_true(shown_contains(fixture, SENT, "m.eml.receipt.json", "Hello"));
}

/* Some of the messages may have been sent, so all are shown and none is sent without its user. */
FIXTURE_TEST(without_the_database_each_content_has_an_unknown_outcome)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    copy_in(fixture, ATTACHED, "a.txt", "text");
    uint64_t number = number_of(fixture, OUT, "m.eml");
    fixture_close(fixture);
    assert_int_equal(unlinkat(fixture->dir.fd, "spool/outbox.sqlite3", 0), 0);
    unlinkat(fixture->dir.fd, "spool/outbox.sqlite3-wal", 0);
    fake_service_set_reachable(fixture->fake, true);
    unsigned int before = sends(fixture);
    fixture_open(fixture);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), before);
    char name[64];
    snprintf(name, sizeof(name), "recovered-%" PRIu64, number);
    assert_true(shown_contains(fixture, FAILED, name, "How are you?"));
    strcat(name, ".receipt.json");
    assert_true(shown_contains(fixture, FAILED, name, "database was lost"));
    assert_true(shown_contains(fixture, FAILED, name, "unknown outcome"));
    struct outbox_status status;
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.failed, 2);
}

static void expect_refused(struct fixture *fixture, int error, const char *words)
{
    struct outbox *outbox = NULL;
    _cleanup_free_ char *reason = NULL;
    assert_int_equal(outbox_open(&fixture->config, &outbox, &reason), error);
    assert_non_null(strstr(reason, words));
}

FIXTURE_TEST(a_damaged_database_is_refused_with_a_reason_and_left_unchanged)
{
    struct fixture *fixture = *state;
    char content[32];
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), 0);
    snprintf(content, sizeof(content), "%" PRIu64 ".data", number_of(fixture, SENT, "m.eml"));
    fixture_close(fixture);
    put_file(fixture, "outbox.sqlite3",
             "this is no database, and longer than a header of one: .................."
             "............................................................");
    expect_refused(fixture, -EUCLEAN, "move that file");
    assert_true(is_there(fixture, content));
    assert_int_equal(unlinkat(fixture->dir.fd, "spool/outbox.sqlite3", 0), 0);
    fixture_open(fixture);
}

FIXTURE_TEST(a_database_with_a_row_that_cannot_be_is_refused_with_a_reason)
{
    static const char *const assignments[] = {"kind = 'attachment'", "sender = NULL", "state = 'uploading'"};
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    uint64_t number = number_of(fixture, OUT, "m.eml");
    fixture_close(fixture);
    for (unsigned int i = 0; i < ARRAY_LEN(assignments); i++) {
        struct spool *spool = NULL;
        char *reason = NULL;
        assert_int_equal(spool_open(fixture->dir.fd, &spool, &reason), 0);
        set_column(spool, number, assignments[i]);
        spool_free(spool);
        expect_refused(fixture, -EBADMSG, "the spool cannot be read");
        assert_int_equal(spool_open(fixture->dir.fd, &spool, &reason), 0);
        set_column(spool, number, "kind = 'message', sender = '" ME "', state = 'queued'");
        spool_free(spool);
    }
    fixture_open(fixture);
    assert_true(is_listed(fixture, OUT, "m.eml"));
}

FIXTURE_TEST(a_spool_of_another_version_is_refused)
{
    struct fixture *fixture = *state;
    fixture_close(fixture);
    put_file(fixture, "version", "9\n");
    expect_refused(fixture, -EPROTO, "version 9");
    put_file(fixture, "version", "1\n");
    expect_refused(fixture, -EPROTO, "0.2");
    put_file(fixture, "version", "3\n");
    fixture_open(fixture);
}
