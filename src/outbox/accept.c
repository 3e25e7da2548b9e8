/* SPDX-License-Identifier: MIT */
/*
 * Checks an item at its hand-in, and chooses the idempotency key: the key that its content already has, or a
 * new one.
 */
#include "outbox/accept.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/crash_point.h"
#include "base/lock.h"
#include "base/random.h"
#include "mail/draft.h"
#include "mail/reason.h"

DEFINE_CLEANUP_FREE(draft)

size_t accept_max_bytes(enum item_kind kind)
{
    return kind == ITEM_MESSAGE ? DRAFT_MAX_BYTES : ATTACHMENTS_MAX_BYTES;
}

static void begin_hand_in(struct item *item, const char *name, struct change *ret)
{
    struct row *next = &ret->next;
    change_begin(ret, item, ITEM_WAITING);
    row_clear_outcome(next);
    next->was_unknown = item_may_have_been_sent(item);
    if (item->row.state == ITEM_SENT) /* the user sends the content again, as a new message */
        next->key[0] = next->digest[0] = '\0';
    row_set_string(&next->name, name);
}

static int find_sender(struct outbox *outbox, struct row *next, const struct draft *draft, char **ret_reason)
{
    const struct outbox_config *config = &outbox->config;
    const char *named = draft->from != NULL ? draft->from : config->default_from;
    int error = config->senders.find_sender(config->senders.context, named, &next->from);
    if (error == 0)
        return 0;
    if (named != NULL)
        return reason_give(ret_reason, error, "%.254s is not one of your inboxes", named);
    return reason_give(ret_reason, error,
                       "neither the message (From) nor the mount (--from) names one of your inboxes");
}

void accept_digest(const struct row *row, const char *bytes, size_t len, char ret_digest[ITEM_DIGEST_SIZE])
{
    char both[2 * ITEM_DIGEST_SIZE];
    item_digest(bytes, len, ret_digest);
    if (row->reply_template == NULL)
        return;
    memcpy(both, ret_digest, ITEM_DIGEST_SIZE);
    item_digest(row->reply_template, strlen(row->reply_template), both + ITEM_DIGEST_SIZE);
    item_digest(both, sizeof(both), ret_digest);
}

/* Keeps the key of an unedited content. */
static void choose_key(struct row *next, const char *bytes, size_t len)
{
    char digest[ITEM_DIGEST_SIZE];
    accept_digest(next, bytes, len, digest);
    if (next->key[0] != '\0' && strcmp(next->digest, digest) == 0)
        return;
    memcpy(next->digest, digest, sizeof(digest));
    next->was_unknown = false;
    random_uuid(next->key);
}

/* Finds the first known email that the draft names. Returns 0; -ENOENT if no email is known; -EXDEV if an
 * email is known in another inbox; another -errno if the search failed. */
static int find_email(const struct email_directory *emails, const struct draft *draft, const char *from,
                      char **ret_email_id)
{
    bool is_elsewhere = false;
    for (size_t i = 0; i < draft->message_ids_len && emails->find_email != NULL; i++) {
        int error = emails->find_email(emails->context, draft->message_ids[i], from, ret_email_id);
        if (error != -ENOENT && error != -EXDEV)
            return error;
        is_elsewhere = is_elsewhere || error == -EXDEV;
    }
    return is_elsewhere ? -EXDEV : -ENOENT;
}

#define NEW_THREAD "In-Reply-To, References: sent as a new thread, "

/* The key does not depend on the email that is found: a text that may have been sent keeps its key although
 * the user has opened the email since. Such a text keeps its request as well, because a service may reject a
 * different request with the same key. */
static void find_replied_email(struct outbox *outbox, struct row *next, const struct draft *draft)
{
    const char *description = NEW_THREAD "as it was before";
    if (!next->was_unknown) {
        free(TAKE_PTR(next->replies_to));
        int error = find_email(&outbox->config.emails, draft, next->from, &next->replies_to);
        description = error == -EXDEV    ? NEW_THREAD "for the email that they name is in another inbox"
                      : error == -ENOENT ? NEW_THREAD "for no message that they name was opened in this mount"
                                         : NEW_THREAD "for it cannot be read which messages were opened here";
    }
    if (draft->message_ids_len > 0 && next->replies_to == NULL)
        row_add_not_carried(next, description);
}

/* ---------------------------------------------------------------- binding attachments */

/* Waits while a thread has claimed the file for the disk. An item in ITEM_WAITING (empty, or never sent)
 * cannot be attached. */
static struct item *find_file_locked(struct outbox *outbox, const char *name)
{
    struct item *item;
    while ((item = item_table_find(&outbox->table, OUTBOX_FOLDER_ATTACHMENTS, name)) != NULL &&
           item->claim == CLAIM_DISK)
        pthread_cond_wait(&outbox->changed, &outbox->lock);
    bool is_file = item != NULL && (item->row.state == ITEM_UPLOADING || item->row.state == ITEM_UPLOADED ||
                                    item->row.state == ITEM_WRITING);
    return is_file ? item : NULL;
}

/* While the content is linked, no thread can claim the file to change it. */
static int bind_file(struct outbox *outbox, struct change *change, const char *name, int64_t *bytes)
{
    LOCK_GUARD(&outbox->lock);
    struct item *file = find_file_locked(outbox, name);
    if (file == NULL)
        return -ENODATA;
    if (file->row.state == ITEM_WRITING) {
        change->awaits = file->number;
        return 0;
    }
    struct piece *piece = row_add_piece(&change->next, file->row.name);
    piece->size = file->row.size;
    memcpy(piece->digest, file->row.digest, sizeof(piece->digest));
    piece->content = spool_take_number(outbox->spool);
    *bytes += piece->size;
    item_ref(file)->linking++;
    pthread_mutex_unlock(&outbox->lock);
    int error = spool_link_content(outbox->spool, file->number, piece->content);
    pthread_mutex_lock(&outbox->lock);
    file->linking--;
    pthread_cond_broadcast(&outbox->changed);
    item_unref(file);
    return error;
}

/* Binds the files that a draft names: each becomes a piece of the message, whose content is a link to the
 * file's content or a copy, so that a later change of the file does not change the message. Adds the sizes to
 * *bytes. Sets change->awaits if a file is still being written. Waits for the disk and for claims on the
 * files; -ENODATA: a file does not exist or is empty. */
static int bind_files(struct outbox *outbox, struct change *change, const struct draft *draft, int64_t *bytes,
                      char **ret_reason)
{
    int error = 0;
    for (size_t i = 0; i < draft->attachment_names_len && error == 0; i++) {
        error = bind_file(outbox, change, draft->attachment_names[i], bytes);
        if (error == -ENODATA)
            return reason_give(ret_reason, error, "there is no file attachments/%.255s, or it is empty",
                               draft->attachment_names[i]);
    }
    crash_point("linked");
    return error == 0 && change->next.pieces_len > 0 ? spool_sync_names(outbox->spool) : error;
}

/* ---------------------------------------------------------------- the whole check */

/* A repeated request with the same key must have the same pool ids. */
static void keep_pool_ids(const struct row *before, struct row *next)
{
    for (size_t i = 0; i < next->pieces_len && i < before->pieces_len; i++) {
        const struct piece *old = &before->pieces[i];
        struct piece *piece = &next->pieces[i];
        /* MIME parts have no digest. */
        if ((old->name == NULL) == (piece->name == NULL) && strcmp(old->digest, piece->digest) == 0)
            row_set_string(&piece->pool_id, old->pool_id);
    }
}

static int collect_pieces(struct outbox *outbox, struct change *change, const struct draft *draft,
                          char **ret_reason)
{
    struct row *next = &change->next;
    int64_t bytes = 0;
    int error = bind_files(outbox, change, draft, &bytes, ret_reason);
    if (error != 0)
        return error;
    for (size_t i = 0; i < draft->parts_len; i++) {
        bytes += (int64_t)draft->parts[i].len;
        row_add_piece(next, NULL);
    }
    if (bytes > ATTACHMENTS_MAX_BYTES)
        return reason_give(ret_reason, -EMSGSIZE, "the attachments are larger than %d bytes together",
                           ATTACHMENTS_MAX_BYTES);
    if (strcmp(change->item->row.key, next->key) == 0)
        keep_pool_ids(&change->item->row, next);
    return 0;
}

static int check_message(struct outbox *outbox, struct change *change, const char *bytes, size_t len,
                         char **ret_reason)
{
    _cleanup_(cleanup_draft_free) struct draft *draft = NULL;
    struct row *next = &change->next;
    int error = draft_parse(bytes, len, next->reply_template, &draft, ret_reason);
    error = error != 0 ? error : find_sender(outbox, next, draft, ret_reason);
    if (error != 0)
        return error;
    draft_sequence(draft->request, next->from, next->sequence);
    choose_key(next, bytes, len);
    for (size_t i = 0; i < draft->not_carried_len; i++)
        row_add_not_carried(next, draft->not_carried[i]);
    find_replied_email(outbox, next, draft);
    error = collect_pieces(outbox, change, draft, ret_reason);
    next->state = change->awaits != 0 ? ITEM_WAITING : ITEM_QUEUED;
    if (error == 0 && change->awaits != 0) { /* after the attachment's close everything is checked again */
        spool_remove_pieces(outbox->spool, next, NULL);
        row_clear_outcome(next);
    }
    return error;
}

int accept_check(struct outbox *outbox, struct item *item, const char *name, const char *bytes, size_t len,
                 struct change *ret, char **ret_reason)
{
    struct row *next = &ret->next;
    begin_hand_in(item, name, ret);
    if (len == 0 || item_is_never_sent(next->kind, name))
        return 0;
    next->accepted_ms = outbox_realtime_ms(outbox);
    if (item->row.state != ITEM_WAITING) /* a waiting message keeps the position of its last close */
        next->position = spool_take_number(outbox->spool);
    if (next->kind == ITEM_MESSAGE)
        return check_message(outbox, ret, bytes, len, ret_reason);
    next->state = ITEM_UPLOADING;
    next->size = (int64_t)len;
    item_digest(bytes, len, next->digest);
    return 0;
}

int accept_prepare(struct outbox *outbox, struct item *item, const char *name, struct change *ret,
                   char **ret_reason)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len;
    size_t max = accept_max_bytes(item->row.kind);
    *ret = (struct change){.item = NULL};
    int error = spool_read_content(outbox->spool, item->number, max, &bytes, &len);
    if (error == -EFBIG)
        return -EMSGSIZE;
    return error != 0 ? error : accept_check(outbox, item, name, bytes, len, ret, ret_reason);
}
