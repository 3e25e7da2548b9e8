/* SPDX-License-Identifier: MIT */
/*
 * Creating, opening, reading, writing and closing files. A close makes what was written durable, and asks how
 * the closing process ends; the last release checks the content and hands it in.
 */
#include "outbox/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/file.h"
#include "mail/envelope.h"
#include "outbox/accept.h"
#include "outbox/removal.h"
#include "outbox/transition.h"
#include "outbox/writer_fate.h"

enum {
    RELEASE_WAIT_MS = 2 * 1000, /* from a close until its release begins */
    RENAME_WAIT_MS = 2 * 1000,  /* from a hand-in until an editor renames its text onto what it has read */
};

/* The place of a handle in the list of pending releases. */
struct pending_release {
    struct outbox_handle *next;
    struct outbox_handle *previous;
    uint64_t number; /* of the close; 0: in no list */
    int64_t closed_ms;
    bool is_releasing;
};

struct outbox_handle {
    struct outbox *outbox;
    struct item *item; /* referenced */
    enum envelope_kind kind;
    bool may_write;
    int fd; /* -1: a receipt */
    char *receipt;
    size_t receipt_len;
    pid_t opener;
    pid_t session;            /* of the opener */
    unsigned int open_number; /* of the item's opens for writing, from 1 */
    pid_t last_task; /* protected by outbox->lock, like all below: who wrote last, to ask /proc seldom */
    struct pending_release release; /* closed since the last write, and not yet released */
    bool has_written;
};

/* ================================================================ pending releases */

static struct pending_releases *list_of(const struct outbox_handle *handle)
{
    return &handle->outbox->pending_releases[handle->kind];
}

/* The file was written to again, or is released. */
static void release_remove_locked(struct outbox_handle *handle)
{
    struct pending_release *release = &handle->release;
    struct pending_releases *list = list_of(handle);
    if (release->number == 0)
        return;
    *(release->previous == NULL ? &list->first : &release->previous->release.next) = release->next;
    *(release->next == NULL ? &list->last : &release->next->release.previous) = release->previous;
    *release = (struct pending_release){.number = 0};
    outbox_broadcast_locked(handle->outbox);
}

/* A close(2). A handle that was closed before goes to the end of the list. */
static void release_add_locked(struct outbox_handle *handle)
{
    struct pending_releases *list = list_of(handle);
    release_remove_locked(handle);
    handle->release = (struct pending_release){
        .previous = list->last,
        .number = ++list->count,
        .closed_ms = outbox_monotonic_ms(handle->outbox),
    };
    *(list->last == NULL ? &list->first : &list->last->release.next) = handle;
    list->last = handle;
}

/* The release has begun: others wait for it, however long the disk takes. */
static void release_begin_locked(struct outbox_handle *handle)
{
    if (handle->release.number != 0)
        handle->release.is_releasing = true;
}

/* Until when to wait for the handles that were closed up to `number`; 0: none of them is to be waited for. */
static int64_t find_until_locked(const struct pending_releases *list, uint64_t number,
                                 const struct item *item, int64_t now_ms)
{
    int64_t until_ms = 0;
    for (const struct outbox_handle *handle = list->first; handle != NULL; handle = handle->release.next) {
        const struct pending_release *release = &handle->release;
        int64_t given_up_ms = release->is_releasing ? CLOCK_FOREVER : release->closed_ms + RELEASE_WAIT_MS;
        if (release->number > number)
            break;
        if ((item == NULL || handle->item == item) && given_up_ms > now_ms && given_up_ms > until_ms)
            until_ms = given_up_ms;
    }
    return until_ms;
}

static int wait_for(struct outbox *outbox, enum envelope_kind kind, const struct item *item,
                    struct cancel *cancel)
{
    const struct pending_releases *list = &outbox->pending_releases[kind];
    int64_t until_ms;
    int error = 0;
    pthread_mutex_lock(&outbox->lock);
    uint64_t number = list->count;
    while (error != -EINTR && !outbox->is_stopping &&
           (until_ms = find_until_locked(list, number, item, outbox_monotonic_ms(outbox))) != 0)
        error = wait_until(outbox->config.clock, &outbox->changed, &outbox->lock, until_ms, cancel);
    pthread_mutex_unlock(&outbox->lock);
    return error == -EINTR ? error : 0;
}

int release_wait(struct outbox *outbox, enum envelope_kind kind, struct cancel *cancel)
{
    return wait_for(outbox, kind, NULL, cancel);
}

/* The same for the handles of this item alone. */
static int release_wait_item(struct outbox *outbox, const struct item *item, struct cancel *cancel)
{
    pthread_mutex_lock(&outbox->lock);
    enum envelope_kind kind = item->envelope.kind;
    pthread_mutex_unlock(&outbox->lock);
    return wait_for(outbox, kind, item, cancel);
}

int release_wait_before_change(struct outbox *outbox, const struct item *item, struct cancel *cancel)
{
    int error = release_wait_item(outbox, item, cancel);
    pthread_mutex_lock(&outbox->lock);
    bool is_attachment = item->envelope.kind == ENVELOPE_ATTACHMENT;
    pthread_mutex_unlock(&outbox->lock);
    return error == 0 && is_attachment ? release_wait(outbox, ENVELOPE_MESSAGE, cancel) : error;
}

/* ================================================================ writing */

#define WORDS_KILLED "interrupted: a program that had the file open was killed"
#define WORDS_HIDDEN "interrupted: the program ended, and whether well cannot be seen"
#define WORDS_WRITER_FAILED "interrupted: the program that wrote the file ended with an error"
#define WORDS_LAST_FAILED "interrupted: the last program that had the file open ended with an error"
#define WORDS_TWO_WRITERS "interrupted: two programs wrote to the file at the same time"

/* Whether an item in this state may be opened for writing: 0, -EBUSY (handed in), -EACCES (settled), -ENOENT.
 * The lock is held. */
static int writer_may_open_locked(const struct item *item)
{
    switch (item->state) {
    case ITEM_WRITING:
    case ITEM_ON_HOLD:
    case ITEM_UPLOADING:
    case ITEM_UPLOADED:
        return 0;
    case ITEM_QUEUED:
    case ITEM_SENDING:
        return -EBUSY;
    case ITEM_GONE:
    case ITEM_DRAFTED:
        return -ENOENT;
    default:
        return -EACCES;
    }
}

/* ---------------------------------------------------------------- beginning */

static void reset_writing_locked(struct item *item)
{
    item->interruption[0] = '\0';
    item->last_end = NULL;
    item->is_unseen = false;
}

static int begin_claimed(struct outbox *outbox, struct item *item)
{
    _cleanup_transition_ struct transition transition = {.outbox = NULL};
    int error = transition_begin(outbox, item, ITEM_WRITING, &transition);
    if (error != 0)
        return error;
    envelope_clear_outcome(&transition.next);
    error = transition_commit(&transition, item);
    crash_point("begun_again");
    return error;
}

/* Messages that were closed before bind the content as it is. */
static void wait_for_messages(struct outbox *outbox, const struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    bool can_be_bound = item->state == ITEM_UPLOADING || item->state == ITEM_UPLOADED;
    pthread_mutex_unlock(&outbox->lock);
    if (can_be_bound)
        release_wait(outbox, ENVELOPE_MESSAGE, NULL);
}

/* Before the first change of content that is closed (on hold, or an attachment that was handed in): from now
 * on it is being written, durably. `keep_bytes` of it stay. Waits for the disk. 0, or of
 * writer_may_open_locked(), or of the disk. */
static int writer_begin(struct outbox *outbox, struct item *item, off_t keep_bytes)
{
    wait_for_messages(outbox, item);
    pthread_mutex_lock(&outbox->lock);
    int error = item->state == ITEM_WRITING ? -EALREADY : writer_may_open_locked(item);
    if (error == 0)
        error = claim_take_locked(outbox, item, CLAIM_DISK);
    if (error == 0 && (item->state == ITEM_WRITING || writer_may_open_locked(item) != 0)) {
        error = item->state == ITEM_WRITING ? -EALREADY : writer_may_open_locked(item);
        claim_release_locked(outbox, item);
    }
    pthread_mutex_unlock(&outbox->lock);
    if (error != 0)
        return error == -EALREADY ? 0 : error;

    /* A text that was interrupted does not become whole by appending to it. */
    const char *interrupted = item->state == ITEM_ON_HOLD && keep_bytes > 0 ? item->envelope.error : NULL;
    char interruption[sizeof(item->interruption)];
    snprintf(interruption, sizeof(interruption), "%s", interrupted == NULL ? "" : interrupted);
    error = begin_claimed(outbox, item);
    pthread_mutex_lock(&outbox->lock);
    if (error == 0) {
        reset_writing_locked(item);
        item_interrupt(item, interruption);
        /* Not at the hand-in: who wrote the file may use its former name when it is sent. */
        item->wrote_len = 0;
        item->first_open = 0;
        item_forget_readers(item); /* what they have read is another text */
    }
    claim_release_locked(outbox, item);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

/* ---------------------------------------------------------------- closing */

/* Makes what was written durable. Waits for the disk. */
static int writer_sync(struct outbox *outbox, struct item *item, int data_fd)
{
    pthread_mutex_lock(&outbox->lock);
    bool is_gone = item->state == ITEM_GONE;
    bool is_durable = item->is_durable;
    uint64_t changes = item->changes;
    bool is_synced = is_durable && item->synced >= changes;
    pthread_mutex_unlock(&outbox->lock);
    if (is_gone || is_synced)
        return 0;

    int error = is_durable ? file_sync(data_fd) : spool_sync_new(outbox->spool, item->number, data_fd);
    pthread_mutex_lock(&outbox->lock);
    if (error == 0) {
        item->is_durable = true;
        if (item->synced < changes)
            item->synced = changes;
    } else {
        item_interrupt(item, "interrupted: the file could not be made durable");
    }
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

static const char *words_for_end(enum writer_fate fate, bool has_written)
{
    if (fate == WRITER_KILLED)
        return WORDS_KILLED;
    if (fate == WRITER_HIDDEN)
        return WORDS_HIDDEN;
    return has_written ? WORDS_WRITER_FAILED : WORDS_LAST_FAILED;
}

/* Finds out how the task that closes the file ends. One that is killed interrupts the item. One that fails
 * does so where its process wrote to it, or where nobody closes the file after it: the last call says how the
 * last holder ended. */
static void writer_judge(struct outbox *outbox, struct item *item, pid_t pid)
{
    enum writer_fate fate = writer_fate_read(pid);
    bool is_well = fate == WRITER_LIVES || fate == WRITER_UNSEEN || fate == WRITER_SUCCEEDED;
    pid_t process = is_well ? 0 : writer_process(pid);
    pthread_mutex_lock(&outbox->lock);
    if (item->state == ITEM_WRITING) {
        item->is_unseen = item->is_unseen || fate == WRITER_UNSEEN;
        bool has_written = item_was_written_by(item, process);
        item->last_end = is_well ? NULL : words_for_end(fate, has_written);
        /* An exit status counts for the process that wrote: where Ctrl-C ends a program that inherited the
         * file, the shell that writes goes on. Where nothing can be seen of a process, the worst is
         * assumed. */
        if (fate == WRITER_KILLED || fate == WRITER_HIDDEN || (fate == WRITER_EXITED && has_written))
            item_interrupt(item, item->last_end);
    }
    pthread_mutex_unlock(&outbox->lock);
}

/* ---------------------------------------------------------------- the last close */

static int try_hand_in(struct outbox *outbox, struct item *item, char **ret_reason)
{
    _cleanup_acceptance_ struct acceptance acceptance = {.memory = NULL};
    int error =
        accept_prepare(outbox, item, item->envelope.kind, item->envelope.name, &acceptance, ret_reason);
    crash_point("checked");
    if (error == 0)
        error = transition_commit(&acceptance.transition, item);
    crash_point("accepted");
    if (error == 0)
        accept_done(&acceptance);
    return error;
}

/* An editor has read a message, writes the new text beside it, and renames that onto the message. The new
 * text is not sent before it could do so: else both would go out. */
static void give_time_to_rename(struct outbox *outbox, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    const struct item_asker *found =
        item->state == ITEM_QUEUED ? item_table_find_reader(&outbox->table, item, outbox_monotonic_ms(outbox))
                                   : NULL;
    const struct item_asker reader = found == NULL ? (struct item_asker){.process = 0} : *found;
    pthread_mutex_unlock(&outbox->lock);
    if (reader.process == 0 || reader.started == 0 || writer_started(reader.process) != reader.started)
        return;
    pthread_mutex_lock(&outbox->lock);
    item->edit_until_ms = outbox_monotonic_ms(outbox) + RENAME_WAIT_MS;
    pthread_mutex_unlock(&outbox->lock);
}

/* It is handed in all the same: else nothing could be written from another container than the daemon's. */
static void publish_unseen_end(struct outbox *outbox, const struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    bool is_unseen = item->is_unseen && item_folder(item) != OUTBOX_FOLDER_NONE;
    enum outbox_folder folder = item_folder(item);
    _cleanup_free_ char *name = is_unseen ? strdup(item->envelope.name) : NULL;
    pthread_mutex_unlock(&outbox->lock);
    if (name != NULL)
        outbox_notify(outbox, EVENT_UNSEEN, folder, name, NULL,
                      "handed in, but how the program that wrote it ended is not seen (it is in another pid "
                      "namespace, or hidden in /proc): if it may have failed, rm this while it waits; to be "
                      "sure, write to drafts/ and mv");
}

/* The last release: hands in what was written, puts it on hold, or moves it into failed/. The item is
 * claimed and in ITEM_WRITING. Waits for the disk. */
static void writer_finish(struct outbox *outbox, struct item *item)
{
    _cleanup_free_ char *reason = NULL;
    _cleanup_close_ int fd = -1;
    pthread_mutex_lock(&outbox->lock);
    if (item->last_end != NULL)
        item_interrupt(item, item->last_end);
    pthread_mutex_unlock(&outbox->lock);
    int error =
        item->interruption[0] != '\0' ? 0 : spool_open_data(outbox->spool, item->number, O_RDONLY, &fd);
    if (error == 0 && fd >= 0)
        error = writer_sync(outbox, item, fd);
    if (item->interruption[0] != '\0') {
        settle_interrupted(outbox, item, item->interruption);
    } else {
        error = error != 0 ? error : try_hand_in(outbox, item, &reason);
        if (error == 0) {
            publish_unseen_end(outbox, item);
            give_time_to_rename(outbox, item);
        } else {
            settle_into_failed(outbox, item, ITEM_FAILED, 0, reason != NULL ? reason : strerror(-error));
        }
    }
    pthread_mutex_lock(&outbox->lock);
    if (item->state != ITEM_WRITING) /* else there was no memory to record what became of it */
        reset_writing_locked(item);
    pthread_mutex_unlock(&outbox->lock);
}

/* ================================================================ creating and opening */

static struct outbox_handle *new_handle(struct outbox *outbox, pid_t pid)
{
    struct outbox_handle *handle = calloc(1, sizeof(*handle));
    if (handle == NULL)
        return NULL;
    handle->outbox = outbox;
    handle->fd = -1;
    handle->opener = pid;
    handle->session = writer_session(pid);
    return handle;
}

/* The handle no longer counts as the item's writer. NULL-safe. */
static void free_handle(struct outbox_handle *handle)
{
    if (handle == NULL)
        return;
    if (handle->fd >= 0)
        close(handle->fd);
    pthread_mutex_lock(&handle->outbox->lock);
    release_remove_locked(handle);
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
                       struct transition *transition)
{
    transition->next.number = item->number;
    transition->next.order = item->number;
    transition->next.content = item->number;
    transition->next.kind = file->kind;
    transition->next.name = strdup(file->name);
    transition->next.answers = file->answers == NULL ? NULL : strdup(file->answers);
    transition_stamp(transition);
    if (transition->next.name == NULL || (file->answers != NULL && transition->next.answers == NULL))
        return -ENOMEM;
    pthread_mutex_lock(&outbox->lock);
    int error = transition_reserve_locked(transition, item);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

static int create_files(struct outbox *outbox, const struct transition *transition, const struct item *item,
                        int *ret_fd)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    int error = envelope_format(&transition->next, &text);
    return error != 0 ? error : spool_create(outbox->spool, item->number, text.data, text.len, ret_fd);
}

static int add_new(struct outbox_handle *handle, struct transition *transition, struct outbox_stat *ret)
{
    struct outbox *outbox = handle->outbox;
    struct item *item = handle->item;
    pthread_mutex_lock(&outbox->lock);
    int error = transition_add_locked(transition, item);
    if (error == 0) {
        item_update_stat(item, handle->fd);
        item->is_durable = false;
        item->writers = 1;
        handle->open_number = ++item->opens;
        item->opener = handle->opener;
        item->session = handle->session;
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
    _cleanup_transition_ struct transition transition = {
        .outbox = outbox, .state = ITEM_WRITING, .reserved_folder = OUTBOX_FOLDER_NONE};
    error = prepare_new(outbox, file, handle->item, &transition);
    if (error == 0)
        error = create_files(outbox, &transition, handle->item, &handle->fd);
    crash_point("created");
    if (error != 0)
        return error;
    error = add_new(handle, &transition, ret);
    if (error != 0)
        spool_remove(outbox->spool, number);
    return error;
}

static int create_file(struct outbox *outbox, const struct new_file *file, pid_t pid,
                       struct outbox_handle **ret_handle, struct outbox_stat *ret)
{
    struct outbox_handle *handle = new_handle(outbox, pid);
    if (handle == NULL)
        return -ENOMEM;
    handle->may_write = true;
    handle->kind = file->kind;
    int error = create(handle, file, ret);
    if (error != 0)
        free_handle(handle);
    else
        *ret_handle = handle;
    return error;
}

int outbox_create(struct outbox *outbox, enum outbox_folder folder, const char *name, pid_t pid,
                  struct outbox_handle **ret_handle, struct outbox_stat *ret)
{
    if (folder != OUTBOX_FOLDER_OUTBOX && folder != OUTBOX_FOLDER_ATTACHMENTS)
        return -EPERM;
    int error = item_check_name(folder, name);
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
    int error = item_check_name(OUTBOX_FOLDER_OUTBOX, name);
    if (error != 0)
        return error;
    do { /* until no other thread takes the name first */
        _cleanup_free_ char *free_name = outbox_choose_name(outbox, name);
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
    bool is_unsaved = handle->item->is_unsaved; /* then memory is newer than the disk, and complete */
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

/* Waits while another thread hands the item in. From here on the handle counts as a writer, so that nobody
 * hands the item in meanwhile. -EALREADY: messages have bound the item as it is. */
static int enter_writer_locked(struct outbox_handle *handle)
{
    struct item *item = handle->item;
    while (item->claim == CLAIM_DISK)
        pthread_cond_wait(&handle->outbox->changed, &handle->outbox->lock);
    int error = writer_may_open_locked(item);
    if (error != 0)
        return error;
    if (item->envelope.is_hidden)
        return -ESTALE;
    if (item->users > 0 && item->state != ITEM_WRITING)
        return -EALREADY;
    item->writers++;
    handle->open_number = ++item->opens;
    item->is_awaited = false;
    item->opener = handle->opener;
    item->session = handle->session;
    handle->may_write = true;
    return 0;
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

/* Messages keep the item, and a copy takes its name, unless another thread did that already. */
static int leave_name(struct outbox *outbox, struct item *item)
{
    pthread_mutex_lock(&outbox->lock);
    int error = claim_take_locked(outbox, item, CLAIM_DISK);
    if (error == 0 && (error = writer_may_open_locked(item)) != 0) /* its upload was refused meanwhile */
        claim_release_locked(outbox, item);
    bool is_bound = !item->envelope.is_hidden && item->users > 0 && item->state != ITEM_WRITING;
    pthread_mutex_unlock(&outbox->lock);
    if (error != 0)
        return error;
    error = is_bound ? binding_leave_name(outbox, item) : -ESTALE;
    claim_release(outbox, item);
    removal_collect(outbox);
    return error;
}

/* Waits until what was closed before is handed in, so that nobody writes to it before. -ESTALE: another
 * item has the name now. */
static int enter_writer(struct outbox_handle *handle)
{
    struct outbox *outbox = handle->outbox;
    release_wait_item(outbox, handle->item, NULL);
    pthread_mutex_lock(&outbox->lock);
    int error = enter_writer_locked(handle);
    pthread_mutex_unlock(&outbox->lock);
    return error == -EALREADY ? leave_name(outbox, handle->item) : error;
}

/* A process that reads a waiting message, be it through a file that it opened for writing, too, may replace
 * it by an edited text (rename.c). One that was closed and whose release has not come yet counts as well;
 * what is written after that is another text, and forgets who read this one. One that left outbox/ a moment
 * ago counts, too: the process may have looked its name up before. */
static void remember_reader(struct outbox_handle *handle)
{
    struct outbox *outbox = handle->outbox;
    pthread_mutex_lock(&outbox->lock);
    bool may_be_edited = item_state_is_unsettled(handle->item->state) ||
                         handle->item->state == ITEM_WRITING ||
                         item_table_has_left(&outbox->table, handle->item->number);
    pthread_mutex_unlock(&outbox->lock);
    if (!may_be_edited || handle->kind != ENVELOPE_MESSAGE)
        return;
    pid_t process = writer_process(handle->opener);
    const struct item_asker reader = {
        .task = handle->opener, .process = process, .started = writer_started(process)};
    pthread_mutex_lock(&outbox->lock);
    item_add_reader(handle->item, &reader);
    outbox->table.was_read = true;
    pthread_mutex_unlock(&outbox->lock);
}

/* Who opens a former name for writing begins a new file. Upon -ESTALE the kernel makes one more LOOKUP,
 * which now finds the name free. */
static bool forget_former_names(struct outbox *outbox, uint64_t number, pid_t pid)
{
    const struct item_asker asker = {.task = pid, .process = writer_process(pid)};
    pthread_mutex_lock(&outbox->lock);
    bool found = item_table_forget_former_names(&outbox->table, number, &asker);
    pthread_mutex_unlock(&outbox->lock);
    return found;
}

/* Else it was removed or replaced since its name was looked up. Another item may have the name, or it is free
 * to be created: so the kernel is to look it up once more. */
static bool is_shown(struct outbox *outbox, uint64_t number)
{
    pthread_mutex_lock(&outbox->lock);
    const struct item *item = item_table_get(&outbox->table, number);
    bool is_shown = item != NULL && item_folder(item) != OUTBOX_FOLDER_NONE;
    pthread_mutex_unlock(&outbox->lock);
    return is_shown;
}

/* Programs show the errno alone. Of what is on hold, or out by now, nothing is told. */
static void tell_it_waits(const struct outbox_handle *handle)
{
    pthread_mutex_lock(&handle->outbox->lock);
    const struct item *item = handle->item;
    bool waits = item_state_is_unsettled(item->state) && item_folder(item) == OUTBOX_FOLDER_OUTBOX;
    _cleanup_free_ char *name = waits ? strdup(item->envelope.name) : NULL;
    pthread_mutex_unlock(&handle->outbox->lock);
    if (name == NULL)
        return;
    outbox_notify(handle->outbox, EVENT_REFUSED, OUTBOX_FOLDER_OUTBOX, name, NULL,
                  "it waits to be sent, or is being sent, and cannot be written to; while it waits, mv it to "
                  "drafts/ to change it");
}

/* Programs open what they have written once more, and write nothing: to set its times through the descriptor,
 * as Node's fs-extra, or to look at them, as Emacs. They must not be told of a failure where the message goes
 * out all the same. So who made the message may open it; a write gets EBUSY. When it is out, who opens it for
 * writing alone begins another message. */
static bool may_touch(const struct outbox_handle *handle, int flags)
{
    struct outbox *outbox = handle->outbox;
    const struct item *item = handle->item;
    if (item == NULL || handle->kind != ENVELOPE_MESSAGE || (flags & (O_TRUNC | O_APPEND)) != 0)
        return false;
    const struct item_asker asker = {.task = handle->opener, .process = writer_process(handle->opener)};
    pthread_mutex_lock(&outbox->lock);
    bool is_known = item_folder(item) == OUTBOX_FOLDER_OUTBOX ||
                    ((flags & O_ACCMODE) == O_RDWR && item_table_has_left(&outbox->table, item->number));
    bool may_touch = is_known && item_was_made_by(item, &asker);
    pthread_mutex_unlock(&outbox->lock);
    return may_touch;
}

int outbox_open_item(struct outbox *outbox, uint64_t number, enum outbox_aspect aspect, int flags, pid_t pid,
                     struct outbox_handle **ret_handle)
{
    bool wants_write = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
    if (aspect == OUTBOX_RECEIPT && wants_write)
        return -EACCES;
    struct outbox_handle *handle = new_handle(outbox, pid);
    if (handle == NULL)
        return -ENOMEM;
    int error = find_item(handle, number);
    if (error == 0 && wants_write)
        error = enter_writer(handle);
    if ((error == -EBUSY || error == -EACCES) && may_touch(handle, flags))
        error = 0;
    if (wants_write && error == -EBUSY)
        tell_it_waits(handle);
    if (wants_write && (error == -EACCES || error == -ENOENT) && forget_former_names(outbox, number, pid))
        error = -ESTALE;
    if (error == 0 && !handle->may_write && (flags & O_ACCMODE) != O_WRONLY && aspect == OUTBOX_CONTENT)
        remember_reader(handle);
    if (error == 0 && aspect == OUTBOX_RECEIPT)
        error = open_receipt(handle);
    else if (error == 0)
        error = spool_open_data(outbox->spool, number, handle->may_write ? O_RDWR : O_RDONLY, &handle->fd);
    if (error == 0 && (flags & O_TRUNC) != 0)
        error = outbox_set_size(outbox, number, handle, 0, pid);
    if (error != 0)
        outbox_release(handle);
    else
        *ret_handle = handle;
    return error == -ENOENT && !is_shown(outbox, number) ? -ESTALE : error;
}

/* ================================================================ reading, writing and closing */

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
    size_t max = accept_max_bytes(handle->kind);
    if (offset < 0)
        return -EINVAL;
    return (uint64_t)offset > max || len > max - (uint64_t)offset ? -EFBIG : 0;
}

/* Before each change of the content. An item that was unlinked while it was open can still be written to,
 * and is never sent. */
static int begin_writing(struct outbox_handle *handle, off_t keep_bytes)
{
    if (handle->fd < 0)
        return -EBADF;
    if (!handle->may_write) { /* may_touch() */
        tell_it_waits(handle);
        return -EBUSY;
    }
    int error = writer_begin(handle->outbox, handle->item, keep_bytes);
    pthread_mutex_lock(&handle->outbox->lock);
    bool is_gone = handle->item->state == ITEM_GONE;
    pthread_mutex_unlock(&handle->outbox->lock);
    return is_gone ? 0 : error;
}

/* Each program that opens the file writes a text of its own: those of two are mixed. What is opened once may
 * be written by many, as by the programs in a shell's redirection, and one program may open it twice. */
static void find_second_writer_locked(const struct outbox_handle *handle, pid_t opener, pid_t process)
{
    struct item *item = handle->item;
    if (item->first_open == 0) {
        item->first_open = handle->open_number;
        item->first_opener = opener;
    } else if (item->first_open != handle->open_number && item->first_opener != opener &&
               handle->kind == ENVELOPE_MESSAGE && !item_is_known_writer(item, process)) {
        item_interrupt(item, WORDS_TWO_WRITERS);
    }
}

/* For pages of a mapping the kernel names no task (0). */
static void remember_writer(struct outbox_handle *handle, pid_t pid)
{
    struct outbox *outbox = handle->outbox;
    pthread_mutex_lock(&outbox->lock);
    bool is_known = pid > 0 && pid == handle->last_task;
    pthread_mutex_unlock(&outbox->lock);
    if (is_known)
        return;
    pid_t process = writer_process(pid);
    pid_t opener = handle->opener == pid ? process : writer_process(handle->opener);
    pthread_mutex_lock(&outbox->lock);
    find_second_writer_locked(handle, opener, process);
    item_add_writer(handle->item, process);
    handle->last_task = pid;
    pthread_mutex_unlock(&outbox->lock);
}

/* Who cuts off what another program wrote, as by O_TRUNC, is a second writer. */
static void find_second_cutter(const struct outbox_handle *handle, pid_t pid)
{
    struct outbox *outbox = handle->outbox;
    pthread_mutex_lock(&outbox->lock);
    bool was_written = handle->item->first_open != 0 && handle->item->size > 0;
    pthread_mutex_unlock(&outbox->lock);
    if (!was_written)
        return;
    pid_t process = writer_process(pid);
    pid_t opener = handle->opener == pid ? process : writer_process(handle->opener);
    pthread_mutex_lock(&outbox->lock);
    find_second_writer_locked(handle, opener, process);
    pthread_mutex_unlock(&outbox->lock);
}

static void record_write(struct outbox_handle *handle)
{
    pthread_mutex_lock(&handle->outbox->lock);
    release_remove_locked(handle);
    handle->has_written = true;
    handle->item->changes++;
    item_forget_readers(handle->item);
    item_update_stat(handle->item, handle->fd);
    pthread_mutex_unlock(&handle->outbox->lock);
}

static void record_failed_write(struct outbox_handle *handle, int error)
{
    char words[160];
    if (error == -EFBIG)
        snprintf(words, sizeof(words), "interrupted: the file became larger than %zu bytes",
                 accept_max_bytes(handle->kind));
    else
        snprintf(words, sizeof(words), "interrupted: a write to the file failed: %s", strerror(-error));
    pthread_mutex_lock(&handle->outbox->lock);
    item_interrupt(handle->item, words);
    pthread_mutex_unlock(&handle->outbox->lock);
}

/* Starts writing out each block that the write has completed. So most of a big file is on the disk when it
 * is closed, and FLUSH has little to wait for. */
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
    remember_writer(handle, pid);
    record_write(handle);
    if (error == 0)
        return (ssize_t)len;
    record_failed_write(handle, error);
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
        record_write(handle);
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
    find_second_cutter(handle, pid);
    if (ftruncate(handle->fd, size) != 0) {
        error = -errno;
        record_failed_write(handle, error);
        return error;
    }
    /* O_TRUNC does not make the caller a writer: a shell truncates for the program that it starts, and
     * nothing can be half written yet. */
    record_write(handle);
    return 0;
}

int outbox_set_times(struct outbox *outbox, uint64_t number, const struct timespec times[2])
{
    _cleanup_close_ int fd = -1;
    pthread_mutex_lock(&outbox->lock);
    struct item *item = item_table_get(&outbox->table, number);
    enum outbox_folder folder = item == NULL ? OUTBOX_FOLDER_NONE : item_folder(item);
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
        release_add_locked(handle);
    pthread_mutex_unlock(&handle->outbox->lock);
    return error;
}

bool outbox_is_flushed(const struct outbox_handle *handle)
{
    pthread_mutex_lock(&handle->outbox->lock);
    bool is_synced = handle->release.number != 0 && handle->item->synced == handle->item->changes;
    bool is_flushed = !handle->may_write || !handle->has_written || is_synced;
    pthread_mutex_unlock(&handle->outbox->lock);
    return is_flushed;
}

/* Whether this was the last writer of an item in ITEM_WRITING. Then the item is claimed. A rename may be
 * about to say that the item is being written again, because it has a writer: until it is done, this one
 * stays. */
static bool leave_writer_locked(struct outbox_handle *handle)
{
    struct item *item = handle->item;
    while (item->claim == CLAIM_DISK)
        pthread_cond_wait(&handle->outbox->changed, &handle->outbox->lock);
    item->writers--;
    binding_check_locked(handle->outbox, item);
    if (item->writers > 0 || item->state != ITEM_WRITING)
        return false;
    if (claim_take_locked(handle->outbox, item, CLAIM_DISK) != 0)
        return false;
    if (item->writers == 0 && item->state == ITEM_WRITING)
        return true;
    claim_release_locked(handle->outbox, item);
    return false;
}

static void release_writer(struct outbox_handle *handle)
{
    struct outbox *outbox = handle->outbox;
    pthread_mutex_lock(&outbox->lock);
    bool is_unflushed = handle->has_written && handle->release.number == 0;
    release_begin_locked(handle);
    pthread_mutex_unlock(&outbox->lock);
    if (is_unflushed) /* its last write came after its last close(2), as through a mapping, or in another task
                       */
        writer_judge(outbox, handle->item, handle->opener);

    pthread_mutex_lock(&outbox->lock);
    bool is_last = leave_writer_locked(handle);
    pthread_mutex_unlock(&outbox->lock);
    if (is_last)
        writer_finish(outbox, handle->item);
    pthread_mutex_lock(&outbox->lock);
    release_remove_locked(handle);
    if (is_last)
        claim_release_locked(outbox, handle->item);
    pthread_mutex_unlock(&outbox->lock);
    removal_collect(outbox);
}

void outbox_release(struct outbox_handle *handle)
{
    if (handle->may_write)
        release_writer(handle);
    free_handle(handle);
}

void outbox_abandon(struct outbox_handle *handle)
{
    free_handle(handle);
}
