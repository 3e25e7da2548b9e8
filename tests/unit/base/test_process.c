/* SPDX-License-Identifier: MIT */
/*
 * Covers the signals that end a program in good order, and that the program leaves no core file.
 */
#include "base/process.h"

#include <sys/resource.h>
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
