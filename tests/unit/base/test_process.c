/* SPDX-License-Identifier: MIT */
/*
 * Covers the signals that end a program in good order, the descriptors that the program inherits, and that it
 * leaves no core file.
 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

static int reset_signals(void **state)
{
    sigset_t none;
    signal(SIGHUP, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL);
}

TEST_WITH(sigterm_sigint_and_sighup_end_the_program, reset_signals, NULL)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    sigset_t ending;
    process_block_ending_signals(&ending);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        kill(getpid(), numbers[i]);
        assert_int_equal(process_wait_for_ending_signal(&ending), numbers[i]);
    }
}

TEST_WITH(a_sighup_that_is_ignored_at_the_start_does_not_end_the_program, reset_signals, NULL)
{
    sigset_t ending;
    signal(SIGHUP, SIG_IGN);
    process_block_ending_signals(&ending);
    kill(getpid(), SIGHUP);
    kill(getpid(), SIGTERM);
    assert_int_equal(process_wait_for_ending_signal(&ending), SIGTERM);
}

TEST_WITH(a_closed_pipe_does_not_end_the_program, reset_signals, NULL)
{
    int ends[2];
    sigset_t ending;
    process_block_ending_signals(&ending);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(write(ends[1], "x", 1), -1);
    close(ends[1]);
}

TEST(core_files_are_disabled)
{
    struct rlimit limit;
    process_forbid_core_files();
    assert_int_equal(getrlimit(RLIMIT_CORE, &limit), 0);
    assert_int_equal(limit.rlim_cur, 1); /* with 0, the kernel would still pipe the core dump to a helper */
    assert_int_equal(limit.rlim_max, 1);
}

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
    enum {
        MANY = 400 /* a shell's ulimit is 1,024 descriptors */
    };
    struct inherited_descriptors inherited;
    int theirs = open("/dev/null", O_RDONLY);
    int far = theirs;
    for (int i = 0; i < MANY; i++)
        far = fcntl(theirs, F_DUPFD, far);
    int ours = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(theirs > STDERR_FILENO && far >= MANY && ours > STDERR_FILENO);
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
