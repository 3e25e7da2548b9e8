/* SPDX-License-Identifier: MIT */
/*
 * rename(2), unlink(2) and `retry` in the four folders, and rename(2) from drafts/ into the outbox and back.
 * A draft that was moved in is checked and durable when rename(2) returns. docs/OUTBOX.md has the order of
 * steps.
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
#include "base/log.h"
#include "mail/reason.h"
#include "outbox/accept.h"
#include "outbox/change.h"
#include "outbox/writer_fate.h"

/* After -EXDEV, mv(1) would copy the file; after -EINVAL, mv(1) would complain about subdirectories. */
static int errno_for_mv(int error)
{
    return error == -EINVAL || error == -EXDEV ? -EIO : error;
}

/* ================================================================ the item to replace */

struct renaming {
    struct outbox *outbox;
    enum outbox_folder to;
    const char *new_name;
    bool is_exclusive;   /* RENAME_NOREPLACE */
    pid_t session;       /* the session of the program that renames */
    struct item *item;   /* claimed, or new */
    struct item *target; /* claimed: the item that has the new name; or NULL */
    char *reason;        /* why the rename is refused, owned; or NULL */

    /* only of a draft that is moved in */
    const char *reply_template;
    int dir_fd;
    const char *draft_name;
    int fd; /* the open draft */
    struct stat status;
    char *bytes;
    size_t len;
};

/* Claims the item that has the new name, if the rename may replace it. Returns 0; -EEXIST; -EBUSY: the
 * message is at the service, or may have been sent; -EAGAIN: the caller would have to wait for the claim. */
static int claim_target_locked(struct renaming *renaming)
{
    struct outbox *outbox = renaming->outbox;
    struct item *target = item_table_find(&outbox->table, renaming->to, renaming->new_name);
    if (target == NULL)
        return item_table_is_taken(&outbox->table, renaming->to, renaming->new_name) ? -EAGAIN : 0;
    if (renaming->is_exclusive)
        return reason_give(&renaming->reason, -EEXIST, "there is a file of this name already");
    if (item_is_busy(target))
        return reason_give(&renaming->reason, -EBUSY,
                           "the message in its place is being sent, or may have been sent: it cannot be "
                           "replaced until its outcome is known");
    if (claim_would_wait_locked(target))
        return -EAGAIN;
    int error = claim_take_locked(outbox, target, CLAIM_DISK);
    if (error == 0)
        renaming->target = target;
    return error;
}

/* Commits changes[0], unless `error` is set, with the removal of the target. Releases both changes. */
static int commit_replacing(const struct renaming *renaming, struct change *changes, int error)
{
    struct outbox *outbox = renaming->outbox;
    if (error == 0 && renaming->target != NULL)
        change_begin(&changes[1], renaming->target, ITEM_GONE);
    if (error == 0)
        error = change_commit(outbox, changes, renaming->target == NULL ? 1 : 2);
    change_release(outbox, &changes[0]);
    change_release(outbox, &changes[1]);
    return error;
}

/* ================================================================ rename */

/* Claims both items or none: two renames in opposite directions must not wait for each other. */
static int claim_pair_locked(struct renaming *renaming, enum outbox_folder from, const char *name)
{
    struct outbox *outbox = renaming->outbox;
    struct item *item = item_table_find(&outbox->table, from, name);
    if (item == NULL)
        return -ENOENT;
    if (item_is_busy(item))
        return reason_give(&renaming->reason, -EBUSY, REASON_BUSY);
    if (claim_would_wait_locked(item))
        return -EAGAIN;
    int error = claim_target_locked(renaming);
    if (error != 0)
        return error;
    error = claim_take_locked(outbox, item, CLAIM_DISK);
    if (error == 0)
        renaming->item = item;
    else if (renaming->target != NULL)
        claim_release_locked(outbox, TAKE_PTR(renaming->target));
    return error;
}

/* Returns why the item may not get the new folder and name, or replace the target; NULL if it may. */
static const char *find_objection(const struct renaming *renaming, int *ret_error)
{
    const struct item *item = renaming->item;
    const struct item *target = renaming->target;
    bool is_message = item->row.kind == ITEM_MESSAGE;
    *ret_error = -EPERM;
    if (is_message && renaming->to != OUTBOX_FOLDER_OUTBOX)
        return "it is a message: it can go to outbox/ or drafts/ alone";
    if (!is_message && renaming->to != OUTBOX_FOLDER_ATTACHMENTS)
        return "it is an attachment: it can go to attachments/ or drafts/ alone";
    bool is_closed_text = target != NULL && is_message && target->size > 0 && target->file.writers == 0 &&
                          !item_is_never_sent(ITEM_MESSAGE, target->row.name);
    *ret_error = -EBUSY;
    if (is_closed_text && item->file.writers > 0)
        return "it is still open, and may come to a bad end: it cannot take the place of a whole message";
    *ret_error = -EBADMSG;
    if (is_closed_text && item->size == 0)
        return "the file is empty, and a message waits under that name";
    if (item->row.state == ITEM_WAITING && item->row.error != NULL &&
        !item_is_never_sent(item->row.kind, renaming->new_name))
        return item->row.error;
    *ret_error = 0;
    return NULL;
}

/* Changes only the name. A queued message stays queued, unless the new name is never sent. A text that
 * replaces a reply becomes that reply: an editor may save by a second file. */
static void change_name(const struct renaming *renaming, struct change *change)
{
    struct item *item = renaming->item;
    bool is_withdrawn =
        item->row.state == ITEM_QUEUED && item_is_never_sent(ITEM_MESSAGE, renaming->new_name);
    change_begin(change, item, is_withdrawn ? ITEM_WAITING : item->row.state);
    if (is_withdrawn)
        row_clear_outcome(&change->next);
    if (renaming->target != NULL && item->row.reply_template == NULL &&
        (item->row.state == ITEM_WAITING || item->row.state == ITEM_WRITING))
        row_set_string(&change->next.reply_template, renaming->target->row.reply_template);
    row_set_string(&change->next.name, renaming->new_name);
}

/* Renames a message in outbox/, or a file that is being written; hands in any other item under the new name
 * at once. An attachment is uploaded again, because emails show its name. Commits, in one turn, the change of
 * the name and the removal of the target, which had the name. */
static int rename_claimed(struct renaming *renaming)
{
    struct item *item = renaming->item;
    struct change changes[2] = {{.item = NULL}, {.item = NULL}};
    int error = 0;
    const char *objection = find_objection(renaming, &error);
    if (objection != NULL)
        return reason_give(&renaming->reason, error, "%s", objection);
    bool is_message_here = item->row.kind == ITEM_MESSAGE && item_folder(item) == OUTBOX_FOLDER_OUTBOX;
    if (is_message_here || item->row.state == ITEM_WRITING)
        change_name(renaming, &changes[0]);
    else
        error = accept_prepare(renaming->outbox, item, renaming->new_name, &changes[0], &renaming->reason);
    error = commit_replacing(renaming, changes, error);
    crash_point("renamed");
    return error;
}

int outbox_rename(struct outbox *outbox, enum outbox_folder from, const char *name, enum outbox_folder to,
                  const char *new_name, unsigned int flags, pid_t pid)
{
    int error = item_check_name(to, new_name);
    if (error != 0)
        return error;
    struct outbox_stat stat;
    if (from == to && strcmp(name, new_name) == 0)
        return outbox_find(outbox, from, name, &stat) ? 0 : -ENOENT;
    struct renaming renaming = {
        .outbox = outbox,
        .to = to,
        .new_name = new_name,
        .is_exclusive = flags == RENAME_NOREPLACE,
        .session = writer_session(pid),
    };
    if (to == OUTBOX_FOLDER_ATTACHMENTS)
        outbox_hand_in_waiting(outbox);
    if (outbox_find(outbox, to, new_name, &stat)) /* an open file would not replace it */
        outbox_await_release(outbox, from, name);
    pthread_mutex_lock(&outbox->lock);
    while ((error = claim_pair_locked(&renaming, from, name)) == -EAGAIN)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    pthread_mutex_unlock(&outbox->lock);
    if (error == 0) {
        error = errno_for_mv(rename_claimed(&renaming));
        pthread_mutex_lock(&outbox->lock);
        if (error == 0 && pid > 0) /* 0: the command `retry` renames the item */
            renaming.item->session = renaming.session;
        if (error == 0)
            send_queue_touch(&outbox->queue, renaming.item);
        claim_release_locked(outbox, renaming.item);
        pthread_mutex_unlock(&outbox->lock);
        claim_release(outbox, renaming.target);
    }
    if (error != 0 && error != -ENOENT && error != -EEXIST)
        outbox_notify(outbox, EVENT_REFUSED, from, name, NULL,
                      renaming.reason != NULL ? renaming.reason : strerror(-error));
    free(renaming.reason);
    return error;
}

/* ---------------------------------------------------------------- retry */

/* Hands in, or tries now, the item of this name. Returns false if no item of this name waits. */
static bool retry_waiting(struct outbox *outbox, enum outbox_folder folder, const char *name)
{
    LOCK_GUARD(&outbox->lock);
    struct item *item = item_table_find(&outbox->table, folder, name);
    if (item == NULL || item->schedule.list == NULL)
        return false;
    send_queue_wake(&outbox->queue, item);
    return true;
}

int outbox_retry(struct outbox *outbox, const char *name)
{
    enum outbox_folder to = OUTBOX_FOLDER_OUTBOX;
    if (name == NULL) {
        outbox_wake(outbox);
        return 0;
    }
    if (retry_waiting(outbox, OUTBOX_FOLDER_OUTBOX, name) ||
        retry_waiting(outbox, OUTBOX_FOLDER_ATTACHMENTS, name))
        return 0;
    pthread_mutex_lock(&outbox->lock);
    const struct item *item = item_table_find(&outbox->table, OUTBOX_FOLDER_FAILED, name);
    if (item != NULL && item->row.kind == ITEM_ATTACHMENT)
        to = OUTBOX_FOLDER_ATTACHMENTS;
    _cleanup_free_ char *free_name = item == NULL ? NULL : item_table_choose_name(&outbox->table, to, name);
    pthread_mutex_unlock(&outbox->lock);
    return item == NULL
               ? -ENOENT
               : outbox_rename(outbox, OUTBOX_FOLDER_FAILED, name, to, free_name, RENAME_NOREPLACE, 0);
}

/* ================================================================ removing */

/* Returns true if the item is a queued message that may have been sent: its removal, which leaves no receipt,
 * is reported. */
static bool is_withdrawn(const struct item *item)
{
    return item->row.state == ITEM_QUEUED && item_may_have_been_sent(item);
}

/* Claims the item of this name, which leaves its folder. *ret_item has the claim's reference. Returns 0;
 * -ENOENT: no item has the name; -EBUSY, with an event: the message is at the service. */
static int claim_to_remove(struct outbox *outbox, enum outbox_folder folder, const char *name,
                           struct item **ret_item)
{
    struct item *item;
    int error = -ENOENT;
    if (folder == OUTBOX_FOLDER_ATTACHMENTS)
        outbox_hand_in_waiting(outbox);
    pthread_mutex_lock(&outbox->lock);
    while (error == -ENOENT && (item = item_table_find(&outbox->table, folder, name)) != NULL) {
        error = claim_take_locked(outbox, item, CLAIM_DISK);
        *ret_item = item;
        if (error == 0 && item_table_find(&outbox->table, folder, name) != item) {
            claim_release_locked(outbox, item); /* another thread renamed the item during the wait */
            error = -ENOENT;
        }
    }
    pthread_mutex_unlock(&outbox->lock);
    if (error == -EBUSY)
        outbox_notify(outbox, EVENT_REFUSED, folder, name, NULL, REASON_BUSY);
    return error;
}

int outbox_unlink(struct outbox *outbox, enum outbox_folder folder, const char *name)
{
    struct item *item;
    struct outbox_stat stat;
    if (item_is_receipt_name(name))
        return outbox_find(outbox, folder, name, &stat) ? -EPERM : -ENOENT;
    int error = claim_to_remove(outbox, folder, name, &item);
    if (error != 0)
        return error;
    bool may_have_been_sent = is_withdrawn(item);
    error = change_remove(outbox, item);
    if (error == 0 && may_have_been_sent)
        outbox_notify(outbox, EVENT_FAILED, folder, name, NULL, "removed; it may have been sent");
    claim_release(outbox, item);
    return error;
}

/* ================================================================ in from drafts/ */

static enum item_kind kind_of(const struct renaming *renaming)
{
    return renaming->to == OUTBOX_FOLDER_OUTBOX ? ITEM_MESSAGE : ITEM_ATTACHMENT;
}

static int open_draft(struct renaming *renaming)
{
    const struct stat *status = &renaming->status;
    char **reason = &renaming->reason;
    enum item_kind kind = kind_of(renaming);
    int error = 0;
    renaming->fd = openat(renaming->dir_fd, renaming->draft_name,
                          O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (renaming->fd < 0 || fstat(renaming->fd, &renaming->status) != 0)
        error = -errno;
    if (error == -ELOOP)
        return reason_give(reason, error, "a symbolic link cannot be handed in");
    if (error == 0 && S_ISDIR(status->st_mode))
        return reason_give(reason, -EISDIR, "a directory cannot be handed in");
    if (error == -ENXIO /* a socket */ || (error == 0 && !S_ISREG(status->st_mode)))
        return reason_give(reason, -EBADMSG, "only ordinary files can be handed in");
    if (error != 0)
        return error;
    /* A program could change the content under its second name after the check. */
    if (status->st_nlink > 1)
        return reason_give(reason, -EMLINK, "the file has a second name (a hard link)");
    size_t max = accept_max_bytes(kind);
    if ((uint64_t)status->st_size > max)
        return reason_give(reason, kind == ITEM_MESSAGE ? -EMSGSIZE : -EFBIG,
                           "the file is larger than %zu bytes", max);
    if (item_is_never_sent(kind, renaming->new_name)) /* it would stay there for ever, without a word */
        return reason_give(reason, -EPERM, "a file of this name is never sent: give it another name");
    if (status->st_size == 0)
        return reason_give(reason, -EBADMSG, "the file is empty");
    return file_read_fd(renaming->fd, max, &renaming->bytes, &renaming->len);
}

/* If a crash leaves a row without content, the draft is still in its folder. */
static int place_draft(void *context)
{
    const struct renaming *renaming = context;
    crash_point("saved_row");
    int error = spool_move_in(renaming->outbox->spool, renaming->item->number, renaming->dir_fd,
                              renaming->draft_name);
    crash_point("handed_in");
    if (error == 0 && fchmod(renaming->fd, 0600) != 0)
        log_warning("a file in the spool keeps the mode of its draft: %s", strerror(errno));
    return error;
}

static int accept_draft(struct renaming *renaming, struct outbox_stat *ret)
{
    struct outbox *outbox = renaming->outbox;
    struct change changes[2] = {{.item = NULL}, {.item = NULL}};
    struct item *item = renaming->item = item_new(spool_take_number(outbox->spool), kind_of(renaming));
    item->size = renaming->status.st_size;
    item->mtime = renaming->status.st_mtim;
    item->session = renaming->session;
    if (ret != NULL)
        item_stat(item, OUTBOX_CONTENT, ret);
    row_set_string(&item->row.reply_template, renaming->reply_template);
    int error = accept_check(outbox, item, renaming->new_name, renaming->bytes, renaming->len, &changes[0],
                             &renaming->reason);
    error = error != 0 ? error : file_sync(renaming->fd);
    crash_point("synced_draft");
    changes[0].place = place_draft;
    changes[0].context = renaming;
    changes[0].next.replaces = renaming->target == NULL ? 0 : renaming->target->number;
    error = commit_replacing(renaming, changes, error);
    LOCK_GUARD(&outbox->lock);
    item_unref(item);
    return error;
}

/* Replaces the item that has the name; a reply never replaces one. Tries again if the name was free, but
 * another thread took it before it was reserved. */
static int hand_in(struct renaming *renaming, struct outbox_stat *ret)
{
    struct outbox *outbox = renaming->outbox;
    int error = item_check_name(renaming->to, renaming->new_name);
    if (error != 0)
        return reason_give(&renaming->reason, error,
                           "a name is UTF-8, not too long, and not a receipt's; in attachments/ it has no "
                           "control characters either");
    error = open_draft(renaming);
    if (error != 0)
        return error;
    if (renaming->to == OUTBOX_FOLDER_ATTACHMENTS)
        outbox_hand_in_waiting(outbox);
    do {
        error = 0;
        pthread_mutex_lock(&outbox->lock);
        while (renaming->reply_template == NULL && (error = claim_target_locked(renaming)) == -EAGAIN)
            pthread_cond_wait(&outbox->changed, &outbox->lock);
        pthread_mutex_unlock(&outbox->lock);
        error = error != 0 ? error : accept_draft(renaming, ret);
        claim_release(outbox, TAKE_PTR(renaming->target));
    } while (error == -EEXIST && !renaming->is_exclusive);
    return error;
}

int outbox_hand_in(struct outbox *outbox, int draft_dir_fd, const char *draft_name, const char *shown_path,
                   const struct hand_in *to, pid_t pid, struct outbox_stat *ret)
{
    struct renaming renaming = {
        .outbox = outbox,
        .to = to->folder,
        .new_name = to->name,
        .is_exclusive = to->flags == RENAME_NOREPLACE,
        .session = writer_session(pid),
        .reply_template = to->reply_template,
        .dir_fd = draft_dir_fd,
        .draft_name = draft_name,
        .fd = -1,
    };
    int error = errno_for_mv(hand_in(&renaming, ret));
    if (error != 0)
        outbox_notify_path(outbox, EVENT_REFUSED, shown_path, NULL,
                           renaming.reason != NULL ? renaming.reason : strerror(-error));
    if (renaming.fd >= 0)
        close(renaming.fd);
    free(renaming.bytes);
    free(renaming.reason);
    return error;
}

/* ================================================================ out to drafts/ */

int outbox_take_out(struct outbox *outbox, enum outbox_folder from, const char *name, int draft_dir_fd,
                    const char *draft_name, unsigned int flags)
{
    struct item *item;
    outbox_await_release(outbox, from, name);
    int error = claim_to_remove(outbox, from, name, &item);
    if (error != 0)
        return error;
    pthread_mutex_lock(&outbox->lock);
    bool is_in_use = item->row.state == ITEM_WRITING || item->file.writers > 0;
    pthread_mutex_unlock(&outbox->lock);
    bool may_have_been_sent = is_withdrawn(item);
    if (is_in_use) {
        error = -EBUSY;
        outbox_notify(outbox, EVENT_REFUSED, from, name, NULL, "a program has the file open for writing");
    } else {
        bool is_renewed; /* messages may share the content, and a draft can be edited */
        error = spool_renew_content(outbox->spool, item->number, &is_renewed);
        if (error == 0)
            error = spool_move_out(outbox->spool, item->number, draft_dir_fd, draft_name, flags);
        if (error == 0)
            (void)change_remove(outbox, item); /* an error is logged; the next start drops the row */
    }
    if (error == 0 && may_have_been_sent)
        outbox_notify(outbox, EVENT_FAILED, from, name, NULL,
                      "moved to drafts/; it may have been sent, and would be a new message");
    claim_release(outbox, item);
    return errno_for_mv(error);
}
