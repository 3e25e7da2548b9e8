/* SPDX-License-Identifier: MIT */
/*
 * An outbox in a temporary folder, with a fake service in memory and a fake clock. The fixture records the
 * outbox's events.
 */
#ifndef INBOXFS_TESTS_OUTBOX_FIXTURE_H
#define INBOXFS_TESTS_OUTBOX_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "mail/receipt.h"
#include "outbox/outbox.h"
#include "support/fake_clock.h"
#include "support/fake_service.h"
#include "support/temp_dir.h"

#define ME "me@inbox.example"
#define MESSAGE "To: bob@x.example\nSubject: Hello\n\nHow are you?\n"
#define NOON INT64_C(1795176000000) /* 2026-11-20T12:00:00Z */
#define HOUR_MS INT64_C(3600000)

enum {
    OUT = OUTBOX_FOLDER_OUTBOX,
    SENT = OUTBOX_FOLDER_SENT,
    FAILED = OUTBOX_FOLDER_FAILED,
    ATTACHED = OUTBOX_FOLDER_ATTACHMENTS,
    EVENTS_MAX = 2048,
};

struct recorded_event {
    enum event_kind kind;
    char path[300];
    char error[300];
};

struct fixture {
    struct temp_dir dir;
    int drafts;
    struct fake_clock clock;
    struct fake_service *fake;
    struct outbox_config config;
    struct outbox *outbox;
    pthread_mutex_t lock;
    pthread_cond_t event_recorded;
    struct recorded_event events[EVENTS_MAX]; /* protected by lock, like all below */
    size_t events_len;
};

static inline int find_sender(void *context, const char *address, char **ret_address)
{
    if (address != NULL && strcmp(address, ME) != 0 && strcmp(address, "other@inbox.example") != 0)
        return -EADDRNOTAVAIL;
    *ret_address = strdup(address == NULL ? ME : address);
    return *ret_address == NULL ? -ENOMEM : 0;
}

static inline void record_event(void *context, const struct event *event)
{
    struct fixture *fixture = context;
    pthread_mutex_lock(&fixture->lock);
    if (fixture->events_len < EVENTS_MAX) {
        struct recorded_event *recorded = &fixture->events[fixture->events_len++];
        recorded->kind = event->kind;
        snprintf(recorded->path, sizeof(recorded->path), "%s", event->path == NULL ? "" : event->path);
        snprintf(recorded->error, sizeof(recorded->error), "%s", event->error == NULL ? "" : event->error);
    }
    pthread_cond_broadcast(&fixture->event_recorded);
    pthread_mutex_unlock(&fixture->lock);
}

static inline void fixture_open(struct fixture *fixture)
{
    char *reason = NULL;
    int error = outbox_open(&fixture->config, &fixture->outbox, &reason);
    if (error != 0)
        fail_msg("outbox_open: %s", reason);
    assert_int_equal(outbox_start(fixture->outbox), 0);
}

static inline void fixture_close(struct fixture *fixture)
{
    outbox_stop(fixture->outbox);
    outbox_free(fixture->outbox);
    fixture->outbox = NULL;
}

static inline void fixture_reopen(struct fixture *fixture)
{
    fixture_close(fixture);
    fixture_open(fixture);
}

static inline void fixture_prepare(struct fixture *fixture)
{
    *fixture = (struct fixture){.drafts = -1};
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->event_recorded, NULL);
    temp_dir_init(&fixture->dir);
    fixture->drafts = file_open_dir(fixture->dir.fd, "drafts");
    fake_clock_init(&fixture->clock, NOON);
    fixture->fake = fake_service_new();
    fixture->config = (struct outbox_config){
        .service = fake_service_as_service(fixture->fake),
        .clock = &fixture->clock.clock,
        .state_dir_fd = fixture->dir.fd,
        .senders = {find_sender, NULL},
        .daily_limit = -1,
        .events = {record_event, fixture},
    };
}

static inline int fixture_setup(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    fixture_prepare(fixture);
    fixture_open(fixture);
    *state = fixture;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->outbox != NULL)
        fixture_close(fixture);
    fake_service_free(fixture->fake);
    fake_clock_release(&fixture->clock);
    close(fixture->drafts);
    temp_dir_release(&fixture->dir);
    pthread_cond_destroy(&fixture->event_recorded);
    pthread_mutex_destroy(&fixture->lock);
    free(fixture);
    return 0;
}

/* ---------------------------------------------------------------- actions */

enum {
    MOVER = 5000000 /* pid of the program that moves drafts in, higher than any pid of Linux */
};

static inline void put_draft(struct fixture *fixture, const char *name, const char *content)
{
    int fd = openat(fixture->drafts, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, content, strlen(content)), 0);
    close(fd);
}

static inline bool has_draft(struct fixture *fixture, const char *name)
{
    return faccessat(fixture->drafts, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline int move_in(struct fixture *fixture, const char *draft, int folder, const char *name)
{
    const struct hand_in to = {.folder = (enum outbox_folder)folder, .name = name};
    char shown[300];
    snprintf(shown, sizeof(shown), "drafts/%s", draft);
    return outbox_hand_in(fixture->outbox, fixture->drafts, draft, shown, &to, MOVER, NULL);
}

/* Writes a draft and hands it in under the same name. */
static inline int mail(struct fixture *fixture, const char *name, const char *content)
{
    put_draft(fixture, name, content);
    return move_in(fixture, name, OUT, name);
}

static inline struct outbox_handle *create(struct fixture *fixture, int folder, const char *name)
{
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    int error = outbox_create(fixture->outbox, (enum outbox_folder)folder, name, 0, NULL, &handle, &stat);
    if (error != 0)
        fail_msg("create %s: %s", name, strerror(-error));
    assert_int_equal(stat.folder, folder);
    return handle;
}

static inline void append(struct outbox_handle *handle, const char *text, off_t offset)
{
    assert_int_equal(outbox_write(handle, text, strlen(text), offset, 0), strlen(text));
}

static inline void finish(struct outbox_handle *handle)
{
    assert_int_equal(outbox_flush(handle, 0), 0);
    outbox_release(handle);
}

/* Creates, writes and closes a file, as cp(1) does. */
static inline void copy_in(struct fixture *fixture, int folder, const char *name, const char *content)
{
    struct outbox_handle *handle = create(fixture, folder, name);
    if (content[0] != '\0')
        append(handle, content, 0);
    finish(handle);
}

static inline int settle(struct fixture *fixture)
{
    return outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_OUTBOX, 0, NULL);
}

static inline int settle_uploads(struct fixture *fixture)
{
    return outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, 0, NULL);
}

static inline int move(struct fixture *fixture, int from, const char *name, int to, const char *new_name)
{
    int error = -ESTALE;
    for (int i = 0; i < 2 && error == -ESTALE; i++) /* the kernel retries once */
        error = outbox_rename(fixture->outbox, (enum outbox_folder)from, name, (enum outbox_folder)to,
                              new_name, 0, 0);
    return error;
}

/* Opens an attachment as the kernel does: after ESTALE it looks the name up again, once. */
static inline int open_attached(struct fixture *fixture, const char *name, int flags,
                                struct outbox_handle **ret_handle)
{
    struct outbox_stat stat;
    int error = -ESTALE;
    for (int i = 0; i < 2 && error == -ESTALE; i++)
        error = outbox_find(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, name, &stat)
                    ? outbox_open_item(fixture->outbox, stat.number, flags, 0, ret_handle)
                    : -ENOENT;
    return error;
}

/* ---------------------------------------------------------------- observations */

static inline bool is_listed(struct fixture *fixture, int folder, const char *name)
{
    struct outbox_listing listing;
    bool is_found = false;
    outbox_list(fixture->outbox, (enum outbox_folder)folder, &listing);
    for (size_t i = 0; i < listing.len; i++)
        is_found = is_found || strcmp(listing.entries[i].name, name) == 0;
    outbox_listing_release(&listing);
    return is_found;
}

static inline uint64_t number_of(struct fixture *fixture, int folder, const char *name)
{
    struct outbox_stat stat;
    if (!outbox_find(fixture->outbox, (enum outbox_folder)folder, name, &stat))
        fail_msg("%s is not there", name);
    return stat.number;
}

/* Returns the whole file, NUL-terminated, and checks its size. The caller frees it. */
static inline char *read_shown(struct fixture *fixture, int folder, const char *name)
{
    struct outbox_stat stat;
    struct outbox_handle *handle = NULL;
    struct strbuf receipt = STRBUF_INIT(RECEIPT_MAX_BYTES);
    if (!outbox_find(fixture->outbox, (enum outbox_folder)folder, name, &stat))
        fail_msg("%s is not there", name);
    if (stat.aspect == OUTBOX_RECEIPT) {
        assert_int_equal(outbox_read_receipt(fixture->outbox, stat.number, &receipt), 0);
        assert_int_equal(receipt.len, stat.size);
        return strbuf_take(&receipt, NULL);
    }
    assert_int_equal(outbox_open_item(fixture->outbox, stat.number, O_RDONLY, 0, &handle), 0);
    char *text = calloc(1, (size_t)stat.size + 2);
    assert_int_equal(outbox_read(handle, text, (size_t)stat.size + 1, 0), stat.size);
    outbox_release(handle);
    return text;
}

static inline bool shown_contains(struct fixture *fixture, int folder, const char *name, const char *part)
{
    char *text = read_shown(fixture, folder, name);
    bool contains = strstr(text, part) != NULL;
    if (!contains)
        print_message("%s lacks %s:\n%s\n", name, part, text);
    free(text);
    return contains;
}

static inline bool has_event(struct fixture *fixture, enum event_kind kind, const char *path)
{
    bool is_found = false;
    pthread_mutex_lock(&fixture->lock);
    for (size_t i = 0; i < fixture->events_len; i++)
        is_found =
            is_found || (fixture->events[i].kind == kind && strcmp(fixture->events[i].path, path) == 0);
    pthread_mutex_unlock(&fixture->lock);
    return is_found;
}

/* Waits at most 20 seconds for the event. */
static inline void await_event(struct fixture *fixture, enum event_kind kind, const char *path)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    while (!has_event(fixture, kind, path)) {
        pthread_mutex_lock(&fixture->lock);
        int error = pthread_cond_timedwait(&fixture->event_recorded, &fixture->lock, &until);
        pthread_mutex_unlock(&fixture->lock);
        if (error == ETIMEDOUT)
            fail_msg("no event about %s", path);
    }
}

/* Waits until the queue is paused or not, as `is_paused` says: another thread processes the answer. */
static inline struct outbox_status await_paused(struct fixture *fixture, bool is_paused)
{
    struct outbox_status status;
    for (int i = 0; i < 20000; i++) {
        outbox_get_status(fixture->outbox, &status);
        if (status.is_paused == is_paused)
            return status;
        usleep(1000);
    }
    fail_msg("the queue is %s", is_paused ? "not paused" : "paused");
    return status;
}

/* Waits until the queue has a time for its next attempt. */
static inline struct outbox_status await_next_attempt(struct fixture *fixture)
{
    struct outbox_status status;
    for (int i = 0; i < 20000; i++) {
        outbox_get_status(fixture->outbox, &status);
        if (status.next_attempt_ms > 0)
            return status;
        usleep(1000);
    }
    fail_msg("the queue waits for nothing");
    return status;
}

static inline unsigned int sends(struct fixture *fixture)
{
    return fake_service_count(fixture->fake, FAKE_SEND);
}

/* Returns true if the JSON of send request `index` contains `part`. */
static inline bool sent_contains(struct fixture *fixture, unsigned int index, const char *part)
{
    return strstr(fake_service_get(fixture->fake, FAKE_SEND, index).text, part) != NULL;
}

#define FIXTURE_TEST(function) TEST_WITH(function, fixture_setup, fixture_teardown)

#endif
