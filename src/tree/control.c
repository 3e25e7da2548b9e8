/* SPDX-License-Identifier: MIT */
/*
 * The file `ctl`: programs write commands to it, one per line; a write returns when its commands have ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "tree/node.h"

/* ---------------------------------------------------------------- commands */

enum {
    CONTROL_MAX_BYTES = 16 * 1024 /* the longest write */
};

static int run_sync(struct tree *tree, const char *address, struct cancel *cancel)
{
    _cleanup_free_ char *reason = NULL;
    int error = store_sync(tree->store, address[0] != '\0' ? address : NULL, cancel, &reason);
    if (error == 0)
        outbox_wake(tree->outbox);
    return error;
}

static int run_retry(struct tree *tree, const char *name)
{
    if (name[0] == '\0')
        return -EINVAL;
    return outbox_retry(tree->outbox, strcmp(name, "all") == 0 ? NULL : name);
}

/* Runs the command in `line`, which is modified: "sync [ADDRESS]", "retry NAME" or "retry all". */
static int run_line(struct tree *tree, char *line, struct cancel *cancel)
{
    char *verb = g_strstrip(line);
    char *end = verb + strcspn(verb, " \t");
    char *argument = *end != '\0' ? g_strstrip(end + 1) : end;
    *end = '\0';
    if (verb[0] == '\0')
        return 0;
    if (strlen(argument) > NAME_MAX)
        return -EINVAL;
    if (strcmp(verb, "sync") == 0)
        return run_sync(tree, argument, cancel);
    return strcmp(verb, "retry") == 0 ? run_retry(tree, argument) : -EINVAL;
}

/* ---------------------------------------------------------------- the file */

/* Stops at the first command that fails. Return: `len`, or the error of that command; of a mistake of the
 * user an event has the words, and of the service status.json. */
static ssize_t write_control(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                             size_t len, off_t offset)
{
    int error = len > CONTROL_MAX_BYTES || memchr(bytes, '\0', len) != NULL ? -EINVAL : 0;
    _cleanup_free_ char *text = g_strndup(bytes, len);
    char *rest = text;
    char *line;
    while (error == 0 && (line = strsep(&rest, "\n")) != NULL)
        error = run_line(handle->tree, line, caller->cancel);
    if (error == -EINVAL || error == -ENOENT)
        events_report(handle->tree, EVENT_REFUSED, "ctl",
                      error == -EINVAL
                          ? "the commands are: sync, sync ADDRESS, retry NAME, retry all"
                          : "there is no inbox of this address, or no file of this name that waits "
                            "or has failed");
    return error != 0 ? error : (ssize_t)len;
}

static int set_control_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    return size == 0 ? 0 : -EINVAL;
}

static int open_control(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                        struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .write = write_control, .set_size = set_control_size, .release = tree_handle_free};
    if ((flags & O_ACCMODE) != O_WRONLY)
        return -EACCES;
    *ret_handle = handle_new(tree, &ops, sizeof(**ret_handle), flags);
    return 0;
}

const struct node_ops control_ops = {
    .mode = S_IFREG | 0200,
    .lasting = LASTING_NAME,
    .open = open_control,
    .is_barrier = true,
};
