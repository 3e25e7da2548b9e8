/* SPDX-License-Identifier: MIT */
/*
 * The commands that are written to `ctl`, one a line.
 */
#ifndef INBOXFS_TREE_CONTROL_H
#define INBOXFS_TREE_CONTROL_H

#include <stddef.h>

enum {
    CONTROL_MAX_BYTES = 16 * 1024, /* of one write */
    CONTROL_ARGUMENT_MAX_BYTES = 255,
};

enum control_verb {
    CONTROL_NOTHING,   /* an empty line */
    CONTROL_SYNC_ALL,  /* sync */
    CONTROL_SYNC,      /* sync ADDRESS */
    CONTROL_RETRY,     /* retry NAME; the name may hold spaces */
    CONTROL_RETRY_ALL, /* retry all */
};

struct control_command {
    enum control_verb verb;
    char argument[CONTROL_ARGUMENT_MAX_BYTES + 1];
};

/* Reads one line (without its newline). 0, or -EINVAL: no such command. */
int control_parse(const char *line, size_t len, struct control_command *ret);

#endif
