/* SPDX-License-Identifier: MIT */
/*
 * Snapshots of an inbox in order of date.
 */
#include "store/inbox_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/index_line.h"

struct line {
    uint64_t text; /* number of the record's text */
    const char *name;
    int64_t date_ms;
    uint64_t start; /* where it begins */
    uint32_t json_len;
    uint32_t line_len; /* without the name */
};

struct store_index {
    struct mirror *mirror; /* whose texts are not deleted as long as this lives */
    size_t len;
    uint64_t bytes;
    struct line lines[];
};

static void collect_locked(const struct mirror *mirror, const struct inbox *inbox, struct store_index *index)
{
    for (size_t i = 0; i < inbox->emails.len && index->len < inbox->emails.live; i++) {
        const struct email_entry *entry = email_index_find(mirror->emails, inbox->emails.order[i]);
        if (!email_entry_is_shown(entry))
            continue;
        index->lines[index->len++] = (struct line){
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
    const struct line *a = one;
    const struct line *b = other;
    if (a->date_ms != b->date_ms)
        return a->date_ms < b->date_ms ? -1 : 1;
    return strcmp(a->name, b->name);
}

static uint64_t line_bytes(const struct line *line)
{
    return (uint64_t)line->line_len + strlen(line->name);
}

static void put_in_order(struct store_index *index)
{
    qsort(index->lines, index->len, sizeof(index->lines[0]), compare_dates);
    for (size_t i = 0; i < index->len; i++) {
        index->lines[i].start = index->bytes;
        index->bytes += line_bytes(&index->lines[i]);
    }
}

int inbox_index_new(struct mirror *mirror, uint32_t inbox_number, struct store_index **ret_index)
{
    struct store_index *index = NULL;
    pthread_rwlock_rdlock(&mirror->read_lock);
    const struct inbox *inbox = inbox_table_get(&mirror->inboxes, inbox_number);
    bool is_there = inbox != NULL && !inbox->is_gone;
    if (is_there)
        index = malloc(sizeof(*index) + inbox->emails.live * sizeof(index->lines[0]));
    if (index != NULL) {
        *index = (struct store_index){.mirror = mirror};
        atomic_fetch_add(&mirror->open_indexes, 1);
        collect_locked(mirror, inbox, index);
    }
    pthread_rwlock_unlock(&mirror->read_lock);
    if (index == NULL)
        return is_there ? -ENOMEM : -ENOENT;
    put_in_order(index);
    *ret_index = index;
    return 0;
}

void inbox_index_free(struct store_index *index)
{
    if (index != NULL)
        atomic_fetch_sub(&index->mirror->open_indexes, 1);
    free(index);
}

/* The line that `offset`, which lies in the file, is in. */
static size_t find_line(const struct store_index *index, uint64_t offset)
{
    size_t low = 0;
    size_t high = index->len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (index->lines[middle].start <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int write_line(const struct store_index *index, const struct line *line, char *ret_bytes)
{
    _cleanup_free_ char *json = NULL;
    int error = records_read_text(&index->mirror->records, line->text, line->json_len, &json);
    if (error == 0)
        index_line_write(json, line->json_len, line->name, strlen(line->name), line->line_len, ret_bytes);
    return error;
}

/* Of a line that does not fit whole, what lies within the `len` bytes from `from` on. */
static int write_part(const struct store_index *index, const struct line *line, size_t bytes, size_t from,
                      size_t len, char *ret_bytes)
{
    _cleanup_free_ char *whole = malloc(bytes);
    int error = whole == NULL ? -ENOMEM : write_line(index, line, whole);
    if (error == 0)
        memcpy(ret_bytes, whole + from, len);
    return error;
}

/* `len` bytes, which there are. */
static int write_lines(const struct store_index *index, uint64_t offset, char *ret_bytes, size_t len)
{
    size_t done = 0;
    for (size_t i = len > 0 ? find_line(index, offset) : 0; done < len; i++) {
        const struct line *line = &index->lines[i];
        size_t bytes = line_bytes(line);
        size_t from = offset + done - line->start;
        size_t part = bytes - from < len - done ? bytes - from : len - done;
        int error = part == bytes ? write_line(index, line, ret_bytes + done)
                                  : write_part(index, line, bytes, from, part, ret_bytes + done);
        if (error != 0)
            return error;
        done += part;
    }
    return 0;
}

int inbox_index_read(const struct store_index *index, uint64_t offset, char *ret_bytes, size_t len,
                     size_t *ret_len)
{
    if (len > index->bytes)
        len = index->bytes;
    if (offset >= index->bytes)
        len = 0;
    else if (len > index->bytes - offset)
        len = index->bytes - offset;
    int error = write_lines(index, offset, ret_bytes, len);
    if (error == -EIO)
        mirror_note_lost(index->mirror);
    *ret_len = len;
    return error;
}
