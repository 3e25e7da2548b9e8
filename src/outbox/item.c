/* SPDX-License-Identifier: MIT */
/*
 * Items in memory.
 */
#include "outbox/item.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    RETRY_MIN_MS = 1000,
    RETRY_MAX_MS = 15 * 60 * 1000,
};

struct item *item_new(uint64_t number)
{
    struct item *item = calloc(1, sizeof(*item));
    if (item == NULL)
        return NULL;
    item->number = number;
    item->refs = 1;
    item->opener = -1;
    item->envelope.number = number;
    item->backoff = (struct backoff){.min_ms = RETRY_MIN_MS, .max_ms = RETRY_MAX_MS};
    snprintf(item->number_text, sizeof(item->number_text), "%" PRIu64, number);
    return item;
}

struct item *item_ref(struct item *item)
{
    item->refs++;
    return item;
}

void item_unref(struct item *item)
{
    if (item == NULL || --item->refs > 0)
        return;
    envelope_release(&item->envelope);
    free(item->interruption);
    free(item->bound);
    free(item);
}

int item_folder(const struct item *item)
{
    return item->envelope.is_hidden ? -1 : item_state_folder(item->state, item->envelope.kind);
}

static mode_t content_mode(int folder)
{
    return folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED ? 0444 : 0600;
}

void item_stat(const struct item *item, enum outbox_aspect aspect, struct outbox_stat *ret)
{
    int folder = item_folder(item);
    int shown = folder >= 0                               ? folder
                : item->envelope.kind == ENVELOPE_MESSAGE ? OUTBOX_FOLDER_OUTBOX
                                                          : OUTBOX_FOLDER_ATTACHMENTS;
    *ret = (struct outbox_stat){
        .number = item->number,
        .aspect = aspect,
        .folder = (enum outbox_folder)shown,
        .size = aspect == OUTBOX_CONTENT ? item->size : (off_t)item->receipt_bytes,
        .mtime = item->mtime,
        .mode = aspect == OUTBOX_CONTENT ? content_mode(shown) : 0444,
    };
    int64_t settled_ms = item->envelope.finished_ms;
    if (aspect == OUTBOX_RECEIPT && settled_ms > 0)
        ret->mtime = (struct timespec){.tv_sec = settled_ms / 1000, .tv_nsec = settled_ms % 1000 * 1000000};
}

bool item_may_have_been_sent(const struct item *item)
{
    return item->state == ITEM_UNKNOWN || item->envelope.may_have_been_sent || item->envelope.was_unknown;
}

void item_update_stat(struct item *item, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return;
    item->size = status.st_size;
    item->mtime = status.st_mtim;
}

bool item_was_written_by(const struct item *item, pid_t process)
{
    if (item->wrote_len > ITEM_WRITERS_MAX)
        return true;
    for (size_t i = 0; i < item->wrote_len; i++)
        if (item->wrote[i] == process)
            return true;
    return false;
}

void item_add_writer(struct item *item, pid_t process)
{
    if (item_was_written_by(item, process))
        return;
    if (process <= 0)
        item->wrote_len = ITEM_WRITERS_MAX;
    if (item->wrote_len < ITEM_WRITERS_MAX)
        item->wrote[item->wrote_len] = process;
    item->wrote_len++;
}

bool item_was_made_by(const struct item *item, const struct item_asker *asker)
{
    if (item->opener == asker->task || item->opener == asker->process)
        return true;
    return item->wrote_len <= ITEM_WRITERS_MAX && item_was_written_by(item, asker->process);
}

bool item_was_read_by(const struct item *item, pid_t process)
{
    for (size_t i = 0; i < ITEM_READERS_MAX; i++)
        if (process > 0 && item->read_by[i] == process)
            return true;
    return false;
}

void item_add_reader(struct item *item, pid_t process)
{
    if (!item_was_read_by(item, process))
        item->read_by[item->reads++ % ITEM_READERS_MAX] = process;
}

void item_interrupt(struct item *item, const char *why)
{
    if (item->interruption == NULL)
        item->interruption = strdup(why);
}
