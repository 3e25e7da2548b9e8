/* SPDX-License-Identifier: MIT */
/*
 * The list of requests under way, interrupts and pending signals, and the answers.
 */
#include "fs/request.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/lock.h"

enum {
    PROC_STATUS_MAX_BYTES = 8192,
    CHECK_INTERVAL_MS = 100,
    ERRNO_MAX = 511, /* the kernel rejects an answer with a higher errno, and the request would hang */
};

static uint64_t signal_bit(int signal_number)
{
    return UINT64_C(1) << (signal_number - 1);
}

/* Returns 0 if no line of /proc/TASK/status begins with `line_start`. */
static uint64_t read_signal_mask(const char *status, const char *line_start)
{
    const char *line = strstr(status, line_start);
    return line == NULL ? 0 : strtoull(line + strlen(line_start), NULL, 16);
}

bool request_signals_only_inform(pid_t task)
{
    const uint64_t informing =
        signal_bit(SIGCHLD) | signal_bit(SIGCONT) | signal_bit(SIGURG) | signal_bit(SIGWINCH);
    char path[32];
    char status[PROC_STATUS_MAX_BYTES];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)task);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (task <= 0 || fd < 0)
        return false;
    ssize_t len = read(fd, status, sizeof(status) - 1);
    if (len <= 0)
        return false;
    status[len] = '\0';
    uint64_t pending = read_signal_mask(status, "\nSigPnd:") | read_signal_mask(status, "\nShdPnd:");
    pending &= ~read_signal_mask(status, "\nSigBlk:");
    return (pending & ~informing) == 0;
}

/* ---------------------------------------------------------------- interrupts */

/* Checks the requests that only informing signals have interrupted, until there are none. */
static void check_signals(struct worker_job *job)
{
    struct request_list *list = (struct request_list *)((char *)job - offsetof(struct request_list, check));
    struct clock *clock = clock_system();
    bool is_any = true;
    LOCK_GUARD(&list->lock);
    while (is_any) {
        is_any = false;
        for (const GList *link = list->requests.head; link != NULL; link = link->next) {
            struct fs_request *request = link->data;
            bool was_informed = request->is_informed;
            request->is_informed = was_informed && request_signals_only_inform(request->caller.pid);
            if (request->is_informed)
                is_any = true;
            else if (was_informed)
                cancel_set(&request->cancel);
        }
        if (is_any)
            clock_wait(clock, &list->changed, &list->lock, clock_monotonic_ms(clock) + CHECK_INTERVAL_MS);
    }
    list->is_checking = false;
}

/* libfuse calls this with its own lock of the request held. */
static void on_interrupt(fuse_req_t fuse, void *context)
{
    struct fs_request *request = context;
    struct request_list *list = request->list;
    bool only_informs = request_signals_only_inform(request->caller.pid);
    LOCK_GUARD(&list->lock);
    if (only_informs && !list->is_closed && !list->is_checking)
        list->is_checking = worker_pool_submit(list->pool, &list->check) == 0;
    request->is_informed = only_informs && !list->is_closed && list->is_checking;
    if (!request->is_informed)
        cancel_set(&request->cancel);
}

/* ---------------------------------------------------------------- the list */

void request_list_init(struct request_list *list, struct request_loop *loop)
{
    *list = (struct request_list){.loop = loop, .check.run = check_signals};
    cancel_init(&list->is_set);
    cancel_set(&list->is_set);
    pthread_mutex_init(&list->lock, NULL);
    clock_condition_init(&list->changed);
    list->pool = worker_pool_new("fs-signals", 1);
}

void request_list_close(struct request_list *list)
{
    LOCK_GUARD(&list->lock);
    list->is_closed = true;
    for (const GList *link = list->requests.head; link != NULL; link = link->next)
        cancel_set(&((struct fs_request *)link->data)->cancel);
}

void request_list_release(struct request_list *list)
{
    worker_pool_free(list->pool);
    cancel_release(&list->is_set);
    pthread_cond_destroy(&list->changed);
    pthread_mutex_destroy(&list->lock);
}

void request_begin(struct fs_request *request, struct request_list *list, fuse_req_t fuse)
{
    *request = (struct fs_request){.list = list, .fuse = fuse};
    request->caller = (struct tree_caller){
        .pid = fuse_req_ctx(fuse)->pid,
        .cancel = request_loop_is_led_by_caller(list->loop) ? &list->is_set : &request->cancel,
    };
    cancel_init(&request->cancel);
    pthread_mutex_lock(&list->lock);
    request->link.data = request;
    g_queue_push_head_link(&list->requests, &request->link);
    bool is_closed = list->is_closed;
    pthread_mutex_unlock(&list->lock);
    if (is_closed)
        cancel_set(&request->cancel);
    /* Calls on_interrupt() at once if an interrupt has arrived already. */
    fuse_req_interrupt_func(fuse, on_interrupt, request);
}

fuse_req_t request_end(struct fs_request *request)
{
    struct request_list *list = request->list;
    fuse_req_interrupt_func(request->fuse, NULL, NULL);
    pthread_mutex_lock(&list->lock);
    g_queue_unlink(&list->requests, &request->link);
    if (request->is_informed)
        pthread_cond_signal(&list->changed);
    pthread_mutex_unlock(&list->lock);
    cancel_release(&request->cancel);
    return request->fuse;
}

bool request_hands_over(struct fs_request *request, int error)
{
    if (error != -EINTR || request->caller.cancel == &request->cancel)
        return false;
    request_loop_hand_over(request->list->loop);
    request->caller.cancel = &request->cancel;
    return true;
}

/* ---------------------------------------------------------------- answers */

/* The kernel may cache for long, since the notifier reports each change. */
static const double lasting_seconds = 24 * 60 * 60;

void reply_status(fuse_req_t fuse, int error)
{
    if (error > 0 || error < -ERRNO_MAX)
        error = -EIO;
    fuse_reply_err(fuse, -error);
}

struct fuse_entry_param request_convert_entry(const struct tree *tree, const struct tree_entry *entry)
{
    struct fuse_entry_param parameters = {
        .ino = entry->ino,
        .attr = entry->attributes.stat,
        .entry_timeout = entry->is_name_lasting ? lasting_seconds : 0,
        .attr_timeout = entry->attributes.is_lasting ? lasting_seconds : 0,
    };
    tree_show_as(tree, &parameters.attr);
    return parameters;
}

void reply_entry(fuse_req_t fuse, struct tree *tree, int error, const struct tree_entry *entry)
{
    if (error != 0) {
        reply_status(fuse, error);
        return;
    }
    const struct fuse_entry_param parameters = request_convert_entry(tree, entry);
    if (fuse_reply_entry(fuse, &parameters) != 0)
        tree_forget(tree, entry->ino, 1);
}

void reply_attributes(fuse_req_t fuse, const struct tree *tree, int error,
                      const struct tree_attributes *attributes)
{
    if (error != 0) {
        reply_status(fuse, error);
        return;
    }
    struct stat shown = attributes->stat;
    tree_show_as(tree, &shown);
    fuse_reply_attr(fuse, &shown, attributes->is_lasting ? lasting_seconds : 0);
}

void reply_data(fuse_req_t fuse, int error, struct tree_data *data)
{
    if (error != 0) {
        reply_status(fuse, error);
        return;
    }
    /* libfuse writes from this memory without a copy. */
    fuse_reply_buf(fuse, data->bytes, data->len);
    tree_data_release(data);
}

static void fill_file(const struct tree_handle *handle, struct fuse_file_info *file)
{
    file->fh = (uint64_t)(uintptr_t)handle;
    file->keep_cache = handle->caching == TREE_CACHE_LASTING;
    file->cache_readdir = file->keep_cache;
    file->direct_io = handle->caching == TREE_CACHE_NONE || handle->caching == TREE_CACHE_STREAM;
    file->noflush = (handle->flags & O_ACCMODE) == O_RDONLY;
}

void reply_open(fuse_req_t fuse, int error, struct tree_handle *handle)
{
    struct fuse_file_info file = {.flags = 0};
    if (error != 0) {
        reply_status(fuse, error);
        return;
    }
    fill_file(handle, &file);
    if (fuse_reply_open(fuse, &file) != 0)
        tree_release(handle);
}

void reply_create(fuse_req_t fuse, struct tree *tree, int error, const struct tree_entry *entry,
                  struct tree_handle *handle, struct fuse_file_info *file)
{
    if (error != 0) {
        reply_status(fuse, error);
        return;
    }
    const struct fuse_entry_param parameters = request_convert_entry(tree, entry);
    fill_file(handle, file);
    if (fuse_reply_create(fuse, &parameters, file) != 0) {
        tree_release(handle);
        tree_forget(tree, entry->ino, 1);
    }
}
