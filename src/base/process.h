/* SPDX-License-Identifier: MIT */
/*
 * Settings of a program that runs on with mail in memory: signals end it in good order, it leaves no core
 * file, and it closes the descriptors that it inherits from its parent process. If the parent has closed a
 * standard descriptor, the next file that the program opens gets its number, and output is written into that
 * file. If the parent has left other descriptors open (a lock of flock(1), the pipe of a shell's $(...)), a
 * daemon would keep them open for as long as it runs.
 */
#ifndef INBOXFS_BASE_PROCESS_H
#define INBOXFS_BASE_PROCESS_H

#include <signal.h>
#include <stddef.h>

/* Blocks the signals that end a service: SIGTERM, SIGINT, and SIGHUP unless the process ignores it
 * (nohup(1)). Must be called before a thread starts, since threads inherit the mask. Ignores SIGPIPE and
 * SIGXFSZ. */
void process_block_ending_signals(sigset_t *ret_ending);

/* Waits until a signal of `ending` arrives. Returns its number. */
int process_wait_for_ending_signal(const sigset_t *ending);

/* Disables core files, since keys and mail are in memory. */
void process_forbid_core_files(void);

/* Opens /dev/null on each of the descriptors 0, 1 and 2 that is closed: 0 for writing and the others for
 * reading, so that the program's reads and writes still fail. The program must not have opened any file
 * before. Exits the process if it cannot open /dev/null. */
void descriptors_open_standard(void);

enum {
    INHERITED_MAX = 4096
};

struct inherited_descriptors {
    int numbers[INHERITED_MAX];
    size_t len;
};

/* Lists the inherited descriptors above 2, up to INHERITED_MAX, but leaves them open, since the program may
 * have to read from one (/dev/fd/63 as the key file). Logs a failure; descriptors that are not in the list
 * stay open. */
void descriptors_list_inherited(struct inherited_descriptors *ret_inherited);

/* Closes the listed descriptors, and empties the list. The program must have closed none of them before. */
void descriptors_close_inherited(struct inherited_descriptors *inherited);

#endif
