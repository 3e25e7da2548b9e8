/* SPDX-License-Identifier: MIT */
/*
 * Events: lines of JSON in the file events.jsonl and in the stream `events`. Both are read from memory. On
 * the disk new lines are appended to events.jsonl; when that file is full, it replaces events.jsonl.1.
 *
 * A *position* counts the bytes that were logged since the start, and those in the files at the start. So
 * readers keep their positions when the lines of the older file are dropped. An inode of events.jsonl begins
 * with the line that was the first one at its first lookup, and only grows; a later lookup may find another
 * inode.
 *
 * A thread that adds an event holds `writing`, and waits for the disk; readers take only `lock`, and never
 * wait. A line that cannot be written stays in memory, and is missing after the next start.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "tree/node.h"

enum {
    FILE_FULL_BYTES = 512 * 1024,
    FILE_MAX_BYTES = 1024 * 1024, /* a longer file is not read at the start */
    LINE_MAX_BYTES = 256 * 1024,
    STREAM_READ_MAX_BYTES = 64 * 1024,
};

static const char log_name[] = "events.jsonl";
static const char older_name[] = "events.jsonl.1";

struct event_log {
    int dir_fd;              /* borrowed */
    pthread_mutex_t writing; /* taken before `lock` */
    int fd;                  /* events.jsonl; -1: not open. Protected by `writing` */
    bool has_failed;         /* the last write failed, which was logged; protected by `writing` */

    pthread_mutex_t lock; /* protects the members below; a thread that changes `text` also holds `writing` */
    GString *text;        /* the lines of both files */
    size_t older_len;     /* bytes of `text` from events.jsonl.1 */
    uint64_t first;       /* position in the log at which `text` begins */
    int64_t changed_ms;
};

/* Appends a line, but never a part of it. With `is_full`, begins another file first. */
static int write_line(struct event_log *log, const char *line, size_t len, bool is_full)
{
    if (is_full) {
        cleanup_close(&log->fd);
        log->fd = -1;
        if (renameat(log->dir_fd, log_name, log->dir_fd, older_name) != 0 && errno != ENOENT)
            return -errno;
    }
    if (log->fd < 0)
        log->fd = openat(log->dir_fd, log_name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    off_t end = log->fd < 0 ? -1 : lseek(log->fd, 0, SEEK_END);
    if (end < 0)
        return -errno;
    int error = file_write_all(log->fd, line, len);
    if (error != 0 && ftruncate(log->fd, end) != 0)
        log_debug("half a line stays in %s: %s", log_name, strerror(errno));
    return error;
}

static void append_event(struct event_log *log, const struct event *event)
{
    _cleanup_strbuf_ struct strbuf line = STRBUF_INIT(LINE_MAX_BYTES);
    if (event_append_line(event, &line) != 0)
        return;
    LOCK_GUARD(&log->writing);
    bool is_full = log->text->len - log->older_len + line.len > FILE_FULL_BYTES;
    pthread_mutex_lock(&log->lock);
    if (is_full) {
        g_string_erase(log->text, 0, (gssize)log->older_len);
        log->first += log->older_len;
        log->older_len = log->text->len;
    }
    g_string_append_len(log->text, line.data, (gssize)line.len);
    log->changed_ms = event->time_ms;
    pthread_mutex_unlock(&log->lock);
    int error = write_line(log, line.data, line.len, is_full);
    if (error != 0 && !log->has_failed)
        log_warning("cannot write %s: %s", log_name, strerror(-error));
    log->has_failed = error != 0;
}

/* Removes a file that cannot be read or is too long. */
static void read_file(struct event_log *log, const char *name)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;
    int error = file_read_at(log->dir_fd, name, FILE_MAX_BYTES, &bytes, &len);
    if (error == 0)
        g_string_append_len(log->text, bytes, (gssize)len);
    else if (error != -ENOENT)
        unlinkat(log->dir_fd, name, 0);
}

static int init_event_log(struct tree *tree, int state_dir_fd)
{
    struct event_log *log = g_new(struct event_log, 1);
    *log = (struct event_log){.dir_fd = state_dir_fd, .fd = -1, .text = g_string_new(NULL)};
    pthread_mutex_init(&log->writing, NULL);
    pthread_mutex_init(&log->lock, NULL);
    read_file(log, older_name);
    log->older_len = log->text->len;
    read_file(log, log_name);
    /* A partial line at the end (after a power cut) must not run into the next line. */
    if (log->text->len > log->older_len && log->text->str[log->text->len - 1] != '\n') {
        g_string_append_c(log->text, '\n');
        (void)write_line(log, "\n", 1, false);
    }
    tree->event_log = log;
    return 0;
}

static void release_event_log(struct tree *tree)
{
    struct event_log *log = tree->event_log;
    if (log == NULL)
        return;
    cleanup_close(&log->fd);
    g_string_free(log->text, TRUE);
    pthread_mutex_destroy(&log->lock);
    pthread_mutex_destroy(&log->writing);
    free(log);
}

/* Copies `len` bytes from the position on, or fewer at the end. Returns their number. */
static size_t copy_locked(const struct event_log *log, void *ret_bytes, size_t len, uint64_t position)
{
    size_t offset = (size_t)(position - log->first);
    if (offset >= log->text->len)
        return 0;
    len = MIN(len, log->text->len - offset);
    memcpy(ret_bytes, log->text->str + offset, len);
    return len;
}

static uint64_t end_position(struct event_log *log)
{
    LOCK_GUARD(&log->lock);
    return log->first + log->text->len;
}

/* ---------------------------------------------------------------- events.jsonl */

struct log_handle {
    struct tree_handle base;
    /* Only one thread at a time reads a stream and changes these members. */
    uint64_t begin;    /* position of offset 0 */
    uint64_t position; /* of a stream: the end of the bytes that were read last, for poll(2) */
};

static int open_log(struct tree *tree, const struct handle_ops *ops, int flags, uint64_t begin,
                    struct tree_handle **ret_handle)
{
    if (!handle_is_for_reading(flags))
        return -EACCES;
    struct log_handle *log = handle_new(tree, ops, sizeof(*log), flags);
    log->begin = begin;
    log->position = begin;
    *ret_handle = &log->base;
    return 0;
}

/* The bytes of dropped lines read as newlines. */
static int read_event_log(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    struct event_log *log = handle->tree->event_log;
    uint64_t position = ((const struct log_handle *)handle)->begin + (uint64_t)offset;
    if (offset < 0)
        return -EINVAL;
    LOCK_GUARD(&log->lock);
    uint64_t end = log->first + log->text->len;
    if (position >= end)
        return 0;
    len = MIN(len, (size_t)(end - position));
    char *bytes = handle_read_buffer(ret, len);
    size_t gone = position >= log->first ? 0 : MIN(len, (size_t)(log->first - position));
    memset(bytes, '\n', gone);
    copy_locked(log, bytes + gone, len - gone, position + gone);
    ret->len = len;
    return 0;
}

/* The node's number is the position at which the file begins, plus 1; 0 stands for the first line in memory.
 * Users see one inode number for all these nodes, so that `tail -F` takes them for one file. */
static int get_event_log(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                         struct tree_entry *ret)
{
    struct event_log *log = tree->event_log;
    LOCK_GUARD(&log->lock);
    uint64_t begin = node_number(ino) != 0 ? node_number(ino) - 1 : log->first;
    entry_fill_ms(tree, node_ino(NODE_EVENT_LOG, 0), S_IFREG | 0444, log->first + log->text->len - begin,
                  log->changed_ms, 0, ret);
    ret->ino = node_ino(NODE_EVENT_LOG, begin + 1);
    return 0;
}

static int open_event_log(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                          struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {.read = read_event_log, .release = tree_handle_free};
    return open_log(tree, &ops, flags, node_number(ino) - 1, ret_handle);
}

const struct node_ops event_log_ops = {
    .init = init_event_log,
    .release = release_event_log,
    .state_name = "events.jsonl",
    .get = get_event_log,
    .open = open_event_log,
};

/* ---------------------------------------------------------------- events */

/* Skips dropped lines, by moving `begin`. */
static int read_stream(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    struct log_handle *stream = (struct log_handle *)handle;
    struct event_log *log = handle->tree->event_log;
    len = MIN(len, (size_t)STREAM_READ_MAX_BYTES);
    char *bytes = handle_read_buffer(ret, len);
    LOCK_GUARD(&log->lock);
    if (stream->begin + (uint64_t)offset < log->first)
        stream->begin = log->first - (uint64_t)offset;
    ret->len = copy_locked(log, bytes, len, stream->begin + (uint64_t)offset);
    stream->position = stream->begin + (uint64_t)offset + ret->len;
    return 0;
}

static bool is_stream_readable(struct tree_handle *handle)
{
    const struct log_handle *stream = (struct log_handle *)handle;
    return stream->position < end_position(handle->tree->event_log);
}

static int open_event_stream(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                             struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_STREAM,
        .read = read_stream,
        .is_readable = is_stream_readable,
        .release = tree_handle_free,
    };
    return open_log(tree, &ops, flags, end_position(tree->event_log), ret_handle);
}

const struct node_ops event_stream_ops = {
    .mode = S_IFREG | 0400, .lasting = LASTING_NAME, .open = open_event_stream};

void events_add(struct tree *tree, const struct event *event)
{
    append_event(tree->event_log, event);
    status_count_event(tree, event);
    notify_changed(tree, TREE_EVENTS_INO);
}

void events_report(struct tree *tree, enum event_kind kind, const char *path, const char *error)
{
    const struct event event = {
        .time_ms = clock_realtime_ms(tree->config.clock), .kind = kind, .path = path, .error = error};
    events_add(tree, &event);
}
