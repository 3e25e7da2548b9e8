/* SPDX-License-Identifier: MIT */
/*
 * Covers reading and replacing whole files.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/disk.h"
#include "support/temp_dir.h"
#include "support/test.h"

static int set_up(void **state)
{
    static struct temp_dir dir;
    temp_dir_init(&dir);
    *state = &dir;
    return 0;
}

static int tear_down(void **state)
{
    temp_dir_release(*state);
    return 0;
}

static int dir_fd(void **state)
{
    const struct temp_dir *dir = *state;
    return dir->fd;
}

static void assert_content(int dir, const char *name, const char *expected)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(file_read_at(dir, name, 1000, &bytes, &len), 0);
    assert_int_equal(len, strlen(expected));
    assert_string_equal(bytes, expected);
}

TEST_WITH(a_written_file_is_read_back, set_up, tear_down)
{
    int dir = dir_fd(state);
    struct stat status;
    assert_int_equal(file_replace_at(dir, "a", "one", 3, 0600), 0);
    assert_content(dir, "a", "one");
    assert_int_equal(file_replace_at(dir, "a", "", 0, 0600), 0);
    assert_content(dir, "a", "");
    assert_int_equal(file_replace_lazily_at(dir, "b", "two", 3, 0400), 0);
    assert_content(dir, "b", "two");
    assert_int_equal(fstatat(dir, "b", &status, 0), 0);
    assert_int_equal(status.st_mode & 0777, 0400);
    assert_int_equal(faccessat(dir, "a.new", F_OK, 0), -1);
}

TEST_WITH(a_temporary_file_of_a_crash_is_overwritten, set_up, tear_down)
{
    int dir = dir_fd(state);
    assert_int_equal(file_replace_at(dir, "a.new", "a much longer leftover", 22, 0600), 0);
    assert_int_equal(file_replace_at(dir, "a", "new", 3, 0600), 0);
    assert_content(dir, "a", "new");
}

/* On a full disk, a partly written file must not replace the complete one. */
TEST_WITH(a_partial_write_replaces_nothing, set_up, tear_down)
{
    int dir = dir_fd(state);
    char bytes[10000];
    memset(bytes, 'n', sizeof(bytes));
    assert_int_equal(file_replace_at(dir, "a", "old", 3, 0600), 0);
    disk_fill(5000);
    int error = file_replace_at(dir, "a", bytes, sizeof(bytes), 0600);
    int lazy_error = file_replace_lazily_at(dir, "a", bytes, sizeof(bytes), 0600);
    disk_empty();
    assert_int_equal(error, -EFBIG);
    assert_int_equal(lazy_error, -EFBIG);
    assert_content(dir, "a", "old");
    assert_int_equal(faccessat(dir, "a.new", F_OK, 0), -1);
}

TEST_WITH(a_file_over_the_maximal_length_is_not_read, set_up, tear_down)
{
    int dir = dir_fd(state);
    char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(file_replace_at(dir, "a", "12345", 5, 0600), 0);
    assert_int_equal(file_read_at(dir, "a", 4, &bytes, &len), -EFBIG);
    assert_null(bytes);
    assert_int_equal(file_read_at(dir, "a", 5, &bytes, &len), 0);
    free(bytes);
}

/* The reader waits for the bytes, although the pipe has O_NONBLOCK. */
TEST(a_pipe_is_read_to_its_end)
{
    const size_t lens[] = {0, 5, 1000, 1001};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        int ends[2];
        char bytes[1001];
        _cleanup_free_ char *got = NULL;
        size_t len = 0;
        memset(bytes, 'k', sizeof(bytes));
        assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        pid_t child = fork();
        if (child == 0) {
            usleep(20 * 1000);
            _exit(write(ends[1], bytes, lens[i]) == (ssize_t)lens[i] ? 0 : 1);
        }
        assert_true(child > 0);
        close(ends[1]);
        int error = file_read_fd(ends[0], 1000, &got, &len);
        close(ends[0]);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_int_equal(error, lens[i] > 1000 ? -EFBIG : 0);
        assert_int_equal(len, error == 0 ? lens[i] : 0);
        assert_true(error != 0 || (memcmp(got, bytes, len) == 0 && got[len] == '\0'));
    }
}

TEST_WITH(input_is_read_from_a_file, set_up, tear_down)
{
    int dir = dir_fd(state);
    assert_int_equal(file_replace_at(dir, "a", "0123456789", 10, 0600), 0);
    _cleanup_close_ int fd = openat(dir, "a", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    _cleanup_free_ char *got = NULL;
    size_t len = 0;
    assert_int_equal(file_read_fd(fd, 9, &got, &len), -EFBIG);
    assert_int_equal(file_read_fd(fd, 10, &got, &len), 0);
    assert_int_equal(len, 10);
    assert_string_equal(got, "0123456789");
}

TEST_WITH(a_symbolic_link_is_neither_read_nor_overwritten, set_up, tear_down)
{
    int dir = dir_fd(state);
    char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(file_replace_at(dir, "target", "secret", 6, 0600), 0);
    assert_int_equal(symlinkat("target", dir, "link"), 0);
    assert_int_equal(file_read_at(dir, "link", 100, &bytes, &len), -ELOOP);
    assert_int_equal(symlinkat("target", dir, "victim.new"), 0);
    assert_int_equal(file_replace_at(dir, "victim", "x", 1, 0600), -ELOOP);
    assert_content(dir, "target", "secret");
}

TEST_WITH(a_failed_read_or_replacement_returns_its_errno, set_up, tear_down)
{
    int dir = dir_fd(state);
    char *bytes = NULL;
    size_t len = 0;
    char long_name[300];
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    assert_int_equal(file_read_at(dir, "missing", 100, &bytes, &len), -ENOENT);
    assert_int_equal(file_replace_at(dir, long_name, "x", 1, 0600), -ENAMETOOLONG);
    assert_int_equal(file_replace_at(dir, "missing/a", "x", 1, 0600), -ENOENT);
    assert_int_equal(mkdirat(dir, "folder", 0700), 0);
    assert_int_equal(file_replace_at(dir, "folder", "x", 1, 0600), -EISDIR);
    assert_int_equal(faccessat(dir, "folder.new", F_OK, 0), -1);
}

TEST_WITH(bytes_are_written_and_read_at_an_offset, set_up, tear_down)
{
    _cleanup_close_ int fd = openat(dir_fd(state), "a", O_RDWR | O_CREAT, 0600);
    char bytes[10] = "";
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, "0123456789", 10), 0);
    assert_int_equal(file_pwrite_all(fd, "xy", 2, 4), 0);
    assert_int_equal(file_pread_all(fd, bytes, 4, 3), 4);
    assert_memory_equal(bytes, "3xy6", 4);
    assert_int_equal(file_pread_all(fd, bytes, 10, 8), 2);
    assert_int_equal(file_pread_all(fd, bytes, 10, 100), 0);
    assert_int_equal(file_pread_all(-1, bytes, 10, 0), -EBADF);
    assert_int_equal(file_write_all(-1, bytes, 1), -EBADF);
    assert_int_equal(file_sync(fd), 0);
    assert_int_equal(file_sync(-1), -EBADF);
}

TEST_WITH(folders_are_made_with_their_parents, set_up, tear_down)
{
    int dir = dir_fd(state);
    struct stat status;
    _cleanup_close_ int fd = file_open_dir(dir, "a/b//c/");
    assert_true(fd >= 0);
    assert_int_equal(fstatat(dir, "a/b/c", &status, 0), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    _cleanup_close_ int again = file_open_dir(dir, "a/b/c");
    assert_true(again >= 0);
    assert_int_equal(file_replace_at(dir, "file", "x", 1, 0600), 0);
    assert_int_equal(file_open_dir(dir, "file"), -ENOTDIR);
    assert_int_equal(file_open_dir(dir, "file/below"), -ENOTDIR);
    assert_int_equal(file_open_dir(dir, ""), -ENOENT);
    assert_int_equal(symlinkat("a", dir, "link"), 0);
    assert_int_equal(file_open_dir(dir, "link"), -ELOOP);
    assert_int_equal(file_open_dir(dir, "link/b"), -ELOOP);
    assert_int_equal(file_open_dir(dir, "link/"), -ELOOP);
}

TEST_WITH(the_name_of_a_new_folder_is_durable, set_up, tear_down)
{
    int dir = dir_fd(state);
    disk_reset();
    close(file_open_dir(dir, "a/b"));
    disk_assert_synced("/a");
    assert_int_equal(disk_count_syncs(""), 2);
    close(file_open_dir(dir, "a/b"));
    assert_int_equal(disk_count_syncs(""), 2);
    disk_fail_syncs("/a", EIO);
    assert_int_equal(file_open_dir(dir, "a/c"), -EIO);
    disk_reset();
}

static bool is_below(void **state, const char *path, const char *directory)
{
    char whole[PATH_MAX];
    char above[PATH_MAX];
    const struct temp_dir *dir = *state;
    snprintf(whole, sizeof(whole), "%s/%s", dir->path, path);
    snprintf(above, sizeof(above), "%s/%s", dir->path, directory);
    return file_is_below(whole, above);
}

TEST_WITH(a_path_below_a_missing_folder_is_recognised, set_up, tear_down)
{
    int dir = dir_fd(state);
    close(file_open_dir(dir, "mail/box"));
    close(file_open_dir(dir, "mailbox"));
    assert_int_equal(symlinkat("mail/box", dir, "link"), 0);
    assert_int_equal(file_replace_at(dir, "mail/file", "x", 1, 0600), 0);
    static const char *const below[] = {"mail",
                                        "mail/",
                                        "mail/box",
                                        "mail/new",
                                        "mail/new/more//still/",
                                        "link",
                                        "link/new",
                                        "mailbox/../mail/box",
                                        "mail/file"};
    for (size_t i = 0; i < ARRAY_LEN(below); i++)
        assert_true(is_below(state, below[i], "mail"));
    static const char *const beside[] = {"mailbox", "mailbox/new", "new", "", "mail/.."};
    for (size_t i = 0; i < ARRAY_LEN(beside); i++)
        assert_false(is_below(state, beside[i], "mail"));
    assert_true(is_below(state, "mail", "link/.."));
    assert_false(is_below(state, "mail", "no such folder"));
    assert_true(file_is_below("/no such file", "/"));
    assert_false(file_is_below("no such file", "/proc"));
    assert_true(file_is_below("no such file", "."));
    assert_true(file_is_below("no such/file", "."));
    assert_true(file_is_below("", "."));
}

TEST_WITH(nothing_is_below_a_deleted_working_folder, set_up, tear_down)
{
    int dir = dir_fd(state);
    _cleanup_close_ int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(dir, "gone", 0700), 0);
    _cleanup_close_ int gone = file_open_dir(dir, "gone");
    assert_int_equal(fchdir(gone), 0);
    assert_int_equal(unlinkat(dir, "gone", AT_REMOVEDIR), 0);
    bool is_anything_below = file_is_below("new", "/") || file_is_below(".", "/") ||
                             file_is_below("../new", "/") || file_is_below("/", ".");
    assert_int_equal(fchdir(before), 0);
    assert_false(is_anything_below);
}
