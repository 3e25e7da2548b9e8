/* SPDX-License-Identifier: MIT */
/*
 * Settings of a process with mail in memory: signals end it in good order, and it leaves no core file.
 */
#ifndef INBOXFS_BASE_PROCESS_H
#define INBOXFS_BASE_PROCESS_H

#include <signal.h>

/* Blocks the signals that end a service: SIGTERM, SIGINT, and SIGHUP unless the process ignores it
 * (nohup(1)). Must be called before a thread starts, since threads inherit the mask. Ignores SIGPIPE. */
void process_block_ending_signals(sigset_t *ret_ending);

/* Waits until a signal of `ending` arrives. Returns its number. */
int process_wait_for_ending_signal(const sigset_t *ending);

/* Disables core files, since keys and mail are in memory. */
void process_forbid_core_files(void);

#endif
