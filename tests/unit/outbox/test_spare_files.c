/* SPDX-License-Identifier: MIT */
/*
 * Files that are written over instead of being made and removed: nobody ever sees another's text in one.
 */
#include "outbox_world.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "outbox/spare_files.h"

enum {
    WRITERS = 4,
    TURNS = 150,
    TEXT_MAX = 6000,
};

struct folder {
    struct temp_dir dir;
    struct dir_sync sync;
    struct spare_files spares;
};

static int setup(void **state)
{
    struct folder *folder = malloc(sizeof(*folder));
    temp_dir_init(&folder->dir);
    dir_sync_init(&folder->sync, folder->dir.fd);
    spare_files_init(&folder->spares, &folder->sync);
    *state = folder;
    return 0;
}

static int teardown(void **state)
{
    struct folder *folder = *state;
    spare_files_release(&folder->spares);
    dir_sync_release(&folder->sync);
    temp_dir_release(&folder->dir);
    free(folder);
    return 0;
}

static void replace(struct folder *folder, const char *name, const char *text)
{
    assert_int_equal(spare_files_replace(&folder->spares, name, text, strlen(text)), 0);
}

static void expect(struct folder *folder, const char *name, const char *text)
{
    char *bytes = NULL;
    size_t len;
    assert_int_equal(spare_files_read(&folder->spares, name, TEXT_MAX, &bytes, &len), 0);
    assert_int_equal(len, strlen(text));
    assert_string_equal(bytes, text);
    free(bytes);
}

static ino_t inode_of(const struct folder *folder, const char *name)
{
    struct stat status;
    assert_int_equal(fstatat(folder->dir.fd, name, &status, AT_SYMLINK_NOFOLLOW), 0);
    return status.st_ino;
}

static unsigned int count_files(const struct folder *folder)
{
    unsigned int count = 0;
    DIR *dir = fdopendir(openat(folder->dir.fd, ".", O_RDONLY | O_DIRECTORY));
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void a_text_takes_the_place_of_the_one_before(void **state)
{
    struct folder *folder = *state;
    replace(folder, "1.json", "the first, which is the longest of them");
    expect(folder, "1.json", "the first, which is the longest of them");
    replace(folder, "1.json", "the second");
    expect(folder, "1.json", "the second");
    replace(folder, "1.json", "3");
    expect(folder, "1.json", "3");
    replace(folder, "1.json", "the fourth, longer again");
    expect(folder, "1.json", "the fourth, longer again");
}

static void two_files_serve_all_changes(void **state)
{
    struct folder *folder = *state;
    replace(folder, "1.json", "a");
    replace(folder, "1.json", "b");
    ino_t one = inode_of(folder, "1.json");
    replace(folder, "1.json", "c");
    ino_t other = inode_of(folder, "1.json");
    assert_true(one != other);
    for (int i = 0; i < 10; i++) {
        replace(folder, "1.json", "d");
        assert_int_equal(inode_of(folder, "1.json"), i % 2 == 0 ? one : other);
    }
    assert_int_equal(count_files(folder), 2);
    replace(folder, "2.json", "takes the spare");
    assert_int_equal(count_files(folder), 2);
    expect(folder, "1.json", "d");
}

static void what_could_not_be_written_is_not_tried_again(void **state)
{
    struct folder *folder = *state;
    replace(folder, "1.json", "whole");
    assert_int_equal(mkdirat(folder->dir.fd, "spare-1.new", 0700), 0);
    assert_int_equal(spare_files_replace(&folder->spares, "1.json", "not to be seen", 14), -EISDIR);
    expect(folder, "1.json", "whole");
    replace(folder, "1.json", "after it");
    expect(folder, "1.json", "after it");
}

static void what_cannot_be_put_in_place_is_removed(void **state)
{
    struct folder *folder = *state;
    assert_int_equal(spare_files_replace(&folder->spares, "missing/1.json", "x", 1), -ENOENT);
    assert_int_equal(count_files(folder), 0);
}

static void a_link_is_not_written_through(void **state)
{
    struct folder *folder = *state;
    replace(folder, "secret", "of somebody");
    assert_int_equal(symlinkat("secret", folder->dir.fd, "spare-1.new"), 0);
    assert_int_equal(spare_files_replace(&folder->spares, "1.json", "x", 1), -ELOOP);
    expect(folder, "secret", "of somebody");
}

/* ---------------------------------------------------------------- at once */

struct writer {
    struct folder *folder;
    char name[2];
    atomic_int *writing;
};

/* A text is its writer's letter, over and over. */
static void *write_texts(void *argument)
{
    const struct writer *writer = argument;
    char text[TEXT_MAX];
    memset(text, writer->name[0], sizeof(text));
    for (size_t i = 0; i < TURNS; i++)
        assert_int_equal(
            spare_files_replace(&writer->folder->spares, writer->name, text, 1 + i * 997 % TEXT_MAX), 0);
    atomic_fetch_sub(writer->writing, 1);
    return NULL;
}

static void expect_own_text(struct folder *folder, const struct writer *writer)
{
    char *bytes = NULL;
    size_t len;
    int error = spare_files_read(&folder->spares, writer->name, TEXT_MAX, &bytes, &len);
    if (error == -ENOENT)
        return;
    assert_int_equal(error, 0);
    assert_true(len > 0);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(bytes[i], writer->name[0]);
    free(bytes);
}

static void texts_written_at_once_do_not_mix(void **state)
{
    struct folder *folder = *state;
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    atomic_int writing = WRITERS;
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.folder = folder, .name = {(char)('a' + i)}, .writing = &writing};
        assert_int_equal(pthread_create(&threads[i], NULL, write_texts, &writers[i]), 0);
    }
    for (int i = 0; atomic_load(&writing) > 0; i = (i + 1) % WRITERS)
        expect_own_text(folder, &writers[i]);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(count_files(folder) <= 2 * WRITERS);
}

struct reader {
    struct folder *folder;
    atomic_int task;
    atomic_bool is_done;
};

static void *read_one(void *argument)
{
    struct reader *reader = argument;
    atomic_store(&reader->task, gettid());
    expect(reader->folder, "1.json", "text");
    atomic_store(&reader->is_done, true);
    return NULL;
}

static bool is_asleep(pid_t task)
{
    char path[64];
    char state = 'R';
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)task);
    FILE *stat = fopen(path, "re");
    assert_non_null(stat);
    assert_int_equal(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
    fclose(stat);
    return state == 'S';
}

/* What a reader has open becomes a spare under its hands, so nothing is written into spares while one reads.
 */
static void who_reads_waits_for_who_writes(void **state)
{
    struct reader reader = {.folder = *state};
    pthread_t thread;
    replace(reader.folder, "1.json", "text");
    pthread_rwlock_rdlock(&reader.folder->spares.content);
    assert_int_equal(pthread_create(&thread, NULL, read_one, &reader), 0);
    while (atomic_load(&reader.task) == 0 || (!atomic_load(&reader.is_done) && !is_asleep(reader.task)))
        sched_yield();
    bool is_early = atomic_load(&reader.is_done);
    pthread_rwlock_unlock(&reader.folder->spares.content);
    pthread_join(thread, NULL);
    assert_false(is_early);
    assert_true(reader.is_done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_text_takes_the_place_of_the_one_before, setup, teardown),
        cmocka_unit_test_setup_teardown(two_files_serve_all_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(what_could_not_be_written_is_not_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_put_in_place_is_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_link_is_not_written_through, setup, teardown),
        cmocka_unit_test_setup_teardown(who_reads_waits_for_who_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(texts_written_at_once_do_not_mix, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
