/* SPDX-License-Identifier: MIT */
/*
 * The file `ctl`: commands are written to it, one a line, and a write is done when its commands are.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "tree/node.h"

/* ---------------------------------------------------------------- commands */

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

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts the white space off both ends. */
static void trim(const char **text, size_t *len)
{
    while (*len > 0 && is_space((*text)[*len - 1]))
        (*len)--;
    while (*len > 0 && is_space(**text)) {
        (*text)++;
        (*len)--;
    }
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

/* Reads one line (without its newline). 0, or -EINVAL: no such command. */
static int parse_command(const char *line, size_t len, struct control_command *ret)
{
    trim(&line, &len);
    size_t verb_len = 0;
    while (verb_len < len && !is_space(line[verb_len]))
        verb_len++;
    const char *argument = line + verb_len;
    size_t argument_len = len - verb_len;
    trim(&argument, &argument_len);
    if (argument_len > CONTROL_ARGUMENT_MAX_BYTES || memchr(line, '\0', len) != NULL)
        return -EINVAL;

    struct control_command command = {.verb = CONTROL_NOTHING};
    memcpy(command.argument, argument, argument_len);
    if (is_word(line, verb_len, "sync"))
        command.verb = argument_len == 0 ? CONTROL_SYNC_ALL : CONTROL_SYNC;
    else if (is_word(line, verb_len, "retry") && argument_len > 0)
        command.verb = is_word(argument, argument_len, "all") ? CONTROL_RETRY_ALL : CONTROL_RETRY;
    else if (len > 0)
        return -EINVAL;
    *ret = command;
    return 0;
}

static int sync_inboxes(struct tree *tree, const char *inbox, struct cancel *cancel)
{
    _cleanup_free_ char *reason = NULL;
    int error = store_sync(tree->store, inbox, cancel, &reason);
    if (error == 0)
        outbox_wake(tree->outbox);
    return error;
}

static int run_command(struct tree *tree, const struct control_command *command, struct cancel *cancel)
{
    switch (command->verb) {
    case CONTROL_SYNC_ALL:
        return sync_inboxes(tree, NULL, cancel);
    case CONTROL_SYNC:
        return sync_inboxes(tree, command->argument, cancel);
    case CONTROL_RETRY:
        return outbox_retry(tree->outbox, command->argument);
    case CONTROL_RETRY_ALL:
        return outbox_retry(tree->outbox, NULL);
    case CONTROL_NOTHING:
        break;
    }
    return 0;
}

/* ---------------------------------------------------------------- the file */

/* Stops at the first command that fails; its error is the write's. */
static ssize_t write_control(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                             size_t len, off_t offset)
{
    const char *line = bytes;
    const char *end = line + len;
    (void)offset;
    if (len > CONTROL_MAX_BYTES)
        return -EINVAL;
    while (line < end) {
        struct control_command command;
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        int error = parse_command(line, (size_t)(line_end - line), &command);
        if (error == 0)
            error = run_command(handle->tree, &command, caller->cancel);
        if (error != 0)
            return error;
        line = newline != NULL ? newline + 1 : end;
    }
    return (ssize_t)len;
}

static int set_control_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    (void)handle;
    (void)caller;
    return size == 0 ? 0 : -EINVAL;
}

static int open_control(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                        struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .is_control = true,
        .write = write_control,
        .set_size = set_control_size,
        .release = tree_handle_free,
    };
    (void)caller;
    (void)ino;
    if ((flags & O_ACCMODE) != O_WRONLY)
        return -EACCES;
    *ret_handle = handle_new(tree, &ops, sizeof(**ret_handle), flags);
    return *ret_handle == NULL ? -ENOMEM : 0;
}

/* `echo sync >ctl` begins by cutting the file off at nothing, which it is. */
static int set_control(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                       struct tree_handle *handle, const struct tree_change *change)
{
    (void)tree;
    (void)ino;
    if (change->fields == TREE_SET_SIZE && change->size == 0)
        return 0;
    return node_set_size(caller, handle, change, -EACCES);
}

const struct node_ops control_ops = {
    .mode = S_IFREG | 0200, .lasting = LASTING_NAME, .open = open_control, .set_attributes = set_control};
