/* SPDX-License-Identifier: MIT */
/*
 * Open files: of contents, each with a descriptor of its own, and of receipts, which are a text made at open.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/file.h"
#include "mail/receipt.h"
#include "outbox/change.h"
#include "outbox/core.h"
#include "outbox/hand_in.h"
#include "outbox/writer.h"
#include "outbox/writer_fate.h"

struct outbox_handle {
    struct outbox *outbox;
    struct item *item; /* referenced */
    enum envelope_kind kind;
    bool may_write;
    int fd; /* -1: a receipt */
    char *receipt;
    size_t receipt_len;
    pid_t opener;
    pid_t last_task; /* protected by outbox->lock, like all below: who wrote last, to ask /proc seldom */
    bool is_flushed; /* closed since the last write, and counted in item->flushed */
    bool has_written;
    unsigned int generation; /* of the content that fd is open on */
};

#define KEEP_ALL INT64_MAX

/* ---------------------------------------------------------------- making and ending handles */

static struct outbox_handle *handle_new(struct outbox *outbox, pid_t pid)
{
    struct outbox_handle *handle = calloc(1, sizeof(*handle));
    if (handle == NULL)
        return NULL;
    handle->outbox = outbox;
    handle->fd = -1;
    handle->opener = pid;
    return handle;
}

static void handle_free(struct outbox_handle *handle)
{
    if (handle == NULL)
        return;
    if (handle->fd >= 0)
        close(handle->fd);
    pthread_mutex_lock(&handle->outbox->lock);
    item_unref(handle->item);
    pthread_mutex_unlock(&handle->outbox->lock);
    free(handle->receipt);
    free(handle);
}

static void set_flushed_locked(struct outbox_handle *handle, bool is_flushed)
{
    struct outbox *outbox = handle->outbox;
    struct item *item = handle->item;
    if (handle->is_flushed == is_flushed)
        return;
    unsigned int step = is_flushed ? 1U : -1U;
    handle->is_flushed = is_flushed;
    item->flushed += step;
    outbox->flushed[handle->kind == ENVELOPE_MESSAGE ? OUTBOX_FOLDER_OUTBOX : OUTBOX_FOLDER_ATTACHMENTS] +=
        step;
    core_broadcast_locked(outbox);
}

static void update_stat_locked(struct item *item, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return;
    item->size = status.st_size;
    item->mtime = status.st_mtim;
}

/* ---------------------------------------------------------------- create */

static int prepare_new(struct outbox *outbox, enum envelope_kind kind, const char *name, struct item *item,
                       struct change *change)
{
    change->next.number = item->number;
    change->next.order = item->number;
    change->next.content = item->number;
    change->next.kind = kind;
    change->next.name = strdup(name);
    strcpy(change->next.state, item_state_name(ITEM_WRITING));
    if (change->next.name == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&outbox->lock);
    int error = change_reserve_locked(change, item);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

static int create_files(struct outbox *outbox, const struct change *change, const struct item *item,
                        int *ret_fd)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    int error = envelope_format(&change->next, &text);
    return error != 0 ? error : spool_create(outbox->spool, item->number, text.data, text.len, ret_fd);
}

static int add_new(struct outbox_handle *handle, struct change *change, struct outbox_stat *ret)
{
    struct outbox *outbox = handle->outbox;
    struct item *item = handle->item;
    pthread_mutex_lock(&outbox->lock);
    int error = item_table_add(&outbox->table, item);
    if (error == 0) {
        item_ref(item);
        update_stat_locked(item, handle->fd);
        change_apply_locked(change, item);
        item->is_durable = false;
        item->writers = 1;
        item_stat(item, OUTBOX_CONTENT, ret);
    }
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

static int create(struct outbox_handle *handle, const char *name, struct outbox_stat *ret)
{
    struct outbox *outbox = handle->outbox;
    uint64_t number;
    int error = spool_take_number(outbox->spool, &number);
    if (error != 0)
        return error;
    handle->item = item_new(number);
    if (handle->item == NULL)
        return -ENOMEM;
    _cleanup_change_ struct change change = {.outbox = outbox, .state = ITEM_WRITING, .reserved_folder = -1};
    error = prepare_new(outbox, handle->kind, name, handle->item, &change);
    if (error == 0)
        error = create_files(outbox, &change, handle->item, &handle->fd);
    crash_point("created");
    if (error != 0)
        return error;
    error = add_new(handle, &change, ret);
    if (error != 0)
        spool_remove(outbox->spool, number);
    return error;
}

int outbox_create(struct outbox *outbox, enum outbox_folder folder, const char *name, pid_t pid,
                  struct outbox_handle **ret_handle, struct outbox_stat *ret)
{
    if (folder != OUTBOX_FOLDER_OUTBOX && folder != OUTBOX_FOLDER_ATTACHMENTS)
        return -EPERM;
    int error = core_check_name(name);
    if (error != 0)
        return error == -EILSEQ ? -EINVAL : error;
    struct outbox_handle *handle = handle_new(outbox, pid);
    if (handle == NULL)
        return -ENOMEM;
    handle->may_write = true;
    handle->kind = folder == OUTBOX_FOLDER_OUTBOX ? ENVELOPE_MESSAGE : ENVELOPE_ATTACHMENT;
    error = create(handle, name, ret);
    if (error != 0)
        handle_free(handle);
    else
        *ret_handle = handle;
    return error;
}

/* ---------------------------------------------------------------- open */

static int open_receipt(struct outbox_handle *handle)
{
    _cleanup_free_ char *text = NULL;
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    struct outbox *outbox = handle->outbox;
    struct envelope envelope = {0};
    size_t len;

    pthread_mutex_lock(&outbox->lock);
    bool is_unsaved = handle->item->is_unsaved; /* then memory knows better, and has all of it */
    int error = item_state_has_receipt(handle->item->state) ? 0 : -ENOENT;
    if (error == 0 && is_unsaved)
        error = envelope_copy(&handle->item->envelope, &envelope);
    pthread_mutex_unlock(&outbox->lock);

    if (error == 0 && !is_unsaved)
        error = spool_read_envelope(outbox->spool, handle->item->number, &text, &len);
    if (error == 0 && !is_unsaved)
        error = envelope_parse(text, len, &envelope);
    if (error == 0)
        error = receipt_format(&envelope, &receipt);
    envelope_release(&envelope);
    if (error == 0)
        handle->receipt = strbuf_take(&receipt, &handle->receipt_len);
    return error != 0 ? error : handle->receipt == NULL ? -ENOMEM : 0;
}

/* Under the number that it has, for other threads may be reading from it. */
static int set_descriptor(struct outbox_handle *handle, int fd)
{
    if (handle->fd < 0) {
        handle->fd = fd;
        return 0;
    }
    int error = dup3(fd, handle->fd, O_CLOEXEC) < 0 ? -errno : 0;
    close(fd);
    return error;
}

/* Opens the content as it is now: it may be exchanged between the look and the open. */
static int open_content(struct outbox_handle *handle)
{
    struct outbox *outbox = handle->outbox;
    for (;;) {
        pthread_mutex_lock(&outbox->lock);
        unsigned int generation = handle->item->generation;
        pthread_mutex_unlock(&outbox->lock);
        int fd;
        int error =
            spool_open_data(outbox->spool, handle->item->number, handle->may_write ? O_RDWR : O_RDONLY, &fd);
        if (error != 0)
            return error;
        pthread_mutex_lock(&outbox->lock);
        bool is_current = generation == handle->item->generation;
        if (is_current)
            handle->generation = generation;
        pthread_mutex_unlock(&outbox->lock);
        if (is_current)
            return set_descriptor(handle, fd);
        close(fd);
    }
}

/* Counts as a writer from here on, so that nobody hands the item in meanwhile; and not in the middle of
 * somebody's doing so. */
static int enter_writer_locked(struct outbox_handle *handle)
{
    struct item *item = handle->item;
    while (item->claim == CLAIM_DISK)
        pthread_cond_wait(&handle->outbox->changed, &handle->outbox->lock);
    int error = writer_may_open_locked(item);
    if (error == 0) {
        item->writers++;
        handle->may_write = true;
    }
    return error;
}

static int find_item(struct outbox_handle *handle, uint64_t number, bool wants_write)
{
    struct outbox *outbox = handle->outbox;
    pthread_mutex_lock(&outbox->lock);
    struct item *item = item_table_get(&outbox->table, number);
    int error = item == NULL ? -ENOENT : 0;
    if (error == 0) {
        handle->item = item_ref(item);
        handle->kind = item->envelope.kind;
        if (wants_write)
            error = enter_writer_locked(handle);
    }
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

/* What is written under a name that just left begins something new. Upon -ESTALE the kernel looks the name up
 * once more, and now finds it free. */
static bool forget_ghosts(struct outbox *outbox, uint64_t number)
{
    pthread_mutex_lock(&outbox->lock);
    bool found = item_table_forget_ghosts(&outbox->table, number);
    pthread_mutex_unlock(&outbox->lock);
    return found;
}

int outbox_open_item(struct outbox *outbox, uint64_t number, enum outbox_aspect aspect, int flags, pid_t pid,
                     struct outbox_handle **ret_handle)
{
    bool wants_write = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
    if (aspect == OUTBOX_RECEIPT && wants_write)
        return -EACCES;
    struct outbox_handle *handle = handle_new(outbox, pid);
    if (handle == NULL)
        return -ENOMEM;
    int error = find_item(handle, number, wants_write);
    if (wants_write && (error == -EACCES || error == -ENOENT) && forget_ghosts(outbox, number))
        error = -ESTALE;
    if (error == 0)
        error = aspect == OUTBOX_RECEIPT ? open_receipt(handle) : open_content(handle);
    if (error == 0 && (flags & O_TRUNC) != 0)
        error = outbox_set_size(outbox, number, handle, 0, pid);
    if (error != 0)
        outbox_release(handle);
    else
        *ret_handle = handle;
    return error;
}

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
    if (is_gone)
        return 0; /* unlinked while it was open: it lives on for those who have it, and is never sent */
    if (error != 0)
        return error;
    return is_stale ? open_content(handle) : 0;
}

static void note_write(struct outbox_handle *handle, pid_t pid)
{
    struct outbox *outbox = handle->outbox;
    pthread_mutex_lock(&outbox->lock);
    bool is_known = pid <= 0 || pid == handle->last_task;
    pthread_mutex_unlock(&outbox->lock);
    pid_t process = is_known ? 0 : writer_process(pid);

    pthread_mutex_lock(&outbox->lock);
    if (process > 0) {
        item_add_writer(handle->item, process);
        handle->last_task = pid;
    }
    set_flushed_locked(handle, false);
    handle->has_written = true;
    handle->item->is_dirty = true;
    update_stat_locked(handle->item, handle->fd);
    pthread_mutex_unlock(&outbox->lock);
}

static void note_failed_write(struct outbox_handle *handle, int error)
{
    char words[160];
    snprintf(words, sizeof(words), "interrupted: a write to the file failed: %s", strerror(-error));
    pthread_mutex_lock(&handle->outbox->lock);
    item_interrupt(handle->item, words);
    pthread_mutex_unlock(&handle->outbox->lock);
}

ssize_t outbox_write(struct outbox_handle *handle, const void *bytes, size_t len, off_t offset, pid_t pid)
{
    int error = begin_writing(handle, KEEP_ALL);
    if (error != 0)
        return error;
    error = check_end(handle, offset, len);
    if (error == 0)
        error = file_pwrite_all(handle->fd, bytes, len, offset);
    note_write(handle, pid);
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
        note_write(handle, 0);
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
    note_write(handle, 0);
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
        item_ref(item);
    pthread_mutex_unlock(&outbox->lock);
    if (!is_here)
        return 0;

    int error = spool_open_data(outbox->spool, number, O_RDONLY, &fd);
    if (error == 0 && futimens(fd, times) != 0)
        error = -errno;
    pthread_mutex_lock(&outbox->lock);
    if (error == 0)
        update_stat_locked(item, fd);
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
        set_flushed_locked(handle, true);
    pthread_mutex_unlock(&handle->outbox->lock);
    return error;
}

/* Whether it was the last writer of an item that is being written; then the item is claimed. */
static bool leave_writer_locked(struct outbox_handle *handle)
{
    struct item *item = handle->item;
    item->writers--;
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
    bool is_unflushed = handle->has_written && !handle->is_flushed;
    pthread_mutex_unlock(&outbox->lock);
    if (is_unflushed) /* its descriptors were closed before a mapping of it ended, or in another task */
        writer_judge(outbox, handle->item, handle->opener);

    pthread_mutex_lock(&outbox->lock);
    bool is_last = leave_writer_locked(handle);
    pthread_mutex_unlock(&outbox->lock);
    if (is_last)
        writer_finish(outbox, handle->item);
    pthread_mutex_lock(&outbox->lock);
    set_flushed_locked(handle, false);
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
