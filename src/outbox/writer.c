/* SPDX-License-Identifier: MIT */
/*
 * Writing, from the first byte to the last close.
 */
#include "outbox/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/file.h"
#include "base/log.h"
#include "mail/file_name.h"
#include "mail/reason.h"
#include "outbox/change.h"
#include "outbox/core.h"
#include "outbox/hand_in.h"
#include "outbox/settle.h"
#include "outbox/writer_fate.h"

#define WORDS_KILLED "interrupted: a program that had the file open was killed"
#define WORDS_HIDDEN "interrupted: the program ended, and whether well cannot be seen"
#define WORDS_WRITER_FAILED "interrupted: the program that wrote the file ended with an error"
#define WORDS_LAST_FAILED "interrupted: the last program that had the file open ended with an error"

int writer_may_open_locked(const struct item *item)
{
    switch (item->state) {
    case ITEM_WRITING:
    case ITEM_HELD:
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
    free(item->interruption);
    item->interruption = NULL;
    item->last_end = NULL;
}

static int begin_claimed(struct outbox *outbox, struct item *item, off_t keep_bytes)
{
    _cleanup_change_ struct change change = {.outbox = NULL};
    uint64_t content;
    bool is_bound = binding_is_needed(outbox, item);
    int error = spool_take_number(outbox->spool, &content);
    error = error != 0 ? error : change_begin(outbox, item, ITEM_WRITING, &change);
    if (error != 0)
        return error;
    envelope_clear_outcome(&change.next);
    change.next.content = content;
    error = is_bound ? binding_split(outbox, item, keep_bytes, &change) : change_commit(&change, item);
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
        closing_wait(outbox, ENVELOPE_MESSAGE, NULL);
}

int writer_begin(struct outbox *outbox, struct item *item, off_t keep_bytes)
{
    wait_for_messages(outbox, item);
    pthread_mutex_lock(&outbox->lock);
    int error = item->state == ITEM_WRITING ? -EALREADY : writer_may_open_locked(item);
    if (error == 0)
        error = core_claim_locked(outbox, item, CLAIM_DISK);
    if (error == 0 && (item->state == ITEM_WRITING || writer_may_open_locked(item) != 0)) {
        error = item->state == ITEM_WRITING ? -EALREADY : writer_may_open_locked(item);
        core_unclaim_locked(outbox, item);
    }
    pthread_mutex_unlock(&outbox->lock);
    if (error != 0)
        return error == -EALREADY ? 0 : error;

    /* What was interrupted is not whole because somebody adds to it. */
    const char *interrupted = item->state == ITEM_HELD && keep_bytes > 0 ? item->envelope.error : NULL;
    _cleanup_free_ char *interruption = interrupted == NULL ? NULL : strdup(interrupted);
    error = interrupted != NULL && interruption == NULL ? -ENOMEM : begin_claimed(outbox, item, keep_bytes);
    pthread_mutex_lock(&outbox->lock);
    if (error == 0) {
        reset_writing_locked(item);
        item->interruption = TAKE_PTR(interruption);
        item->wrote_len = 0; /* not before: to who wrote it, its name goes on answering when it is out */
    }
    core_unclaim_locked(outbox, item);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

/* ---------------------------------------------------------------- closing */

int writer_sync(struct outbox *outbox, struct item *item, int data_fd)
{
    pthread_mutex_lock(&outbox->lock);
    bool is_gone = item->state == ITEM_GONE;
    bool is_durable = item->is_durable;
    bool is_dirty = item->is_dirty;
    item->is_dirty = false;
    pthread_mutex_unlock(&outbox->lock);
    if (is_gone || (is_durable && !is_dirty))
        return 0;

    int error = is_durable ? file_sync(data_fd) : spool_sync_new(outbox->spool, item->number, data_fd);
    pthread_mutex_lock(&outbox->lock);
    if (error == 0) {
        item->is_durable = true;
    } else {
        item->is_dirty = true;
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

void writer_judge(struct outbox *outbox, struct item *item, pid_t pid)
{
    enum writer_fate fate = writer_fate_read(pid);
    bool is_well = fate == WRITER_LIVES || fate == WRITER_SUCCEEDED;
    pid_t process = is_well ? 0 : writer_process(pid);
    pthread_mutex_lock(&outbox->lock);
    if (item->state == ITEM_WRITING) {
        bool has_written = item_was_written_by(item, process);
        item->last_end = is_well ? NULL : words_for_end(fate, has_written);
        /* Ctrl-C ends what a shell waits for, not the shell that writes. Of whom nothing can be seen, the
         * worst is assumed. */
        if (fate == WRITER_KILLED || fate == WRITER_HIDDEN || (fate == WRITER_EXITED && has_written))
            item_interrupt(item, item->last_end);
    }
    pthread_mutex_unlock(&outbox->lock);
}

/* ---------------------------------------------------------------- the last close */

/* Attachments are checked by their size alone; what is held, not at all. */
static int read_content(struct outbox *outbox, const struct item *item, char **ret_bytes, size_t *ret_len)
{
    const struct envelope *envelope = &item->envelope;
    *ret_len = (size_t)item->size;
    if (envelope->kind == ENVELOPE_ATTACHMENT || item->size == 0 ||
        core_is_never_sent(envelope->kind, envelope->name))
        return 0;
    return spool_read_data(outbox->spool, item->number, hand_in_max_bytes(envelope->kind), ret_bytes,
                           ret_len);
}

static int try_hand_in(struct outbox *outbox, struct item *item, char **ret_reason)
{
    _cleanup_hand_in_ struct hand_in hand_in = {.memory = NULL};
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    int error = read_content(outbox, item, &bytes, &len);
    if (error == 0)
        error = hand_in_begin(outbox, item, item->envelope.kind, item->envelope.name, &hand_in);
    if (error == 0)
        error = hand_in_check(&hand_in, bytes, len, ret_reason);
    crash_point("checked");
    hand_in.change.is_own_doing = true; /* RELEASE is no call that anyone waits for: a receipt may appear */
    if (error == 0)
        error = change_commit(&hand_in.change, item);
    crash_point("accepted");
    if (error == 0)
        hand_in_done(&hand_in);
    return error;
}

void writer_finish(struct outbox *outbox, struct item *item)
{
    _cleanup_free_ char *reason = NULL;
    _cleanup_close_ int fd = -1;
    pthread_mutex_lock(&outbox->lock);
    if (item->last_end != NULL)
        item_interrupt(item, item->last_end);
    pthread_mutex_unlock(&outbox->lock);
    int error = item->interruption != NULL ? 0 : spool_open_data(outbox->spool, item->number, O_RDONLY, &fd);
    if (error == 0 && fd >= 0)
        error = writer_sync(outbox, item, fd);
    if (item->interruption != NULL) {
        settle_interrupted(outbox, item, item->interruption);
    } else {
        error = error != 0 ? error : try_hand_in(outbox, item, &reason);
        if (error != 0)
            settle_failed(outbox, item, ITEM_FAILED, 0, reason != NULL ? reason : strerror(-error));
    }
    pthread_mutex_lock(&outbox->lock);
    reset_writing_locked(item);
    pthread_mutex_unlock(&outbox->lock);
}
