/* SPDX-License-Identifier: MIT */
/*
 * Covers the descriptors that a program inherits.
 */
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

static bool is_unusable(int fd)
{
    char byte = 'x';
    ssize_t done = fd == STDIN_FILENO ? read(fd, &byte, 1) : write(fd, &byte, 1);
    return done < 0 && errno == EBADF && fcntl(fd, F_GETFD) == 0;
}

/* Closes the descriptors in a child process, since the test program writes its report to them. */
TEST(closed_standard_descriptors_are_opened_but_still_fail)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        descriptors_open_standard();
        int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
        _exit(next > STDERR_FILENO && is_unusable(STDIN_FILENO) && is_unusable(STDOUT_FILENO) &&
                      is_unusable(STDERR_FILENO)
                  ? 0
                  : 1);
    }
    int status = 0;
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_true(WIFEXITED(status));
    assert_int_equal(0, WEXITSTATUS(status));
}

TEST(open_standard_descriptors_are_unchanged)
{
    int before = fcntl(STDOUT_FILENO, F_GETFL);
    descriptors_open_standard();
    assert_int_equal(before, fcntl(STDOUT_FILENO, F_GETFL));
}

TEST(only_inherited_descriptors_are_closed)
{
    struct inherited_descriptors inherited;
    int theirs = open("/dev/null", O_RDONLY);
    int far = fcntl(theirs, F_DUPFD, 200);
    int ours = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(theirs > STDERR_FILENO && far >= 200 && ours > STDERR_FILENO);
    descriptors_list_inherited(&inherited);
    int later = open("/dev/null", O_RDONLY);
    descriptors_close_inherited(&inherited);
    assert_int_equal(-1, fcntl(theirs, F_GETFD));
    assert_int_equal(-1, fcntl(far, F_GETFD));
    assert_int_not_equal(-1, fcntl(ours, F_GETFD));
    assert_int_not_equal(-1, fcntl(later, F_GETFD));
    assert_int_not_equal(-1, fcntl(STDERR_FILENO, F_GETFD));
    close(ours);
    close(later);
}
