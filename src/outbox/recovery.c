/* SPDX-License-Identifier: MIT */
/*
 * Opens the outbox: makes items in memory of the spool's rows and contents, however the last run ended. It
 * loads every row, drops what a crash left half, gives names and places in the queue, and settles what cannot
 * go on. Nobody else knows the outbox yet; the lock is taken all the same, for the functions that ask for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "mail/reason.h"
#include "outbox/change.h"
#include "outbox/migration.h"
#include "outbox/send_queue.h"

DEFINE_CLEANUP_FREE(outbox)

struct numbers {
    uint64_t *items;
    size_t len;
    size_t capacity;
};

struct recovery {
    struct outbox *outbox;
    struct item **items; /* borrowed from the table; in order of position */
    size_t len;
    size_t capacity;
    struct numbers contents;   /* that rows refer to */
    struct numbers lost;       /* rows without content */
    uint64_t first_new_number; /* no number from here on was given when the database was saved last */
};

/* ---------------------------------------------------------------- loading */

static int add_number(struct numbers *numbers, uint64_t number)
{
    if (numbers->len == numbers->capacity) {
        size_t capacity = numbers->capacity == 0 ? 64 : numbers->capacity * 2;
        uint64_t *items = realloc(numbers->items, capacity * sizeof(*items));
        if (items == NULL)
            return -ENOMEM;
        numbers->items = items;
        numbers->capacity = capacity;
    }
    numbers->items[numbers->len++] = number;
    return 0;
}

static int add_item(struct recovery *recovery, struct item *item)
{
    if (recovery->len == recovery->capacity) {
        size_t capacity = recovery->capacity == 0 ? 64 : recovery->capacity * 2;
        struct item **items = realloc(recovery->items, capacity * sizeof(struct item *));
        if (items == NULL)
            return -ENOMEM;
        recovery->items = items;
        recovery->capacity = capacity;
    }
    item_table_add(&recovery->outbox->table, item);
    recovery->items[recovery->len++] = item;
    return 0;
}

static int note_contents(struct recovery *recovery, const struct row *row)
{
    struct spool *spool = recovery->outbox->spool;
    int error = add_number(&recovery->contents, row->number);
    spool_skip_number(spool, row->number);
    spool_skip_number(spool, row->position);
    for (size_t i = 0; i < row->pieces_len && error == 0; i++) {
        error = add_number(&recovery->contents, row->pieces[i].content);
        spool_skip_number(spool, row->pieces[i].content);
    }
    return error;
}

/* A row without content is that of a hand-in that did not come to its rename (the draft is where it was), of
 * a creation, or of what was moved out to a draft. */
static int load(void *context, struct row *row)
{
    struct recovery *recovery = context;
    struct outbox *outbox = recovery->outbox;
    struct stat status;
    int error = spool_stat_content(outbox->spool, row->number, &status);
    if (error == -ENOENT)
        return add_number(&recovery->lost, row->number);
    error = error != 0 ? error : note_contents(recovery, row);
    struct item *item = error == 0 ? item_new(row->number, row->kind) : NULL;
    if (item == NULL)
        return error != 0 ? error : -ENOMEM;
    item->row = *row;
    *row = (struct row){0};
    item->size = status.st_size;
    item->mtime = status.st_mtim;
    item->file.is_durable = true;
    if (item->row.position > outbox->last_position)
        outbox->last_position = item->row.position;
    error = add_item(recovery, item);
    if (error != 0)
        item_unref(item);
    return error;
}

static int drop_lost(struct recovery *recovery)
{
    struct connection *turn;
    struct spool *spool = recovery->outbox->spool;
    if (recovery->lost.len == 0)
        return 0;
    int error = spool_begin(spool, &turn);
    if (error != 0)
        return error;
    for (size_t i = 0; i < recovery->lost.len && error == 0; i++)
        error = spool_remove_row(turn, recovery->lost.items[i]);
    return spool_end(spool, turn, error);
}

/* The program ended after it had moved a draft in and before it removed what that replaces. */
static int drop_replaced(struct recovery *recovery)
{
    int error = 0;
    for (size_t i = recovery->len; i > 0 && error == 0; i--) { /* what is replaced stands before */
        uint64_t number = recovery->items[i - 1]->row.replaces;
        struct item *replaced = number == 0 ? NULL : item_table_get(&recovery->outbox->table, number);
        if (replaced == NULL)
            continue;
        size_t at = 0;
        while (recovery->items[at] != replaced)
            at++;
        memmove(&recovery->items[at], &recovery->items[at + 1],
                (--recovery->len - at) * sizeof(struct item *));
        item_ref(replaced);
        error = change_remove(recovery->outbox, replaced);
        item_unref(replaced);
    }
    return error;
}

/* ---------------------------------------------------------------- files without a row */

static int compare_numbers(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one;
    uint64_t b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* A content that was linked for a message is under another number, too. */
static bool has_other_name(struct spool *spool, uint64_t number)
{
    struct stat status;
    return spool_stat_content(spool, number, &status) == 0 && status.st_nlink > 1;
}

/* A content that no row has was on its way in or out when the last run ended. One with a number that this
 * database never gave is of a later one, because somebody put an older database in its place; or it was
 * linked for a message whose row did not reach the disk any more. */
static int sweep(void *context, const char *name, uint64_t number)
{
    struct recovery *recovery = context;
    struct spool *spool = recovery->outbox->spool;
    const struct numbers *known = &recovery->contents;
    if (number != 0 && known->len > 0 &&
        bsearch(&number, known->items, known->len, sizeof(number), compare_numbers) != NULL)
        return 0;
    if (number != 0 && (number < recovery->first_new_number || has_other_name(spool, number)))
        spool_remove_content(spool, number);
    else if (migration_is_leftover(name))
        unlinkat(spool_dir_fd(spool), name, 0);
    else if (!migration_is_own_file(name))
        spool_quarantine(spool, name, number != 0 ? "the database does not know it" : "it is foreign");
    return 0;
}

static int sweep_all(struct recovery *recovery)
{
    if (recovery->contents.len > 0)
        qsort(recovery->contents.items, recovery->contents.len, sizeof(*recovery->contents.items),
              compare_numbers);
    return spool_scan(recovery->outbox->spool, sweep, recovery);
}

/* ---------------------------------------------------------------- names and places */

/* Two items of one name should not be: both stay, and one gets a number. */
static int show(struct outbox *outbox, struct item *item)
{
    enum outbox_folder folder = item_folder(item);
    if (item_table_is_taken(&outbox->table, folder, item->row.name)) {
        char *name = item_table_choose_name(&outbox->table, folder, item->row.name);
        if (name == NULL)
            return -ENOMEM;
        free(item->row.name);
        item->row.name = name;
    }
    item_table_show(&outbox->table, folder, item);
    return 0;
}

static int show_all(struct recovery *recovery)
{
    struct outbox *outbox = recovery->outbox;
    int error = 0;
    for (size_t i = 0; i < recovery->len && error == 0; i++)
        error = show(outbox, recovery->items[i]);
    for (size_t i = 0; i < recovery->len && error == 0; i++) {
        outbox_touch_locked(outbox, recovery->items[i]);
        send_queue_place(&outbox->queue, recovery->items[i]);
    }
    for (unsigned int i = 0; i < OUTBOX_FOLDERS; i++)
        outbox->table.folders[i].changed_ms = outbox_realtime_ms(outbox);
    return error;
}

/* ---------------------------------------------------------------- settling */

static void count_sent(struct recovery *recovery)
{
    struct quota *quota = &recovery->outbox->quota;
    int64_t day;
    int64_t count;
    int64_t in_rows = 0;
    for (size_t i = 0; i < recovery->len; i++)
        in_rows += recovery->items[i]->row.quota_day == quota->day;
    quota_raise(quota, quota->day, in_rows);
    if (spool_read_count(recovery->outbox->spool, &day, &count) == 0)
        quota_raise(quota, day, count);
}

static void settle_all(struct recovery *recovery)
{
    struct outbox *outbox = recovery->outbox;
    for (size_t i = 0; i < recovery->len; i++) {
        struct item *item = recovery->items[i];
        if (item->row.state == ITEM_SENDING)
            settle_unknown(outbox, item, 0, "the program ended while the message was being sent");
        else if (item->row.state == ITEM_WRITING)
            settle_item(outbox, item, ITEM_INTERRUPTED, 0,
                        "interrupted: the program ended while the file was being written");
        item->failure = 0; /* it failed in an earlier run: no barrier reports it */
    }
}

static int recover(struct recovery *recovery)
{
    struct outbox *outbox = recovery->outbox;
    int error = spool_load(outbox->spool, load, recovery);
    error = error != 0 ? error : drop_lost(recovery);
    error = error != 0 ? error : drop_replaced(recovery);
    error = error != 0 ? error : sweep_all(recovery);
    error = error != 0 ? error : show_all(recovery);
    if (error != 0)
        return error;
    count_sent(recovery);
    settle_all(recovery);
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
    item_table_init(&outbox->table);
    clock_condition_init(&outbox->changed);
    suspension_init(&outbox->suspensions[ITEM_MESSAGE], true);
    suspension_init(&outbox->suspensions[ITEM_ATTACHMENT], false);
    outbox->quota =
        (struct quota){.limit = config->daily_limit, .day = quota_day_of(outbox_realtime_ms(outbox))};
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
    struct recovery recovery = {.outbox = outbox};
    int error = spool_open(config->state_dir_fd, &outbox->spool, ret_reason);
    error = error != 0 ? error : migration_run(outbox->spool, ret_reason);
    if (error != 0)
        return error;
    recovery.first_new_number = spool_take_number(outbox->spool);
    error = recover(&recovery);
    free(recovery.items);
    free(recovery.contents.items);
    free(recovery.lost.items);
    if (error != 0)
        return reason_give(ret_reason, error, "the spool cannot be read: %s", strerror(-error));
    *ret_outbox = TAKE_PTR(outbox);
    return 0;
}
