/* SPDX-License-Identifier: MIT */
/*
 * execve(2) keeps only descriptors without FD_CLOEXEC open. So a descriptor without this flag is inherited;
 * the program and its libraries set the flag on their own.
 */
#include "base/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

/* /dev/null is opened in the wrong direction on purpose: otherwise standard input would read as an empty
 * message, and output that is lost would count as written. */
void descriptors_open_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(EXIT_FAILURE);
}

static int add(struct inherited_descriptors *inherited, int fd)
{
    int *grown = reallocarray(inherited->numbers, inherited->len + 1, sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    grown[inherited->len++] = fd;
    inherited->numbers = grown;
    return 0;
}

void descriptors_note_inherited(struct inherited_descriptors *ret_inherited)
{
    _cleanup_closedir_ DIR *open_ones = opendir("/proc/self/fd");
    int error = open_ones == NULL ? -errno : 0;
    const struct dirent *entry;
    *ret_inherited = (struct inherited_descriptors){.numbers = NULL};
    while (open_ones != NULL && error == 0 && (entry = readdir(open_ones)) != NULL) {
        int fd = (int)strtol(entry->d_name, NULL, 10); /* "." and "..": 0 */
        if (fd > STDERR_FILENO && fcntl(fd, F_GETFD) == 0)
            error = add(ret_inherited, fd);
    }
    if (error != 0)
        log_warning("what the caller has open stays open: %s", strerror(-error));
}

void descriptors_close_inherited(struct inherited_descriptors *inherited)
{
    for (size_t i = 0; i < inherited->len; i++)
        close(inherited->numbers[i]);
    free(inherited->numbers);
    *inherited = (struct inherited_descriptors){.numbers = NULL};
}
