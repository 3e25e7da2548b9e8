/* SPDX-License-Identifier: MIT */
/*
 * The descriptors that a program starts with. A caller may have closed the standard ones, and then the next
 * file that the program opens gets the number that words and messages are written to. A caller may also have
 * others open (a lock of flock(1), the pipe of a shell's $(...)), which a program that runs on would hold for
 * as long as it runs.
 */
#ifndef INBOXFS_BASE_DESCRIPTORS_H
#define INBOXFS_BASE_DESCRIPTORS_H

#include <stddef.h>

struct inherited_descriptors {
    int *numbers;
    size_t len;
};

/* Opens those of 0, 1 and 2 that are closed, on /dev/null: first of all, before anything else is opened.
 * Reading or writing them fails, as on a closed descriptor. */
void descriptors_open_standard(void);

/* Notes which others came from the caller. Some may be there on purpose (/dev/fd/63 as the file of a key), so
 * they are closed later. A failure is logged, and leaves them open. */
void descriptors_note_inherited(struct inherited_descriptors *ret_inherited);

/* Closes those that were noted, and frees the list. The program itself must have closed none of them. */
void descriptors_close_inherited(struct inherited_descriptors *inherited);

#endif
