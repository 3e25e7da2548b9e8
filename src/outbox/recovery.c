/* SPDX-License-Identifier: MIT */
/*
 * Opens the outbox: from the spool's files to items in memory, after whatever end the last run came to. It
 * loads every item, mends what a crash left half, gives names and places in the queue, and settles what
 * cannot go on. Nobody else knows the outbox yet; the lock is taken all the same, for the functions that ask
 * for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/envelope.h"
#include "mail/reason.h"
#include "outbox/item.h"
#include "outbox/removal.h"
#include "outbox/send.h"
#include "outbox/send_queue.h"
#include "outbox/spool.h"
#include "outbox/transition.h"

DEFINE_CLEANUP_FREE(outbox)

/* ---------------------------------------------------------------- loading */

/* The receipt shows the request, so its size is found before the request is dropped from memory. */
static int measure_receipt(struct item *item)
{
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(ENVELOPE_MAX_BYTES);
    if (item_state_has_receipt(item->state) && !item->envelope.is_hidden) {
        int error = receipt_format(&item->envelope, &receipt);
        if (error != 0)
            return error;
        item->receipt_bytes = receipt.len;
    }
    if (item->state != ITEM_SENDING) {
        free(item->envelope.request);
        item->envelope.request = NULL;
    }
    return 0;
}

static int load_item(struct outbox *outbox, const struct spool_item *found, struct envelope *envelope,
                     enum item_state state)
{
    struct item *item = item_new(found->number);
    if (item == NULL)
        return -ENOMEM;
    item->envelope = *envelope;
    *envelope = (struct envelope){0};
    item->state = state;
    item->size = found->size;
    item->mtime = found->mtime;
    item->is_durable = true;
    int error = measure_receipt(item);
    if (error == 0)
        error = item_table_add(&outbox->table, item);
    if (error != 0) {
        item_unref(item);
        return error;
    }
    outbox->memories += item_remembers_key(item);
    spool_skip_number(outbox->spool, item->envelope.order);
    spool_skip_number(outbox->spool, item->envelope.content);
    if (item->envelope.order > outbox->last_order)
        outbox->last_order = item->envelope.order;
    return 0;
}

/* An envelope without content: a hand-in that did not come to its rename (the draft is where it was), a
 * removal, or a message that was taken out to a draft. Only the last has a key to remember. */
static int load_without_data(struct outbox *outbox, const struct spool_item *found, struct envelope *envelope,
                             enum item_state state)
{
    struct item probe = {.state = state, .envelope = *envelope};
    if (state != ITEM_DRAFTED && !key_memory_is_needed(&probe))
        return spool_remove(outbox->spool, found->number);
    envelope->was_unknown = item_may_have_been_sent(&probe);
    return load_item(outbox, found, envelope, ITEM_DRAFTED);
}

/* An empty content without a whole envelope comes from a creation that was cut short: its caller got no
 * answer. */
static int load_without_envelope(struct outbox *outbox, const struct spool_item *found)
{
    if (found->size == 0)
        return spool_remove(outbox->spool, found->number);
    spool_set_aside(outbox->spool, found->number, "it has no envelope");
    return 0;
}

static int load(void *context, struct spool_item *found)
{
    struct outbox *outbox = context;
    struct envelope envelope = {0};
    enum item_state state = ITEM_GONE;
    if (found->envelope == NULL || found->envelope_len == 0)
        return load_without_envelope(outbox, found);

    int error = envelope_parse(found->envelope, found->envelope_len, &envelope);
    if (error == 0 && envelope.number != found->number)
        error = -EBADMSG;
    if (error == 0)
        error = item_state_from_name(envelope.state, &state);
    if (error == 0 && found->has_data && state == ITEM_DRAFTED)
        error = -EBADMSG;
    if (error == -EBADMSG) {
        spool_set_aside(outbox->spool, found->number, "its envelope cannot be understood");
        error = 0;
    } else if (error == 0) {
        error = found->has_data ? load_item(outbox, found, &envelope, state)
                                : load_without_data(outbox, found, &envelope, state);
    }
    envelope_release(&envelope);
    return error;
}

/* ---------------------------------------------------------------- attachments that version 0.1 was splitting
 */

/* The original of a copy that version 0.1 made: a copy has the greater number, and the same content
 * number. */
static struct item *find_original(struct item *const *items, size_t len, const struct item *copy)
{
    for (size_t i = 0; i < len; i++)
        if (items[i] != NULL && items[i]->number < copy->number &&
            items[i]->envelope.kind == ENVELOPE_ATTACHMENT &&
            items[i]->envelope.content == copy->envelope.content)
            return items[i];
    return NULL;
}

static int drop(struct outbox *outbox, struct item *item)
{
    int error = spool_remove(outbox->spool, item->number);
    item_table_remove(&outbox->table, item);
    item_unref(item);
    return error;
}

/* Version 0.1 ended while it split an attachment in two. Where both have one content file, nothing had
 * happened to the original: the copy is dropped. Where they are of different length, somebody had begun to
 * write. */
static int mend_split(struct outbox *outbox, struct item **items, size_t len, size_t copy)
{
    struct item *original = find_original(items, len, items[copy]);
    if (original == NULL)
        return 0;
    if (spool_shares_data(outbox->spool, original->number))
        return drop(outbox, TAKE_PTR(items[copy]));
    if (original->size == items[copy]->size)
        return 0;
    original->state = ITEM_WRITING;
    envelope_clear_outcome(&original->envelope);
    return spool_take_number(outbox->spool, &original->envelope.content);
}

/* The items that are left stay in their order. */
static int mend_splits(struct outbox *outbox, struct item **items, size_t *len)
{
    int error = 0;
    size_t left = 0;
    for (size_t i = 0; i < *len && error == 0; i++)
        if (items[i] != NULL && items[i]->envelope.is_hidden)
            error = mend_split(outbox, items, *len, i);
    for (size_t i = 0; i < *len; i++)
        if (items[i] != NULL)
            items[left++] = items[i];
    *len = left;
    return error;
}

/* ---------------------------------------------------------------- messages that were edited */

/* Of one that waited to be sent once more, the disk may not have taken that it did. */
static bool waits(const struct item *item)
{
    return item->envelope.kind == ENVELOPE_MESSAGE && item_state_is_unsettled(item->state);
}

/* The program ended after an edited text had taken the place of a message, and before that one was removed.
 * The items that are left stay in their order. */
static int drop_superseded(struct outbox *outbox, struct item **items, size_t *len)
{
    int error = 0;
    size_t left = 0;
    for (size_t i = 0; i < *len; i++) {
        uint64_t number = items[i]->envelope.supersedes;
        struct item *superseded = number == 0 ? NULL : item_table_get(&outbox->table, number);
        if (superseded != NULL && superseded != items[i] && waits(superseded))
            superseded->envelope.is_hidden = true;
    }
    for (size_t i = 0; i < *len; i++) {
        if (error == 0 && waits(items[i]) && items[i]->envelope.is_hidden)
            error = drop(outbox, items[i]);
        else
            items[left++] = items[i];
    }
    *len = left;
    return error;
}

/* ---------------------------------------------------------------- names and places */

static int compare_items(const void *one, const void *other)
{
    const struct item *a = *(const struct item *const *)one;
    const struct item *b = *(const struct item *const *)other;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int list_items(const struct outbox *outbox, struct item ***ret_items, size_t *ret_len)
{
    size_t position = 0;
    size_t len = 0;
    struct item *item;
    struct item **items = calloc(outbox->table.by_number.len + 1, sizeof(struct item *));
    if (items == NULL)
        return -ENOMEM;
    while ((item = map_next(&outbox->table.by_number, &position)) != NULL)
        items[len++] = item;
    qsort(items, len, sizeof(struct item *), compare_items);
    *ret_items = items;
    *ret_len = len;
    return 0;
}

/* Whether `item` took the name from `other`. What is being written is never replaced, and a message on hold
 * replaces only its like; else the later hand-in has the name. */
static bool has_replaced(const struct item *item, const struct item *other)
{
    if ((item->state == ITEM_WRITING) != (other->state == ITEM_WRITING))
        return item->state == ITEM_WRITING;
    if (item->envelope.kind == ENVELOPE_MESSAGE &&
        (item->state == ITEM_ON_HOLD) != (other->state == ITEM_ON_HOLD))
        return other->state == ITEM_ON_HOLD;
    return item->envelope.order >= other->envelope.order;
}

/* Two items have one name. In attachments/, and where one is on hold, the other has replaced it, and a crash
 * came before it was hidden or removed. Elsewhere this should not be: both stay, and one gets a number. */
static int resolve_clash(struct outbox *outbox, struct item *shown, struct item *item,
                         enum outbox_folder folder)
{
    struct item *replaced = has_replaced(item, shown) ? shown : item;
    if (folder == OUTBOX_FOLDER_ATTACHMENTS || replaced->state == ITEM_ON_HOLD) {
        item_table_hide(&outbox->table, folder, replaced);
        replaced->envelope.is_hidden = true;
        return 0;
    }
    char *name = item_table_choose_name(&outbox->table, folder, item->envelope.name);
    if (name == NULL)
        return -ENOMEM;
    free(item->envelope.name);
    item->envelope.name = name;
    return 0;
}

static int show(struct outbox *outbox, struct item *item)
{
    enum outbox_folder folder = item_folder(item);
    if (folder == OUTBOX_FOLDER_NONE)
        return 0;
    struct item *shown = item_table_find(&outbox->table, folder, item->envelope.name);
    int error = shown == NULL ? 0 : resolve_clash(outbox, shown, item, folder);
    if (error != 0 || item->envelope.is_hidden) /* the other has the name */
        return error;
    error = item_table_reserve(&outbox->table, folder, item->envelope.name);
    if (error == 0)
        item_table_show(&outbox->table, folder, item);
    return error;
}

static int enqueue(struct outbox *outbox, struct item *item)
{
    int error = 0;
    if (!item_state_is_unsettled(item->state))
        return 0;
    if (item->envelope.kind == ENVELOPE_MESSAGE) {
        error = binding_recover_locked(outbox, item);
        if (error == 0)
            error = send_queue_open_sequence(&outbox->queue, item->envelope.sequence, &item->sequence);
    }
    if (error == 0)
        send_queue_add(&outbox->queue, item);
    return error;
}

/* ---------------------------------------------------------------- settling */

static void count_sent(struct outbox *outbox, struct item *const *items, size_t len)
{
    int64_t today = quota_day_of(outbox_realtime_ms(outbox));
    int64_t count = 0;
    for (size_t i = 0; i < len; i++)
        if (items[i]->envelope.quota_day == today)
            count++;
    quota_raise(&outbox->quota, today, count);
}

static void settle_sending(struct outbox *outbox, struct item *item)
{
    if (item->envelope.quota_day == 0) {
        int64_t now = outbox_realtime_ms(outbox);
        quota_count(&outbox->quota, now);
        item->envelope.quota_day = quota_day_of(now);
    }
    if (outbox_trusts_keys(outbox)) {
        item->envelope.may_have_been_sent = true;
        put_back_in_queue(outbox, item, 0, "the program ended while the message was being sent");
        return;
    }
    settle_into_failed(outbox, item, ITEM_UNKNOWN, 0,
                       "unknown outcome: the program ended while the message was being sent");
}

static void settle_item(struct outbox *outbox, struct item *item)
{
    if (item->state == ITEM_SENDING) {
        settle_sending(outbox, item);
    } else if (item->state == ITEM_WRITING) {
        settle_interrupted(outbox, item, "interrupted: the program ended while the file was being written");
    }
    item->failure = 0; /* it failed in an earlier run: no barrier reports it */
}

static void check_all(struct outbox *outbox, struct item *const *items, size_t len)
{
    pthread_mutex_lock(&outbox->lock);
    for (size_t i = 0; i < len; i++)
        binding_check_locked(outbox, items[i]);
    pthread_mutex_unlock(&outbox->lock);
}

static int recovery_run(struct outbox *outbox)
{
    _cleanup_free_ struct item **items = NULL;
    size_t len = 0;
    int error = spool_visit(outbox->spool, load, outbox);
    error = error != 0 ? error : list_items(outbox, &items, &len);
    error = error != 0 ? error : mend_splits(outbox, items, &len);
    error = error != 0 ? error : drop_superseded(outbox, items, &len);
    for (size_t i = 0; i < len && error == 0; i++)
        error = show(outbox, items[i]);
    for (size_t i = 0; i < len && error == 0; i++)
        error = enqueue(outbox, items[i]);
    if (error != 0)
        return error;

    count_sent(outbox, items, len);
    for (size_t i = 0; i < len; i++)
        settle_item(outbox, items[i]);
    for (size_t i = 0; i < len; i++)
        if (items[i]->state == ITEM_QUEUED && item_binding_state(items[i]) == BINDING_LOST)
            send_fail_lost(outbox, items[i]);
    check_all(outbox, items, len);
    for (unsigned int i = 0; i < OUTBOX_FOLDERS; i++)
        outbox->table.folders[i].changed_ms = outbox_realtime_ms(outbox);
    removal_collect(outbox);
    return 0;
}

/* ---------------------------------------------------------------- opening */

static struct outbox *outbox_new(const struct outbox_config *config)
{
    struct outbox *outbox = calloc(1, sizeof(*outbox));
    if (outbox == NULL)
        return NULL;
    outbox->config = *config;
    outbox->config.default_from = config->default_from == NULL ? NULL : strdup(config->default_from);
    pthread_mutex_init(&outbox->lock, NULL);
    clock_condition_init(&outbox->changed);
    suspension_init(&outbox->suspensions[ENVELOPE_MESSAGE], true);
    suspension_init(&outbox->suspensions[ENVELOPE_ATTACHMENT], false);
    if (config->default_from != NULL && outbox->config.default_from == NULL) {
        outbox_free(outbox);
        return NULL;
    }
    return outbox;
}

int outbox_open(const struct outbox_config *config, struct outbox **ret_outbox, char **ret_reason)
{
    _cleanup_(cleanup_outbox_free) struct outbox *outbox = outbox_new(config);
    if (outbox == NULL)
        return reason_give(ret_reason, -ENOMEM, "no memory");
    int error = spool_open(config->state_dir_fd, &outbox->spool, ret_reason);
    if (error != 0)
        return error;
    quota_init(&outbox->quota, outbox->spool, config->daily_limit, &outbox->lock, outbox_realtime_ms(outbox));
    error = recovery_run(outbox);
    if (error == -EPROTO)
        return reason_give(ret_reason, error, "the spool has messages of a newer version of this program");
    if (error != 0)
        return reason_give(ret_reason, error, "the spool cannot be read: %s", strerror(-error));
    *ret_outbox = TAKE_PTR(outbox);
    return 0;
}
