/* SPDX-License-Identifier: MIT */
/*
 * A process dies only at the crash point that its environment names.
 */

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

#include "base/crash_point.h"

/* Returns the wait status of a child that passes the points "here" and "there". */
static int pass_points(const char *chosen)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (chosen != NULL)
            setenv("INBOXFS_CRASH_AT", chosen, 1);
        crash_point("here");
        crash_point("there");
        _exit(7);
    }
    waitpid(child, &status, 0);
    return status;
}

TEST(only_the_chosen_crash_point_kills_the_process)
{
    unsetenv("INBOXFS_CRASH_AT");
    assert_int_equal(WEXITSTATUS(pass_points(NULL)), 7);
    assert_int_equal(WEXITSTATUS(pass_points("elsewhere")), 7);
    assert_int_equal(WTERMSIG(pass_points("here")), SIGKILL);
    assert_int_equal(WTERMSIG(pass_points("there")), SIGKILL);
}
