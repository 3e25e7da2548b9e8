/* SPDX-License-Identifier: MIT */
/*
 * Loading, and writing anew.
 */
#include "store/mirror_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "store/mirror_emails.h"
#include "store/mirror_inboxes.h"

static const char cache_name[] = "records";
static const char compact_name[] = "records.compact";

enum {
    WASTE_ALLOWED_BYTES = 4 * 1024 * 1024
};

/* ---------------------------------------------------------------- loading */

static int load_inbox(struct mirror *mirror, const void *payload, size_t len)
{
    struct inbox_parts texts;
    return inbox_frame_read(payload, len, &texts) ? mirror_load_inbox(mirror, payload, &texts) : 0;
}

static int load_email(struct mirror *mirror, const void *payload, size_t len, uint64_t position)
{
    struct email_parts parts;
    return email_frame_read(payload, len, &parts) ? mirror_load_email(mirror, payload, &parts, position) : 0;
}

static int load_other(struct mirror *mirror, unsigned int kind, const void *payload, size_t len)
{
    const char *key;
    bool is_gone_frame =
        (kind == CACHE_INBOX_GONE || kind == CACHE_EMAIL_GONE || kind == CACHE_INBOX_QUIET) &&
        gone_frame_read(payload, len, &key);
    if (kind == CACHE_INBOX)
        return load_inbox(mirror, payload, len);
    if (kind == CACHE_FIRST_SYNC)
        mirror->first_sync_done = true;
    if (!is_gone_frame)
        return 0;
    if (kind == CACHE_INBOX_GONE)
        mirror_load_inbox_gone(mirror, payload);
    else if (kind == CACHE_EMAIL_GONE)
        mirror_load_email_gone(mirror, payload, key);
    else
        mirror_load_inbox_quiet(mirror, payload);
    return 0;
}

static int load_frame(void *context, unsigned int kind, const void *payload, size_t len, uint64_t position)
{
    return kind == CACHE_EMAIL ? load_email(context, payload, len, position)
                               : load_other(context, kind, payload, len);
}

static int load(struct mirror *mirror, int dir_fd)
{
    return record_log_open(dir_fd, cache_name, load_frame, mirror, &mirror->log);
}

/* ---------------------------------------------------------------- writing anew */

static bool email_counts(const struct mirror *mirror, const struct email_entry *entry)
{
    return !entry->is_gone && !inbox_table_get(&mirror->inboxes, entry->inbox)->is_gone;
}

/* What the emails of inboxes that are gone take. */
static uint64_t bytes_of_gone_inboxes(const struct mirror *mirror)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < mirror->inboxes.len; i++) {
        const struct inbox *inbox = mirror->inboxes.items[i];
        for (size_t k = 0; inbox != NULL && inbox->is_gone && k < inbox->emails.len; k++) {
            const struct email_entry *entry = email_index_find(mirror->emails, inbox->emails.order[k]);
            bytes += entry->is_gone ? 0 : record_log_frame_bytes(email_entry_record_len(entry));
        }
    }
    return bytes;
}

static bool is_wasteful(const struct mirror *mirror)
{
    uint64_t counting = mirror->loaded_bytes - bytes_of_gone_inboxes(mirror);
    return record_log_bytes(mirror->log) > 2 * counting + WASTE_ALLOWED_BYTES;
}

/* Inboxes get new numbers without gaps: *ret_numbers tells them by the old ones. */
static int write_inboxes(const struct mirror *mirror, struct record_log *log, uint32_t **ret_numbers)
{
    uint32_t next = 0;
    _cleanup_free_ uint32_t *numbers = calloc((size_t)mirror->inboxes.len + 1, sizeof(*numbers));
    if (numbers == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < mirror->inboxes.len; i++) {
        const struct inbox *inbox = mirror->inboxes.items[i];
        if (inbox == NULL || inbox->is_gone)
            continue;
        struct inbox_frame frame = inbox->frame;
        numbers[i] = next;
        frame.number = next++;
        frame.flags = inbox->is_quiet ? INBOX_IS_QUIET : 0;
        if (inbox_frame_append(log, &frame, &inbox->texts) == RECORD_NOWHERE)
            return -ENOMEM;
    }
    *ret_numbers = TAKE_PTR(numbers);
    return 0;
}

static int write_emails(const struct mirror *mirror, struct record_log *log, const uint32_t *numbers)
{
    for (uint32_t i = 0; i < email_index_len(mirror->emails); i++) {
        const struct email_entry *entry = email_index_find(mirror->emails, i);
        struct email_parts parts;
        _cleanup_free_ void *record = NULL;
        if (!email_counts(mirror, entry))
            continue;
        int error = record_log_read(mirror->log, entry->position, email_entry_record_len(entry), &record);
        if (error != 0)
            return error;
        struct email_frame *frame = record;
        frame->inbox = numbers[entry->inbox];
        email_frame_get_parts(frame, &parts);
        if (email_frame_append(log, frame, &parts) == RECORD_NOWHERE)
            return -ENOMEM;
    }
    return 0;
}

static int visit_nothing(void *context, unsigned int kind, const void *payload, size_t len, uint64_t position)
{
    (void)context, (void)kind, (void)payload, (void)len, (void)position;
    return 0;
}

/* 0 when a smaller cache is in the place of the old one. */
static int write_anew(const struct mirror *mirror, int dir_fd)
{
    struct record_log *log;
    _cleanup_free_ uint32_t *numbers = NULL;
    unlinkat(dir_fd, compact_name, 0);
    int error = record_log_open(dir_fd, compact_name, visit_nothing, NULL, &log);
    if (error != 0)
        return error;
    error = write_inboxes(mirror, log, &numbers);
    if (error == 0)
        error = write_emails(mirror, log, numbers);
    if (error == 0 && mirror->first_sync_done &&
        record_log_append(log, CACHE_FIRST_SYNC, NULL, 0) == RECORD_NOWHERE)
        error = -ENOMEM;
    if (error == 0)
        error = record_log_sync(log);
    record_log_free(log);
    if (error == 0 && renameat(dir_fd, compact_name, dir_fd, cache_name) != 0)
        error = -errno;
    if (error != 0)
        unlinkat(dir_fd, compact_name, 0);
    else if (file_sync(dir_fd) != 0) /* it has the name all the same: the other one has none */
        log_warning("the state file %s may not be kept", cache_name);
    return error;
}

/* The same mirror without anything in it. */
static int start_over(struct mirror *mirror)
{
    struct clock *clock = mirror->clock;
    struct store_listener listener = mirror->listener;
    struct event_listener events = mirror->events;
    mirror_release(mirror);
    return mirror_init(mirror, clock, &listener, &events);
}

int mirror_cache_open(struct mirror *mirror, int dir_fd)
{
    int error = load(mirror, dir_fd);
    if (error != 0 || !is_wasteful(mirror) || write_anew(mirror, dir_fd) != 0)
        return error;
    error = start_over(mirror);
    return error != 0 ? error : load(mirror, dir_fd);
}
