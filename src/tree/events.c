/* SPDX-License-Identifier: MIT */
/*
 * What happened, a line of JSON each: the bounded file events.jsonl, and the stream `events`. All of it is in
 * memory, under one lock, so that appending and reading never wait for the disk; a thread copies what is new
 * and writes it behind, with the lock free. The disk failing costs the lines their next life, never the
 * program.
 *
 * A position counts the bytes ever logged in this process (plus what the file held at the start), so that a
 * reader keeps its place when the older half is cut away. For the same reason events.jsonl is another inode
 * to whoever opens it after a cut: each begins at the position where it was first found, and goes on growing
 * for those who have it open.
 */
#include "tree/events.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "tree/node.h"

enum {
    EVENT_LOG_MAX_BYTES = 1024 * 1024
};

static const char log_name[] = "events.jsonl";

struct event_log {
    int dir_fd; /* borrowed */
    pthread_t writer;
    bool has_failed; /* the writer's: a failure is said once */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct strbuf text; /* protected by lock, like all below */
    uint64_t cut_bytes; /* positions before this are gone */
    uint64_t written;   /* position up to which the file is right */
    bool must_rewrite;  /* the file holds what was cut away */
    bool is_ending;
    int64_t changed_ms;
};

/* What the writer takes out of the lock in one go. */
struct pending {
    char *bytes;
    size_t len;
    bool is_whole; /* replaces the file */
};

static int write_pending(const struct event_log *log, const struct pending *pending)
{
    if (pending->is_whole)
        return file_replace_lazily_at(log->dir_fd, log_name, pending->bytes, pending->len, 0600);
    _cleanup_close_ int fd =
        openat(log->dir_fd, log_name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    return file_write_all(fd, pending->bytes, pending->len);
}

static bool is_behind_locked(const struct event_log *log)
{
    return log->must_rewrite || log->written < log->cut_bytes + log->text.len;
}

/* False without memory: the next event tries again. */
static bool take_pending_locked(struct event_log *log, struct pending *ret)
{
    size_t skip = log->must_rewrite ? 0 : (size_t)(log->written - log->cut_bytes);
    size_t len = log->text.len - skip;
    char *bytes = malloc(len + 1);
    if (bytes == NULL)
        return false;
    memcpy(bytes, strbuf_str(&log->text) + skip, len);
    *ret = (struct pending){.bytes = bytes, .len = len, .is_whole = log->must_rewrite};
    log->written = log->cut_bytes + log->text.len;
    log->must_rewrite = false;
    return true;
}

static void *write_behind(void *argument)
{
    struct event_log *log = argument;
    struct pending pending;

    pthread_mutex_lock(&log->lock);
    for (;;) {
        bool is_taken = false;
        while (!(is_taken = is_behind_locked(log) && take_pending_locked(log, &pending)) && !log->is_ending)
            pthread_cond_wait(&log->changed, &log->lock);
        if (!is_taken)
            break;
        pthread_mutex_unlock(&log->lock);
        int error = write_pending(log, &pending);
        free(pending.bytes);
        if (error != 0 && !log->has_failed)
            log_warning("cannot write %s: %s", log_name, strerror(-error));
        log->has_failed = error != 0;
        pthread_mutex_lock(&log->lock);
        /* The file may hold half a line now. It is made anew with the next event, not in a loop. */
        if (error != 0 && !log->is_ending) {
            uint64_t end = log->cut_bytes + log->text.len;
            while (log->cut_bytes + log->text.len == end && !log->is_ending)
                pthread_cond_wait(&log->changed, &log->lock);
            log->must_rewrite = true;
        }
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

static void cut_locked(struct event_log *log)
{
    const char *text = strbuf_str(&log->text);
    const char *newline = memchr(text + log->text.len / 2, '\n', log->text.len - log->text.len / 2);
    size_t cut = newline == NULL ? log->text.len : (size_t)(newline + 1 - text);
    size_t kept = log->text.len - cut;

    memmove(log->text.data, log->text.data + cut, kept);
    strbuf_truncate(&log->text, kept);
    log->cut_bytes += cut;
    log->must_rewrite = true;
}

/* Half a line at the end (a power cut) must not run into the next one. */
static void read_file(struct event_log *log)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;
    int error = file_read_at(log->dir_fd, log_name, EVENT_LOG_MAX_BYTES, &bytes, &len);
    log->must_rewrite = error != 0 && error != -ENOENT;
    if (error != 0)
        return;
    strbuf_append(&log->text, bytes, len);
    if (len > 0 && bytes[len - 1] != '\n') {
        strbuf_append_char(&log->text, '\n');
        log->must_rewrite = true;
    }
    log->written = log->text.len;
}

/* Reads what the file holds, and starts the writer. A file that cannot be read, or is too long, is begun
 * anew. 0, -ENOMEM, or no thread could be started. */
static int event_log_new(int state_dir_fd, struct event_log **ret_log)
{
    struct event_log *log = calloc(1, sizeof(*log));
    if (log == NULL)
        return -ENOMEM;
    log->dir_fd = state_dir_fd;
    log->text = STRBUF_INIT(2 * EVENT_LOG_MAX_BYTES);
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->changed, NULL);
    read_file(log);

    int error = thread_start(&log->writer, "event-log", write_behind, log);
    if (error != 0) {
        strbuf_release(&log->text);
        free(log);
        return error;
    }
    *ret_log = log;
    return 0;
}

/* Writes out what is left, and frees. NULL-safe. */
static void event_log_free(struct event_log *log)
{
    if (log == NULL)
        return;
    pthread_mutex_lock(&log->lock);
    log->is_ending = true;
    pthread_cond_signal(&log->changed);
    pthread_mutex_unlock(&log->lock);
    pthread_join(log->writer, NULL);

    pthread_cond_destroy(&log->changed);
    pthread_mutex_destroy(&log->lock);
    strbuf_release(&log->text);
    free(log);
}

/* Past the bound the older half, up to a line's end, is cut away. */
static void event_log_append(struct event_log *log, const struct event *event)
{
    pthread_mutex_lock(&log->lock);
    size_t before = log->text.len;
    if (event_append_line(event, &log->text) == 0) {
        log->changed_ms = event->time_ms;
    } else {
        strbuf_truncate(&log->text, before);
        log->text.error = 0;
    }
    if (log->text.len > EVENT_LOG_MAX_BYTES)
        cut_locked(log);
    pthread_cond_signal(&log->changed);
    pthread_mutex_unlock(&log->lock);
}

static size_t copy_locked(const struct event_log *log, void *ret_bytes, size_t len, uint64_t position)
{
    size_t offset = (size_t)(position - log->cut_bytes);
    if (offset >= log->text.len)
        return 0;
    if (len > log->text.len - offset)
        len = log->text.len - offset;
    memcpy(ret_bytes, log->text.data + offset, len);
    return len;
}

static size_t read_locked(const struct event_log *log, char *ret_bytes, size_t len, uint64_t position)
{
    size_t gone = 0;
    if (position < log->cut_bytes) {
        uint64_t all_gone = log->cut_bytes - position;
        gone = all_gone < len ? (size_t)all_gone : len;
        memset(ret_bytes, '\n', gone);
    }
    return gone + copy_locked(log, ret_bytes + gone, len - gone, position + gone);
}

/* Where the file begins for whoever opens it now: at a line. */
static uint64_t event_log_begin(struct event_log *log)
{
    pthread_mutex_lock(&log->lock);
    uint64_t begin = log->cut_bytes;
    pthread_mutex_unlock(&log->lock);
    return begin;
}

/* The file that begins at `begin`, as it is now: bytes from `offset` on, fewer at its end. What was cut away
 * reads as empty lines. */
static size_t event_log_read(struct event_log *log, uint64_t begin, void *ret_bytes, size_t len, off_t offset)
{
    if (offset < 0)
        return 0;
    pthread_mutex_lock(&log->lock);
    size_t copied = read_locked(log, ret_bytes, len, begin + (uint64_t)offset);
    pthread_mutex_unlock(&log->lock);
    return copied;
}

static uint64_t event_log_end(struct event_log *log)
{
    pthread_mutex_lock(&log->lock);
    uint64_t end = log->cut_bytes + log->text.len;
    pthread_mutex_unlock(&log->lock);
    return end;
}

static size_t event_log_size(struct event_log *log, uint64_t begin)
{
    uint64_t end = event_log_end(log);
    return begin < end ? (size_t)(end - begin) : 0;
}

/* Realtime of the last event; 0: none in this process. */
static int64_t event_log_changed_ms(struct event_log *log)
{
    pthread_mutex_lock(&log->lock);
    int64_t changed_ms = log->changed_ms;
    pthread_mutex_unlock(&log->lock);
    return changed_ms;
}

/* The stream that begins at *begin: its bytes from `offset` on; 0: none yet. What was cut away meanwhile is
 * passed over, which moves *begin. */
static size_t event_log_follow(struct event_log *log, uint64_t *begin, uint64_t offset, void *ret_bytes,
                               size_t len)
{
    pthread_mutex_lock(&log->lock);
    if (*begin + offset < log->cut_bytes)
        *begin = log->cut_bytes - offset;
    size_t copied = copy_locked(log, ret_bytes, len, *begin + offset);
    pthread_mutex_unlock(&log->lock);
    return copied;
}

/* ---------------------------------------------------------------- events.jsonl */

struct log_handle {
    struct tree_handle base;
    uint64_t begin; /* its position in the log */
};

static int read_event_log(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    uint64_t begin = ((const struct log_handle *)handle)->begin;
    size_t size = event_log_size(handle->tree->event_log, begin);
    if (offset < 0)
        return -EINVAL;
    if ((size_t)offset >= size)
        return 0;
    if (len > size - (size_t)offset)
        len = size - (size_t)offset;
    ret->owned = malloc(len);
    if (ret->owned == NULL)
        return -ENOMEM;
    ret->bytes = ret->owned;
    ret->len = event_log_read(handle->tree->event_log, begin, ret->owned, len, offset);
    return 0;
}

/* The inode's number is where the file begins in the log, and 1; 0 is where it begins now. All are shown as
 * one inode, so that `tail -F` takes them for the one file that they are. */
static int get_event_log(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                         struct tree_entry *ret)
{
    struct event_log *log = tree->event_log;
    uint64_t begin = node_number(ino) != 0 ? node_number(ino) - 1 : event_log_begin(log);
    (void)caller;
    entry_fill_ms(tree, node_ino(NODE_EVENT_LOG, 0), S_IFREG | 0444, event_log_size(log, begin),
                  event_log_changed_ms(log), 0, ret);
    ret->ino = node_ino(NODE_EVENT_LOG, begin + 1);
    return 0;
}

static int open_event_log(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                          struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {.read = read_event_log, .release = tree_handle_free};
    (void)caller;
    if (!handle_is_for_reading(flags))
        return -EACCES;
    struct log_handle *log = handle_new(tree, &ops, sizeof(*log), flags);
    if (log == NULL)
        return -ENOMEM;
    log->begin = node_number(ino) - 1;
    *ret_handle = &log->base;
    return 0;
}

static int init_event_log(struct tree *tree, int state_dir_fd)
{
    return event_log_new(state_dir_fd, &tree->event_log);
}

static void release_event_log(struct tree *tree)
{
    event_log_free(tree->event_log);
}

const struct node_ops event_log_ops = {
    .init = init_event_log,
    .release = release_event_log,
    .state_name = "events.jsonl",
    .get = get_event_log,
    .open = open_event_log,
};

/* ---------------------------------------------------------------- events */

enum {
    STREAM_READ_MAX_BYTES = 64 * 1024
};

struct stream_handle {
    struct tree_handle base;
    uint64_t begin;    /* where in the event log its offset 0 is; the reader's, who is alone, as is: */
    uint64_t position; /* behind what was read last, for those who poll */
};

static int read_stream(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    struct stream_handle *stream = (struct stream_handle *)handle;
    if (len > STREAM_READ_MAX_BYTES)
        len = STREAM_READ_MAX_BYTES;
    ret->owned = malloc(len);
    if (ret->owned == NULL)
        return -ENOMEM;
    ret->bytes = ret->owned;
    ret->len = event_log_follow(handle->tree->event_log, &stream->begin, (uint64_t)offset, ret->owned, len);
    stream->position = stream->begin + (uint64_t)offset + ret->len;
    return 0;
}

static bool is_stream_readable(struct tree_handle *handle)
{
    const struct stream_handle *stream = (struct stream_handle *)handle;
    return stream->position < event_log_end(handle->tree->event_log);
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
    (void)caller;
    (void)ino;
    if (!handle_is_for_reading(flags))
        return -EACCES;
    struct stream_handle *stream = handle_new(tree, &ops, sizeof(*stream), flags);
    if (stream == NULL)
        return -ENOMEM;
    stream->begin = event_log_end(tree->event_log);
    stream->position = stream->begin;
    *ret_handle = &stream->base;
    return 0;
}

const struct node_ops event_stream_ops = {
    .mode = S_IFREG | 0400, .lasting = LASTING_NAME, .open = open_event_stream};

/* ---------------------------------------------------------------- what happens */

void events_add(struct tree *tree, const struct event *event)
{
    event_log_append(tree->event_log, event);
    status_count_event(tree, event);
    notify_stream_grew(tree);
}

void events_report(struct tree *tree, enum event_kind kind, const char *path, const char *error)
{
    const struct event event = {
        .time_ms = clock_realtime_ms(tree->clock), .kind = kind, .path = path, .error = error};
    events_add(tree, &event);
}
