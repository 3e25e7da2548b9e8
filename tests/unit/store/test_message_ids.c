/* SPDX-License-Identifier: MIT */
/*
 * Which emails a Message-ID names: noted as messages pass, found again, bounded, and lost without harm.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "store/message_ids.h"
#include "store/store_content.h"
#include "unit/store/store_world.h"

/* ---------------------------------------------------------------- the file */

struct box {
    struct temp_dir dir;
    struct message_ids ids;
};

static void box_open(struct box *box, int64_t max)
{
    assert_int_equal(message_ids_open(&box->ids, box->dir.fd, max), 0);
}

static void box_init(struct box *box, int64_t max)
{
    *box = (struct box){0};
    temp_dir_init(&box->dir);
    box_open(box, max);
}

static void box_release(struct box *box)
{
    message_ids_release(&box->ids);
    temp_dir_release(&box->dir);
}

/* The emails that it names, a blank behind each. */
static void assert_named(struct box *box, const char *message_id, const char *expected)
{
    char *emails[MESSAGE_IDS_EMAILS_MAX];
    _cleanup_strbuf_ struct strbuf all = STRBUF_INIT(1 << 16);
    size_t len = 0;
    assert_int_equal(message_ids_find(&box->ids, message_id, emails, &len), 0);
    for (size_t i = 0; i < len; i++) {
        strbuf_appendf(&all, "%s ", emails[i]);
        free(emails[i]);
    }
    assert_string_equal(strbuf_str(&all), expected);
}

static void what_was_noted_is_found(void **state)
{
    struct box box;
    (void)state;
    box_init(&box, 100);
    assert_named(&box, "a@b", "");
    message_ids_note(&box.ids, "a@b", "e2");
    message_ids_note(&box.ids, "c@d", "e3");
    message_ids_note(&box.ids, "a@b", "e1");
    message_ids_note(&box.ids, "a@b", "e2");
    assert_named(&box, "a@b", "e2 e1 ");
    assert_named(&box, "c@d", "e3 ");
    assert_named(&box, "A@b", "");
    message_ids_release(&box.ids);
    box_open(&box, 100);
    assert_named(&box, "a@b", "e2 e1 ");
    box_release(&box);
}

static void the_oldest_go_first(void **state)
{
    struct box box;
    (void)state;
    box_init(&box, 10);
    for (int i = 0; i < 25; i++) {
        char id[16];
        snprintf(id, sizeof(id), "%d@x", i);
        message_ids_note(&box.ids, id, id);
    }
    for (int i = 0; i < 25; i++) {
        char id[16];
        char expected[20];
        snprintf(id, sizeof(id), "%d@x", i);
        snprintf(expected, sizeof(expected), "%s ", id);
        assert_named(&box, id, i < 15 ? "" : expected);
    }
    box_release(&box);
}

static void the_first_emails_of_a_message_id_stay(void **state)
{
    struct box box;
    char *emails[MESSAGE_IDS_EMAILS_MAX];
    (void)state;
    box_init(&box, 1000);
    for (int i = 0; i < MESSAGE_IDS_EMAILS_MAX + 10; i++) {
        char id[16];
        snprintf(id, sizeof(id), "e%d", i);
        message_ids_note(&box.ids, "a@b", id);
    }
    size_t len = 0;
    assert_int_equal(message_ids_find(&box.ids, "a@b", emails, &len), 0);
    assert_int_equal(len, MESSAGE_IDS_EMAILS_MAX);
    assert_string_equal(emails[0], "e0");
    for (size_t i = 0; i < MESSAGE_IDS_EMAILS_MAX; i++)
        free(emails[i]);
    box_release(&box);
}

static void an_id_that_is_too_long_is_not_noted(void **state)
{
    struct box box;
    char id[300];
    (void)state;
    memset(id, 'x', sizeof(id));
    id[256] = '\0';
    box_init(&box, 1000);
    message_ids_note(&box.ids, "a@b", id);
    assert_named(&box, "a@b", "");
    box_release(&box);
}

static void change(struct box *box, const char *sql)
{
    message_ids_release(&box->ids);
    struct temp_dir *dir = &box->dir;
    char path[4200];
    sqlite3 *db = NULL;
    snprintf(path, sizeof(path), "/proc/self/fd/%d/message_ids.sqlite3", dir->fd);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    box_open(box, 100);
}

static void a_damaged_row_is_none(void **state)
{
    static const char *const changes[] = {
        "UPDATE message_ids SET email = 'e2'",
        "UPDATE message_ids SET email = ''",
        "UPDATE message_ids SET email = x'6531'",
        "UPDATE message_ids SET email = x'653100'",
        "UPDATE message_ids SET email = x''",
        "UPDATE message_ids SET email = 7, hash = 'x'",
        "UPDATE message_ids SET hash = 0",
        "UPDATE message_ids SET hash = x'00'",
        "UPDATE message_ids SET digest = digest + 1",
        "UPDATE message_ids SET number = 9223372036854775807",
        "ALTER TABLE message_ids RENAME TO others",
        "DROP INDEX by_digest",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        struct box box;
        box_init(&box, 100);
        message_ids_note(&box.ids, "a@b", "e1");
        change(&box, changes[i]);
        char *emails[MESSAGE_IDS_EMAILS_MAX];
        size_t len = 0;
        assert_int_equal(message_ids_find(&box.ids, "a@b", emails, &len), 0);
        assert_true(len <= 1);
        if (len == 1) {
            assert_string_equal(emails[0], "e1"); /* a number, or a type, that does not matter */
            free(emails[0]);
        }
        /* Messages are noted all the same; where a new file is needed, from the second one on. */
        message_ids_note(&box.ids, "c@d", "e2");
        message_ids_note(&box.ids, "a@b", "e1");
        assert_named(&box, "a@b", "e1 ");
        box_release(&box);
    }
}

/* Whatever byte of the file is another: no crash, no email that was not noted, and what is noted once the
 * damage was met is kept. */
static void a_damaged_file_names_no_other_email(void **state)
{
    struct box box;
    (void)state;
    box_init(&box, 100);
    for (int i = 0; i < 40; i++) {
        char id[16];
        snprintf(id, sizeof(id), "%d@x", i);
        message_ids_note(&box.ids, id, "e1");
    }
    message_ids_release(&box.ids);
    int fd = openat(box.dir.fd, "message_ids.sqlite3", O_RDONLY | O_CLOEXEC);
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    size_t len = (size_t)status.st_size;
    _cleanup_free_ char *bytes = malloc(len);
    assert_int_equal(file_pread_all(fd, bytes, len, 0), len);
    close(fd);
    for (size_t i = 0; i < len; i += 97) {
        unlinkat(box.dir.fd, "message_ids.sqlite3-wal", 0);
        fd = openat(box.dir.fd, "message_ids.sqlite3", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        bytes[i] = (char)~bytes[i];
        assert_int_equal(file_write_all(fd, bytes, len), 0);
        bytes[i] = (char)~bytes[i];
        close(fd);
        box_open(&box, 100);
        for (int j = 0; j < 40; j += 13) {
            char id[16];
            char *emails[MESSAGE_IDS_EMAILS_MAX];
            snprintf(id, sizeof(id), "%d@x", j);
            size_t named = 0;
            assert_int_equal(message_ids_find(&box.ids, id, emails, &named), 0);
            for (size_t k = 0; k < named; k++) {
                assert_string_equal(emails[k], "e1");
                free(emails[k]);
            }
        }
        for (int j = 0; j < 3; j++)
            message_ids_note(&box.ids, "new@x", "e2");
        assert_named(&box, "new@x", "e2 ");
        message_ids_release(&box.ids);
    }
    box_open(&box, 100);
    box_release(&box);
}

static void a_file_that_cannot_be_had_is_an_error(void **state)
{
    struct box box = {0};
    (void)state;
    temp_dir_init(&box.dir);
    assert_int_equal(mkdirat(box.dir.fd, "message_ids.sqlite3", 0700), 0);
    assert_int_equal(mkdirat(box.dir.fd, "message_ids.sqlite3.set-aside", 0700), 0);
    assert_int_equal(mkdirat(box.dir.fd, "message_ids.sqlite3.set-aside/x", 0700), 0);
    box_open(&box, 100);
    message_ids_note(&box.ids, "a@b", "e1");
    char *emails[MESSAGE_IDS_EMAILS_MAX];
    size_t len = 1;
    assert_true(message_ids_find(&box.ids, "a@b", emails, &len) < 0);
    assert_int_equal(len, 0);
    box_release(&box);
}

/* ---------------------------------------------------------------- of the store */

static void add_message(struct store_world *world, const char *id, const char *message_id)
{
    char json[256];
    char raw[256];
    snprintf(json, sizeof(json), "{\"id\":\"%s\",\"plain_text\":\"x\",\"message_id\":\"<%s>\"}", id,
             message_id);
    snprintf(raw, sizeof(raw), "Subject: x\r\nMessage-ID: <%s>\r\n\r\nx\r\n", message_id);
    fake_service_set_content(world->fake, id, json);
    fake_service_set_bytes(world->fake, id, NULL, raw, strlen(raw));
}

/* Alice and Bob; both got the message m1@x, alice got m2@x, too. Nothing is fetched ahead, or to find out
 * whether there is anything, for nothing was synced since they have content. */
static void set_up(struct store_world *world)
{
    world_init_with_alice(world);
    fake_service_add_inbox(world->fake,
                           "{\"id\": \"in-2\", \"name\": \"bob\", \"email_address\": \"bob@inbox.example\"}");
    world->content_cache_bytes = 1 << 20;
    fake_service_add_simple_email(world->fake, "in-1", "a1", "one");
    fake_service_add_simple_email(world->fake, "in-1", "a2", "two");
    fake_service_add_simple_email(world->fake, "in-2", "b1", "one");
    world_start(world);
    assert_int_equal(world_sync(world), 0);
    add_message(world, "a1", "m1@x");
    add_message(world, "a2", "m2@x");
    add_message(world, "b1", "m1@x");
}

static uint32_t number_of(struct store_world *world, const char *id)
{
    struct email_view view;
    assert_true(store_find_email_by_id(world->store, 0, id, &view));
    return view.number;
}

static void read_message(struct store_world *world, const char *id)
{
    struct store_bytes bytes;
    assert_int_equal(store_bytes_open(world->store, number_of(world, id), NULL, NULL, &bytes), 0);
    close(bytes.fd);
}

static void assert_answers(struct store_world *world, const char *message_id, const char *from, int error,
                           const char *expected)
{
    _cleanup_free_ char *id = NULL;
    assert_int_equal(store_find_by_message_id(world->store, message_id, from, &id), error);
    if (expected != NULL)
        assert_string_equal(id, expected);
    else
        assert_null(id);
}

#define FROM_ALICE "alice@inbox.example"
#define FROM_BOB "bob@inbox.example"

static void a_message_that_was_read_is_known_by_its_message_id(void **state)
{
    struct store_world world;
    (void)state;
    set_up(&world);
    assert_answers(&world, "m1@x", FROM_ALICE, -ENOENT, NULL);
    read_message(&world, "a1");
    assert_answers(&world, "m1@x", FROM_ALICE, 0, "a1");
    assert_answers(&world, "m1@x", "Alice@Inbox.example", 0, "a1");
    assert_answers(&world, "m2@x", FROM_ALICE, -ENOENT, NULL);
    world_restart(&world);
    assert_answers(&world, "m1@x", FROM_ALICE, 0, "a1");
    world_release(&world);
}

static void so_is_one_whose_texts_were_read(void **state)
{
    struct store_world world;
    struct store_content *content;
    (void)state;
    set_up(&world);
    assert_int_equal(store_content_get(world.store, number_of(&world, "a2"), NULL, &content), 0);
    store_content_unref(world.store, content);
    assert_answers(&world, "m2@x", FROM_ALICE, 0, "a2");
    world_release(&world);
}

static void of_several_inboxes_the_one_that_answers_counts(void **state)
{
    struct store_world world;
    (void)state;
    set_up(&world);
    read_message(&world, "a1");
    assert_answers(&world, "m1@x", FROM_BOB, -EXDEV, NULL);
    read_message(&world, "b1");
    assert_answers(&world, "m1@x", FROM_BOB, 0, "b1");
    assert_answers(&world, "m1@x", FROM_ALICE, 0, "a1");
    assert_answers(&world, "m1@x", "carol@inbox.example", -EXDEV, NULL);
    world_release(&world);
}

static void mail_that_is_gone_is_not_answered(void **state)
{
    struct store_world world;
    (void)state;
    set_up(&world);
    read_message(&world, "a1");
    fake_service_remove_email(world.fake, "a1");
    assert_int_equal(world_sync_removal(&world), 0);
    assert_answers(&world, "m1@x", FROM_ALICE, -ENOENT, NULL);
    world_release(&world);
}

/* The cache may be deleted; what was fetched stays, and is noted when it is read again. */
static void a_lost_file_fills_again_from_what_is_on_disk(void **state)
{
    struct store_world world;
    (void)state;
    set_up(&world);
    read_message(&world, "a1");
    world_close(&world);
    char path[4200];
    snprintf(path, sizeof(path), "/proc/self/fd/%d/cache/message_ids.sqlite3", world.dir.fd);
    assert_int_equal(unlink(path), 0);
    fake_service_set_reachable(world.fake, false);
    world_start(&world);
    assert_answers(&world, "m1@x", FROM_ALICE, -ENOENT, NULL);
    read_message(&world, "a1");
    assert_answers(&world, "m1@x", FROM_ALICE, 0, "a1");
    world_release(&world);
}

static void a_message_without_one_is_read_all_the_same(void **state)
{
    struct store_world world;
    (void)state;
    set_up(&world);
    fake_service_set_bytes(world.fake, "a1", NULL, "", 0);
    fake_service_set_bytes(world.fake, "a2", NULL, "Subject: x\n\n<m2@x>\n", 19);
    read_message(&world, "a1");
    read_message(&world, "a2");
    assert_answers(&world, "m2@x", FROM_ALICE, -ENOENT, NULL);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_noted_is_found),
        cmocka_unit_test(the_oldest_go_first),
        cmocka_unit_test(the_first_emails_of_a_message_id_stay),
        cmocka_unit_test(an_id_that_is_too_long_is_not_noted),
        cmocka_unit_test(a_damaged_row_is_none),
        cmocka_unit_test(a_damaged_file_names_no_other_email),
        cmocka_unit_test(a_file_that_cannot_be_had_is_an_error),
        cmocka_unit_test(a_message_that_was_read_is_known_by_its_message_id),
        cmocka_unit_test(so_is_one_whose_texts_were_read),
        cmocka_unit_test(of_several_inboxes_the_one_that_answers_counts),
        cmocka_unit_test(mail_that_is_gone_is_not_answered),
        cmocka_unit_test(a_lost_file_fills_again_from_what_is_on_disk),
        cmocka_unit_test(a_message_without_one_is_read_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
