/* SPDX-License-Identifier: MIT */
/*
 * Reading, writing and closing open files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/file.h"
#include "outbox/binding.h"
#include "outbox/core.h"
#include "outbox/hand_in.h"
#include "outbox/handle.h"
#include "outbox/writer.h"
#include "outbox/writer_fate.h"

#define KEEP_ALL INT64_MAX

enum {
    WRITE_BEHIND_BYTES = 256 * 1024
};

/* ---------------------------------------------------------------- read and write */

ssize_t outbox_read(struct outbox_handle *handle, void *ret_bytes, size_t len, off_t offset)
{
    if (offset < 0)
        return -EINVAL;
    if (handle->fd >= 0)
        return file_pread_all(handle->fd, ret_bytes, len, offset);
    if ((size_t)offset >= handle->receipt_len)
        return 0;
    size_t left = handle->receipt_len - (size_t)offset;
    size_t wanted = len < left ? len : left;
    memcpy(ret_bytes, handle->receipt + offset, wanted);
    return (ssize_t)wanted;
}

static int check_end(const struct outbox_handle *handle, off_t offset, uint64_t len)
{
    size_t max = hand_in_max_bytes(handle->kind);
    if (offset < 0)
        return -EINVAL;
    return (uint64_t)offset > max || len > max - (uint64_t)offset ? -EFBIG : 0;
}

/* Content that was closed is opened anew; a descriptor on content that was exchanged since follows. */
static int begin_writing(struct outbox_handle *handle, off_t keep_bytes)
{
    if (!handle->may_write || handle->fd < 0)
        return -EBADF;
    int error = writer_begin(handle->outbox, handle->item, keep_bytes);
    pthread_mutex_lock(&handle->outbox->lock);
    bool is_gone = handle->item->state == ITEM_GONE;
    bool is_stale = handle->generation != handle->item->generation;
    pthread_mutex_unlock(&handle->outbox->lock);
    if (is_gone) /* unlinked while it was open: it lives on for those who have it, and is never sent; but what
                    was exchanged before is now the content of messages, which nobody may touch */
        return is_stale ? -ESTALE : 0;
    if (error != 0)
        return error;
    return is_stale ? handle_open_content(handle) : 0;
}

bool outbox_write_may_wait(struct outbox_handle *handle)
{
    if (!handle->may_write)
        return false;
    pthread_mutex_lock(&handle->outbox->lock);
    bool may_wait = handle->item->state != ITEM_WRITING;
    pthread_mutex_unlock(&handle->outbox->lock);
    return may_wait;
}

/* The kernel does not say whose pages of a mapping it writes (task 0). */
static void note_writer(struct outbox_handle *handle, pid_t pid)
{
    struct outbox *outbox = handle->outbox;
    pthread_mutex_lock(&outbox->lock);
    bool is_known = pid > 0 && pid == handle->last_task;
    pthread_mutex_unlock(&outbox->lock);
    if (is_known)
        return;
    pid_t process = writer_process(pid);
    pthread_mutex_lock(&outbox->lock);
    item_add_writer(handle->item, process);
    handle->last_task = pid;
    pthread_mutex_unlock(&outbox->lock);
}

static void note_write(struct outbox_handle *handle)
{
    pthread_mutex_lock(&handle->outbox->lock);
    closing_remove_locked(handle);
    handle->has_written = true;
    handle->item->is_dirty = true;
    item_update_stat(handle->item, handle->fd);
    pthread_mutex_unlock(&handle->outbox->lock);
}

static void note_failed_write(struct outbox_handle *handle, int error)
{
    char words[160];
    snprintf(words, sizeof(words), "interrupted: a write to the file failed: %s", strerror(-error));
    pthread_mutex_lock(&handle->outbox->lock);
    item_interrupt(handle->item, words);
    pthread_mutex_unlock(&handle->outbox->lock);
}

/* Each block that the write reached the end of: a big file is on the disk for the most part when it is
 * closed, for its writer has other things to do between its writes. */
static void write_behind(const struct outbox_handle *handle, off_t offset, size_t len)
{
    off_t end = offset + (off_t)len;
    off_t from = offset - offset % WRITE_BEHIND_BYTES;
    off_t to = end - end % WRITE_BEHIND_BYTES;
    if (to > from)
        file_begin_sync(handle->fd, from, to - from);
}

ssize_t outbox_write(struct outbox_handle *handle, const void *bytes, size_t len, off_t offset, pid_t pid)
{
    int error = begin_writing(handle, KEEP_ALL);
    if (error != 0)
        return error;
    error = check_end(handle, offset, len);
    if (error == 0)
        error = file_pwrite_all(handle->fd, bytes, len, offset);
    if (error == 0)
        write_behind(handle, offset, len);
    note_writer(handle, pid);
    note_write(handle);
    if (error == 0)
        return (ssize_t)len;
    note_failed_write(handle, error);
    return error;
}

int outbox_allocate(struct outbox_handle *handle, int mode, off_t offset, off_t len)
{
    if ((mode & ~FALLOC_FL_KEEP_SIZE) != 0)
        return -EOPNOTSUPP;
    if (len <= 0)
        return -EINVAL;
    int error = check_end(handle, offset, (uint64_t)len);
    if (error == 0)
        error = begin_writing(handle, KEEP_ALL);
    if (error == 0 && fallocate(handle->fd, mode, offset, len) != 0)
        error = -errno;
    if (error == 0)
        note_write(handle);
    return error;
}

static int truncate_without_handle(struct outbox *outbox, uint64_t number, off_t size, pid_t pid)
{
    struct outbox_handle *handle;
    int error = outbox_open_item(outbox, number, OUTBOX_CONTENT, O_WRONLY, pid, &handle);
    if (error != 0)
        return error;
    error = outbox_set_size(outbox, number, handle, size, pid);
    if (error == 0)
        error = outbox_sync_file(handle);
    outbox_release(handle);
    return error;
}

int outbox_set_size(struct outbox *outbox, uint64_t number, struct outbox_handle *handle, off_t size,
                    pid_t pid)
{
    if (handle == NULL)
        return truncate_without_handle(outbox, number, size, pid);
    int error = check_end(handle, size, 0);
    if (error == 0)
        error = begin_writing(handle, size);
    if (error != 0)
        return error;
    if (ftruncate(handle->fd, size) != 0) {
        error = -errno;
        note_failed_write(handle, error);
        return error;
    }
    /* O_TRUNC by a shell is no write of the program that it starts, nor of itself: nothing can be half yet.
     */
    note_write(handle);
    return 0;
}

int outbox_set_times(struct outbox *outbox, uint64_t number, const struct timespec times[2])
{
    _cleanup_close_ int fd = -1;
    pthread_mutex_lock(&outbox->lock);
    struct item *item = item_table_get(&outbox->table, number);
    int folder = item == NULL ? -1 : item_folder(item);
    bool is_here = folder == OUTBOX_FOLDER_OUTBOX || folder == OUTBOX_FOLDER_ATTACHMENTS;
    if (is_here)
        item_ref(item)->touches++;
    pthread_mutex_unlock(&outbox->lock);
    if (!is_here)
        return 0;

    int error = spool_open_data(outbox->spool, number, O_RDONLY, &fd);
    if (error == 0 && futimens(fd, times) != 0)
        error = -errno;
    pthread_mutex_lock(&outbox->lock);
    if (error == 0)
        item_update_stat(item, fd);
    item->touches++;
    item_unref(item);
    pthread_mutex_unlock(&outbox->lock);
    return error == -ENOENT ? 0 : error;
}

/* ---------------------------------------------------------------- flush and release */

int outbox_sync_file(struct outbox_handle *handle)
{
    if (!handle->may_write || handle->fd < 0)
        return 0;
    return writer_sync(handle->outbox, handle->item, handle->fd);
}

int outbox_flush(struct outbox_handle *handle, pid_t pid)
{
    if (!handle->may_write || handle->fd < 0)
        return 0;
    writer_judge(handle->outbox, handle->item, pid);
    crash_point("flushing");
    int error = outbox_sync_file(handle);
    crash_point("flushed");
    pthread_mutex_lock(&handle->outbox->lock);
    if (handle->item->state == ITEM_WRITING)
        closing_add_locked(handle);
    pthread_mutex_unlock(&handle->outbox->lock);
    return error;
}

bool outbox_is_flushed(const struct outbox_handle *handle)
{
    pthread_mutex_lock(&handle->outbox->lock);
    bool is_synced = handle->closing.number != 0 && !handle->item->is_dirty;
    bool is_flushed = !handle->may_write || !handle->has_written || is_synced;
    pthread_mutex_unlock(&handle->outbox->lock);
    return is_flushed;
}

/* Whether it was the last writer of an item that is being written; then the item is claimed. */
static bool leave_writer_locked(struct outbox_handle *handle)
{
    struct item *item = handle->item;
    item->writers--;
    binding_look_locked(handle->outbox, item);
    if (item->writers > 0 || item->state != ITEM_WRITING)
        return false;
    if (core_claim_locked(handle->outbox, item, CLAIM_DISK) != 0)
        return false;
    if (item->writers == 0 && item->state == ITEM_WRITING)
        return true;
    core_unclaim_locked(handle->outbox, item);
    return false;
}

static void release_writer(struct outbox_handle *handle)
{
    struct outbox *outbox = handle->outbox;
    pthread_mutex_lock(&outbox->lock);
    bool is_unflushed = handle->has_written && handle->closing.number == 0;
    closing_begin_release_locked(handle);
    pthread_mutex_unlock(&outbox->lock);
    if (is_unflushed) /* its descriptors were closed before a mapping of it ended, or in another task */
        writer_judge(outbox, handle->item, handle->opener);

    pthread_mutex_lock(&outbox->lock);
    bool is_last = leave_writer_locked(handle);
    pthread_mutex_unlock(&outbox->lock);
    if (is_last)
        writer_finish(outbox, handle->item);
    pthread_mutex_lock(&outbox->lock);
    closing_remove_locked(handle);
    if (is_last)
        core_unclaim_locked(outbox, handle->item);
    pthread_mutex_unlock(&outbox->lock);
    binding_collect(outbox);
}

void outbox_release(struct outbox_handle *handle)
{
    if (handle->may_write)
        release_writer(handle);
    handle_free(handle);
}

void outbox_abandon(struct outbox_handle *handle)
{
    handle_free(handle);
}
