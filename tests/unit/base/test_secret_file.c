/* SPDX-License-Identifier: MIT */
/*
 * Covers the owners, modes and contents that a secret's file may have.
 */
#include "base/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "support/temp_dir.h"
#include "support/test.h"

/* Reads a file of this content and mode. On an error, the reason must contain `words`. */
static int read_secret(const char *text, size_t len, mode_t mode, const char *words, char **ret_secret)
{
    struct temp_dir dir;
    temp_dir_init(&dir);
    char path[300];
    snprintf(path, sizeof(path), "%s/secret", dir.path);
    assert_int_equal(0, file_replace_at(dir.fd, "secret", text, len, 0600));
    assert_int_equal(0, chmod(path, mode));
    char *reason = NULL;
    int error = secret_file_read(path, "the key file", ret_secret, &reason);
    if (error != 0) {
        assert_non_null(reason);
        assert_non_null(strstr(reason, words));
        assert_non_null(strstr(reason, path));
    } else {
        assert_null(reason);
    }
    free(reason);
    temp_dir_release(&dir);
    return error;
}

TEST(the_line_of_the_file_is_the_secret)
{
    static const char *const texts[] = {"a b: c ", "a b: c \n", "a b: c \r\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char *secret = NULL;
        assert_int_equal(0, read_secret(texts[i], strlen(texts[i]), 0600, "", &secret));
        assert_string_equal("a b: c ", secret);
        secret_free(secret);
    }
    secret_free(NULL);
}

TEST(a_file_open_to_others_is_refused)
{
    char *secret = NULL;
    assert_int_equal(-EACCES, read_secret("abc\n", 4, 0640, "chmod 600", &secret));
    assert_int_equal(-EACCES, read_secret("abc\n", 4, 0604, "chmod 600", &secret));
    assert_int_equal(-EACCES, read_secret("abc\n", 4, 0602, "chmod 600", &secret));
    assert_null(secret);
}

/* systemd gives credentials this mode. */
TEST(a_file_of_root_may_be_open_to_a_group)
{
    static const struct {
        mode_t mode;
        int error;
    } cases[] = {{0440, 0}, {0640, 0}, {0660, -EACCES}, {0444, -EACCES}};
    const gid_t group = getegid();
    const gid_t another = 1;
    if (geteuid() != 0)
        skip();
    struct temp_dir dir;
    temp_dir_init(&dir);
    assert_int_equal(0, fchmod(dir.fd, 0711));
    assert_int_equal(0, file_replace_at(dir.fd, "secret", "abc\n", 4, 0600));
    assert_int_equal(0, fchownat(dir.fd, "secret", 0, another, 0));
    /* The other user may lack access to the folders above. */
    _cleanup_close_ int before = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(0, fchdir(dir.fd));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *secret = NULL;
        char *reason = NULL;
        assert_int_equal(0, chmod("secret", cases[i].mode));
        assert_int_equal(0, setegid(another));
        assert_int_equal(0, seteuid(1));
        int error = secret_file_read("secret", "the key file", &secret, &reason);
        assert_int_equal(0, seteuid(0));
        assert_int_equal(0, setegid(group));
        assert_int_equal(cases[i].error, error);
        free(reason);
        secret_free(secret);
    }
    assert_int_equal(0, fchdir(before));
    temp_dir_release(&dir);
}

TEST(a_file_that_is_not_one_line_of_text_is_refused)
{
    static const struct {
        const char *text;
        size_t len;
    } cases[] = {{"", 0}, {"\n", 1}, {"a\nb\n", 4}, {"a\0b\n", 4}, {"a\tb\n", 4}, {"a\xff\n", 3}};
    char *secret = NULL;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(-EINVAL,
                         read_secret(cases[i].text, cases[i].len, 0600, "one line of text", &secret));
    static const char large[SECRET_MAX_BYTES + 1];
    assert_int_equal(-EFBIG, read_secret(large, sizeof(large), 0600, "cannot read", &secret));
    assert_null(secret);
}

TEST(a_missing_file_is_reported)
{
    char *secret = NULL;
    char *reason = NULL;
    assert_int_equal(-ENOENT, secret_file_read("/nowhere/at/all", "the key file", &secret, &reason));
    assert_string_equal("cannot read the key file /nowhere/at/all: No such file or directory", reason);
    free(reason);
}

TEST(a_secret_can_come_from_a_pipe)
{
    int ends[2];
    assert_int_equal(0, pipe(ends));
    assert_int_equal(4, write(ends[1], "abc\n", 4));
    close(ends[1]);
    char path[64];
    snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
    char *secret = NULL;
    char *reason = NULL;
    assert_int_equal(0, secret_file_read(path, "the key file", &secret, &reason));
    assert_string_equal("abc", secret);
    secret_free(secret);
    close(ends[0]);
}
