/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

/* sigwait(3) returns a blocked signal even if it is ignored, so an ignored SIGHUP must not be blocked. */
static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void process_block_ending_signals(sigset_t *ret_ending)
{
    sigemptyset(ret_ending);
    sigaddset(ret_ending, SIGTERM);
    sigaddset(ret_ending, SIGINT);
    if (!is_ignored(SIGHUP))
        sigaddset(ret_ending, SIGHUP);
    pthread_sigmask(SIG_BLOCK, ret_ending, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int process_wait_for_end(const sigset_t *ending)
{
    int number = 0;
    while (sigwait(ending, &number) != 0)
        ;
    return number;
}

void process_forbid_core_files(void)
{
    /* The kernel takes a limit of 1 as: do not even pipe a core dump to a helper. */
    const struct rlimit limit = {1, 1};
    setrlimit(RLIMIT_CORE, &limit);
}
