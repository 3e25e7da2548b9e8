/* SPDX-License-Identifier: MIT */
/*
 * The cache on the disk, as anybody may have left it. A index is made of it, what it shows can be listed and
 * found by its name, and it is the same when it is opened again.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/hash.h"
#include "fuzz/state_folder.h"
#include "store/index.h"

static void on_event(void *context, const struct event *event)
{
    (void)context, (void)event;
}

static uint64_t hash_emails(struct index *index, uint32_t inbox, uint64_t hash)
{
    struct email_view view;
    struct email_view found;
    for (uint64_t position = 0; index_list_emails(index, inbox, position, &view, &position, 1) == 1;) {
        char *json = NULL;
        size_t len = 0;
        FUZZ_CHECK(index_find_email(index, inbox, view.name, &found));
        /* A record may be listed and its text lost. */
        int error = index_read_email(index, view.number, &json, &len);
        FUZZ_CHECK(error == 0 ? len == view.json_len : error == -EIO);
        hash = hash_bytes(hash, view.name, strlen(view.name));
        if (error == 0)
            hash = hash_bytes(hash, json, len);
        free(json);
    }
    return hash;
}

/* Opens the index: a hash of all that it shows. */
static uint64_t open_index(int dir_fd)
{
    static const struct store_listener listener = {.context = NULL};
    static const struct event_listener events = {.notify = on_event};
    struct state_file file;
    struct index index;
    struct inbox_view inbox;
    struct inbox_view found;
    uint64_t hash = 0;
    FUZZ_CHECK(records_open_file(&file, dir_fd) == 0);
    FUZZ_CHECK(index_open(&index, clock_system(), &listener, &events, &file, RECORDS_RECEIVED) == 0);
    index_repair(&index);
    for (uint64_t position = 0; index_list_inboxes(&index, position, &inbox, &position, 1) == 1;) {
        char *json = NULL;
        size_t len = 0;
        FUZZ_CHECK(index_find_inbox(&index, inbox.name, &found) && found.number == inbox.number);
        FUZZ_CHECK(index_read_inbox(&index, inbox.number, &json, &len) == 0 && len == inbox.json_len);
        hash = hash_bytes(hash, inbox.name, strlen(inbox.name));
        hash = hash_bytes(hash, json, len);
        free(json);
        hash = hash_emails(&index, inbox.number, hash);
    }
    index_release(&index);
    state_file_release(&file);
    return hash;
}

static int visit_no_inbox(void *context, const struct inbox_row *row)
{
    (void)context, (void)row;
    return 0;
}

static int visit_no_email(void *context, const struct email_row *row)
{
    (void)context, (void)row;
    return 0;
}

/* A row of what the first bytes say: of any numbers, that are anybody's else, and any texts. */
static void put_row(struct records *records, const uint8_t *bytes, size_t len)
{
    _cleanup_free_ char *rest = fuzz_string(bytes + 4, len - 4);
    size_t half = strlen(rest) / 2;
    _cleanup_free_ char *key = fuzz_string(rest, half);
    const struct inbox_row inbox = {.number = bytes[1],
                                    .origin = (enum inbox_origin)(bytes[2] % 4),
                                    .is_quiet = (bytes[3] & 1) != 0,
                                    .is_gone = (bytes[3] & 2) != 0,
                                    .id = key,
                                    .name = rest + half,
                                    .json = rest,
                                    .json_len = strlen(rest)};
    const struct email_row email = {.number = bytes[1],
                                    .inbox = bytes[2],
                                    .json_len = bytes[2],
                                    .line_len = bytes[3],
                                    .is_held = (bytes[3] & 1) != 0,
                                    .is_gone = (bytes[3] & 2) != 0,
                                    .text = bytes[3],
                                    .key = key,
                                    .name = rest + half};
    if (bytes[0] % 4 == 0)
        (void)records_put_inbox(records, &inbox);
    else if (bytes[0] % 4 == 1)
        (void)records_put_email(records, &email);
    else if (bytes[0] % 4 == 2)
        (void)records_add_text(records, bytes[3], rest, strlen(rest));
    else
        (void)records_note_replaced(records, bytes[3]);
}

/* A file of rows that are intact and need not belong together: each a length, then its bytes. */
static void put_rows(int dir_fd, const uint8_t *bytes, size_t len)
{
    static const struct records_visitor visitor = {visit_no_inbox, visit_no_email, NULL};
    struct state_file file;
    struct records records;
    FUZZ_CHECK(records_open_file(&file, dir_fd) == 0);
    FUZZ_CHECK(records_load(&records, &file, RECORDS_RECEIVED, &visitor) == 0);
    FUZZ_CHECK(records_begin(&records) == 0);
    for (size_t at = 0; at + 1 < len;) {
        size_t left = len - at - 1;
        size_t row = bytes[at] < left ? bytes[at] : left;
        if (row >= 4)
            put_row(&records, bytes + at + 1, row);
        at += 1 + row;
    }
    FUZZ_CHECK(records_commit(&records) == 0);
    records_release(&records);
    state_file_release(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    int dir_fd = state_folder();
    size_t rows = len > 1 ? (len - 1) * (bytes[0] & 15) / 15 : 0;
    put_rows(dir_fd, bytes + 1, rows);
    if (len > 1)
        state_folder_damage(dir_fd, "records.sqlite3", bytes + 1 + rows, len - 1 - rows);
    (void)open_index(dir_fd);
    /* What was damaged is mended by then. */
    uint64_t hash = open_index(dir_fd);
    FUZZ_CHECK(open_index(dir_fd) == hash);
    return 0;
}
