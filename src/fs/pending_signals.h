/* SPDX-License-Identifier: MIT */
/*
 * Why a request was interrupted. The kernel says so for any signal, and what is answered EINTR is never
 * restarted; but a signal that only tells a program something, such as the end of a shell's background job,
 * must not make its `echo sync >ctl` fail.
 */
#ifndef INBOXFS_FS_PENDING_SIGNALS_H
#define INBOXFS_FS_PENDING_SIGNALS_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether signals wait for the task (a thread's id), all of them of the kind that is ignored by default:
 * SIGCHLD, SIGCONT, SIGURG, SIGWINCH. False where that cannot be seen. */
bool pending_signals_only_tell(pid_t task);

/* The same from the text of /proc/TASK/status. */
bool pending_signals_parse(const char *status);

#endif
