/* SPDX-License-Identifier: MIT */
/*
 * Going into the background.
 */
#include "background.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

/* Does not return: the child's word is the exit status; without one, it failed and said why. */
static _Noreturn void wait_for_child(int fd, pid_t child)
{
    char status = 1;
    ssize_t got;
    do
        got = read(fd, &status, 1);
    while (got < 0 && errno == EINTR);
    if (got != 1) {
        int how = 0;
        while (waitpid(child, &how, 0) < 0 && errno == EINTR)
            ;
        if (WIFSIGNALED(how))
            log_error("ended by signal %d before the mount answered", WTERMSIG(how));
        status = (char)(WIFEXITED(how) && WEXITSTATUS(how) != 0 ? WEXITSTATUS(how) : 1);
    }
    _exit(status);
}

int background_start(int *ret_ready_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    pid_t child = fork();
    if (child < 0) {
        int error = -errno;
        close(ends[0]);
        close(ends[1]);
        return error;
    }
    if (child > 0) {
        close(ends[1]);
        wait_for_child(ends[0], child);
    }
    close(ends[0]);
    setsid();
    *ret_ready_fd = ends[1];
    return 0;
}

void background_ready(int ready_fd)
{
    log_to_syslog("inboxfs");
    if (chdir("/") != 0)
        log_warning("cannot leave the working directory, which stays busy: %s", strerror(errno));
    _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    if (write(ready_fd, "\0", 1) != 1)
        log_warning("the command that started this mount is gone");
    close(ready_fd);
}
