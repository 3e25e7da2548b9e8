/* SPDX-License-Identifier: MIT */
/*
 * How a task that closes a file ends, from /proc/<pid>/stat: a close(2) of a living program is one thing, the
 * kernel's closing for a program that was killed another (filesystem contract, "Never sent").
 */
#ifndef INBOXFS_OUTBOX_WRITER_FATE_H
#define INBOXFS_OUTBOX_WRITER_FATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum writer_fate {
    WRITER_LIVES,     /* closes by itself */
    WRITER_UNSEEN,    /* whether it does is not known: no such task in /proc, another pid namespace */
    WRITER_SUCCEEDED, /* exits with status 0 */
    WRITER_EXITED,    /* exits with another status, or is cut off by SIGPIPE, as `yes` in `yes | head` */
    WRITER_KILLED,    /* dies of another signal */
    WRITER_HIDDEN,    /* exits, and of what we may not know */
};

/* Returns the fate of the task `pid` (a process or a thread; 0: unknown). */
enum writer_fate writer_fate_read(pid_t pid);

/* Words for a user where there may be writers of that kind, since this program is in a pid namespace of its
 * own, or /proc is another one's; else NULL. Static. */
const char *writer_fate_unseen(void);

/* From the text of a stat file. `may_look`: the exit code in it is real. */
enum writer_fate writer_fate_parse(const char *stat, bool may_look);

/* The process that the task belongs to; `pid` itself when that cannot be seen. */
pid_t writer_process(pid_t pid);

/* The session (setsid(2)) of the task: a terminal, a login, a service. 0 when that cannot be seen. */
pid_t writer_session(pid_t pid);

#endif
