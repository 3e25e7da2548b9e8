/* SPDX-License-Identifier: MIT */
/*
 * The spool's files: numbers, durability across opens, what is torn or foreign.
 */
#include "outbox_world.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "outbox/spool.h"

/* Called before a folder is made durable, by the thread that does it; once. */
static _Atomic(void (*)(void)) before_sync_of_folder;
static atomic_uint data_syncs;

/* These take the place of libc's. */
int fsync(int fd)
{
    struct stat file;
    void (*call)(void) = NULL;
    if (fstat(fd, &file) == 0 && S_ISDIR(file.st_mode))
        call = atomic_exchange(&before_sync_of_folder, NULL);
    if (call != NULL)
        call();
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    int result = (int)syscall(SYS_fdatasync, fd);
    atomic_fetch_add(&data_syncs, 1);
    return result;
}

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

/* A folder that is opened for its path alone cannot be synced. */
static void a_draft_whose_move_may_not_last_is_where_it_was(void **state)
{
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    _cleanup_close_ int drafts = openat(dir->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    put_file(dir, "letter", MESSAGE);
    assert_int_equal(spool_take_in(spool, 7, drafts, "letter"), -EBADF);
    assert_true(exists(dir, "letter"));
    assert_false(exists(dir, "spool/7.data"));
    assert_int_equal(spool_take_in(spool, 7, dir->fd, "letter"), 0);
    assert_false(exists(dir, "letter"));
    assert_true(exists(dir, "spool/7.data"));
    spool_free(spool);
}

static void a_copy_is_whole_however_long(void **state)
{
    static const size_t lengths[] = {0, 1, 65535, 65536, 65537, 200000};
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    _cleanup_free_ char *text = malloc(200001);
    assert_non_null(text);
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        _cleanup_free_ char *copied = NULL;
        size_t len;
        for (size_t at = 0; at < lengths[i]; at++)
            text[at] = (char)('a' + at % 23);
        text[lengths[i]] = '\0';
        put_file(dir, "spool/7.data", text);
        assert_int_equal(spool_copy_data(spool, 7, 8), 0);
        assert_int_equal(spool_read_data(spool, 8, 1000000, &copied, &len), 0);
        assert_int_equal(len, lengths[i]);
        assert_memory_equal(copied, text, len);
    }
    spool_free(spool);
}

/* As on a disk that turned read-only: unlink(2) of a folder fails. */
static void what_cannot_be_removed_keeps_its_envelope(void **state)
{
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    assert_int_equal(mkdirat(dir->fd, "spool/7.data", 0700), 0);
    put_file(dir, "spool/7.json", "{}");
    assert_int_equal(spool_remove_data(spool, 7), -EISDIR);
    assert_int_equal(spool_remove(spool, 7), -EISDIR);
    assert_true(exists(dir, "spool/7.json"));
    assert_int_equal(unlinkat(dir->fd, "spool/7.data", AT_REMOVEDIR), 0);
    assert_int_equal(spool_remove(spool, 7), 0);
    assert_false(exists(dir, "spool/7.json"));
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

/* ---------------------------------------------------------------- envelopes are replaced */

enum {
    WRITERS = 4,
    TURNS = 150,
    TEXT_MAX = 6000,
};

static void write_envelope(struct spool *spool, uint64_t number, const char *text)
{
    assert_int_equal(spool_write_envelope(spool, number, text, strlen(text)), 0);
}

static void expect_envelope(struct spool *spool, uint64_t number, const char *text)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    assert_int_equal(spool_read_envelope(spool, number, &bytes, &len), 0);
    assert_int_equal(len % 4096, 0);
    assert_memory_equal(bytes, text, strlen(text));
    assert_int_equal(strspn(bytes + strlen(text), " "), len - strlen(text));
}

static ino_t inode_of(struct temp_dir *dir, const char *name)
{
    struct stat status;
    assert_int_equal(fstatat(dir->fd, name, &status, AT_SYMLINK_NOFOLLOW), 0);
    return status.st_ino;
}

/* Envelopes, and what they are written into. */
static unsigned int count_envelope_files(struct temp_dir *dir)
{
    unsigned int count = 0;
    DIR *folder = fdopendir(openat(dir->fd, "spool", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL)
        count += strstr(entry->d_name, ".json") != NULL || strstr(entry->d_name, ".new") != NULL ? 1 : 0;
    closedir(folder);
    return count;
}

static void an_envelope_takes_the_place_of_the_one_before(void **state)
{
    struct spool *spool = open_spool(*state);
    write_envelope(spool, 1, "the first, which is the longest of them");
    expect_envelope(spool, 1, "the first, which is the longest of them");
    write_envelope(spool, 1, "the second");
    expect_envelope(spool, 1, "the second");
    write_envelope(spool, 1, "3");
    expect_envelope(spool, 1, "3");
    write_envelope(spool, 1, "the fourth, longer again");
    expect_envelope(spool, 1, "the fourth, longer again");
    spool_free(spool);
}

static void two_files_serve_all_changes(void **state)
{
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    write_envelope(spool, 1, "a");
    write_envelope(spool, 1, "b");
    ino_t one = inode_of(dir, "spool/1.json");
    write_envelope(spool, 1, "c");
    ino_t other = inode_of(dir, "spool/1.json");
    assert_true(one != other);
    for (int i = 0; i < 10; i++) {
        write_envelope(spool, 1, "d");
        assert_int_equal(inode_of(dir, "spool/1.json"), i % 2 == 0 ? one : other);
    }
    assert_int_equal(count_envelope_files(dir), 2);
    write_envelope(spool, 2, "takes the spare");
    assert_int_equal(count_envelope_files(dir), 2);
    expect_envelope(spool, 1, "d");
    spool_free(spool);
}

static struct spool *meanwhile_spool;
static pthread_t meanwhile_thread;

static void *write_second(void *argument)
{
    (void)argument;
    write_envelope(meanwhile_spool, 2, "of another item");
    return NULL;
}

/* It waits for this round, or for the next; its bytes are on the disk before. */
static void let_another_thread_write(void)
{
    unsigned int before = atomic_load(&data_syncs);
    assert_int_equal(pthread_create(&meanwhile_thread, NULL, write_second, NULL), 0);
    for (int i = 0; atomic_load(&data_syncs) == before; i++) {
        assert_true(i < 20000);
        usleep(1000);
    }
}

/* As long as the folder is not on the disk, a power cut brings the old file back as the envelope. */
static void what_the_disk_knows_as_the_envelope_is_not_written_into(void **state)
{
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    char text[8] = "";
    write_envelope(spool, 1, "before");
    _cleanup_close_ int old = openat(dir->fd, "spool/1.json", O_RDONLY | O_CLOEXEC);
    meanwhile_spool = spool;
    atomic_store(&before_sync_of_folder, let_another_thread_write);
    write_envelope(spool, 1, "after");
    pthread_join(meanwhile_thread, NULL);
    assert_int_equal(pread(old, text, strlen("before"), 0), strlen("before"));
    assert_string_equal(text, "before");
    expect_envelope(spool, 1, "after");
    expect_envelope(spool, 2, "of another item");
    spool_free(spool);
}

static void what_could_not_be_written_is_not_tried_again(void **state)
{
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    write_envelope(spool, 1, "whole");
    assert_int_equal(mkdirat(dir->fd, "spool/spare-1.new", 0700), 0);
    assert_int_equal(spool_write_envelope(spool, 1, "not to be seen", 14), -EISDIR);
    expect_envelope(spool, 1, "whole");
    write_envelope(spool, 1, "after it");
    expect_envelope(spool, 1, "after it");
    spool_free(spool);
}

static void a_link_is_not_written_through(void **state)
{
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    write_envelope(spool, 7, "of somebody");
    assert_int_equal(symlinkat("7.json", dir->fd, "spool/spare-1.new"), 0);
    assert_int_equal(spool_write_envelope(spool, 1, "x", 1), -ELOOP);
    expect_envelope(spool, 7, "of somebody");
    spool_free(spool);
}

struct writer {
    struct spool *spool;
    uint64_t number;
    atomic_int *writing;
};

/* A text is its writer's digit, over and over. */
static void *write_texts(void *argument)
{
    const struct writer *writer = argument;
    char text[TEXT_MAX];
    memset(text, '0' + (int)writer->number, sizeof(text));
    for (size_t i = 0; i < TURNS; i++)
        assert_int_equal(spool_write_envelope(writer->spool, writer->number, text, 1 + i * 997 % TEXT_MAX),
                         0);
    atomic_fetch_sub(writer->writing, 1);
    return NULL;
}

static void expect_own_text(const struct writer *writer)
{
    const char digit[2] = {(char)('0' + (int)writer->number)};
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    int error = spool_read_envelope(writer->spool, writer->number, &bytes, &len);
    if (error == -ENOENT)
        return;
    assert_int_equal(error, 0);
    size_t text_len = strspn(bytes, digit);
    assert_true(text_len > 0);
    assert_int_equal(strspn(bytes + text_len, " "), len - text_len);
}

/* What one has open to read becomes what another writes into. */
static void envelopes_written_and_read_at_once_do_not_mix(void **state)
{
    struct temp_dir *dir = *state;
    struct spool *spool = open_spool(dir);
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    atomic_int writing = WRITERS;
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.spool = spool, .number = (uint64_t)i + 1, .writing = &writing};
        assert_int_equal(pthread_create(&threads[i], NULL, write_texts, &writers[i]), 0);
    }
    for (int i = 0; atomic_load(&writing) > 0; i = (i + 1) % WRITERS)
        expect_own_text(&writers[i]);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(count_envelope_files(dir) <= 2 * WRITERS);
    spool_free(spool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPOOL_TEST(numbers_are_never_given_twice),
        SPOOL_TEST(a_newer_spool_is_refused),
        SPOOL_TEST(an_older_spool_is_upgraded),
        SPOOL_TEST(foreign_files_are_set_aside),
        SPOOL_TEST(a_draft_whose_move_may_not_last_is_where_it_was),
        SPOOL_TEST(a_copy_is_whole_however_long),
        SPOOL_TEST(what_cannot_be_removed_keeps_its_envelope),
        SPOOL_TEST(the_count_of_the_day_is_kept),
        cmocka_unit_test(a_damaged_spool_does_not_stop_the_rest),
        cmocka_unit_test(of_two_attachments_of_one_name_the_newer_shows),
        cmocka_unit_test(an_envelope_of_a_newer_version_is_refused),
        SPOOL_TEST(an_envelope_takes_the_place_of_the_one_before),
        SPOOL_TEST(two_files_serve_all_changes),
        SPOOL_TEST(what_the_disk_knows_as_the_envelope_is_not_written_into),
        SPOOL_TEST(what_could_not_be_written_is_not_tried_again),
        SPOOL_TEST(a_link_is_not_written_through),
        SPOOL_TEST(envelopes_written_and_read_at_once_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
