/* SPDX-License-Identifier: MIT */
/*
 * rename(2), unlink(2) and `retry` in the four folders, and rename(2) between drafts/ and the outbox: into
 * it, checked and durable before it returns; and out of it. docs/OUTBOX.md has the order of steps.
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
#include "base/log.h"
#include "mail/reason.h"
#include "outbox/accept.h"
#include "outbox/handle.h"
#include "outbox/item.h"
#include "outbox/removal.h"
#include "outbox/transition.h"
#include "outbox/writer_fate.h"

/* ---------------------------------------------------------------- what stands in the way */

/* Claims the item that has the name now, if a rename may replace it: *ret_replaced, or NULL where the name
 * is free. 0; -EEXIST: it is queued, or `is_exclusive`; -EBUSY: it is being written; -EAGAIN: its claim
 * would have to be waited for. The lock is held. */
static int claim_target_locked(struct outbox *outbox, enum outbox_folder folder, const char *name,
                               bool is_exclusive, struct item **ret_replaced)
{
    struct item *item = item_table_find(&outbox->table, folder, name);
    *ret_replaced = NULL;
    if (item == NULL)
        return item_table_is_taken(&outbox->table, folder, name) ? -EEXIST : 0;
    if (is_exclusive)
        return -EEXIST;
    if (claim_would_wait_locked(item))
        return -EAGAIN;
    if (item->state == ITEM_WRITING || item->writers > 0)
        return -EBUSY;
    bool is_replaceable =
        item->state == ITEM_ON_HOLD || item->state == ITEM_UPLOADED || item->state == ITEM_UPLOADING;
    if (!is_replaceable || claim_take_locked(outbox, item, CLAIM_DISK) != 0)
        return -EEXIST;
    *ret_replaced = item;
    return 0;
}

/* Ends the claim of claim_target_locked(). A replaced item that messages need is hidden durably; any other
 * one is removed. NULL-safe. Waits for the disk. */
static void release_target(struct outbox *outbox, struct item *replaced)
{
    if (replaced == NULL)
        return;
    pthread_mutex_lock(&outbox->lock);
    bool is_needed = replaced->envelope.is_hidden && replaced->users > 0;
    pthread_mutex_unlock(&outbox->lock);
    crash_point("replaced");
    if (is_needed)
        transition_hide_replaced(outbox, replaced);
    claim_release(outbox, replaced);
    removal_collect(outbox);
}

/* The item of this name, claimed for the disk, or an error: -ENOENT, or of claim_take_locked(). */
static int claim_by_name(struct outbox *outbox, enum outbox_folder folder, const char *name,
                         struct item **ret_item)
{
    int error = -ENOENT;
    pthread_mutex_lock(&outbox->lock);
    for (;;) {
        struct item *item = item_table_find(&outbox->table, folder, name);
        if (item == NULL)
            break;
        error = claim_take_locked(outbox, item, CLAIM_DISK);
        if (error == 0 && item_table_find(&outbox->table, folder, name) != item) {
            claim_release_locked(outbox, item); /* it was renamed while we waited */
            error = -ENOENT;
            continue;
        }
        if (error == 0)
            *ret_item = item;
        if (error != -ENOENT)
            break;
    }
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

/* release_wait_before_change() for the item of this name, if there is one. */
static int wait_released(struct outbox *outbox, enum outbox_folder folder, const char *name,
                         struct cancel *cancel)
{
    pthread_mutex_lock(&outbox->lock);
    struct item *item = item_table_find(&outbox->table, folder, name);
    if (item != NULL)
        item_ref(item);
    pthread_mutex_unlock(&outbox->lock);
    if (item == NULL)
        return 0;
    int error = release_wait_before_change(outbox, item, cancel);
    pthread_mutex_lock(&outbox->lock);
    item_unref(item);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

/* A message that waited, with an unknown outcome, is no more: its user is told, for nothing else will say so.
 */
static void notify_withdrawn(struct outbox *outbox, const char *name, const char *how)
{
    char words[80];
    snprintf(words, sizeof(words), "%s; it may have been sent", how);
    outbox_notify(outbox, EVENT_FAILED, OUTBOX_FOLDER_OUTBOX, name, NULL, words);
}

/* ---------------------------------------------------------------- rename */

struct renaming {
    struct outbox *outbox;
    struct item *item; /* claimed, or borrowed from its sender */
    struct item *replaced;
    enum outbox_folder from;
    enum outbox_folder to;
    const char *new_name;
    struct item_asker asker;
    bool is_borrowed;
    bool is_out;         /* settled: found by its former name */
    bool is_unedited;    /* the message that waits under the new name is the same: that one stays */
    const char *refusal; /* why an edited text takes no place, and is not sent either; NULL: it may */
    char *free_name;     /* owned: `new_name`, where it had to be numbered */
    char *reason;        /* owned */
};

/* Takes the item of this name: one that is shown, even while its request is under way, or one whose former
 * name it is. */
static int take_item_locked(struct renaming *renaming, const char *name)
{
    struct outbox *outbox = renaming->outbox;
    bool is_within = renaming->from == renaming->to;
    bool may_be_out = is_within && renaming->from == OUTBOX_FOLDER_OUTBOX; /* messages alone go out */
    struct item *item = item_table_find(&outbox->table, renaming->from, name);
    renaming->is_out = item == NULL;
    if (item == NULL && may_be_out)
        item =
            item_table_find_by_former_name(&outbox->table, renaming->from, name, outbox_monotonic_ms(outbox),
                                           item_was_made_by, &renaming->asker);
    if (item == NULL)
        return -ENOENT;
    renaming->is_borrowed =
        is_within && item->envelope.kind == ENVELOPE_MESSAGE && item->claim == CLAIM_SERVICE;
    if (renaming->is_borrowed && item_is_never_sent(ENVELOPE_MESSAGE, renaming->new_name))
        return -EBUSY;
    if (claim_would_wait_locked(item))
        return -EAGAIN;
    int error =
        renaming->is_borrowed ? claim_borrow_locked(item) : claim_take_locked(outbox, item, CLAIM_DISK);
    if (error == 0)
        renaming->item = item;
    return error;
}

/* Of take_item_locked(), where the lock was held all the time. */
static void untake_item_locked(struct renaming *renaming)
{
    if (renaming->is_borrowed)
        claim_undo_borrowing_locked(renaming->item);
    else
        claim_undo_locked(renaming->outbox, renaming->item);
}

static void leave_item_locked(struct renaming *renaming)
{
    if (renaming->is_borrowed)
        claim_give_back_locked(renaming->outbox, renaming->item);
    else
        claim_release_locked(renaming->outbox, renaming->item);
}

/* Whether the message is handed in already, by the process that renames it. It goes out in any case, so
 * that this process must not get an error for the rename, and send it once more. */
static bool is_handed_in_by_asker(const struct renaming *renaming)
{
    const struct item *item = renaming->item;
    bool is_handed_in = renaming->is_out || item_state_is_unsettled(item->state);
    return is_handed_in && item->envelope.kind == ENVELOPE_MESSAGE &&
           item_was_made_by(item, &renaming->asker);
}

/* A process that has read a waiting message and renames another onto it has edited it: the waiting one is
 * withdrawn. Not for a text that was refused already, for then neither would be sent. */
static bool is_superseded(const struct renaming *renaming, const struct item *waiting)
{
    bool is_refused = renaming->item->state == ITEM_FAILED || renaming->item->state == ITEM_INTERRUPTED;
    return waiting != renaming->item && waiting->envelope.kind == ENVELOPE_MESSAGE &&
           item_state_is_unsettled(waiting->state) && item_was_read_by(waiting, &renaming->asker) &&
           !(renaming->is_out && is_refused);
}

/* Whether the two are one message: the same text, with the same attachments. */
static bool is_same_message(const struct envelope *one, const struct envelope *other)
{
    if (one->from == NULL || other->from == NULL || strcmp(one->from, other->from) != 0 ||
        strcmp(one->digest, other->digest) != 0 || one->attachments_len != other->attachments_len)
        return false;
    for (size_t i = 0; i < one->attachments_len; i++)
        if (one->attachments[i].content != other->attachments[i].content)
            return false;
    return true;
}

/* Whether the copy may be dropped for the message, as the same. A copy with a key that may have been used is
 * to take the place of a message that waits; of one that is on its way it cannot. */
static bool is_mere_copy(const struct envelope *copy, const struct item *message)
{
    bool is_on_its_way = message->state != ITEM_QUEUED || message->claim == CLAIM_SERVICE;
    bool has_used_key = copy->may_have_been_sent || copy->was_unknown;
    return (is_on_its_way || !has_used_key) && is_same_message(copy, &message->envelope);
}

#define TOO_LATE "the message that it was to replace is being sent, or was sent a moment ago"
#define TOO_EARLY "it was to replace a message before it was closed"

/* Whether the text can be kept from going out, by the process that made it. */
static bool can_refuse(const struct renaming *renaming)
{
    return !renaming->is_out && !renaming->is_borrowed && !item_may_have_been_sent(renaming->item) &&
           item_was_made_by(renaming->item, &renaming->asker);
}

static bool is_open(const struct item *item)
{
    return item->state == ITEM_WRITING || item->writers > 0;
}

/* That one stays. Who saved it may touch it, as if it were the copy. */
static void keep_unedited(struct renaming *renaming, struct item *item)
{
    item->opener = renaming->asker.process;
    renaming->is_unedited = true;
}

static int supersede_locked(struct renaming *renaming)
{
    struct outbox *outbox = renaming->outbox;
    const struct item *edited = renaming->item;
    struct item *item = item_table_find(&outbox->table, renaming->to, renaming->new_name);
    if (item == NULL || !is_superseded(renaming, item))
        return -EEXIST;
    if (claim_would_wait_locked(item))
        return -EAGAIN;
    if (is_open(edited)) { /* it may come to a bad end yet, and then neither would be sent */
        renaming->refusal = !can_refuse(renaming)          ? NULL
                            : item->claim == CLAIM_SERVICE ? TOO_LATE
                                                           : TOO_EARLY;
        return renaming->refusal == NULL ? -EBUSY : 0;
    }
    if (edited->state == ITEM_QUEUED && !renaming->is_borrowed && is_mere_copy(&edited->envelope, item)) {
        keep_unedited(renaming, item);
        return 0;
    }
    int error = claim_take_locked(outbox, item, CLAIM_DISK);
    if (error == 0)
        renaming->replaced = item;
    if (error != -EBUSY || !can_refuse(renaming))
        return error;
    renaming->refusal = TOO_LATE;
    return 0;
}

/* The message that the process has read, and that went out under that name a moment ago. */
static struct item *find_read_and_out_locked(const struct renaming *renaming)
{
    struct outbox *outbox = renaming->outbox;
    struct item *item =
        item_table_find_by_former_name(&outbox->table, renaming->to, renaming->new_name,
                                       outbox_monotonic_ms(outbox), item_was_read_by, &renaming->asker);
    bool may_be_out = item != NULL && (item->state == ITEM_SENT || item_may_have_been_sent(item));
    return may_be_out ? item : NULL;
}

/* The message for which a text comes too late: it is at the service, or out. */
static struct item *find_too_late_locked(const struct renaming *renaming)
{
    struct item *item = item_table_find(&renaming->outbox->table, renaming->to, renaming->new_name);
    return item != NULL && is_superseded(renaming, item) ? item : find_read_and_out_locked(renaming);
}

/* The text that is renamed comes too late. Who is known to have written the message that is out, and did not
 * edit another one by it, sends a second one. */
static void compare_with_what_is_out(struct renaming *renaming)
{
    if (renaming->from != renaming->to || renaming->to != OUTBOX_FOLDER_OUTBOX || !can_refuse(renaming))
        return;
    struct item *item = find_read_and_out_locked(renaming);
    if (item == NULL)
        return;
    if (item_is_known_writer(item, renaming->asker.process) && item->envelope.supersedes == 0)
        return;
    if (!is_open(renaming->item) && renaming->item->state == ITEM_QUEUED &&
        is_mere_copy(&renaming->item->envelope, item))
        keep_unedited(renaming, item);
    else
        renaming->refusal = TOO_LATE;
}

static int take_target_locked(struct renaming *renaming, bool is_exclusive)
{
    struct outbox *outbox = renaming->outbox;
    int error =
        claim_target_locked(outbox, renaming->to, renaming->new_name, is_exclusive, &renaming->replaced);
    if (error == 0 && !is_exclusive)
        compare_with_what_is_out(renaming);
    if (is_exclusive || (error != -EEXIST && error != -EBUSY))
        return error;
    int edited = supersede_locked(renaming);
    if (edited == 0 || edited == -EAGAIN)
        return edited;
    compare_with_what_is_out(renaming);
    if (renaming->refusal != NULL || renaming->is_unedited)
        return 0;
    if (!is_handed_in_by_asker(renaming) || (edited == -EBUSY && renaming->item->state == ITEM_QUEUED))
        return edited == -EBUSY ? edited : error;
    if (renaming->is_out) /* it has its name in sent/ or failed/ */
        return 0;
    renaming->free_name = item_table_choose_name(&outbox->table, renaming->to, renaming->new_name);
    renaming->new_name = renaming->free_name;
    return renaming->free_name == NULL ? -ENOMEM : 0;
}

/* Takes both items or none: two renames in opposite directions must not wait for each other. */
static int take_pair(struct renaming *renaming, const char *name, bool is_exclusive)
{
    struct outbox *outbox = renaming->outbox;
    int error;
    pthread_mutex_lock(&outbox->lock);
    for (;;) {
        error = take_item_locked(renaming, name);
        if (error == 0) {
            error = take_target_locked(renaming, is_exclusive);
            if (error != 0)
                untake_item_locked(renaming);
        }
        if (error != -EAGAIN)
            break;
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    }
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

static bool replaces_waiting(const struct renaming *renaming)
{
    return renaming->replaced != NULL && renaming->replaced->state == ITEM_QUEUED;
}

/* The edited text takes the name and the place in the queue of the message that waits. The same write makes
 * durable that it does, so that no crash leaves both to be sent, or neither. An envelope names one message
 * that it supersedes, so what either of the two superseded before is removed first. Of two files on hold that
 * have one name after a crash, recovery keeps the one of the greater order: it took the name of the other. */
static int commit(struct renaming *renaming, struct transition *transition)
{
    int error = 0;
    transition->replaced = renaming->replaced;
    if (renaming->replaced != NULL && transition->state == ITEM_ON_HOLD)
        error = spool_take_number(renaming->outbox->spool, &transition->next.order);
    if (replaces_waiting(renaming)) {
        const struct envelope *waiting = &renaming->replaced->envelope;
        if (error == 0)
            error = transition_remove_superseded(renaming->outbox, renaming->replaced);
        if (error == 0)
            error = transition_remove_superseded(renaming->outbox, renaming->item);
        transition->next.supersedes = waiting->number;
        if (waiting->order < transition->next.order)
            transition->next.order = waiting->order;
    }
    return error != 0 ? error : transition_commit(transition, renaming->item);
}

/* The message was saved as it is. It keeps its key and its attempts, so that it is not sent twice, and the
 * copy is removed; and so is a file on hold whose name the copy was to take. */
static int drop_copy(struct renaming *renaming)
{
    int error = transition_discard(renaming->outbox, renaming->item);
    if (replaces_waiting(renaming)) {
        pthread_mutex_lock(&renaming->outbox->lock);
        renaming->replaced->opener = renaming->asker.process;
        pthread_mutex_unlock(&renaming->outbox->lock);
    } else if (renaming->replaced != NULL && error == 0) {
        error = transition_discard(renaming->outbox, renaming->replaced);
    }
    return error;
}

static int set_name(struct transition *transition, const char *name)
{
    free(transition->next.name);
    transition->next.name = strdup(name);
    return transition->next.name == NULL ? -ENOMEM : 0;
}

/* Changes the name alone: of what is being written, waits in the queue, or is at the service. */
static int rename_only(struct renaming *renaming, enum item_state state)
{
    _cleanup_transition_ struct transition transition;
    int error = transition_begin(renaming->outbox, renaming->item, state, &transition);
    if (error == 0)
        error = set_name(&transition, renaming->new_name);
    return error != 0 ? error : commit(renaming, &transition);
}

/* Renames in sent/ or failed/, with the receipt. In outbox/ the new name becomes a former name, as the old
 * one was. */
static int rename_settled(struct renaming *renaming)
{
    _cleanup_transition_ struct transition transition = {.outbox = NULL};
    struct outbox *outbox = renaming->outbox;
    struct item *item = renaming->item;
    const struct outbox_listener *listener = &outbox->config.listener;
    if (item_is_never_sent(renaming->item->envelope.kind, renaming->new_name))
        return -ENOENT;
    _cleanup_free_ char *old_name = strdup(item->envelope.name);
    int error = old_name == NULL ? -ENOMEM : transition_begin_settled(outbox, item, &transition);
    if (error == 0)
        error = set_name(&transition, renaming->new_name);
    if (error == 0 && renaming->replaced != NULL) {
        error = transition_remove(outbox, renaming->replaced); /* the edited text is out already */
        transition.is_forced = true;
    }
    if (error == 0)
        error = transition_commit(&transition, item);
    if (error != 0)
        return error;

    pthread_mutex_lock(&outbox->lock);
    item_table_forget_former_names(&outbox->table, item->number, &renaming->asker);
    outbox_add_former_name_locked(outbox, renaming->from, renaming->new_name, item);
    enum outbox_folder folder = item_folder(item);
    pthread_mutex_unlock(&outbox->lock);
    if (listener->item_moved != NULL) {
        listener->item_moved(listener->context, old_name, folder, folder);
        listener->item_moved(listener->context, item->envelope.name, renaming->from, folder);
    }
    return 0;
}

/* A file of a never-sent name, whose writing did not come to a good end. */
static int rename_interrupted(struct renaming *renaming)
{
    if (item_is_never_sent(renaming->item->envelope.kind, renaming->new_name))
        return rename_only(renaming, ITEM_ON_HOLD);
    renaming->reason = strdup(renaming->item->envelope.error);
    return -EBADMSG;
}

/* Hands the item in under its new name, or puts it on hold, whatever its state was. */
static int hand_in_again(struct renaming *renaming)
{
    _cleanup_acceptance_ struct acceptance acceptance = {.memory = NULL};
    enum envelope_kind kind = renaming->to == OUTBOX_FOLDER_OUTBOX ? ENVELOPE_MESSAGE : ENVELOPE_ATTACHMENT;
    int error = accept_prepare(renaming->outbox, renaming->item, kind, renaming->new_name, &acceptance,
                               &renaming->reason);
    if (error == 0 && replaces_waiting(renaming)) {
        if (acceptance.transition.state == ITEM_ON_HOLD)
            return reason_give(&renaming->reason, -EBADMSG,
                               "the file is empty, and a message waits under that name");
        if (is_mere_copy(&acceptance.transition.next, renaming->replaced))
            return drop_copy(renaming);
    }
    if (error == 0)
        error = commit(renaming, &acceptance.transition);
    if (error == 0)
        accept_done(&acceptance);
    return error;
}

/* The name is what the email shows, so the file is uploaded again under the new one. Messages keep what they
 * bound, with its name: the rename is made once more (-ESTALE), of a copy. */
static int rename_attachment(struct renaming *renaming)
{
    return binding_is_needed(renaming->outbox, renaming->item)
               ? binding_leave_name(renaming->outbox, renaming->item)
               : hand_in_again(renaming);
}

/* Why the item may not go to the other folder; NULL: it may. */
static const char *check_folders(const struct renaming *renaming)
{
    bool is_message = renaming->item->envelope.kind == ENVELOPE_MESSAGE;
    if (renaming->from == renaming->to)
        return NULL;
    if (is_message && renaming->to != OUTBOX_FOLDER_OUTBOX)
        return "it is a message: it can go to outbox/ or drafts/ alone";
    if (!is_message && renaming->to != OUTBOX_FOLDER_ATTACHMENTS)
        return "it is an attachment: it can go to attachments/ or drafts/ alone";
    return NULL;
}

static int put_on_hold(struct outbox *outbox, struct item *item)
{
    _cleanup_acceptance_ struct acceptance acceptance = {.memory = NULL};
    int error = accept_begin(outbox, item, ENVELOPE_MESSAGE, item->envelope.name, &acceptance);
    acceptance.transition.is_forced = true; /* its writer is told that it is not sent */
    return error != 0 ? error : transition_commit(&acceptance.transition, item);
}

/* A temporary file of a never-sent name was not looked into when it was closed: what comes too late may be
 * the message as it was. */
static void compare_with_what_is_on_hold(struct renaming *renaming)
{
    _cleanup_acceptance_ struct acceptance acceptance = {.memory = NULL};
    _cleanup_free_ char *reason = NULL;
    struct outbox *outbox = renaming->outbox;
    int error = is_open(renaming->item) ? -EBUSY
                                        : accept_prepare(outbox, renaming->item, ENVELOPE_MESSAGE,
                                                         renaming->new_name, &acceptance, &reason);
    pthread_mutex_lock(&outbox->lock);
    struct item *item = error == 0 ? find_too_late_locked(renaming) : NULL;
    if (item != NULL && is_mere_copy(&acceptance.transition.next, item))
        keep_unedited(renaming, item);
    pthread_mutex_unlock(&outbox->lock);
}

/* An edited text that takes no place must not go out as a second message: what was handed in is on hold from
 * now on, and what is being written will not be handed in. */
static int refuse_edit(struct renaming *renaming)
{
    struct item *item = renaming->item;
    char words[160];
    pthread_mutex_lock(&renaming->outbox->lock);
    bool is_written = item->state == ITEM_WRITING;
    if (is_written) {
        snprintf(words, sizeof(words), "interrupted: %s", renaming->refusal);
        item_interrupt(item, words);
    }
    pthread_mutex_unlock(&renaming->outbox->lock);
    int error = item->state == ITEM_QUEUED ? put_on_hold(renaming->outbox, item) : 0;
    if (error != 0)
        return error;
    return reason_give(&renaming->reason, -EBUSY, "%s; it is not sent%s", renaming->refusal,
                       is_written ? "" : ", unless it is written anew or gets another name");
}

static int apply(struct renaming *renaming)
{
    struct item *item = renaming->item;
    const char *objection = check_folders(renaming);
    if (objection != NULL) {
        renaming->reason = strdup(objection);
        return -EPERM;
    }
    if (renaming->refusal != NULL && item->state == ITEM_ON_HOLD)
        compare_with_what_is_on_hold(renaming);
    if (renaming->is_unedited)
        return drop_copy(renaming);
    if (renaming->refusal != NULL)
        return refuse_edit(renaming);
    if (renaming->is_out)
        return rename_settled(renaming);
    if (renaming->is_borrowed)
        return rename_only(renaming, item->state);
    switch (item->state) {
    case ITEM_WRITING:
        return rename_only(renaming, ITEM_WRITING);
    case ITEM_QUEUED:
        return item_is_never_sent(renaming->item->envelope.kind, renaming->new_name)
                   ? hand_in_again(renaming)
                   : rename_only(renaming, ITEM_QUEUED);
    case ITEM_UPLOADING:
    case ITEM_UPLOADED:
        return rename_attachment(renaming);
    case ITEM_ON_HOLD:
        if (item->envelope.error != NULL)
            return rename_interrupted(renaming);
        return item->writers > 0 ? rename_only(renaming, ITEM_WRITING) : hand_in_again(renaming);
    default:
        return hand_in_again(renaming);
    }
}

static int rename_taken(struct renaming *renaming, const char *name, unsigned int flags)
{
    struct outbox *outbox = renaming->outbox;
    int error = take_pair(renaming, name, (flags & RENAME_NOREPLACE) != 0);
    if (error != 0)
        return error;
    bool is_edit = replaces_waiting(renaming);
    error = apply(renaming);
    crash_point("renamed");
    pthread_mutex_lock(&outbox->lock);
    if (error == 0) {
        renaming->item->edit_until_ms = 0;
        renaming->item->opener = renaming->asker.process;
        if (renaming->asker.task > 0) /* else it is `retry` */
            renaming->item->session = writer_session(renaming->asker.task);
        if (is_edit) /* who saves again knows what it saved */
            item_add_reader(renaming->item, &renaming->asker);
        renaming->item->is_awaited = false;
    }
    pthread_mutex_unlock(&outbox->lock);
    bool is_withdrawn = error == 0 && is_edit && item_may_have_been_sent(renaming->replaced) &&
                        (renaming->replaced->envelope.is_hidden || renaming->replaced->state == ITEM_GONE);
    /* First: who removes the item takes with it the only word that the replaced one is not to be sent. */
    release_target(outbox, renaming->replaced);
    pthread_mutex_lock(&outbox->lock);
    leave_item_locked(renaming);
    pthread_mutex_unlock(&outbox->lock);
    if (is_withdrawn)
        notify_withdrawn(outbox, renaming->new_name, "replaced by an edited text");
    if (error == -EINVAL || error == -EXDEV)
        error = -EIO; /* mv(1) would misread them */
    if (error != 0 && (renaming->reason != NULL || (error != -EBUSY && error != -EEXIST && error != -ESTALE)))
        outbox_notify(outbox, EVENT_REFUSED, renaming->from, name, NULL,
                      renaming->reason != NULL ? renaming->reason : strerror(-error));
    return error;
}

int outbox_rename(struct outbox *outbox, enum outbox_folder from, const char *name, enum outbox_folder to,
                  const char *new_name, unsigned int flags, pid_t pid, struct cancel *cancel)
{
    if ((flags & ~(unsigned int)RENAME_NOREPLACE) != 0)
        return -EINVAL;
    if (to != OUTBOX_FOLDER_OUTBOX && to != OUTBOX_FOLDER_ATTACHMENTS)
        return -EPERM;
    if (item_is_receipt_name(name))
        return -EPERM;
    int error = item_check_name(to, new_name);
    if (error != 0)
        return error;
    error = wait_released(outbox, from, name, cancel);
    if (error == 0)
        error = wait_released(outbox, to, new_name, cancel);
    if (error != 0)
        return error;
    if (from == to && strcmp(name, new_name) == 0) {
        struct outbox_stat stat;
        return outbox_find(outbox, from, name, &stat) ? 0 : -ENOENT;
    }
    struct renaming renaming = {
        .outbox = outbox,
        .from = from,
        .to = to,
        .new_name = new_name,
        .asker = {.task = pid, .process = writer_process(pid)},
    };
    renaming.asker.started = writer_started(renaming.asker.process);
    error = rename_taken(&renaming, name, flags);
    free(renaming.reason);
    free(renaming.free_name);
    return error;
}

/* ---------------------------------------------------------------- retry */

/* Whether something waits under this name. Then it is tried now. */
static bool retry_waiting(struct outbox *outbox, enum outbox_folder folder, const char *name)
{
    pthread_mutex_lock(&outbox->lock);
    struct item *item = item_table_find(&outbox->table, folder, name);
    bool is_waiting = item != NULL && item_state_is_unsettled(item->state);
    if (is_waiting) {
        send_queue_wake(item);
        suspension_wake(&outbox->suspensions[item->envelope.kind]);
        outbox_wake_workers_locked(outbox);
    }
    pthread_mutex_unlock(&outbox->lock);
    return is_waiting;
}

static int retry_failed(struct outbox *outbox, const char *name)
{
    char *free_name = NULL;
    enum outbox_folder to = OUTBOX_FOLDER_OUTBOX;
    pthread_mutex_lock(&outbox->lock);
    const struct item *item = item_table_find(&outbox->table, OUTBOX_FOLDER_FAILED, name);
    if (item != NULL) {
        to = item->envelope.kind == ENVELOPE_MESSAGE ? OUTBOX_FOLDER_OUTBOX : OUTBOX_FOLDER_ATTACHMENTS;
        free_name = item_table_choose_name(&outbox->table, to, name);
    }
    pthread_mutex_unlock(&outbox->lock);
    if (item == NULL)
        return -ENOENT;
    int error = free_name == NULL
                    ? -ENOMEM
                    : outbox_rename(outbox, OUTBOX_FOLDER_FAILED, name, to, free_name, 0, 0, NULL);
    free(free_name);
    return error;
}

int outbox_retry(struct outbox *outbox, const char *name)
{
    if (name == NULL) {
        outbox_wake(outbox);
        return 0;
    }
    if (retry_waiting(outbox, OUTBOX_FOLDER_OUTBOX, name) ||
        retry_waiting(outbox, OUTBOX_FOLDER_ATTACHMENTS, name))
        return 0;
    return retry_failed(outbox, name);
}

/* ---------------------------------------------------------------- unlink */

static int unlink_receipt(struct outbox *outbox, enum outbox_folder folder, const char *name)
{
    struct outbox_stat stat;
    return outbox_find(outbox, folder, name, &stat) ? -EPERM : -ENOENT;
}

/* Whether another message with the same content waits for its first attempt. It takes the key over then, if
 * it was handed in before its backup was there. */
static bool is_key_awaited(struct outbox *outbox, const struct item *item)
{
    const struct item *other = NULL;
    bool has_used_key =
        item_remembers_key(item) || (item->state == ITEM_QUEUED && item_may_have_been_sent(item));
    if (!has_used_key || item->envelope.digest[0] == '\0')
        return false;
    pthread_mutex_lock(&outbox->lock);
    do
        other = send_queue_next(&outbox->queue, other);
    while (other != NULL && (other == item || other->envelope.attempts > 0 ||
                             strcmp(other->envelope.digest, item->envelope.digest) != 0));
    pthread_mutex_unlock(&outbox->lock);
    return other != NULL;
}

static int remove_claimed(struct outbox *outbox, struct item *item)
{
    if (binding_is_needed(outbox, item))
        return transition_hide(outbox, item);
    if (!is_key_awaited(outbox, item))
        return transition_remove(outbox, item);
    return removal_drop_content(outbox, item);
}

/* An editor that has closed the new text, and removes the backup that remembers its key. */
static bool is_backup_with_key(struct outbox *outbox, enum outbox_folder folder, const char *name)
{
    pthread_mutex_lock(&outbox->lock);
    const struct item *item = item_table_find(&outbox->table, folder, name);
    bool is_it = item != NULL && item_remembers_key(item);
    pthread_mutex_unlock(&outbox->lock);
    return is_it;
}

int outbox_unlink(struct outbox *outbox, enum outbox_folder folder, const char *name)
{
    struct item *item;
    if (item_is_receipt_name(name))
        return unlink_receipt(outbox, folder, name);
    if (folder == OUTBOX_FOLDER_ATTACHMENTS)
        wait_released(outbox, folder, name, NULL);
    else if (is_backup_with_key(outbox, folder, name))
        release_wait(outbox, ENVELOPE_MESSAGE, NULL);
    int error = claim_by_name(outbox, folder, name, &item);
    if (error != 0)
        return error;
    bool was_waiting = item->state == ITEM_QUEUED;
    error = remove_claimed(outbox, item);
    if (error == 0 && was_waiting && item_may_have_been_sent(item))
        notify_withdrawn(outbox, name, "removed");
    claim_release(outbox, item);
    removal_collect(outbox);
    return error;
}

/* ================================================================ between drafts/ and the outbox */

/* ---------------------------------------------------------------- in: the draft's side */

struct moving_in {
    struct outbox *outbox;
    int dir_fd;
    const char *draft_name;
    const char *name;
    const char *answers; /* or NULL */
    char *free_name;     /* `name`, where it was chosen here */
    pid_t session;       /* of who moves it */
    pid_t mover;         /* the process that moves it; -1: nobody knows its name here */
    enum envelope_kind kind;
    int fd; /* of the draft */
    struct stat status;
    char *bytes; /* of a message */
    size_t len;
    struct item *item;
    struct item *replaced;
    char *reason;
};

static int refuse_special(struct moving_in *moving)
{
    return reason_give(&moving->reason, -EBADMSG, "only ordinary files can be handed in");
}

static int check_file(struct moving_in *moving)
{
    const struct stat *status = &moving->status;
    if (S_ISDIR(status->st_mode))
        return reason_give(&moving->reason, -EISDIR, "a directory cannot be handed in");
    if (!S_ISREG(status->st_mode))
        return refuse_special(moving);
    /* Under its other name the content could still be changed after it was checked. */
    if (status->st_nlink > 1)
        return reason_give(&moving->reason, -EMLINK, "the file has a second name (a hard link)");
    size_t max = accept_max_bytes(moving->kind);
    if ((uint64_t)status->st_size > max)
        return reason_give(&moving->reason, moving->kind == ENVELOPE_MESSAGE ? -EMSGSIZE : -EFBIG,
                           "the file is larger than %zu bytes", max);
    if (status->st_size == 0 && !item_is_never_sent(moving->kind, moving->name))
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
        return error == -ENXIO ? refuse_special(moving) : error; /* a socket */
    }
    int error = check_file(moving);
    moving->len = (size_t)moving->status.st_size;
    if (error == 0 && moving->kind == ENVELOPE_MESSAGE)
        error = file_read_fd(moving->fd, accept_max_bytes(moving->kind), &moving->bytes, &moving->len);
    return error;
}

/* ---------------------------------------------------------------- in: the outbox's side */

static int claim_target(struct moving_in *moving, enum outbox_folder folder, bool is_exclusive)
{
    struct outbox *outbox = moving->outbox;
    int error;
    pthread_mutex_lock(&outbox->lock);
    while ((error = claim_target_locked(outbox, folder, moving->name, is_exclusive, &moving->replaced)) ==
           -EAGAIN)
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
    moving->item->session = moving->session;
    moving->item->envelope.order = number;
    moving->item->envelope.content = number;
    moving->item->envelope.name = strdup(moving->name);
    if (moving->answers != NULL && (moving->item->envelope.answers = strdup(moving->answers)) == NULL)
        return -ENOMEM;
    return moving->item->envelope.name == NULL ? -ENOMEM : 0;
}

/* The rename is the moment of acceptance: before it, a crash leaves the draft; after it, the message. */
static int move_file(struct moving_in *moving, struct transition *transition)
{
    struct spool *spool = moving->outbox->spool;
    uint64_t number = moving->item->number;
    int error = file_sync(moving->fd);
    crash_point("synced_draft");
    error = error != 0 ? error : transition_save(transition, moving->item);
    crash_point("saved_envelope");
    error = error != 0 ? error : spool_take_in(spool, number, moving->dir_fd, moving->draft_name);
    crash_point("handed_in");
    if (error != 0)
        spool_remove(spool, number);
    else if (fchmod(moving->fd, 0600) != 0)
        log_warning("a file in the spool keeps the mode of its draft: %s", strerror(errno));
    return error;
}

static void show_item(struct moving_in *moving, struct transition *transition)
{
    struct outbox *outbox = moving->outbox;
    pthread_mutex_lock(&outbox->lock);
    int error = transition_add_locked(transition, moving->item);
    pthread_mutex_unlock(&outbox->lock);
    /* Without memory the message is in the spool all the same: it goes out after the next start. */
    if (error != 0)
        log_error("no memory for a message that was handed in; it waits for the next start");
}

static int accept_draft(struct moving_in *moving)
{
    _cleanup_acceptance_ struct acceptance acceptance = {.memory = NULL};
    struct outbox *outbox = moving->outbox;
    int error = make_item(moving);
    if (error == 0)
        error = accept_begin(outbox, moving->item, moving->kind, moving->name, &acceptance);
    if (error == 0)
        error = accept_check(&acceptance, moving->bytes, moving->len, &moving->reason);
    acceptance.transition.replaced = moving->replaced;
    if (error == 0) {
        pthread_mutex_lock(&outbox->lock);
        error = transition_reserve_locked(&acceptance.transition, moving->item);
        pthread_mutex_unlock(&outbox->lock);
    }
    if (error == 0)
        error = move_file(moving, &acceptance.transition);
    if (error == 0) {
        show_item(moving, &acceptance.transition);
        accept_done(&acceptance);
    }
    return error;
}

static void drop_item(struct moving_in *moving)
{
    pthread_mutex_lock(&moving->outbox->lock);
    item_unref(moving->item);
    pthread_mutex_unlock(&moving->outbox->lock);
    moving->item = NULL;
}

/* For answers `name` is a proposal. Between choosing a free name and reserving it another thread may take
 * it: then the next is chosen. */
static int accept_answer(struct moving_in *moving)
{
    int error = item_check_name(OUTBOX_FOLDER_OUTBOX, moving->name);
    const char *proposed = moving->name;
    if (error == 0)
        error = open_draft(moving);
    if (error != 0)
        return error;
    do {
        drop_item(moving);
        free(moving->free_name);
        moving->free_name = outbox_choose_name(moving->outbox, proposed);
        moving->name = moving->free_name;
        error = moving->free_name == NULL ? -ENOMEM : accept_draft(moving);
    } while (error == -EEXIST);
    return error;
}

static int hand_in_draft(struct moving_in *moving, unsigned int flags)
{
    enum outbox_folder to =
        moving->kind == ENVELOPE_MESSAGE ? OUTBOX_FOLDER_OUTBOX : OUTBOX_FOLDER_ATTACHMENTS;
    int error = item_check_name(to, moving->name);
    if (error != 0)
        return reason_give(&moving->reason, error, "the name cannot be used here");
    wait_released(moving->outbox, to, moving->name, NULL);
    error = claim_target(moving, to, (flags & RENAME_NOREPLACE) != 0);
    if (error == 0)
        error = open_draft(moving);
    return error != 0 ? error : accept_draft(moving);
}

static int end_moving(struct moving_in *moving, const char *shown_path, int error)
{
    struct outbox *outbox = moving->outbox;
    release_target(outbox, moving->replaced);
    if (error == -EINVAL || error == -EXDEV)
        error = -EIO; /* mv(1) would copy, or speak of subdirectories */
    if (error != 0)
        outbox_notify_path(outbox, EVENT_REFUSED, shown_path, NULL,
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
        .session = writer_session(pid),
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
                          const char *shown_path, const char *answers, const char *name, pid_t pid)
{
    struct moving_in moving = {
        .outbox = outbox,
        .dir_fd = draft_dir_fd,
        .draft_name = draft_name,
        .name = name,
        .mover = -1,
        .session = writer_session(pid),
        .answers = answers,
        .kind = ENVELOPE_MESSAGE,
        .fd = -1,
    };
    return end_moving(&moving, shown_path, accept_answer(&moving));
}

/* ---------------------------------------------------------------- out */

static int take_out_claimed(struct outbox *outbox, struct item *item, int dir_fd, const char *draft_name,
                            unsigned int flags)
{
    pthread_mutex_lock(&outbox->lock);
    bool is_in_use = item->state == ITEM_WRITING || item->writers > 0 || item->users > 0;
    pthread_mutex_unlock(&outbox->lock);
    if (is_in_use || !(item_state_may_follow(item->state, ITEM_GONE)))
        return -EBUSY;
    int error = transition_remove_superseded(outbox, item);
    if (error == 0)
        error = spool_take_out(outbox->spool, item->number, dir_fd, draft_name, flags);
    if (error == 0)
        removal_content_is_gone(outbox, item);
    return error == -EINVAL || error == -EXDEV ? -EIO : error;
}

int outbox_take_out(struct outbox *outbox, enum outbox_folder from, const char *name, int draft_dir_fd,
                    const char *draft_name, unsigned int flags)
{
    struct item *item;
    if ((flags & ~(unsigned int)RENAME_NOREPLACE) != 0)
        return -EINVAL;
    if (item_is_receipt_name(name))
        return -EPERM;
    int error = wait_released(outbox, from, name, NULL);
    if (error == 0)
        error = claim_by_name(outbox, from, name, &item);
    if (error != 0)
        return error;
    error = take_out_claimed(outbox, item, draft_dir_fd, draft_name, flags);
    claim_release(outbox, item);
    return error;
}
