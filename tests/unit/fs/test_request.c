/* SPDX-License-Identifier: MIT */
/*
 * Tells signals that cancel a request from signals that only inform the program. The signals are pending for
 * a stopped process.
 */
#include "fs/request.h"

#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/test.h"

static void ignore(int signal_number)
{
}

/* Sets handlers, because a signal that is ignored is never pending. */
static _Noreturn void wait_stopped(int blocked)
{
    static const int handled[] = {SIGCHLD, SIGWINCH, SIGINT, SIGALRM, SIGURG};
    sigset_t mask;
    for (size_t i = 0; i < ARRAY_LEN(handled); i++)
        signal(handled[i], ignore);
    sigemptyset(&mask);
    if (blocked != 0)
        sigaddset(&mask, blocked);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    raise(SIGSTOP);
    _exit(0);
}

static pid_t start_stopped_process(int blocked)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        wait_stopped(blocked);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

static void kill_process(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

TEST(signals_that_only_inform_are_recognised)
{
    static const struct {
        const char *what;
        int to_thread;
        int to_process;
        int blocked;
        bool only_informs;
    } cases[] = {
        {"nothing", 0, 0, 0, true},
        {"a child ended", 0, SIGCHLD, 0, true},
        {"the window changed, for the thread", SIGWINCH, 0, 0, true},
        {"urgent data", 0, SIGURG, 0, true},
        {"Ctrl-C", 0, SIGINT, 0, false},
        {"a child ended, and Ctrl-C", SIGINT, SIGCHLD, 0, false},
        {"a child ended, Ctrl-C is blocked", SIGINT, SIGCHLD, SIGINT, true},
        {"an alarm", 0, SIGALRM, 0, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        pid_t child = start_stopped_process(cases[i].blocked);
        print_message("# %s\n", cases[i].what);
        if (cases[i].to_thread != 0)
            assert_int_equal(syscall(SYS_tgkill, child, child, cases[i].to_thread), 0);
        if (cases[i].to_process != 0)
            assert_int_equal(kill(child, cases[i].to_process), 0);
        assert_int_equal(request_signals_only_inform(child), cases[i].only_informs);
        kill_process(child);
    }
}

TEST(signals_of_an_unreadable_process_do_not_only_inform)
{
    assert_false(request_signals_only_inform(0));
    assert_false(request_signals_only_inform(-1));
    /* This process has no pending signal. */
    assert_true(request_signals_only_inform(getpid()));
}
