/* SPDX-License-Identifier: MIT */
/*
 * Opens the outbox after any end of the last run: turns the spool's rows and contents into items, drops the
 * incomplete results of a crash, shows and queues the items, and settles those that were being written or
 * sent. No other thread uses the outbox yet.
 */
#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "mail/reason.h"
#include "outbox/change.h"
#include "outbox/migration.h"

DEFINE_CLEANUP_FREE(outbox)

struct recovery {
    struct outbox *outbox;
    GPtrArray *items;          /* borrowed from the table; in order of position */
    GHashTable *contents;      /* the numbers of contents that rows refer to */
    GArray *lost;              /* the numbers of rows without content */
    uint64_t first_new_number; /* the smallest number that the saved database had not given */
};

static void add_content(struct recovery *recovery, uint64_t number)
{
    g_hash_table_add(recovery->contents, GSIZE_TO_POINTER(number));
    spool_skip_number(recovery->outbox->spool, number);
}

/* A row has no content after a crash before the rename of a hand-in (the draft is still in its folder),
 * during a creation, or after the content was moved out to a draft. */
static int load_row(void *context, struct row *row)
{
    struct recovery *recovery = context;
    struct outbox *outbox = recovery->outbox;
    struct stat status;
    int error = spool_stat_content(outbox->spool, row->number, &status);
    if (error == -ENOENT)
        g_array_append_val(recovery->lost, row->number);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    bool is_measured = row->receipt_bytes > 0 || !item_states[row->state].has_receipt;
    error = is_measured ? 0 : outbox_measure_receipt(outbox, row); /* a row of version 0.2 */
    if (error != 0)
        return error;
    add_content(recovery, row->number);
    spool_skip_number(outbox->spool, row->position);
    for (size_t i = 0; i < row->pieces_len; i++)
        add_content(recovery, row->pieces[i].content);
    struct item *item = item_new(row->number, row->kind);
    item->row = *row;
    *row = (struct row){0};
    item->size = status.st_size;
    item->mtime = status.st_mtim;
    item->is_unsaved = !is_measured;
    outbox->unsaved += item->is_unsaved;
    if (item->row.position > outbox->last_position)
        outbox->last_position = item->row.position;
    item_table_add(&outbox->table, item);
    g_ptr_array_add(recovery->items, item);
    return 0;
}

static struct item *item_at(const struct recovery *recovery, guint index)
{
    return g_ptr_array_index(recovery->items, index);
}

/* Removes the rows without content, and saves those whose receipt was measured. */
static int repair_rows(struct recovery *recovery)
{
    struct connection *turn;
    struct spool *spool = recovery->outbox->spool;
    if (recovery->lost->len == 0 && recovery->outbox->unsaved == 0)
        return 0;
    int error = spool_begin(spool, &turn);
    if (error != 0)
        return error;
    for (guint i = 0; i < recovery->lost->len && error == 0; i++)
        error = spool_remove_row(turn, g_array_index(recovery->lost, uint64_t, i));
    for (guint i = 0; i < recovery->items->len && error == 0; i++) {
        struct item *item = item_at(recovery, i);
        error = item->is_unsaved ? spool_save_row(turn, &item->row) : 0;
        item->is_unsaved = false;
    }
    recovery->outbox->unsaved = 0;
    return spool_end(spool, turn, error);
}

/* Removes the replaced items that the last run did not remove after it had moved their replacements in. */
static int drop_replaced(struct recovery *recovery)
{
    int error = 0;
    /* Backwards, because the removed items precede their replacements. */
    for (guint i = recovery->items->len; i > 0 && error == 0; i--) {
        uint64_t number = item_at(recovery, i - 1)->row.replaces;
        struct item *replaced = number == 0 ? NULL : item_table_get(&recovery->outbox->table, number);
        if (replaced == NULL)
            continue;
        if (replaced->row.state == ITEM_SENDING) { /* its outcome is unknown, which the user is to know */
            item_at(recovery, i - 1)->row.replaces = 0;
            continue;
        }
        g_ptr_array_remove(recovery->items, replaced);
        item_ref(replaced);
        error = change_remove(recovery->outbox, replaced);
        item_unref(replaced);
    }
    return error;
}

/* Discards a content that no row has: it was being moved in or out, or was linked for a message whose row did
 * not reach the disk, when the last run ended. Quarantines a foreign file, and a content whose number this
 * database never gave (the user may have put back an older one), unless another number has the same file. */
static int sweep_file(void *context, const char *name, uint64_t number)
{
    struct recovery *recovery = context;
    struct spool *spool = recovery->outbox->spool;
    struct stat status;
    if (number != 0 && g_hash_table_contains(recovery->contents, GSIZE_TO_POINTER(number)))
        return 0;
    bool is_linked = number != 0 && spool_stat_content(spool, number, &status) == 0 && status.st_nlink > 1;
    if (number != 0 && (number < recovery->first_new_number || is_linked))
        spool_discard_content(spool, number);
    else if (migration_is_leftover(name))
        unlinkat(spool_dir_fd(spool), name, 0);
    else
        spool_quarantine(spool, name, number != 0 ? "the database does not know it" : "it is foreign");
    return 0;
}

/* Two items have the same name if the disk failed: then the second gets a number. */
static void show_all(struct recovery *recovery)
{
    struct outbox *outbox = recovery->outbox;
    for (guint i = 0; i < recovery->items->len; i++) {
        struct item *item = item_at(recovery, i);
        enum outbox_folder folder = item_folder(item);
        if (item_table_is_taken(&outbox->table, folder, item->row.name)) {
            char *name = item_table_choose_name(&outbox->table, folder, item->row.name);
            free(item->row.name);
            item->row.name = name;
        }
        item_table_show(&outbox->table, folder, item);
        send_queue_place(&outbox->queue, item);
    }
    for (unsigned int i = 0; i < OUTBOX_FOLDERS; i++)
        outbox->table.folders[i].changed_ms = outbox_realtime_ms(outbox);
}

/* Takes the greater of two counts: the user may have removed sent messages, whose rows are gone; or the disk
 * failed, and a row was saved again without its count. */
static void count_sent(struct recovery *recovery)
{
    struct quota *quota = &recovery->outbox->queue.quota;
    struct spool_head head;
    for (guint i = 0; i < recovery->items->len; i++)
        quota->count += item_at(recovery, i)->row.quota_day == quota->day;
    if (spool_read_head(recovery->outbox->spool, &head) == 0 && head.day == quota->day)
        quota->count = MAX(quota->count, head.sent);
}

static void settle_all(struct recovery *recovery)
{
    struct outbox *outbox = recovery->outbox;
    for (guint i = 0; i < recovery->items->len; i++) {
        struct item *item = item_at(recovery, i);
        if (item->row.state == ITEM_SENDING)
            settle_unknown(outbox, item, 0, "the program ended while the message was being sent");
        else if (item->row.state == ITEM_WRITING)
            settle_item(outbox, item, ITEM_INTERRUPTED, 0,
                        "interrupted: the program ended while the file was being written");
        item->failure = 0; /* no barrier reports a failure of an earlier run */
    }
}

static int recover(struct recovery *recovery)
{
    struct outbox *outbox = recovery->outbox;
    int error = spool_load(outbox->spool, load_row, recovery);
    error = error != 0 ? error : repair_rows(recovery);
    error = error != 0 ? error : drop_replaced(recovery);
    error = error != 0 ? error : spool_scan(outbox->spool, sweep_file, recovery);
    if (error != 0)
        return error;
    show_all(recovery);
    count_sent(recovery);
    settle_all(recovery);
    return 0;
}

static struct outbox *outbox_new(const struct outbox_config *config)
{
    struct outbox *outbox = g_new0(struct outbox, 1);
    outbox->config = *config;
    pthread_mutex_init(&outbox->lock, NULL);
    item_table_init(&outbox->table);
    clock_condition_init(&outbox->changed);
    send_queue_init(&outbox->queue, config->clock, config->daily_limit);
    return outbox;
}

int outbox_open(const struct outbox_config *config, struct outbox **ret_outbox, char **ret_reason)
{
    _cleanup_(cleanup_outbox_free) struct outbox *outbox = outbox_new(config);
    int error = spool_open(config->state_dir_fd, &outbox->spool, ret_reason);
    error = error != 0 ? error : migration_run(outbox->spool, ret_reason);
    if (error != 0)
        return error;
    struct recovery recovery = {
        .outbox = outbox,
        .items = g_ptr_array_new(),
        .contents = g_hash_table_new(NULL, NULL),
        .lost = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
        .first_new_number = spool_take_number(outbox->spool),
    };
    error = recover(&recovery);
    g_ptr_array_unref(recovery.items);
    g_hash_table_unref(recovery.contents);
    g_array_unref(recovery.lost);
    if (error != 0)
        return reason_give(ret_reason, error, "the spool cannot be read: %s", strerror(-error));
    *ret_outbox = TAKE_PTR(outbox);
    return 0;
}
