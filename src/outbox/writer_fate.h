/* SPDX-License-Identifier: MIT */
/*
 * Reads from /proc/<pid>/stat how a task that closes a file ends: a living program calls close(2); for a
 * killed program the kernel closes the file (filesystem contract, "Never sent").
 */
#ifndef INBOXFS_OUTBOX_WRITER_FATE_H
#define INBOXFS_OUTBOX_WRITER_FATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum writer_fate {
    WRITER_LIVES,     /* calls close(2) itself */
    WRITER_UNSEEN,    /* not known: /proc does not show the task, or the task is in another pid namespace */
    WRITER_SUCCEEDED, /* exits with status 0 */
    WRITER_EXITED,    /* exits with another status, or dies of SIGPIPE, as `yes` in `yes | head` */
    WRITER_KILLED,    /* dies of another signal */
    WRITER_HIDDEN,    /* exits with a code that this program may not read */
};

/* Returns the fate of the task `pid` (a process or a thread; 0: unknown). */
enum writer_fate writer_fate_read(pid_t pid);

/* Returns a static text for the user if writers may be WRITER_UNSEEN, because this program is in a pid
 * namespace of its own or /proc belongs to another one; else NULL. */
const char *writer_fate_unseen_reason(void);

/* Parses the text of a stat file. `may_look`: the kernel shows this program the real exit code. */
enum writer_fate writer_fate_parse(const char *stat, bool may_look);

/* Returns the process of the task, or `pid` if /proc does not show it. */
pid_t writer_process(pid_t pid);

/* Returns the session (setsid(2)) of the task: a terminal, a login, a service; 0 if it cannot be read. */
pid_t writer_session(pid_t pid);

#endif
