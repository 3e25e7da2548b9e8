/* SPDX-License-Identifier: MIT */
/*
 * execve(2) keeps only descriptors without FD_CLOEXEC open, so a descriptor without this flag is inherited.
 * The program and its libraries set the flag on each descriptor that they open.
 */
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

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
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit on its size then causes an error */
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

/* Opens /dev/null in the wrong direction on purpose. Otherwise a program would take a closed standard input
 * for an empty message, and would count lost output as written. */
void descriptors_open_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(EXIT_FAILURE);
}

void descriptors_list_inherited(struct inherited_descriptors *ret_inherited)
{
    _cleanup_closedir_ DIR *open_ones = opendir("/proc/self/fd");
    const struct dirent *entry;
    ret_inherited->len = 0;
    if (open_ones == NULL)
        log_warning("what the caller has open stays open: %s", strerror(errno));
    while (open_ones != NULL && ret_inherited->len < INHERITED_MAX && (entry = readdir(open_ones)) != NULL) {
        int fd = (int)strtol(entry->d_name, NULL, 10); /* 0 for "." and ".." */
        if (fd > STDERR_FILENO && fcntl(fd, F_GETFD) == 0)
            ret_inherited->numbers[ret_inherited->len++] = fd;
    }
}

void descriptors_close_inherited(struct inherited_descriptors *inherited)
{
    while (inherited->len > 0)
        close(inherited->numbers[--inherited->len]);
}
