/* SPDX-License-Identifier: MIT */
/*
 * Creating and opening files.
 */
#include "outbox/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "mail/receipt.h"
#include "outbox/change.h"
#include "outbox/core.h"
#include "outbox/names.h"
#include "outbox/writer.h"
#include "outbox/writer_fate.h"

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

void handle_free(struct outbox_handle *handle)
{
    if (handle == NULL)
        return;
    if (handle->fd >= 0)
        close(handle->fd);
    pthread_mutex_lock(&handle->outbox->lock);
    closing_remove_locked(handle);
    item_unref(handle->item);
    pthread_mutex_unlock(&handle->outbox->lock);
    free(handle->receipt);
    free(handle);
}

/* ---------------------------------------------------------------- create */

/* What is created: `answers` may be NULL. */
struct new_file {
    enum envelope_kind kind;
    const char *name;
    const char *answers;
};

static int prepare_new(struct outbox *outbox, const struct new_file *file, const struct item *item,
                       struct change *change)
{
    change->next.number = item->number;
    change->next.order = item->number;
    change->next.content = item->number;
    change->next.kind = file->kind;
    change->next.name = strdup(file->name);
    change->next.answers = file->answers == NULL ? NULL : strdup(file->answers);
    change_stamp(change);
    if (change->next.name == NULL || (file->answers != NULL && change->next.answers == NULL))
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
        item_update_stat(item, handle->fd);
        change_apply_locked(change, item);
        item->is_durable = false;
        item->writers = 1;
        item->opener = handle->opener;
        item_stat(item, OUTBOX_CONTENT, ret);
    }
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

static int create(struct outbox_handle *handle, const struct new_file *file, struct outbox_stat *ret)
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
    error = prepare_new(outbox, file, handle->item, &change);
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

static int create_file(struct outbox *outbox, const struct new_file *file, pid_t pid,
                       struct outbox_handle **ret_handle, struct outbox_stat *ret)
{
    struct outbox_handle *handle = handle_new(outbox, pid);
    if (handle == NULL)
        return -ENOMEM;
    handle->may_write = true;
    handle->kind = file->kind;
    int error = create(handle, file, ret);
    if (error != 0)
        handle_free(handle);
    else
        *ret_handle = handle;
    return error;
}

int outbox_create(struct outbox *outbox, enum outbox_folder folder, const char *name, pid_t pid,
                  struct outbox_handle **ret_handle, struct outbox_stat *ret)
{
    if (folder != OUTBOX_FOLDER_OUTBOX && folder != OUTBOX_FOLDER_ATTACHMENTS)
        return -EPERM;
    int error = core_check_name(folder, name);
    if (error != 0)
        return error;
    const struct new_file file = {
        .kind = folder == OUTBOX_FOLDER_OUTBOX ? ENVELOPE_MESSAGE : ENVELOPE_ATTACHMENT,
        .name = name,
    };
    return create_file(outbox, &file, pid, ret_handle, ret);
}

int outbox_create_answer(struct outbox *outbox, const char *answers, const char *name, pid_t pid,
                         struct outbox_handle **ret_handle, struct outbox_stat *ret)
{
    int error = core_check_name(OUTBOX_FOLDER_OUTBOX, name);
    if (error != 0)
        return error;
    do { /* until nobody takes the name first */
        _cleanup_free_ char *free_name = names_choose_free(outbox, OUTBOX_FOLDER_OUTBOX, name);
        const struct new_file file = {.kind = ENVELOPE_MESSAGE, .name = free_name, .answers = answers};
        error = free_name == NULL ? -ENOMEM : create_file(outbox, &file, pid, ret_handle, ret);
    } while (error == -EEXIST);
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
int handle_open_content(struct outbox_handle *handle)
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
        item->opener = handle->opener;
        handle->may_write = true;
    }
    return error;
}

static int find_item(struct outbox_handle *handle, uint64_t number)
{
    struct outbox *outbox = handle->outbox;
    pthread_mutex_lock(&outbox->lock);
    struct item *item = item_table_get(&outbox->table, number);
    if (item != NULL) {
        handle->item = item_ref(item);
        handle->kind = item->envelope.kind;
    }
    pthread_mutex_unlock(&outbox->lock);
    return item == NULL ? -ENOENT : 0;
}

/* What was closed is handed in first: nobody writes into it, or empties it, before that is done. */
static int enter_writer(struct outbox_handle *handle)
{
    struct outbox *outbox = handle->outbox;
    closing_wait_item(outbox, handle->item, NULL);
    pthread_mutex_lock(&outbox->lock);
    int error = enter_writer_locked(handle);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

/* Who reads what waits may put an edited text in its place (names.c). */
static void note_reader(struct outbox_handle *handle)
{
    struct outbox *outbox = handle->outbox;
    pthread_mutex_lock(&outbox->lock);
    bool is_waiting = item_state_is_unsettled(handle->item->state);
    pthread_mutex_unlock(&outbox->lock);
    if (!is_waiting || handle->kind != ENVELOPE_MESSAGE)
        return;
    pid_t process = writer_process(handle->opener);
    pthread_mutex_lock(&outbox->lock);
    item_add_reader(handle->item, process);
    pthread_mutex_unlock(&outbox->lock);
}

/* What is written under a name that just left begins something new. Upon -ESTALE the kernel looks the name up
 * once more, and now finds it free. */
static bool forget_ghosts(struct outbox *outbox, uint64_t number, pid_t pid)
{
    const struct item_asker asker = {.task = pid, .process = writer_process(pid)};
    pthread_mutex_lock(&outbox->lock);
    bool found = item_table_forget_ghosts(&outbox->table, number, &asker);
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
    int error = find_item(handle, number);
    if (error == 0 && wants_write)
        error = enter_writer(handle);
    if (wants_write && (error == -EACCES || error == -ENOENT) && forget_ghosts(outbox, number, pid))
        error = -ESTALE;
    if (error == 0 && !wants_write && aspect == OUTBOX_CONTENT)
        note_reader(handle);
    if (error == 0)
        error = aspect == OUTBOX_RECEIPT ? open_receipt(handle) : handle_open_content(handle);
    if (error == 0 && (flags & O_TRUNC) != 0)
        error = outbox_set_size(outbox, number, handle, 0, pid);
    if (error != 0)
        outbox_release(handle);
    else
        *ret_handle = handle;
    return error;
}
