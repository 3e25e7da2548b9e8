/* SPDX-License-Identifier: MIT */
/*
 * The descriptors that a program inherits from its parent process. If the parent has closed a standard
 * descriptor, the next file that the program opens gets its number, and output is written into that file. If
 * the parent has left other descriptors open (a lock of flock(1), the pipe of a shell's $(...)), a daemon
 * would keep them open for as long as it runs.
 */
#ifndef INBOXFS_BASE_DESCRIPTORS_H
#define INBOXFS_BASE_DESCRIPTORS_H

#include <stddef.h>

struct inherited_descriptors {
    int *numbers;
    size_t len;
};

/* Opens /dev/null on each of the descriptors 0, 1 and 2 that is closed: 0 for writing and the others for
 * reading, so that the program's reads and writes still fail. The program must not have opened any file
 * before. Exits the process if it cannot open /dev/null. */
void descriptors_open_standard(void);

/* Lists the inherited descriptors above 2, but leaves them open, since the program may have to read from one
 * (/dev/fd/63 as the key file). Logs a failure; descriptors that are not in the list stay open. */
void descriptors_list_inherited(struct inherited_descriptors *ret_inherited);

/* Closes the listed descriptors and frees the list. The program must have closed none of them before. */
void descriptors_close_inherited(struct inherited_descriptors *inherited);

#endif
