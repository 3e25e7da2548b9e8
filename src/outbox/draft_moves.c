/* SPDX-License-Identifier: MIT */
/*
 * rename(2) between drafts/ and the outbox: into it, checked and durable before it returns; and out of it.
 * The order of steps: docs/OUTBOX.md.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/file.h"
#include "base/log.h"
#include "mail/file_name.h"
#include "mail/reason.h"
#include "outbox/change.h"
#include "outbox/core.h"
#include "outbox/hand_in.h"
#include "outbox/key_memory.h"
#include "outbox/names.h"
#include "outbox/writer_fate.h"

/* ---------------------------------------------------------------- in: the draft's side */

struct moving_in {
    struct outbox *outbox;
    int dir_fd;
    const char *draft_name;
    const char *name;
    const char *answers; /* or NULL */
    char *free_name;     /* `name`, where it was chosen here */
    pid_t mover;         /* the process; -1: it has no name here that this process knows */
    enum envelope_kind kind;
    int fd; /* of the draft */
    struct stat status;
    char *bytes; /* of a message */
    size_t len;
    struct item *item;
    struct item *replaced;
    char *reason;
};

static int check_file(struct moving_in *moving)
{
    const struct stat *status = &moving->status;
    if (S_ISDIR(status->st_mode))
        return reason_give(&moving->reason, -EISDIR, "a directory cannot be handed in");
    if (!S_ISREG(status->st_mode))
        return reason_give(&moving->reason, -EBADMSG, "only ordinary files can be handed in");
    /* Under its other name the content could still be changed after it was checked. */
    if (status->st_nlink > 1)
        return reason_give(&moving->reason, -EMLINK, "the file has a second name (a hard link)");
    size_t max = hand_in_max_bytes(moving->kind);
    if ((uint64_t)status->st_size > max)
        return reason_give(&moving->reason, moving->kind == ENVELOPE_MESSAGE ? -EMSGSIZE : -EFBIG,
                           "the file is larger than %zu bytes", max);
    if (status->st_size == 0 && !core_is_never_sent(moving->kind, moving->name))
        return reason_give(&moving->reason, -EBADMSG, "the file is empty");
    return 0;
}

static int open_draft(struct moving_in *moving)
{
    moving->fd =
        openat(moving->dir_fd, moving->draft_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (moving->fd < 0 || fstat(moving->fd, &moving->status) != 0) {
        int error = -errno;
        if (error == -ELOOP)
            return reason_give(&moving->reason, error, "a symbolic link cannot be handed in");
        return error == -ENXIO ? -EBADMSG : error; /* a socket, or a fifo */
    }
    int error = check_file(moving);
    moving->len = (size_t)moving->status.st_size;
    if (error == 0 && moving->kind == ENVELOPE_MESSAGE)
        error = file_read_fd(moving->fd, hand_in_max_bytes(moving->kind), &moving->bytes, &moving->len);
    return error;
}

/* ---------------------------------------------------------------- in: the outbox's side */

static int claim_target(struct moving_in *moving, enum outbox_folder folder, bool is_exclusive)
{
    struct outbox *outbox = moving->outbox;
    int error;
    pthread_mutex_lock(&outbox->lock);
    while ((error = names_claim_target_locked(outbox, folder, moving->name, is_exclusive,
                                              &moving->replaced)) == -EAGAIN)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    pthread_mutex_unlock(&outbox->lock);
    if (error == -EEXIST)
        return reason_give(&moving->reason, error, "there is a file of this name already");
    return error == -EBUSY ? reason_give(&moving->reason, error, "the file in its place is being written")
                           : error;
}

static int make_item(struct moving_in *moving)
{
    uint64_t number;
    int error = spool_take_number(moving->outbox->spool, &number);
    if (error != 0)
        return error;
    moving->item = item_new(number);
    if (moving->item == NULL)
        return -ENOMEM;
    moving->item->size = moving->status.st_size;
    moving->item->mtime = moving->status.st_mtim;
    moving->item->opener = moving->mover;
    moving->item->envelope.order = number;
    moving->item->envelope.content = number;
    moving->item->envelope.name = strdup(moving->name);
    if (moving->answers != NULL && (moving->item->envelope.answers = strdup(moving->answers)) == NULL)
        return -ENOMEM;
    return moving->item->envelope.name == NULL ? -ENOMEM : 0;
}

/* The rename is the moment of acceptance: before it, a crash leaves the draft; after it, the message. */
static int move_file(struct moving_in *moving, struct change *change)
{
    struct spool *spool = moving->outbox->spool;
    uint64_t number = moving->item->number;
    int error = file_sync(moving->fd);
    crash_point("synced_draft");
    error = error != 0 ? error : change_save(change, moving->item);
    crash_point("saved_envelope");
    error = error != 0 ? error : spool_take_in(spool, number, moving->dir_fd, moving->draft_name);
    crash_point("handed_in");
    if (error != 0)
        spool_remove(spool, number);
    else if (fchmod(moving->fd, 0600) != 0)
        log_warning("a file in the spool keeps the mode of its draft: %s", strerror(errno));
    return error;
}

static int show_item(struct moving_in *moving, struct change *change)
{
    struct outbox *outbox = moving->outbox;
    pthread_mutex_lock(&outbox->lock);
    int error = item_table_add(&outbox->table, moving->item);
    if (error == 0) {
        item_ref(moving->item);
        change_apply_locked(change, moving->item);
    }
    pthread_mutex_unlock(&outbox->lock);
    /* Without memory the message is in the spool all the same: it goes out after the next start. */
    if (error != 0)
        log_error("no memory for a message that was handed in; it waits for the next start");
    return 0;
}

static int accept_draft(struct moving_in *moving)
{
    _cleanup_hand_in_ struct hand_in hand_in = {.memory = NULL};
    struct outbox *outbox = moving->outbox;
    int error = make_item(moving);
    if (error == 0)
        error = hand_in_begin(outbox, moving->item, moving->kind, moving->name, &hand_in);
    if (error == 0)
        error = hand_in_check(&hand_in, moving->bytes, moving->len, &moving->reason);
    hand_in.change.replaced = moving->replaced;
    if (error == 0) {
        pthread_mutex_lock(&outbox->lock);
        error = change_reserve_locked(&hand_in.change, moving->item);
        pthread_mutex_unlock(&outbox->lock);
    }
    if (error == 0)
        error = move_file(moving, &hand_in.change);
    if (error == 0)
        error = show_item(moving, &hand_in.change);
    if (error == 0)
        hand_in_done(&hand_in);
    return error;
}

static void drop_item(struct moving_in *moving)
{
    pthread_mutex_lock(&moving->outbox->lock);
    item_unref(moving->item);
    pthread_mutex_unlock(&moving->outbox->lock);
    moving->item = NULL;
}

/* Of answers the name is a proposal. The name is free when it is chosen, and reserved when it is accepted:
 * somebody else may be first. */
static int accept_answer(struct moving_in *moving)
{
    int error = core_check_name(OUTBOX_FOLDER_OUTBOX, moving->name);
    const char *proposed = moving->name;
    if (error == 0)
        error = open_draft(moving);
    if (error != 0)
        return error;
    do {
        drop_item(moving);
        free(moving->free_name);
        moving->free_name = names_choose_free(moving->outbox, OUTBOX_FOLDER_OUTBOX, proposed);
        moving->name = moving->free_name;
        error = moving->free_name == NULL ? -ENOMEM : accept_draft(moving);
    } while (error == -EEXIST);
    return error;
}

static int hand_in_draft(struct moving_in *moving, unsigned int flags)
{
    enum outbox_folder to =
        moving->kind == ENVELOPE_MESSAGE ? OUTBOX_FOLDER_OUTBOX : OUTBOX_FOLDER_ATTACHMENTS;
    int error = core_check_name(to, moving->name);
    if (error != 0)
        return reason_give(&moving->reason, error, "the name cannot be used here");
    names_wait_released(moving->outbox, to, moving->name, NULL);
    error = claim_target(moving, to, (flags & RENAME_NOREPLACE) != 0);
    if (error == 0)
        error = open_draft(moving);
    return error != 0 ? error : accept_draft(moving);
}

static int end_moving(struct moving_in *moving, const char *shown_path, int error)
{
    struct outbox *outbox = moving->outbox;
    names_release_target(outbox, moving->replaced);
    if (error == -EINVAL || error == -EXDEV)
        error = -EIO; /* mv(1) would copy, or speak of subdirectories */
    if (error != 0)
        core_tell_path(outbox, EVENT_REFUSED, shown_path, NULL,
                       moving->reason != NULL ? moving->reason : strerror(-error));
    drop_item(moving);
    if (moving->fd >= 0)
        close(moving->fd);
    free(moving->bytes);
    free(moving->reason);
    free(moving->free_name);
    return error;
}

int outbox_hand_in(struct outbox *outbox, int draft_dir_fd, const char *draft_name, const char *shown_path,
                   enum outbox_folder to, const char *name, unsigned int flags, pid_t pid)
{
    struct moving_in moving = {
        .outbox = outbox,
        .mover = writer_process(pid),
        .dir_fd = draft_dir_fd,
        .draft_name = draft_name,
        .name = name,
        .kind = to == OUTBOX_FOLDER_OUTBOX ? ENVELOPE_MESSAGE : ENVELOPE_ATTACHMENT,
        .fd = -1,
    };
    bool is_allowed = to == OUTBOX_FOLDER_OUTBOX || to == OUTBOX_FOLDER_ATTACHMENTS;
    return end_moving(&moving, shown_path, is_allowed ? hand_in_draft(&moving, flags) : -EPERM);
}

int outbox_hand_in_answer(struct outbox *outbox, int draft_dir_fd, const char *draft_name,
                          const char *shown_path, const char *answers, const char *name)
{
    struct moving_in moving = {
        .outbox = outbox,
        .dir_fd = draft_dir_fd,
        .draft_name = draft_name,
        .name = name,
        .mover = -1,
        .answers = answers,
        .kind = ENVELOPE_MESSAGE,
        .fd = -1,
    };
    return end_moving(&moving, shown_path, accept_answer(&moving));
}

/* ---------------------------------------------------------------- out */

/* The content has left. Recovery draws the same conclusion from an envelope without content. */
static void forget_or_remember(struct outbox *outbox, struct item *item)
{
    _cleanup_change_ struct change change = {.outbox = NULL};
    int error = 0;
    if (!key_memory_is_needed(item)) {
        error = change_remove(outbox, item);
    } else {
        error = change_begin(outbox, item, ITEM_DRAFTED, &change);
        envelope_clear_outcome(&change.next);
        change.next.was_unknown = item_may_have_been_sent(item);
        change.is_forced = true;
        error = error != 0 ? error : change_commit(&change, item);
    }
    if (error != 0)
        log_warning("the spool could not record that a file was taken out: %s", strerror(-error));
}

static int take_out_claimed(struct outbox *outbox, struct item *item, int dir_fd, const char *draft_name,
                            unsigned int flags)
{
    pthread_mutex_lock(&outbox->lock);
    bool is_in_use = item->state == ITEM_WRITING || item->writers > 0 || item->users > 0;
    pthread_mutex_unlock(&outbox->lock);
    if (is_in_use || !(item_state_may_follow(item->state, ITEM_GONE)))
        return -EBUSY;
    int error = spool_take_out(outbox->spool, item->number, dir_fd, draft_name, flags);
    if (error == 0)
        forget_or_remember(outbox, item);
    return error == -EINVAL || error == -EXDEV ? -EIO : error;
}

int outbox_take_out(struct outbox *outbox, enum outbox_folder from, const char *name, int draft_dir_fd,
                    const char *draft_name, unsigned int flags)
{
    struct item *item;
    if ((flags & ~(unsigned int)RENAME_NOREPLACE) != 0)
        return -EINVAL;
    if (core_is_receipt_name(name))
        return -EPERM;
    int error = names_wait_released(outbox, from, name, NULL);
    if (error == 0)
        error = core_claim_name(outbox, from, name, &item);
    if (error != 0)
        return error;
    error = take_out_claimed(outbox, item, draft_dir_fd, draft_name, flags);
    core_unclaim(outbox, item);
    key_memory_prune(outbox);
    return error;
}
