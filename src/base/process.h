/* SPDX-License-Identifier: MIT */
/*
 * How a program that keeps other people's mail behaves as a process: which signals end it in good order, and
 * that it leaves no core file.
 */
#ifndef INBOXFS_BASE_PROCESS_H
#define INBOXFS_BASE_PROCESS_H

#include <signal.h>

/*
 * Blocks the signals that end a service: SIGTERM, SIGINT, and SIGHUP unless it was ignored (nohup(1)). Call
 * it before the first thread starts: all threads inherit the mask. A write to a closed pipe is an error from
 * then on, no signal.
 */
void process_block_ending_signals(sigset_t *ret_ending);

/* Waits for one of them. Its number. */
int process_wait_for_end(const sigset_t *ending);

/* Keys and mail are in memory: none of them goes into a core file. */
void process_forbid_core_files(void);

#endif
