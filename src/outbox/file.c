/* SPDX-License-Identifier: MIT */
/*
 * Creates, opens, reads, writes and closes files. A close makes the content durable, and finds out how the
 * closing process ends. After the last release a message waits for its hand-in, and an attachment is handed
 * in.
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
#include "base/lock.h"
#include "outbox/accept.h"
#include "outbox/change.h"
#include "outbox/writer_fate.h"

struct outbox_handle {
    struct outbox *outbox;
    struct item *item; /* referenced */
    bool may_write;
    int fd;
    size_t max_bytes; /* the greatest size of the content */
    pid_t opener;
    pid_t session;            /* the opener's session */
    unsigned int open_number; /* number of this opening among the item's openings for writing, from 1 */
    unsigned int renewals;    /* file.renewals of the item when `fd` was opened */
    pid_t last_task;          /* the task that wrote last, kept so that /proc is read seldom; protected by
                                 outbox->lock, like all below */
    bool has_written;
    bool is_closed; /* a close(2) followed the last write */
};

/* ================================================================ writing */

enum {
    ANY_PROCESS = 0, /* among the writers: an unknown process wrote, or too many did */
    WRITERS_MAX = 16,
};

#define REASON_KILLED "interrupted: a program that had the file open was killed"
#define REASON_HIDDEN "interrupted: the program ended, and whether well cannot be seen"
#define REASON_WRITER_FAILED "interrupted: the program that wrote the file ended with an error"
#define REASON_LAST_FAILED "interrupted: the last program that had the file open ended with an error"
#define REASON_TWO_WRITERS "interrupted: two programs wrote to the file at the same time"
#define REASON_LACKS_WRITE "interrupted: a write to the file failed, for the disk could not record it"

static bool is_in(GHashTable *processes, pid_t process)
{
    return processes != NULL && g_hash_table_contains(processes, GINT_TO_POINTER(process));
}

static bool was_written_by(const struct item *item, pid_t process)
{
    return is_in(item->file.wrote, ANY_PROCESS) || is_in(item->file.wrote, process);
}

static void add_writer(struct item *item, pid_t process)
{
    struct open_file *file = &item->file;
    if (was_written_by(item, process))
        return;
    if (file->wrote == NULL)
        file->wrote = g_hash_table_new(NULL, NULL);
    bool is_full = g_hash_table_size(file->wrote) == WRITERS_MAX;
    g_hash_table_add(file->wrote, GINT_TO_POINTER(is_full ? ANY_PROCESS : process));
}

/* Forbids sending what was written, for the reason `why`. Keeps an earlier reason. */
static void interrupt_item(struct item *item, const char *why)
{
    if (item->file.interruption[0] == '\0')
        snprintf(item->file.interruption, sizeof(item->file.interruption), "%s", why);
}

/* The caller has claimed the item or holds outbox->lock. Returns 0 if the item may be opened for writing;
 * else -EBUSY (at the service), -EACCES (settled), or -ENOENT. */
static int check_writable(const struct item *item)
{
    if (item->row.state == ITEM_GONE)
        return -ENOENT;
    if (item_is_busy(item))
        return -EBUSY;
    return item_state_may_follow(item->row.state, ITEM_WRITING) ? 0 : -EACCES;
}

/* Gives an attachment that messages have bound a content of its own, before it becomes ITEM_WRITING, so that
 * no other handle writes into the shared content. */
static int renew_content(struct outbox *outbox, struct item *item)
{
    bool is_renewed = false;
    int error =
        item->row.kind == ITEM_ATTACHMENT ? spool_renew_content(outbox->spool, item->number, &is_renewed) : 0;
    crash_point("renewed");
    LOCK_GUARD(&outbox->lock);
    item->file.renewals += is_renewed;
    item->file.changes += is_renewed; /* the name of the new file is not durable yet */
    return error;
}

/* Makes the claimed item ITEM_WRITING, which withdraws a queued message. Keeps the reason why the content
 * must not be sent, unless the program removes all of it: an incomplete text stays incomplete when a program
 * appends to it. */
static int enter_writing_claimed(struct outbox *outbox, struct item *item, off_t keep_bytes)
{
    struct change change;
    struct open_file *file = &item->file;
    change_begin(&change, item, ITEM_WRITING);
    row_clear_outcome(&change.next);
    int error = renew_content(outbox, item);
    error = error != 0 ? error : change_commit(outbox, &change, 1);
    crash_point("begun_again");
    if (error == 0) {
        LOCK_GUARD(&outbox->lock);
        const struct row *old = &change.next; /* since the commit */
        if (keep_bytes == 0)
            file->interruption[0] = '\0';
        else if (old->state == ITEM_WAITING && old->error != NULL)
            interrupt_item(item, old->error);
        file->has_last_failed = false;
        file->is_unseen = false;
        file->closed_ms = 0;
        g_clear_pointer(&file->wrote, g_hash_table_unref);
        file->first_open = 0;
    }
    change_release(outbox, &change);
    return error;
}

/* Called before each change of the content: the first change makes the item ITEM_WRITING, durably. The change
 * keeps `keep_bytes` of the content. Waits for the disk. Returns 0, -EBUSY, or the disk's error. */
static int enter_writing(struct outbox *outbox, struct item *item, off_t keep_bytes)
{
    pthread_mutex_lock(&outbox->lock);
    bool is_begun = item->row.state == ITEM_WRITING;
    bool can_be_bound = item->row.state == ITEM_UPLOADING || item->row.state == ITEM_UPLOADED;
    pthread_mutex_unlock(&outbox->lock);
    if (is_begun)
        return 0;
    if (can_be_bound)
        outbox_hand_in_waiting(outbox);
    pthread_mutex_lock(&outbox->lock);
    int error = claim_take_locked(outbox, item, CLAIM_DISK);
    pthread_mutex_unlock(&outbox->lock);
    if (error != 0)
        return error == -ENOENT ? 0 : error; /* an item that was removed while it was open is never sent */
    error = check_writable(item);
    if (error == 0 && item->row.state != ITEM_WRITING) /* another thread may have begun */
        error = enter_writing_claimed(outbox, item, keep_bytes);
    claim_release(outbox, item);
    return error == -EACCES ? -EBUSY : error;
}

/* If the content was renewed after the handle was opened, `fd` refers to a file that belongs to messages.
 * Reopens `fd` under its number, because other threads may be reading from it. */
static int follow_renewal(struct outbox_handle *handle)
{
    _cleanup_close_ int fd = -1;
    pthread_mutex_lock(&handle->outbox->lock);
    unsigned int renewals = handle->item->file.renewals;
    bool is_renewed = handle->renewals != renewals;
    pthread_mutex_unlock(&handle->outbox->lock);
    if (!is_renewed)
        return 0;
    int error = spool_open_content(handle->outbox->spool, handle->item->number, O_RDWR, &fd);
    if (error == 0 && dup3(fd, handle->fd, O_CLOEXEC) < 0)
        error = -errno;
    LOCK_GUARD(&handle->outbox->lock);
    if (error == 0)
        handle->renewals = renewals;
    return error;
}

/* `handle` owns `fd`, or is NULL. Follows a renewal after it has read the number of changes: the writes after
 * a later renewal are not in `fd`, and do not count as synced. */
static int sync_content(struct outbox *outbox, struct item *item, struct outbox_handle *handle, int fd)
{
    struct open_file *file = &item->file;
    pthread_mutex_lock(&outbox->lock);
    bool is_gone = item->row.state == ITEM_GONE;
    uint64_t changes = file->changes;
    bool is_synced = file->synced >= changes;
    pthread_mutex_unlock(&outbox->lock);
    if (is_gone || is_synced)
        return 0;
    int error = handle == NULL ? 0 : follow_renewal(handle);
    error = error != 0 ? error : file_sync(fd);
    error = error != 0 ? error : spool_sync_names(outbox->spool);
    LOCK_GUARD(&outbox->lock);
    if (error == 0)
        file->synced = MAX(file->synced, changes);
    else
        interrupt_item(item, "interrupted: the file could not be made durable");
    return error;
}

/* Finds out how the task that closes the file ends. A killed task interrupts the item. A failed task
 * interrupts the item at once if its process wrote to the file. If not, settle_written() interrupts the item,
 * unless another task closes the file later and ends well. */
static void record_writer_end(struct outbox *outbox, struct item *item, pid_t pid)
{
    enum writer_fate fate = writer_fate_read(pid);
    bool is_well = fate == WRITER_LIVES || fate == WRITER_UNSEEN || fate == WRITER_SUCCEEDED;
    pid_t process = is_well ? 0 : writer_process(pid);
    LOCK_GUARD(&outbox->lock);
    if (item->row.state != ITEM_WRITING)
        return;
    item->file.is_unseen = item->file.is_unseen || fate == WRITER_UNSEEN;
    /* An exit status counts only if the process wrote: Ctrl-C may end a program that inherited the file,
     * while the shell that writes lives on. A process whose exit code is hidden is assumed to have
     * written. */
    item->file.has_last_failed = fate == WRITER_EXITED && !was_written_by(item, process);
    if (!is_well && !item->file.has_last_failed)
        interrupt_item(item, fate == WRITER_KILLED   ? REASON_KILLED
                             : fate == WRITER_HIDDEN ? REASON_HIDDEN
                                                     : REASON_WRITER_FAILED);
}

/* Warns the user if the end of a writer was not seen. The item is handed in all the same, so that programs in
 * other containers can write into outbox/. */
static void notify_unseen_end(struct outbox *outbox, const struct item *item)
{
    outbox_notify(outbox, EVENT_UNSEEN, item_folder(item), item->row.name, NULL,
                  "handed in, but how the program that wrote it ended is not seen (it is in another pid "
                  "namespace, or hidden in /proc): if it may have failed, rm this while it waits; to be "
                  "sure, write to drafts/ and mv");
}

/* Makes a message ITEM_WAITING, durably. Hands in an attachment at once: an upload can be repeated. */
static int accept_written(struct outbox *outbox, struct item *item, char **ret_reason)
{
    struct change change;
    int error = 0;
    if (item->row.kind == ITEM_ATTACHMENT) {
        error = accept_prepare(outbox, item, item->row.name, &change, ret_reason);
    } else {
        change_begin(&change, item, ITEM_WAITING);
        change.next.position = spool_take_number(outbox->spool);
    }
    crash_point("closing");
    error = error != 0 ? error : change_commit(outbox, &change, 1);
    change_release(outbox, &change);
    crash_point("closed");
    return error;
}

/* Ends the writing of a claimed item after the release of its last writer. */
static void settle_written(struct outbox *outbox, struct item *item)
{
    struct open_file *file = &item->file;
    _cleanup_free_ char *reason = NULL;
    _cleanup_close_ int fd = -1;
    int error = 0;
    pthread_mutex_lock(&outbox->lock);
    if (file->has_last_failed)
        interrupt_item(item, REASON_LAST_FAILED);
    pthread_mutex_unlock(&outbox->lock);
    if (file->interruption[0] == '\0') {
        error = spool_open_content(outbox->spool, item->number, O_RDONLY, &fd);
        error = error != 0 ? error : sync_content(outbox, item, NULL, fd);
    }
    if (file->interruption[0] != '\0') {
        settle_item(outbox, item, ITEM_INTERRUPTED, 0, file->interruption);
        LOCK_GUARD(&outbox->lock);
        file->interruption[0] = '\0'; /* the row has the reason */
        return;
    }
    error = error != 0 ? error : accept_written(outbox, item, &reason);
    if (error != 0)
        settle_item(outbox, item, ITEM_FAILED, 0, reason != NULL ? reason : strerror(-error));
    else if (file->is_unseen)
        notify_unseen_end(outbox, item);
}

/* ================================================================ creating and opening */

static struct outbox_handle *new_handle(struct outbox *outbox, pid_t pid)
{
    struct outbox_handle *handle = g_new0(struct outbox_handle, 1);
    handle->outbox = outbox;
    handle->fd = -1;
    handle->opener = pid;
    handle->session = writer_session(pid);
    return handle;
}

void outbox_abandon(struct outbox_handle *handle)
{
    if (handle == NULL)
        return;
    if (handle->fd >= 0)
        close(handle->fd);
    pthread_mutex_lock(&handle->outbox->lock);
    item_unref(handle->item);
    pthread_mutex_unlock(&handle->outbox->lock);
    free(handle);
}

static int create_content(void *context)
{
    struct outbox_handle *handle = context;
    crash_point("created");
    return spool_open_content(handle->outbox->spool, handle->item->number, O_RDWR | O_CREAT | O_EXCL,
                              &handle->fd);
}

static int create_item(struct outbox_handle *handle, const char *name, const char *reply_template)
{
    struct change change;
    change_begin(&change, handle->item, ITEM_WRITING);
    change.place = create_content;
    change.context = handle;
    row_set_string(&change.next.name, name);
    row_set_string(&change.next.reply_template, reply_template);
    int error = change_commit(handle->outbox, &change, 1);
    change_release(handle->outbox, &change);
    return error;
}

int outbox_create(struct outbox *outbox, enum outbox_folder folder, const char *name, pid_t pid,
                  const char *reply_template, struct outbox_handle **ret_handle, struct outbox_stat *ret)
{
    int error = item_check_name(folder, name);
    if (error != 0)
        return error;
    enum item_kind kind = folder == OUTBOX_FOLDER_OUTBOX ? ITEM_MESSAGE : ITEM_ATTACHMENT;
    struct outbox_handle *handle = new_handle(outbox, pid);
    struct item *item = handle->item = item_new(spool_take_number(outbox->spool), kind);
    handle->may_write = true;
    handle->max_bytes = accept_max_bytes(kind);
    handle->open_number = ++item->file.opens;
    item->file.writers = 1;
    item->file.changes = 1; /* the name of the new file */
    item->session = handle->session;
    error = create_item(handle, name, reply_template);
    if (error != 0) {
        outbox_abandon(handle);
        return error;
    }
    LOCK_GUARD(&outbox->lock);
    item_update_stat(item, handle->fd);
    item_stat(item, OUTBOX_CONTENT, ret);
    *ret_handle = handle;
    return 0;
}

/* Reports the reason as an event, because programs show only the errno. */
static void notify_busy(const struct outbox_handle *handle)
{
    pthread_mutex_lock(&handle->outbox->lock);
    _cleanup_free_ char *name = item_is_busy(handle->item) ? g_strdup(handle->item->row.name) : NULL;
    pthread_mutex_unlock(&handle->outbox->lock);
    if (name != NULL)
        outbox_notify(handle->outbox, EVENT_REFUSED, OUTBOX_FOLDER_OUTBOX, name, NULL, REASON_BUSY);
}

/* Finds the item. For a writer, waits while another thread changes the item, and counts the handle, so that
 * no worker hands the item in. */
static int attach_handle(struct outbox_handle *handle, uint64_t number, bool wants_write)
{
    struct outbox *outbox = handle->outbox;
    LOCK_GUARD(&outbox->lock);
    struct item *item = item_table_get(&outbox->table, number);
    if (item == NULL)
        return -ENOENT;
    handle->item = item_ref(item);
    handle->max_bytes = accept_max_bytes(item->row.kind);
    while (wants_write && item->claim == CLAIM_DISK)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    int error = wants_write ? check_writable(item) : 0;
    if (error == 0 && wants_write) {
        item->file.writers++;
        handle->open_number = ++item->file.opens;
        item->session = handle->session;
        handle->may_write = true;
    }
    handle->renewals = item->file.renewals;
    return error;
}

int outbox_open_item(struct outbox *outbox, uint64_t number, int flags, pid_t pid,
                     struct outbox_handle **ret_handle)
{
    bool wants_write = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
    struct outbox_handle *handle = new_handle(outbox, pid);
    int error = attach_handle(handle, number, wants_write);
    if (error == -EBUSY)
        notify_busy(handle);
    if (error == 0)
        error = spool_open_content(outbox->spool, number, wants_write ? O_RDWR : O_RDONLY, &handle->fd);
    if (error == 0 && (flags & O_TRUNC) != 0)
        error = outbox_set_size(handle, 0, pid);
    if (error == 0)
        *ret_handle = handle;
    else
        outbox_release(handle);
    /* The item was removed or replaced after the lookup of its name, which another item may have now. */
    return error == -ENOENT ? -ESTALE : error;
}

int outbox_read_receipt(struct outbox *outbox, uint64_t number, struct strbuf *out)
{
    struct row row = {0};
    pthread_mutex_lock(&outbox->lock);
    const struct item *item = item_table_get(&outbox->table, number);
    bool has_receipt = item != NULL && item_states[item->row.state].has_receipt;
    if (has_receipt)
        row_copy(&item->row, &row);
    pthread_mutex_unlock(&outbox->lock);
    int error = has_receipt ? outbox_format_receipt(outbox, &row, out) : -ESTALE;
    row_release(&row);
    return error;
}

/* ================================================================ reading, writing and closing */

#define KEEP_ALL INT64_MAX

enum {
    WRITE_BEHIND_BYTES = 256 * 1024
};

ssize_t outbox_read(struct outbox_handle *handle, void *ret_bytes, size_t len, off_t offset)
{
    return offset < 0 ? -EINVAL : file_pread_all(handle->fd, ret_bytes, len, offset);
}

static off_t get_size(const struct outbox_handle *handle)
{
    LOCK_GUARD(&handle->outbox->lock);
    return handle->item->size;
}

static int check_range(const struct outbox_handle *handle, off_t offset, uint64_t len)
{
    size_t max = handle->max_bytes;
    if (offset < 0)
        return -EINVAL;
    return (uint64_t)offset > max || len > max - (uint64_t)offset ? -EFBIG : 0;
}

/* Called before each change of the content. An item that was unlinked while it was open can still be written
 * to, unless messages have its content, and is never sent. */
static int prepare_write(struct outbox_handle *handle, off_t keep_bytes)
{
    struct stat status;
    if (!handle->may_write)
        return -EBADF;
    int error = enter_writing(handle->outbox, handle->item, keep_bytes);
    if (error == -EBUSY)
        notify_busy(handle);
    if (error != 0)
        return error;
    pthread_mutex_lock(&handle->outbox->lock);
    bool is_gone = handle->item->row.state == ITEM_GONE;
    pthread_mutex_unlock(&handle->outbox->lock);
    if (is_gone && fstat(handle->fd, &status) == 0 && status.st_nlink > 0)
        return -ESTALE;
    return follow_renewal(handle);
}

/* Remembers the writer. Interrupts a message that two programs opened and wrote, because their texts are
 * mixed. Several programs may write through one opening, as in a shell's redirection, and one program may
 * open the file twice. A program that truncates what another one wrote, as by O_TRUNC, is a second writer. A
 * truncation alone does not make its caller a writer: a shell truncates for the program that it starts, and
 * no text can be half written yet. For pages of a mapping the kernel names no task (0). */
static void record_writer(struct outbox_handle *handle, pid_t pid, bool is_truncation)
{
    struct outbox *outbox = handle->outbox;
    struct item *item = handle->item;
    struct open_file *file = &item->file;
    pthread_mutex_lock(&outbox->lock);
    bool is_known =
        is_truncation ? file->first_open == 0 || item->size == 0 : pid > 0 && pid == handle->last_task;
    pthread_mutex_unlock(&outbox->lock);
    if (is_known)
        return;
    pid_t process = writer_process(pid);
    pid_t opener = handle->opener == pid ? process : writer_process(handle->opener);
    LOCK_GUARD(&outbox->lock);
    if (file->first_open == 0) {
        file->first_open = handle->open_number;
        file->first_opener = opener;
    } else if (file->first_open != handle->open_number && file->first_opener != opener &&
               item->row.kind == ITEM_MESSAGE && (process == ANY_PROCESS || !is_in(file->wrote, process))) {
        interrupt_item(item, REASON_TWO_WRITERS);
    }
    if (is_truncation)
        return;
    add_writer(item, process);
    handle->last_task = pid;
}

static void record_write(struct outbox_handle *handle)
{
    LOCK_GUARD(&handle->outbox->lock);
    handle->has_written = true;
    handle->is_closed = false;
    handle->item->file.closed_ms = 0;
    handle->item->file.changes++;
    item_update_stat(handle->item, handle->fd);
}

static void record_failed_write(struct outbox_handle *handle, int error)
{
    char reason[160];
    if (error == -EFBIG)
        snprintf(reason, sizeof(reason), "interrupted: the file became larger than %zu bytes",
                 handle->max_bytes);
    else
        snprintf(reason, sizeof(reason), "interrupted: a write to the file failed: %s", strerror(-error));
    LOCK_GUARD(&handle->outbox->lock);
    interrupt_item(handle->item, reason);
}

ssize_t outbox_write(struct outbox_handle *handle, const void *bytes, size_t len, off_t offset, pid_t pid)
{
    int error = prepare_write(handle, KEEP_ALL);
    if (error != 0) {
        bool is_refusal = error == -EBUSY || error == -EBADF || error == -ESTALE; /* else the disk failed */
        LOCK_GUARD(&handle->outbox->lock);
        if (!is_refusal && handle->item->row.kind == ITEM_MESSAGE)
            interrupt_item(handle->item, REASON_LACKS_WRITE);
        return error;
    }
    if (offset == OUTBOX_AT_END)
        offset = get_size(handle);
    error = check_range(handle, offset, len);
    if (error == 0)
        error = file_pwrite_all(handle->fd, bytes, len, offset);
    if (error == 0) {
        /* Starts writing out each block that is complete now, so that FLUSH has little to wait for. */
        off_t from = offset - offset % WRITE_BEHIND_BYTES;
        off_t end = offset + (off_t)len;
        off_t to = end - end % WRITE_BEHIND_BYTES;
        if (to > from)
            file_begin_sync(handle->fd, from, to - from);
    }
    record_writer(handle, pid, false);
    record_write(handle);
    if (error == 0)
        return (ssize_t)len;
    record_failed_write(handle, error);
    return error;
}

int outbox_set_size(struct outbox_handle *handle, off_t size, pid_t pid)
{
    int error = check_range(handle, size, 0);
    if (error == 0)
        error = prepare_write(handle, size);
    if (error != 0)
        return error;
    record_writer(handle, pid, true);
    if (ftruncate(handle->fd, size) != 0) {
        error = -errno;
        record_failed_write(handle, error);
        return error;
    }
    record_write(handle);
    return 0;
}

int outbox_truncate(struct outbox *outbox, uint64_t number, off_t size, pid_t pid)
{
    struct outbox_handle *handle;
    int error = outbox_open_item(outbox, number, O_WRONLY, pid, &handle);
    if (error != 0)
        return error;
    error = outbox_set_size(handle, size, pid);
    error = error != 0 ? error : outbox_sync_file(handle);
    outbox_release(handle);
    return error;
}

int outbox_set_times(struct outbox *outbox, uint64_t number, const struct timespec times[2])
{
    _cleanup_close_ int fd = -1;
    pthread_mutex_lock(&outbox->lock);
    struct item *item = item_table_get(&outbox->table, number);
    enum outbox_folder folder = item == NULL ? OUTBOX_FOLDER_NONE : item_folder(item);
    bool is_here = folder == OUTBOX_FOLDER_OUTBOX || folder == OUTBOX_FOLDER_ATTACHMENTS;
    if (is_here)
        item_ref(item);
    pthread_mutex_unlock(&outbox->lock);
    if (!is_here)
        return 0;

    int error = spool_open_content(outbox->spool, number, O_RDONLY, &fd);
    if (error == 0 && futimens(fd, times) != 0)
        error = -errno;
    LOCK_GUARD(&outbox->lock);
    if (error == 0)
        item_update_stat(item, fd);
    send_queue_touch(&outbox->queue, item);
    item_unref(item);
    return error == -ENOENT ? 0 : error;
}

int outbox_sync_file(struct outbox_handle *handle)
{
    if (handle == NULL || !handle->may_write)
        return 0;
    int error = sync_content(handle->outbox, handle->item, handle, handle->fd);
    return error == -ENOENT ? 0 : error; /* -ENOENT: the item was removed */
}

int outbox_flush(struct outbox_handle *handle, pid_t pid)
{
    if (handle == NULL || !handle->may_write)
        return 0;
    struct outbox *outbox = handle->outbox;
    record_writer_end(outbox, handle->item, pid);
    crash_point("flushing");
    int error = outbox_sync_file(handle);
    crash_point("flushed");
    LOCK_GUARD(&outbox->lock);
    handle->is_closed = true;
    if (handle->item->row.state == ITEM_WRITING)
        handle->item->file.closed_ms = outbox_monotonic_ms(outbox);
    return error;
}

bool outbox_is_flushed(const struct outbox_handle *handle)
{
    if (handle == NULL || !handle->may_write)
        return true;
    LOCK_GUARD(&handle->outbox->lock);
    const struct open_file *file = &handle->item->file;
    return !handle->has_written || (handle->is_closed && file->synced == file->changes);
}

static void release_writer(struct outbox_handle *handle)
{
    struct outbox *outbox = handle->outbox;
    struct item *item = handle->item;
    pthread_mutex_lock(&outbox->lock);
    bool is_unflushed = handle->has_written && !handle->is_closed;
    pthread_mutex_unlock(&outbox->lock);
    if (is_unflushed) /* the last write followed the last close(2), as through a mapping or in another task */
        record_writer_end(outbox, item, handle->opener);
    pthread_mutex_lock(&outbox->lock);
    while (item->claim == CLAIM_DISK)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    bool is_last = --item->file.writers == 0;
    if (is_last)
        send_queue_touch(&outbox->queue, item);
    bool lacks_write =
        item->row.kind == ITEM_MESSAGE && item->file.interruption[0] != '\0' && check_writable(item) == 0;
    bool is_ending = is_last && (item->row.state == ITEM_WRITING || lacks_write) &&
                     claim_take_locked(outbox, item, CLAIM_DISK) == 0;
    pthread_mutex_unlock(&outbox->lock);
    if (!is_ending)
        return;
    settle_written(outbox, item);
    claim_release(outbox, item);
}

void outbox_release(struct outbox_handle *handle)
{
    if (handle != NULL && handle->may_write)
        release_writer(handle);
    outbox_abandon(handle);
}
