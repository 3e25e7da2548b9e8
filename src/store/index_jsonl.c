/* SPDX-License-Identifier: MIT */
/*
 * For an open index.jsonl, memory holds the offset of each line and the number of its record. No record is
 * deleted while the file is open, so a read can make just the lines that it returns. A read at the end first
 * appends lines, in order of date, for the emails that have arrived since the last line was added.
 */
#include "store/store_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/email_record.h"

struct jsonl_line {
    uint64_t record; /* number of the record */
    const char *name;
    int64_t date_ms;
    uint64_t start; /* offset of the line */
    uint32_t json_len;
    uint32_t line_len; /* bytes of the line, without the name */
};

struct store_jsonl {
    struct index *index; /* borrowed; open_jsonl_files counts this file, so no record is deleted */
    uint32_t inbox;
    pthread_rwlock_t lock; /* held for writing while lines are added */
    uint64_t bytes;        /* size of all lines; protected by lock, like all below */
    GArray *lines;         /* struct jsonl_line */
    uint64_t changes;      /* email_list.changes of the inbox when lines were last added */
    GArray *has_line;      /* uint8_t: a bit for each position in email_list.order */
};

/* ---------------------------------------------------------------- lines */

static struct jsonl_line *get_line(const struct store_jsonl *file, size_t i)
{
    return &g_array_index(file->lines, struct jsonl_line, i);
}

/* Appends lines, which are not sorted yet, for the emails that are shown and have no line. */
static void collect_locked(struct store_jsonl *file, const struct inbox *inbox)
{
    g_array_set_size(file->has_line, (guint)(inbox->emails.order->len / 8 + 1));
    for (size_t i = 0; i < inbox->emails.order->len; i++) {
        const struct email_entry *entry =
            email_table_find(&file->index->emails, email_list_get(&inbox->emails, i));
        uint8_t *bits = &g_array_index(file->has_line, uint8_t, i / 8);
        if (!email_entry_is_shown(entry) || (*bits & 1U << i % 8) != 0)
            continue;
        *bits |= (uint8_t)(1U << i % 8);
        const struct jsonl_line line = {
            .record = entry->view.record,
            .name = entry->view.name,
            .date_ms = entry->view.date_ms,
            .json_len = entry->view.json_len,
            .line_len = entry->view.line_len,
        };
        g_array_append_val(file->lines, line);
    }
    file->changes = inbox->emails.changes;
}

/* Emails with equal dates are in the order of their names, which are the same in every mount. */
static int compare_dates(const void *one, const void *other)
{
    const struct jsonl_line *a = one;
    const struct jsonl_line *b = other;
    if (a->date_ms != b->date_ms)
        return a->date_ms < b->date_ms ? -1 : 1;
    return strcmp(a->name, b->name);
}

static uint64_t line_bytes(const struct jsonl_line *line)
{
    return (uint64_t)line->line_len + strlen(line->name);
}

/* Adds lines for new emails. Call with the lock held for writing, or before other threads know `file`.
 * Return: 0; -ENOENT when the inbox is gone. */
static int add_lines(struct store_jsonl *file)
{
    struct index *index = file->index;
    guint first = file->lines->len;
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = inbox_table_get(&index->inboxes, file->inbox);
    bool is_gone = inbox == NULL || inbox->row.is_gone;
    if (!is_gone && inbox->emails.changes != file->changes)
        collect_locked(file, inbox);
    pthread_rwlock_unlock(&index->read_lock);
    if (file->lines->len > first) /* qsort() accepts no NULL, which an empty array may have */
        qsort(get_line(file, first), file->lines->len - first, sizeof(struct jsonl_line), compare_dates);
    for (guint i = first; i < file->lines->len; i++) {
        get_line(file, i)->start = file->bytes;
        file->bytes += line_bytes(get_line(file, i));
    }
    return is_gone ? -ENOENT : 0;
}

int store_jsonl_new(struct store *store, uint32_t inbox, struct store_jsonl **ret_file)
{
    struct store_jsonl *file = g_new0(struct store_jsonl, 1);
    file->index = &store->index;
    file->inbox = inbox;
    file->changes = UINT64_MAX; /* no lines were added yet */
    file->lines = g_array_new(false, false, sizeof(struct jsonl_line));
    file->has_line = g_array_new(false, true, 1);
    pthread_rwlock_init(&file->lock, NULL);
    atomic_fetch_add(&store->index.open_jsonl_files, 1);
    int error = add_lines(file);
    if (error != 0) {
        store_jsonl_free(file);
        return error;
    }
    *ret_file = file;
    return 0;
}

void store_jsonl_free(struct store_jsonl *file)
{
    if (file == NULL)
        return;
    atomic_fetch_sub(&file->index->open_jsonl_files, 1);
    pthread_rwlock_destroy(&file->lock);
    g_array_unref(file->lines);
    g_array_unref(file->has_line);
    free(file);
}

/* ---------------------------------------------------------------- reading */

/* Returns the index of the line at `offset`, which must be below `bytes`. */
static size_t find_line(const struct store_jsonl *file, uint64_t offset)
{
    size_t low = 0;
    size_t high = file->lines->len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (get_line(file, middle)->start <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int write_line(struct cache *cache, struct connection *reader, struct statement *rows,
                      const struct jsonl_line *line, char *ret_bytes)
{
    const char *json = NULL;
    int error = cache_find_record(cache, reader, rows, line->record, line->json_len, &json);
    if (error == 0)
        email_record_write_line(json, line->json_len, line->name, strlen(line->name), line->line_len,
                                ret_bytes);
    return error == -ENOENT ? -EIO : error;
}

static int write_lines(const struct store_jsonl *file, uint64_t offset, char *ret_bytes, size_t len)
{
    struct cache *cache = file->index->cache;
    _cleanup_reader_ struct connection *reader = NULL;
    _cleanup_statement_ struct statement rows = {0};
    size_t done = 0;
    int error = cache_report_error(cache, database_begin_read(cache->database, &reader));
    if (error != 0)
        return -EIO;
    for (size_t i = len > 0 ? find_line(file, offset) : 0; done < len && error == 0; i++) {
        const struct jsonl_line *line = get_line(file, i);
        size_t bytes = line_bytes(line);
        size_t from = offset + done - line->start;
        size_t part = MIN(bytes - from, len - done);
        g_autofree char *whole = part < bytes ? g_malloc(bytes) : NULL;
        error = write_line(cache, reader, &rows, line, part < bytes ? whole : ret_bytes + done);
        if (error == 0 && part < bytes)
            memcpy(ret_bytes + done, whole + from, part);
        done += part;
    }
    return error;
}

int store_jsonl_read(struct store_jsonl *file, uint64_t offset, char *ret_bytes, size_t len, size_t *ret_len)
{
    pthread_rwlock_rdlock(&file->lock);
    if (offset >= file->bytes) {
        pthread_rwlock_unlock(&file->lock);
        pthread_rwlock_wrlock(&file->lock);
        (void)add_lines(file); /* after an error the read reports the end of the file */
        pthread_rwlock_unlock(&file->lock);
        pthread_rwlock_rdlock(&file->lock);
    }
    uint64_t available = offset < file->bytes ? file->bytes - offset : 0;
    *ret_len = MIN(available, len);
    int error = write_lines(file, offset, ret_bytes, *ret_len);
    pthread_rwlock_unlock(&file->lock);
    if (error == -EIO)
        index_report_lost_record(file->index);
    return error;
}
