/* SPDX-License-Identifier: MIT */
/*
 * rename(2) and unlink(2) inside the four folders.
 */
#include "outbox/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/crash_point.h"
#include "base/log.h"
#include "mail/file_name.h"
#include "outbox/change.h"
#include "outbox/core.h"
#include "outbox/hand_in.h"
#include "outbox/numbered_name.h"

/* ---------------------------------------------------------------- what stands in the way */

int names_claim_target_locked(struct outbox *outbox, enum outbox_folder folder, const char *name,
                              bool is_exclusive, struct item **ret_replaced)
{
    struct item *item = item_table_find(&outbox->table, folder, name);
    *ret_replaced = NULL;
    if (item == NULL)
        return item_table_is_taken(&outbox->table, folder, name) ? -EEXIST : 0;
    if (is_exclusive)
        return -EEXIST;
    if (core_must_wait_locked(item))
        return -EAGAIN;
    if (item->state == ITEM_WRITING || item->writers > 0)
        return -EBUSY;
    bool is_replaceable =
        item->state == ITEM_HELD || item->state == ITEM_UPLOADED || item->state == ITEM_UPLOADING;
    if (!is_replaceable || core_claim_locked(outbox, item, CLAIM_DISK) != 0)
        return -EEXIST;
    *ret_replaced = item;
    return 0;
}

char *names_choose_free(struct outbox *outbox, enum outbox_folder folder, const char *name)
{
    pthread_mutex_lock(&outbox->lock);
    char *free_name = numbered_name_find(&outbox->table, folder, name);
    pthread_mutex_unlock(&outbox->lock);
    return free_name;
}

static void hide_durably(struct outbox *outbox, struct item *item)
{
    _cleanup_change_ struct change change;
    int error = change_begin(outbox, item, item->state, &change);
    if (error == 0)
        error = change_commit(&change, item);
    if (error != 0)
        log_warning("the spool could not record that a file was replaced: %s", strerror(-error));
}

void names_release_target(struct outbox *outbox, struct item *replaced)
{
    if (replaced == NULL)
        return;
    pthread_mutex_lock(&outbox->lock);
    bool is_needed = replaced->envelope.is_hidden && replaced->users > 0;
    pthread_mutex_unlock(&outbox->lock);
    crash_point("replaced");
    if (is_needed)
        hide_durably(outbox, replaced);
    core_unclaim(outbox, replaced);
    binding_collect(outbox);
}

int names_wait_released(struct outbox *outbox, enum outbox_folder folder, const char *name,
                        struct cancel *cancel)
{
    pthread_mutex_lock(&outbox->lock);
    struct item *item = item_table_find(&outbox->table, folder, name);
    if (item != NULL)
        item_ref(item);
    pthread_mutex_unlock(&outbox->lock);
    if (item == NULL)
        return 0;
    int error = closing_wait_before_change(outbox, item, cancel);
    pthread_mutex_lock(&outbox->lock);
    item_unref(item);
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

/* ---------------------------------------------------------------- rename */

struct renaming {
    struct outbox *outbox;
    struct item *item; /* claimed */
    struct item *replaced;
    enum outbox_folder from;
    enum outbox_folder to;
    const char *new_name;
    char *reason; /* owned */
};

/* Both claims or none: two renames in opposite directions must not wait for each other. */
static int claim_pair(struct renaming *renaming, const char *name, bool is_exclusive)
{
    struct outbox *outbox = renaming->outbox;
    int error;
    pthread_mutex_lock(&outbox->lock);
    for (;;) {
        struct item *item = item_table_find(&outbox->table, renaming->from, name);
        error = item == NULL ? -ENOENT : 0;
        if (error == 0 && core_must_wait_locked(item))
            error = -EAGAIN;
        if (error == 0)
            error = core_claim_locked(outbox, item, CLAIM_DISK);
        if (error == 0) {
            error = names_claim_target_locked(outbox, renaming->to, renaming->new_name, is_exclusive,
                                              &renaming->replaced);
            if (error != 0)
                core_unclaim_locked(outbox, item);
            else
                renaming->item = item;
        }
        if (error != -EAGAIN)
            break;
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    }
    pthread_mutex_unlock(&outbox->lock);
    return error;
}

static int commit(struct renaming *renaming, struct change *change)
{
    change->replaced = renaming->replaced;
    return change_commit(change, renaming->item);
}

static int set_name(struct change *change, const char *name)
{
    free(change->next.name);
    change->next.name = strdup(name);
    return change->next.name == NULL ? -ENOMEM : 0;
}

/* The name alone: of what is still written, or waits in the queue. */
static int rename_only(struct renaming *renaming, enum item_state state)
{
    _cleanup_change_ struct change change;
    int error = change_begin(renaming->outbox, renaming->item, state, &change);
    if (error == 0)
        error = set_name(&change, renaming->new_name);
    return error != 0 ? error : commit(renaming, &change);
}

static int read_message(struct renaming *renaming, char **ret_bytes, size_t *ret_len)
{
    struct item *item = renaming->item;
    *ret_len = (size_t)item->size;
    if (renaming->to == OUTBOX_FOLDER_ATTACHMENTS || item->size == 0)
        return 0;
    int error = spool_read_data(renaming->outbox->spool, item->number, hand_in_max_bytes(ENVELOPE_MESSAGE),
                                ret_bytes, ret_len);
    return error == -EFBIG ? -EMSGSIZE : error;
}

/* Under its new name it is handed in, or held, whatever it was before. */
static int hand_in_again(struct renaming *renaming)
{
    _cleanup_hand_in_ struct hand_in hand_in = {.memory = NULL};
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    enum envelope_kind kind = renaming->to == OUTBOX_FOLDER_OUTBOX ? ENVELOPE_MESSAGE : ENVELOPE_ATTACHMENT;
    int error = read_message(renaming, &bytes, &len);
    if (error == 0)
        error = hand_in_begin(renaming->outbox, renaming->item, kind, renaming->new_name, &hand_in);
    if (error == 0)
        error = hand_in_check(&hand_in, bytes, len, &renaming->reason);
    if (error == 0)
        error = commit(renaming, &hand_in.change);
    if (error == 0)
        hand_in_done(&hand_in);
    return error;
}

/* The name is what the email shows, so the file is uploaded again under the new one. Messages keep what they
 * bound, with its name. */
static int rename_attachment(struct renaming *renaming)
{
    struct item *item = renaming->item;
    uint64_t content;
    if (!binding_is_needed(renaming->outbox, item))
        return hand_in_again(renaming);
    int error = binding_split(renaming->outbox, item, INT64_MAX, NULL);
    if (error == 0)
        error = spool_take_number(renaming->outbox->spool, &content);
    if (error != 0)
        return error;
    pthread_mutex_lock(&renaming->outbox->lock);
    item->envelope.content = content;
    pthread_mutex_unlock(&renaming->outbox->lock);
    return hand_in_again(renaming);
}

/* NULL: it may go there. */
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

static int apply(struct renaming *renaming)
{
    struct item *item = renaming->item;
    const char *objection = check_folders(renaming);
    if (objection != NULL) {
        renaming->reason = strdup(objection);
        return -EPERM;
    }
    switch (item->state) {
    case ITEM_WRITING:
        return rename_only(renaming, ITEM_WRITING);
    case ITEM_QUEUED:
        return file_name_is_never_sent(renaming->new_name) ? hand_in_again(renaming)
                                                           : rename_only(renaming, ITEM_QUEUED);
    case ITEM_UPLOADING:
    case ITEM_UPLOADED:
        return rename_attachment(renaming);
    case ITEM_HELD:
        return item->writers > 0 ? rename_only(renaming, ITEM_WRITING) : hand_in_again(renaming);
    default:
        return hand_in_again(renaming);
    }
}

static int rename_claimed(struct outbox *outbox, enum outbox_folder from, const char *name,
                          enum outbox_folder to, const char *new_name, unsigned int flags)
{
    struct renaming renaming = {.outbox = outbox, .from = from, .to = to, .new_name = new_name};
    int error = claim_pair(&renaming, name, (flags & RENAME_NOREPLACE) != 0);
    if (error != 0)
        return error;
    error = apply(&renaming);
    core_unclaim(outbox, renaming.item);
    names_release_target(outbox, renaming.replaced);
    if (error == -EINVAL || error == -EXDEV)
        error = -EIO; /* mv(1) would misread them */
    if (error != 0 && error != -EBUSY && error != -EEXIST)
        core_tell(outbox, EVENT_REFUSED, from, name, NULL,
                  renaming.reason != NULL ? renaming.reason : strerror(-error));
    free(renaming.reason);
    return error;
}

int outbox_rename(struct outbox *outbox, enum outbox_folder from, const char *name, enum outbox_folder to,
                  const char *new_name, unsigned int flags, struct cancel *cancel)
{
    if ((flags & ~(unsigned int)RENAME_NOREPLACE) != 0)
        return -EINVAL;
    if (to != OUTBOX_FOLDER_OUTBOX && to != OUTBOX_FOLDER_ATTACHMENTS)
        return -EPERM;
    if (core_is_receipt_name(name))
        return -EPERM;
    int error = core_check_name(to, new_name);
    if (error != 0)
        return error;
    error = names_wait_released(outbox, from, name, cancel);
    if (error == 0)
        error = names_wait_released(outbox, to, new_name, cancel);
    if (error != 0)
        return error;
    if (from == to && strcmp(name, new_name) == 0) {
        struct outbox_stat stat;
        return outbox_find(outbox, from, name, &stat) ? 0 : -ENOENT;
    }
    return rename_claimed(outbox, from, name, to, new_name, flags);
}

/* ---------------------------------------------------------------- unlink */

/* Its content is kept for the messages that need it. */
static int hide(struct outbox *outbox, struct item *item)
{
    _cleanup_change_ struct change change;
    int error = change_begin(outbox, item, item->state, &change);
    change.next.is_hidden = true;
    return error != 0 ? error : change_commit(&change, item);
}

static int unlink_receipt(struct outbox *outbox, enum outbox_folder folder, const char *name)
{
    struct outbox_stat stat;
    return outbox_find(outbox, folder, name, &stat) ? -EPERM : -ENOENT;
}

int outbox_unlink(struct outbox *outbox, enum outbox_folder folder, const char *name)
{
    struct item *item;
    if (core_is_receipt_name(name))
        return unlink_receipt(outbox, folder, name);
    if (folder == OUTBOX_FOLDER_ATTACHMENTS)
        names_wait_released(outbox, folder, name, NULL);
    int error = core_claim_name(outbox, folder, name, &item);
    if (error != 0)
        return error;
    error = binding_is_needed(outbox, item) ? hide(outbox, item) : change_remove(outbox, item);
    core_unclaim(outbox, item);
    binding_collect(outbox);
    return error;
}
