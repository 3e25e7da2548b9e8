/* SPDX-License-Identifier: MIT */
/*
 * execve(2) keeps only descriptors without FD_CLOEXEC open, so a descriptor without this flag is inherited.
 * The program and its libraries set the flag on each descriptor that they open.
 */
#include "base/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

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
    bool has_failed = open_ones == NULL;
    const struct dirent *entry;
    *ret_inherited = (struct inherited_descriptors){.numbers = NULL};
    while (!has_failed && (entry = readdir(open_ones)) != NULL) {
        int fd = (int)strtol(entry->d_name, NULL, 10); /* 0 for "." and ".." */
        if (fd <= STDERR_FILENO || fcntl(fd, F_GETFD) != 0)
            continue;
        int *grown = reallocarray(ret_inherited->numbers, ret_inherited->len + 1, sizeof(*grown));
        has_failed = grown == NULL;
        if (has_failed)
            continue;
        ret_inherited->numbers = grown;
        grown[ret_inherited->len++] = fd;
    }
    if (has_failed)
        log_warning("what the caller has open stays open: %s", strerror(errno));
}

void descriptors_close_inherited(struct inherited_descriptors *inherited)
{
    for (size_t i = 0; i < inherited->len; i++)
        close(inherited->numbers[i]);
    free(inherited->numbers);
    *inherited = (struct inherited_descriptors){.numbers = NULL};
}
