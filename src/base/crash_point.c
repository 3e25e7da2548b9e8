/* SPDX-License-Identifier: MIT */
/*
 * A crash point sends SIGKILL to its own process, so that the process neither flushes nor closes files.
 */
#include "base/crash_point.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *chosen;

static void choose(void)
{
    const char *name = getenv("INBOXFS_CRASH_AT");
    if (name != NULL)
        chosen = strdup(name);
}

void crash_point(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    if (chosen == NULL || strcmp(chosen, name) != 0)
        return;
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}
