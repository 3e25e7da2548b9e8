/* SPDX-License-Identifier: MIT */
/*
 * The spool's files: numbers, durability across opens, what is torn or foreign.
 */
#include "outbox_world.h"

#include "outbox/spool.h"

static int setup(void **state)
{
    struct temp_dir *dir = malloc(sizeof(*dir));
    temp_dir_init(dir);
    *state = dir;
    return 0;
}

static int teardown(void **state)
{
    temp_dir_release(*state);
    free(*state);
    return 0;
}

static struct spool *open_spool(struct temp_dir *dir)
{
    struct spool *spool = NULL;
    char *reason = NULL;
    if (spool_open(dir->fd, &spool, &reason) != 0)
        fail_msg("%s", reason);
    return spool;
}

static void put_file(struct temp_dir *dir, const char *name, const char *content)
{
    int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, content, strlen(content)), 0);
    close(fd);
}

static bool exists(struct temp_dir *dir, const char *name)
{
    return faccessat(dir->fd, name, F_OK, 0) == 0;
}

static void numbers_are_never_given_twice(void **state)
{
    struct temp_dir *dir = *state;
    uint64_t last = 0;
    for (int i = 0; i < 5; i++) {
        struct spool *spool = open_spool(dir);
        for (int j = 0; j < 700; j++) {
            uint64_t number;
            assert_int_equal(spool_take_number(spool, &number), 0);
            assert_true(number > last);
            last = number;
        }
        spool_free(spool);
    }
    put_file(dir, "spool/numbers", "torn");
    struct spool *spool = open_spool(dir);
    spool_skip_number(spool, last);
    uint64_t number;
    assert_int_equal(spool_take_number(spool, &number), 0);
    assert_true(number > last);
    spool_free(spool);
}

static void a_newer_spool_is_refused(void **state)
{
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    spool_free(spool);
    put_file(dir, "spool/version", "3\n");
    char *reason = NULL;
    assert_int_equal(spool_open(dir->fd, &spool, &reason), -EPROTO);
    assert_non_null(reason);
    free(reason);
}

static void an_older_spool_is_upgraded(void **state)
{
    struct temp_dir *dir = *state;
    char *reason = NULL;
    char *version = NULL;
    size_t len;
    spool_free(open_spool(dir));
    put_file(dir, "spool/version", "1\n");
    spool_free(open_spool(dir));
    assert_int_equal(file_read_at(dir->fd, "spool/version", 10, &version, &len), 0);
    assert_string_equal(version, "2\n");
    free(version);
    put_file(dir, "spool/version", "0\n");
    struct spool *spool = NULL;
    assert_int_equal(spool_open(dir->fd, &spool, &reason), -EBADMSG);
    assert_non_null(reason);
    free(reason);
}

static int count_item(void *context, struct spool_item *item)
{
    unsigned int *counts = context;
    counts[item->number] = 1U + (item->has_data ? 2U : 0U) + (item->envelope != NULL ? 4U : 0U);
    return 0;
}

static void foreign_files_are_set_aside(void **state)
{
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    unsigned int counts[8] = {0};
    put_file(dir, "spool/1.data", "d");
    put_file(dir, "spool/1.json", "{}");
    put_file(dir, "spool/2.data", "d");
    put_file(dir, "spool/3.json", "{}");
    put_file(dir, "spool/01.data", "d");
    put_file(dir, "spool/0.data", "d");
    put_file(dir, "spool/99999999999999999999.data", "d");
    put_file(dir, "spool/notes.txt", "d");
    put_file(dir, "spool/4.json.new", "{");
    assert_int_equal(mkdirat(dir->fd, "spool/5.data", 0700), 0);
    assert_int_equal(symlinkat("/etc/passwd", dir->fd, "spool/6.json"), 0);
    assert_int_equal(spool_visit(spool, count_item, counts), 0);
    assert_int_equal(counts[1], 7);
    assert_int_equal(counts[2], 3);
    assert_int_equal(counts[3], 5);
    for (int i = 4; i < 8; i++)
        assert_int_equal(counts[i], 0);
    assert_true(exists(dir, "spool/quarantine/notes.txt"));
    assert_true(exists(dir, "spool/quarantine/01.data"));
    assert_true(exists(dir, "spool/quarantine/5.data"));
    assert_false(exists(dir, "spool/4.json.new"));
    assert_false(exists(dir, "spool/6.json"));

    put_file(dir, "spool/notes.txt", "once more");
    assert_int_equal(spool_visit(spool, count_item, counts), 0);
    assert_true(exists(dir, "spool/quarantine/notes.txt-1"));
    spool_free(spool);
}

static void the_count_of_the_day_is_kept(void **state)
{
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    int64_t day = 0;
    int64_t count = 0;
    assert_int_not_equal(spool_read_count(spool, &day, &count), 0);
    assert_int_equal(spool_write_count(spool, 20412, 7, true), 0);
    assert_int_equal(spool_write_count(spool, 20412, 8, false), 0);
    spool_free(spool);
    spool = open_spool(dir);
    assert_int_equal(spool_read_count(spool, &day, &count), 0);
    assert_int_equal(day, 20412);
    assert_int_equal(count, 8);
    spool_free(spool);
    put_file(dir, "spool/sent-today", "garbage");
    spool = open_spool(dir);
    assert_int_not_equal(spool_read_count(spool, &day, &count), 0);
    spool_free(spool);
}

/* ---------------------------------------------------------------- a whole outbox on a damaged spool */

static void a_damaged_spool_does_not_stop_the_rest(void **state)
{
    struct temp_dir *dir;
    struct world *world = malloc(sizeof(*world));
    void *world_state = world;
    (void)state;
    world_prepare(world);
    dir = &world->dir;
    fake_service_set_reachable(world->fake, false);
    world_open(world);
    assert_int_equal(mail(world, "good.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    world_close(world);

    put_file(dir, "spool/5000.data", "To: x@x.example\n\nno envelope\n");
    put_file(dir, "spool/5001.data", MESSAGE);
    put_file(dir, "spool/5001.json", "{\"version\": 1, \"number\": 5001, \"sta");
    put_file(dir, "spool/5002.data", MESSAGE);
    put_file(dir, "spool/5002.json",
             "{\"version\":1,\"number\":9,\"kind\":\"message\",\"state\":\"queued\","
             "\"name\":\"x\"}");
    put_file(dir, "spool/5003.data", MESSAGE);
    put_file(dir, "spool/5003.json",
             "{\"version\":1,\"number\":5003,\"kind\":\"message\",\"state\":\"queued\","
             "\"name\":\"../../x\"}");
    put_file(dir, "spool/5004.data", MESSAGE);
    put_file(dir, "spool/5004.json",
             "{\"version\":1,\"number\":5004,\"kind\":\"message\",\"state\":\"flying\","
             "\"name\":\"x\"}");
    put_file(dir, "spool/5005.data", "");
    put_file(dir, "spool/5006.json",
             "{\"version\":1,\"number\":5006,\"kind\":\"message\",\"state\":\"queued\","
             "\"name\":\"y\"}");
    fake_service_set_reachable(world->fake, true);
    world_open(world);
    assert_int_equal(settle(world), 0);
    assert_true(is_listed(world, SENT, "good.eml"));
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
    assert_true(exists(dir, "spool/quarantine/5000.data"));
    assert_true(exists(dir, "spool/quarantine/5001.json"));
    assert_true(exists(dir, "spool/quarantine/5002.data"));
    assert_true(exists(dir, "spool/quarantine/5003.data"));
    assert_true(exists(dir, "spool/quarantine/5004.json"));
    assert_false(exists(dir, "spool/5005.data"));
    assert_false(exists(dir, "spool/5006.json"));
    world_teardown(&world_state);
}

/* A crash between a file's taking a name and the removal of the one that had it. */
static void of_two_attachments_of_one_name_the_newer_shows(void **state)
{
    struct world *world = malloc(sizeof(*world));
    void *world_state = world;
    (void)state;
    world_prepare(world);
    world_open(world);
    world_close(world);
    for (int i = 5000; i <= 5001; i++) {
        char name[64];
        char text[300];
        snprintf(name, sizeof(name), "spool/%d.data", i);
        put_file(&world->dir, name, i == 5000 ? "older" : "newer");
        snprintf(name, sizeof(name), "spool/%d.json", i);
        snprintf(
            text, sizeof(text),
            "{\"version\":1,\"number\":%d,\"kind\":\"attachment\",\"state\":\"uploaded\",\"name\":\"a.txt\","
            "\"content\":%d,\"id\":\"id-%d\"}",
            i, i, i);
        put_file(&world->dir, name, text);
    }
    world_open(world);
    assert_true(shown_contains(world, ATTACHED, "a.txt", "newer"));
    assert_true(shown_contains(world, ATTACHED, "a.txt.receipt.json", "id-5001"));
    struct outbox_listing listing;
    assert_int_equal(outbox_list(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, &listing), 0);
    assert_int_equal(listing.len, 2); /* with the receipt */
    outbox_listing_release(&listing);
    assert_int_equal(settle_uploads(world), 0);
    assert_int_equal(mail(world, "m.eml", "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n"), 0);
    assert_int_equal(settle(world), 0);
    assert_true(sent_contains(world, 0, "id-5001"));
    world_reopen(world);
    assert_true(shown_contains(world, ATTACHED, "a.txt", "newer"));
    world_close(world);
    assert_false(exists(&world->dir, "spool/5000.data"));
    world_teardown(&world_state);
}

static void an_envelope_of_a_newer_version_is_refused(void **state)
{
    struct world *world = malloc(sizeof(*world));
    void *world_state = world;
    (void)state;
    world_prepare(world);
    world_open(world);
    world_close(world);
    put_file(&world->dir, "spool/1.data", MESSAGE);
    put_file(&world->dir, "spool/1.json", "{\"version\": 2}");
    char *reason = NULL;
    assert_int_equal(outbox_open(&world->config, &world->outbox, &reason), -EPROTO);
    assert_non_null(reason);
    free(reason);
    world_teardown(&world_state);
}

#define SPOOL_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPOOL_TEST(numbers_are_never_given_twice),
        SPOOL_TEST(a_newer_spool_is_refused),
        SPOOL_TEST(an_older_spool_is_upgraded),
        SPOOL_TEST(foreign_files_are_set_aside),
        SPOOL_TEST(the_count_of_the_day_is_kept),
        cmocka_unit_test(a_damaged_spool_does_not_stop_the_rest),
        cmocka_unit_test(of_two_attachments_of_one_name_the_newer_shows),
        cmocka_unit_test(an_envelope_of_a_newer_version_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
