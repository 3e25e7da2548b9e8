/* SPDX-License-Identifier: MIT */
/*
 * index.jsonl of one inbox as it was at one moment (store.h): where each line begins, and which text it is
 * made of. As long as a snapshot lives no text is deleted, so lines are written only where somebody reads.
 */
#include "store/store_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/email_record.h"

struct jsonl_line {
    uint64_t text; /* number of the record's text */
    const char *name;
    int64_t date_ms;
    uint64_t start; /* where it begins */
    uint32_t json_len;
    uint32_t line_len; /* without the name */
};

struct store_index {
    struct index *index; /* whose texts are not deleted as long as this lives */
    size_t len;
    uint64_t bytes;
    struct jsonl_line lines[];
};

static void collect_locked(const struct index *index, const struct inbox *inbox, struct store_index *snapshot)
{
    for (size_t i = 0; i < inbox->emails.len && snapshot->len < inbox->emails.live; i++) {
        const struct email_entry *entry = email_table_find(index->emails, inbox->emails.order[i]);
        if (!email_entry_is_shown(entry))
            continue;
        snapshot->lines[snapshot->len++] = (struct jsonl_line){
            .text = entry->text,
            .name = entry->name,
            .date_ms = entry->date_ms,
            .json_len = entry->json_len,
            .line_len = entry->line_len,
        };
    }
}

/* Mail of the same moment is in the order of names, which stays the same from one start to the next. */
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

static void put_in_order(struct store_index *snapshot)
{
    qsort(snapshot->lines, snapshot->len, sizeof(snapshot->lines[0]), compare_dates);
    for (size_t i = 0; i < snapshot->len; i++) {
        snapshot->lines[i].start = snapshot->bytes;
        snapshot->bytes += line_bytes(&snapshot->lines[i]);
    }
}

int store_index_new(struct store *store, uint32_t inbox_number, struct store_index **ret_index)
{
    struct index *index = &store->index;
    struct store_index *snapshot = NULL;
    pthread_rwlock_rdlock(&index->read_lock);
    const struct inbox *inbox = inbox_table_get(&index->inboxes, inbox_number);
    bool is_there = inbox != NULL && !inbox->is_gone;
    if (is_there)
        snapshot = malloc(sizeof(*snapshot) + inbox->emails.live * sizeof(snapshot->lines[0]));
    if (snapshot != NULL) {
        *snapshot = (struct store_index){.index = index};
        atomic_fetch_add(&index->open_indexes, 1);
        collect_locked(index, inbox, snapshot);
    }
    pthread_rwlock_unlock(&index->read_lock);
    if (snapshot == NULL)
        return is_there ? -ENOMEM : -ENOENT;
    put_in_order(snapshot);
    *ret_index = snapshot;
    return 0;
}

void store_index_free(struct store_index *snapshot)
{
    if (snapshot != NULL)
        atomic_fetch_sub(&snapshot->index->open_indexes, 1);
    free(snapshot);
}

/* The line that `offset`, which lies in the file, is in. */
static size_t find_line(const struct store_index *snapshot, uint64_t offset)
{
    size_t low = 0;
    size_t high = snapshot->len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (snapshot->lines[middle].start <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int write_line(struct text_reader *reader, const struct store_index *snapshot, size_t i,
                      char *ret_bytes)
{
    const struct jsonl_line *line = &snapshot->lines[i];
    bool is_backwards = i + 1 < snapshot->len && line[1].text < line->text;
    const char *json = NULL;
    int error = text_reader_read(reader, line->text, line->json_len, is_backwards, &json);
    if (error == 0)
        email_record_write_line(json, line->json_len, line->name, strlen(line->name), line->line_len,
                                ret_bytes);
    return error;
}

/* Of a line that does not fit whole, what lies within the `len` bytes from `from` on. */
static int write_part(struct text_reader *reader, const struct store_index *snapshot, size_t i, size_t from,
                      size_t len, char *ret_bytes)
{
    _cleanup_free_ char *whole = malloc(line_bytes(&snapshot->lines[i]));
    int error = whole == NULL ? -ENOMEM : write_line(reader, snapshot, i, whole);
    if (error == 0)
        memcpy(ret_bytes, whole + from, len);
    return error;
}

/* `len` bytes, which there are. As a rule mail comes in the order of its dates, newest first or last, so that
 * the texts of neighbouring lines lie side by side. */
static int write_lines(const struct store_index *snapshot, uint64_t offset, char *ret_bytes, size_t len)
{
    struct text_reader reader;
    size_t done = 0;
    int error = 0;
    text_reader_begin(&reader, &snapshot->index->records);
    for (size_t i = len > 0 ? find_line(snapshot, offset) : 0; done < len && error == 0; i++) {
        size_t bytes = line_bytes(&snapshot->lines[i]);
        size_t from = offset + done - snapshot->lines[i].start;
        size_t part = bytes - from < len - done ? bytes - from : len - done;
        error = part == bytes ? write_line(&reader, snapshot, i, ret_bytes + done)
                              : write_part(&reader, snapshot, i, from, part, ret_bytes + done);
        done += part;
    }
    text_reader_end(&reader);
    return error;
}

int store_index_read(const struct store_index *snapshot, uint64_t offset, char *ret_bytes, size_t len,
                     size_t *ret_len)
{
    if (len > snapshot->bytes)
        len = snapshot->bytes;
    if (offset >= snapshot->bytes)
        len = 0;
    else if (len > snapshot->bytes - offset)
        len = snapshot->bytes - offset;
    int error = write_lines(snapshot, offset, ret_bytes, len);
    if (error == -EIO)
        index_note_lost(snapshot->index);
    *ret_len = len;
    return error;
}
