/* SPDX-License-Identifier: MIT */
/*
 * An outbox in a temporary folder, with a fake service in memory and a fake clock. The fixture records the
 * outbox's events.
 */
#ifndef INBOXFS_TESTS_OUTBOX_WORLD_H
#define INBOXFS_TESTS_OUTBOX_WORLD_H

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
    NEWS_MAX = 2048,
};

struct news {
    enum event_kind kind;
    char path[300];
    char error[300];
};

struct world {
    struct temp_dir dir;
    int drafts;
    struct fake_clock clock;
    struct fake_service *fake;
    struct outbox_config config;
    struct outbox *outbox;
    pthread_mutex_t lock;
    pthread_cond_t told;
    struct news news[NEWS_MAX]; /* protected by lock, like all below */
    size_t news_len;
    unsigned int moves;
};

static inline int world_find_sender(void *context, const char *address, char **ret_address)
{
    if (address != NULL && strcmp(address, ME) != 0 && strcmp(address, "other@inbox.example") != 0)
        return -EADDRNOTAVAIL;
    *ret_address = strdup(address == NULL ? ME : address);
    return *ret_address == NULL ? -ENOMEM : 0;
}

static inline void world_hear(void *context, const struct event *event)
{
    struct world *world = context;
    pthread_mutex_lock(&world->lock);
    if (world->news_len < NEWS_MAX) {
        struct news *news = &world->news[world->news_len++];
        news->kind = event->kind;
        snprintf(news->path, sizeof(news->path), "%s", event->path == NULL ? "" : event->path);
        snprintf(news->error, sizeof(news->error), "%s", event->error == NULL ? "" : event->error);
    }
    pthread_cond_broadcast(&world->told);
    pthread_mutex_unlock(&world->lock);
}

static inline void world_see_move(void *context, const char *name, enum outbox_folder from,
                                  enum outbox_folder to)
{
    struct world *world = context;
    pthread_mutex_lock(&world->lock);
    world->moves++;
    pthread_mutex_unlock(&world->lock);
}

static inline void world_open(struct world *world)
{
    char *reason = NULL;
    int error = outbox_open(&world->config, &world->outbox, &reason);
    if (error != 0)
        fail_msg("outbox_open: %s", reason);
    assert_int_equal(outbox_start(world->outbox), 0);
}

static inline void world_close(struct world *world)
{
    outbox_stop(world->outbox);
    outbox_free(world->outbox);
    world->outbox = NULL;
}

static inline void world_reopen(struct world *world)
{
    world_close(world);
    world_open(world);
}

static inline void world_prepare(struct world *world)
{
    *world = (struct world){.drafts = -1};
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->told, NULL);
    temp_dir_init(&world->dir);
    world->drafts = file_open_dir(world->dir.fd, "drafts");
    fake_clock_init(&world->clock, NOON);
    world->fake = fake_service_new();
    world->config = (struct outbox_config){
        .service = fake_service_as_service(world->fake),
        .clock = &world->clock.clock,
        .state_dir_fd = world->dir.fd,
        .senders = {world_find_sender, NULL},
        .daily_limit = -1,
        .listener = {world_see_move, world},
        .events = {world_hear, world},
    };
}

static inline int world_setup(void **state)
{
    struct world *world = malloc(sizeof(*world));
    world_prepare(world);
    world_open(world);
    *state = world;
    return 0;
}

static inline int world_teardown(void **state)
{
    struct world *world = *state;
    if (world->outbox != NULL)
        world_close(world);
    fake_service_free(world->fake);
    fake_clock_release(&world->clock);
    close(world->drafts);
    temp_dir_release(&world->dir);
    pthread_cond_destroy(&world->told);
    pthread_mutex_destroy(&world->lock);
    free(world);
    return 0;
}

/* ---------------------------------------------------------------- doing */

enum {
    MOVER = 5000000 /* process that moves drafts in; Linux assigns no id this high */
};

static inline void put_draft(struct world *world, const char *name, const char *content)
{
    int fd = openat(world->drafts, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, content, strlen(content)), 0);
    close(fd);
}

static inline bool has_draft(struct world *world, const char *name)
{
    return faccessat(world->drafts, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline int move_in(struct world *world, const char *draft, int folder, const char *name)
{
    char shown[300];
    snprintf(shown, sizeof(shown), "drafts/%s", draft);
    return outbox_hand_in(world->outbox, world->drafts, draft, shown, (enum outbox_folder)folder, name, 0,
                          MOVER, NULL);
}

/* Writes a draft and hands it in under the same name. */
static inline int mail(struct world *world, const char *name, const char *content)
{
    put_draft(world, name, content);
    return move_in(world, name, OUT, name);
}

static inline struct outbox_handle *create(struct world *world, int folder, const char *name)
{
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    int error = outbox_create(world->outbox, (enum outbox_folder)folder, name, 0, &handle, &stat);
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
static inline void copy_in(struct world *world, int folder, const char *name, const char *content)
{
    struct outbox_handle *handle = create(world, folder, name);
    if (content[0] != '\0')
        append(handle, content, 0);
    finish(handle);
}

static inline int settle(struct world *world)
{
    return outbox_wait_settled(world->outbox, OUTBOX_FOLDER_OUTBOX, 0, NULL);
}

static inline int settle_uploads(struct world *world)
{
    return outbox_wait_settled(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, 0, NULL);
}

static inline int move(struct world *world, int from, const char *name, int to, const char *new_name)
{
    int error = -ESTALE;
    for (int i = 0; i < 2 && error == -ESTALE;
         i++) /* on ESTALE the kernel looks the name up and retries once */
        error = outbox_rename(world->outbox, (enum outbox_folder)from, name, (enum outbox_folder)to, new_name,
                              0, 0);
    return error;
}

/* Opens an attachment as the kernel does: looks the name up and retries once on ESTALE. */
static inline int open_attached(struct world *world, const char *name, int flags,
                                struct outbox_handle **ret_handle)
{
    struct outbox_stat stat;
    int error = -ESTALE;
    for (int i = 0; i < 2 && error == -ESTALE; i++)
        error = outbox_find(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, name, &stat)
                    ? outbox_open_item(world->outbox, stat.number, flags, 0, ret_handle)
                    : -ENOENT;
    return error;
}

/* ---------------------------------------------------------------- looking */

static inline bool is_listed(struct world *world, int folder, const char *name)
{
    struct outbox_listing listing;
    bool is_found = false;
    assert_int_equal(outbox_list(world->outbox, (enum outbox_folder)folder, &listing), 0);
    for (size_t i = 0; i < listing.len; i++)
        is_found = is_found || strcmp(listing.entries[i].name, name) == 0;
    outbox_listing_release(&listing);
    return is_found;
}

static inline uint64_t number_of(struct world *world, int folder, const char *name)
{
    struct outbox_stat stat;
    if (!outbox_find(world->outbox, (enum outbox_folder)folder, name, &stat))
        fail_msg("%s is not there", name);
    return stat.number;
}

/* Returns the whole file, NUL-terminated, and checks its size. The caller frees it. */
static inline char *read_shown(struct world *world, int folder, const char *name)
{
    struct outbox_stat stat;
    struct outbox_handle *handle = NULL;
    struct strbuf receipt = STRBUF_INIT(RECEIPT_MAX_BYTES);
    if (!outbox_find(world->outbox, (enum outbox_folder)folder, name, &stat))
        fail_msg("%s is not there", name);
    if (stat.aspect == OUTBOX_RECEIPT) {
        assert_int_equal(outbox_read_receipt(world->outbox, stat.number, &receipt), 0);
        assert_int_equal(receipt.len, stat.size);
        return strbuf_take(&receipt, NULL);
    }
    assert_int_equal(outbox_open_item(world->outbox, stat.number, O_RDONLY, 0, &handle), 0);
    char *text = calloc(1, (size_t)stat.size + 2);
    assert_int_equal(outbox_read(handle, text, (size_t)stat.size + 1, 0), stat.size);
    outbox_release(handle);
    return text;
}

static inline bool shown_contains(struct world *world, int folder, const char *name, const char *part)
{
    char *text = read_shown(world, folder, name);
    bool contains = strstr(text, part) != NULL;
    if (!contains)
        print_message("%s lacks %s:\n%s\n", name, part, text);
    free(text);
    return contains;
}

static inline bool was_told(struct world *world, enum event_kind kind, const char *path)
{
    bool is_found = false;
    pthread_mutex_lock(&world->lock);
    for (size_t i = 0; i < world->news_len; i++)
        is_found = is_found || (world->news[i].kind == kind && strcmp(world->news[i].path, path) == 0);
    pthread_mutex_unlock(&world->lock);
    return is_found;
}

/* Waits at most 20 seconds for the event. */
static inline void await_news(struct world *world, enum event_kind kind, const char *path)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    while (!was_told(world, kind, path)) {
        pthread_mutex_lock(&world->lock);
        int error = pthread_cond_timedwait(&world->told, &world->lock, &until);
        pthread_mutex_unlock(&world->lock);
        if (error == ETIMEDOUT)
            fail_msg("nobody told of %s", path);
    }
}

/* Waits until the queue is paused or not, as `is_paused` says: another thread processes the answer. */
static inline struct outbox_status await_paused(struct world *world, bool is_paused)
{
    struct outbox_status status;
    for (int i = 0; i < 20000; i++) {
        outbox_get_status(world->outbox, &status);
        if (status.is_paused == is_paused)
            return status;
        usleep(1000);
    }
    fail_msg("the queue is %s", is_paused ? "not paused" : "paused");
    return status;
}

/* Waits until the queue has a time for its next attempt. */
static inline struct outbox_status await_next_attempt(struct world *world)
{
    struct outbox_status status;
    for (int i = 0; i < 20000; i++) {
        outbox_get_status(world->outbox, &status);
        if (status.next_attempt_ms > 0)
            return status;
        usleep(1000);
    }
    fail_msg("the queue waits for nothing");
    return status;
}

static inline unsigned int sends(struct world *world)
{
    return fake_service_count(world->fake, FAKE_SEND);
}

/* Returns true if the JSON of send request `index` contains `part`. */
static inline bool sent_contains(struct world *world, unsigned int index, const char *part)
{
    return strstr(fake_service_get(world->fake, FAKE_SEND, index).text, part) != NULL;
}

#define WORLD_TEST(function) TEST_WITH(function, world_setup, world_teardown)

#endif
