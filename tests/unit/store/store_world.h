/* SPDX-License-Identifier: MIT */
/*
 * A fixture for a store: a state directory, a fake clock, a fake service, and a listener that records
 * reports.
 */
#ifndef INBOXFS_TESTS_UNIT_STORE_STORE_WORLD_H
#define INBOXFS_TESTS_UNIT_STORE_STORE_WORLD_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "store/index_changes.h"
#include "store/store.h"
#include "support/fake_clock.h"
#include "support/fake_service.h"
#include "support/temp_dir.h"

#define WORLD_START_MS INT64_C(1795168800000) /* 2026-11-20T10:00:00Z */

struct store_world {
    struct temp_dir dir;
    struct fake_clock clock;
    struct fake_service *fake;
    struct store *store;
    int64_t poll_interval_ms;
    bool adopt_state;
    bool hears_sent;              /* `changes` also records sent mail */
    uint64_t content_cache_bytes; /* 0 turns content off */
    pthread_mutex_t lock;
    struct strbuf events;  /* protected by lock: "KIND PATH ID ERROR;" for each event, "-" for NULL */
    struct strbuf changes; /* protected by lock: "email 0 added;" or "inbox 0 changed;" for each change */
};

static inline void world_hear_event(void *context, const struct event *event)
{
    struct store_world *world = context;
    pthread_mutex_lock(&world->lock);
    strbuf_appendf(&world->events, "%s %s %s %s;", event_kind_name(event->kind),
                   event->path != NULL ? event->path : "-", event->id != NULL ? event->id : "-",
                   event->error != NULL ? event->error : "-");
    pthread_mutex_unlock(&world->lock);
}

static inline void world_hear_change(struct store_world *world, const char *what, uint32_t number,
                                     enum store_change change)
{
    static const char *const words[] = {"added", "changed", "removed", "moved", "returned"};
    pthread_mutex_lock(&world->lock);
    strbuf_appendf(&world->changes, "%s %u %s;", what, number, words[change]);
    pthread_mutex_unlock(&world->lock);
}

static inline void world_hear_inbox(void *context, uint32_t inbox, enum store_change change)
{
    struct store_world *world = context;
    struct inbox_view view;
    /* This call would never return if the store called listeners with its lock held. */
    store_get_inbox(world->store, inbox, &view);
    world_hear_change(world, "inbox", inbox, change);
}

static inline void world_hear_email(void *context, uint32_t email, enum store_change change)
{
    struct store_world *world = context;
    struct email_view view;
    assert_true(store_get_email(world->store, email, &view));
    world_hear_change(world, "email", email, change);
}

static inline void world_hear_sent(void *context, uint32_t sent, enum store_change change)
{
    world_hear_change(context, "sent", sent, change);
}

static inline void world_hear_content(void *context)
{
    struct store_world *world = context;
    pthread_mutex_lock(&world->lock);
    strbuf_append_str(&world->changes, "content;");
    pthread_mutex_unlock(&world->lock);
}

/* Returns the record of an email. The caller frees it. */
static inline char *world_read(struct store_world *world, uint32_t email)
{
    char *json = NULL;
    size_t len;
    assert_int_equal(store_read_email(world->store, email, &json, &len), 0);
    return json;
}

static inline void world_open(struct store_world *world)
{
    _cleanup_free_ char *reason = NULL;
    const struct store_config config = {
        .service = fake_service_as_service(world->fake),
        .clock = &world->clock.clock,
        .state_dir_fd = world->dir.fd,
        .poll_interval_ms = world->poll_interval_ms,
        .adopt_state = world->adopt_state,
        .content_cache_bytes = world->content_cache_bytes,
        .listener = {.inbox_changed = world_hear_inbox,
                     .email_changed = world_hear_email,
                     .sent_changed = world->hears_sent ? world_hear_sent : NULL,
                     .abilities_changed = world_hear_content,
                     .context = world},
        .events = {world_hear_event, world},
    };
    assert_int_equal(store_open(&config, &world->store, &reason), 0);
}

static inline void world_init(struct store_world *world)
{
    *world = (struct store_world){.events = STRBUF_INIT(1 << 20), .changes = STRBUF_INIT(1 << 20)};
    temp_dir_init(&world->dir);
    fake_clock_init(&world->clock, WORLD_START_MS);
    world->fake = fake_service_new();
    pthread_mutex_init(&world->lock, NULL);
}

/* Adds the inbox in-1, alice@inbox.example. */
static inline void world_init_with_alice(struct store_world *world)
{
    world_init(world);
    fake_service_add_inbox(
        world->fake, "{\"id\": \"in-1\", \"name\": \"alice\", \"email_address\": \"alice@inbox.example\"}");
}

static inline void world_start(struct store_world *world)
{
    world_open(world);
    assert_int_equal(store_start(world->store), 0);
}

static inline void world_close(struct store_world *world)
{
    store_stop(world->store);
    store_free(world->store);
    world->store = NULL;
}

/* Closes and opens the store, as a restart of inboxfs does. */
static inline void world_restart(struct store_world *world)
{
    world_close(world);
    world_start(world);
}

static inline void world_release(struct store_world *world)
{
    if (world->store != NULL)
        world_close(world);
    fake_service_free(world->fake);
    fake_clock_release(&world->clock);
    strbuf_release(&world->events);
    strbuf_release(&world->changes);
    pthread_mutex_destroy(&world->lock);
    temp_dir_release(&world->dir);
}

static inline int world_sync(struct store_world *world)
{
    _cleanup_free_ char *reason = NULL;
    int error = store_sync(world->store, NULL, NULL, &reason);
    assert_true((error == 0) == (reason == NULL));
    return error;
}

/* Syncs twice: the second list confirms the removals of the first. */
static inline int world_sync_removal(struct store_world *world)
{
    assert_int_equal(world_sync(world), 0);
    fake_clock_advance(&world->clock, INDEX_CONFIRM_MS);
    return world_sync(world);
}

static inline uint32_t world_inbox(struct store_world *world, const char *name)
{
    struct inbox_view view;
    assert_true(store_find_inbox(world->store, name, &view));
    return view.number;
}

/* Returns the names of all emails of an inbox, joined by blanks. The caller frees them. */
static inline char *world_emails(struct store_world *world, const char *inbox)
{
    struct strbuf names = STRBUF_INIT(1 << 20);
    struct email_view views[3];
    uint64_t positions[3];
    uint64_t position = 0;
    size_t count;
    uint32_t number = world_inbox(world, inbox);
    while ((count = store_list_emails(world->store, number, position, views, positions, 3)) > 0) {
        for (size_t i = 0; i < count; i++)
            strbuf_appendf(&names, "%s%s", names.len > 0 ? " " : "", views[i].name);
        position = positions[count - 1];
    }
    char *text = strdup(strbuf_str(&names));
    strbuf_release(&names);
    return text;
}

static inline void assert_emails(struct store_world *world, const char *inbox, const char *expected)
{
    _cleanup_free_ char *names = world_emails(world, inbox);
    assert_string_equal(names, expected);
}

static inline size_t world_count(struct store_world *world)
{
    struct store_status status;
    store_get_status(world->store, &status);
    return status.emails;
}

/* `expected` has the names of all inboxes, joined by blanks. */
static inline void assert_inboxes(struct store_world *world, const char *expected)
{
    _cleanup_strbuf_ struct strbuf names = STRBUF_INIT(1 << 16);
    struct inbox_view view;
    uint64_t position = 0;
    while (store_list_inboxes(world->store, position, &view, &position, 1) > 0)
        strbuf_appendf(&names, "%s%s", names.len > 0 ? " " : "", view.name);
    assert_string_equal(strbuf_str(&names), expected);
}

/* Clears the recorded events and changes. */
static inline void world_forget(struct store_world *world)
{
    pthread_mutex_lock(&world->lock);
    strbuf_clear(&world->events);
    strbuf_clear(&world->changes);
    pthread_mutex_unlock(&world->lock);
}

static inline void assert_heard(struct store_world *world, struct strbuf *what, const char *expected)
{
    pthread_mutex_lock(&world->lock);
    assert_string_equal(strbuf_str(what), expected);
    pthread_mutex_unlock(&world->lock);
}

static inline void assert_events(struct store_world *world, const char *expected)
{
    assert_heard(world, &world->events, expected);
}

static inline void assert_changes(struct store_world *world, const char *expected)
{
    assert_heard(world, &world->changes, expected);
}

/* Adds the emails from ID-FROM to ID-(TO - 1); the highest is the newest. */
static inline void world_add_emails(struct store_world *world, const char *inbox_id, int from, int to)
{
    for (int i = from; i < to; i++) {
        char id[64];
        char subject[32];
        snprintf(id, sizeof(id), "%08d-%s", i, inbox_id);
        snprintf(subject, sizeof(subject), "mail %d", i);
        fake_service_add_simple_email(world->fake, inbox_id, id, subject);
    }
}

#endif
