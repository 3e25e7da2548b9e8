/* SPDX-License-Identifier: MIT */
/*
 * Open files of doors. The kernel has one inode for all who write to a door at a time, so it must not cache:
 * each of them writes a message of its own, which is made at the first write.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tree/answer_door.h"
#include "tree/handle_type.h"

struct answer_handle {
    struct tree_handle base;
    struct answer_door door;
    char *answers; /* NULL: not known yet */
    char *name;

    pthread_mutex_t making;               /* held while the file is made */
    _Atomic(struct outbox_handle *) file; /* NULL: nothing was written yet */
    uint64_t number;                      /* of the message; set before `file` */
    atomic_llong end;                     /* where O_APPEND writes, which the kernel cannot know */
};

static struct outbox_handle *find_file(const struct tree_handle *handle)
{
    return atomic_load(&((const struct answer_handle *)handle)->file);
}

static int prepare(struct answer_handle *answer, const struct tree_caller *caller)
{
    if (answer->answers != NULL)
        return 0;
    return answer_door_prepare(answer->base.tree, caller, &answer->door, &answer->answers, &answer->name);
}

static int make_file_locked(struct answer_handle *answer, const struct tree_caller *caller)
{
    struct outbox_handle *file = NULL;
    struct outbox_stat stat;
    if (atomic_load(&answer->file) != NULL)
        return 0;
    int error = prepare(answer, caller);
    if (error == 0)
        error = outbox_create_answer(answer->base.tree->outbox, answer->answers, answer->name, caller->pid,
                                     &file, &stat);
    if (error == 0) {
        answer->number = stat.number;
        atomic_store(&answer->file, file);
    }
    return error;
}

/* The file, made if it is not there. */
static int need_file(struct tree_handle *handle, const struct tree_caller *caller,
                     struct outbox_handle **ret_file)
{
    struct answer_handle *answer = (struct answer_handle *)handle;
    int error = 0;
    if (find_file(handle) == NULL) {
        pthread_mutex_lock(&answer->making);
        error = make_file_locked(answer, caller);
        pthread_mutex_unlock(&answer->making);
    }
    *ret_file = find_file(handle);
    return error;
}

static bool answer_write_may_wait(struct tree_handle *handle)
{
    struct outbox_handle *file = find_file(handle);
    return file == NULL || outbox_write_may_wait(file);
}

/* The kernel lets one write at a time through. */
static ssize_t write_answer(struct tree_handle *handle, const struct tree_caller *caller, const void *bytes,
                            size_t len, off_t offset)
{
    struct answer_handle *answer = (struct answer_handle *)handle;
    struct outbox_handle *file;
    int error = need_file(handle, caller, &file);
    if (error != 0)
        return error;
    off_t end = (off_t)atomic_load(&answer->end);
    if ((handle->flags & O_APPEND) != 0)
        offset = end;
    ssize_t written = outbox_write(file, bytes, len, offset, caller->pid);
    if (written > 0 && end < offset + written)
        atomic_store(&answer->end, offset + written);
    return written;
}

static int set_answer_size(struct tree_handle *handle, const struct tree_caller *caller, off_t size)
{
    struct answer_handle *answer = (struct answer_handle *)handle;
    struct outbox_handle *file;
    if (size == 0 && find_file(handle) == NULL)
        return 0;
    int error = need_file(handle, caller, &file);
    if (error == 0)
        error = outbox_set_size(handle->tree->outbox, answer->number, file, size, caller->pid);
    if (error == 0)
        atomic_store(&answer->end, size);
    return error;
}

static int allocate_answer(struct tree_handle *handle, const struct tree_caller *caller, int mode,
                           off_t offset, off_t len)
{
    struct outbox_handle *file;
    int error = need_file(handle, caller, &file);
    return error != 0 ? error : outbox_allocate(file, mode, offset, len);
}

static int sync_answer(struct tree_handle *handle, bool is_data_only)
{
    struct outbox_handle *file = find_file(handle);
    (void)is_data_only;
    return file == NULL ? 0 : outbox_sync_file(file);
}

static int flush_answer(struct tree_handle *handle, const struct tree_caller *caller)
{
    struct outbox_handle *file = find_file(handle);
    return file == NULL ? 0 : outbox_flush(file, caller->pid);
}

static bool is_answer_closed_well(const struct tree_handle *handle)
{
    struct outbox_handle *file = find_file(handle);
    return file == NULL || outbox_is_flushed(file);
}

static void free_answer(struct tree_handle *handle)
{
    struct answer_handle *answer = (struct answer_handle *)handle;
    pthread_mutex_destroy(&answer->making);
    free(answer->answers);
    free(answer->name);
    free(answer);
}

static void release_answer(struct tree_handle *handle)
{
    struct outbox_handle *file = find_file(handle);
    if (file != NULL)
        outbox_release(file);
    free_answer(handle);
}

static void abandon_answer(struct tree_handle *handle)
{
    struct outbox_handle *file = find_file(handle);
    if (file != NULL)
        outbox_abandon(file);
    free_answer(handle);
}

static struct answer_handle *new_answer(struct tree *tree, const struct answer_door *door, int flags)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_NONE,
        .may_wait = true,
        .next_write_may_wait = answer_write_may_wait,
        .write = write_answer,
        .set_size = set_answer_size,
        .allocate = allocate_answer,
        .sync = sync_answer,
        .flush = flush_answer,
        .is_closed_well = is_answer_closed_well,
        .release = release_answer,
        .abandon = abandon_answer,
    };
    struct answer_handle *answer = handle_new(tree, &ops, sizeof(*answer), flags);
    if (answer == NULL)
        return NULL;
    pthread_mutex_init(&answer->making, NULL);
    answer->door = *door;
    return answer;
}

int answer_open(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                struct tree_handle **ret_handle)
{
    const struct answer_door door = answer_door_of(ino);
    if ((flags & O_ACCMODE) != O_WRONLY)
        return -EACCES;
    struct answer_handle *answer = new_answer(tree, &door, flags);
    if (answer == NULL)
        return -ENOMEM;
    int error = prepare(answer, caller);
    if (error != 0)
        free_answer(&answer->base);
    else
        *ret_handle = &answer->base;
    return error;
}

/* Creating may not wait: what is to be known is found out at the first write. */
int answer_create(struct tree *tree, const struct answer_door *door, int flags, struct tree_entry *ret_entry,
                  struct tree_handle **ret_handle)
{
    if ((flags & O_ACCMODE) != O_WRONLY)
        return -EACCES;
    if (!answer_door_get(tree, door, ret_entry))
        return -ENOENT;
    struct answer_handle *answer = new_answer(tree, door, flags);
    if (answer == NULL)
        return -ENOMEM;
    *ret_handle = &answer->base;
    return 0;
}
