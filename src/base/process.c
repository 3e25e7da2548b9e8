/* SPDX-License-Identifier: MIT */
#include "base/process.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/resource.h>

void process_block_ending_signals(sigset_t *ret_ending)
{
    struct sigaction hangup;
    sigemptyset(ret_ending);
    sigaddset(ret_ending, SIGTERM);
    sigaddset(ret_ending, SIGINT);
    /* sigwait(3) returns a blocked signal even if it is ignored, so an ignored SIGHUP must not be blocked. */
    if (sigaction(SIGHUP, NULL, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
        sigaddset(ret_ending, SIGHUP);
    pthread_sigmask(SIG_BLOCK, ret_ending, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int process_wait_for_ending_signal(const sigset_t *ending)
{
    int number = 0;
    while (sigwait(ending, &number) != 0)
        ;
    return number;
}

void process_forbid_core_files(void)
{
    /* With a limit of 1, the kernel does not even pipe a core dump to a helper. */
    const struct rlimit limit = {1, 1};
    setrlimit(RLIMIT_CORE, &limit);
}
