/* SPDX-License-Identifier: MIT */
/*
 * A fixture for a store: a state directory, a fake clock, a fake service, and a listener that records
 * reports.
 */
#ifndef INBOXFS_TESTS_UNIT_STORE_STORE_FIXTURE_H
#define INBOXFS_TESTS_UNIT_STORE_STORE_FIXTURE_H

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

struct store_fixture {
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

static inline void fixture_hear_event(void *context, const struct event *event)
{
    struct store_fixture *fixture = context;
    pthread_mutex_lock(&fixture->lock);
    strbuf_appendf(&fixture->events, "%s %s %s %s;", event_kind_name(event->kind),
                   event->path != NULL ? event->path : "-", event->id != NULL ? event->id : "-",
                   event->error != NULL ? event->error : "-");
    pthread_mutex_unlock(&fixture->lock);
}

static inline void fixture_hear_change(struct store_fixture *fixture, const char *what, uint32_t number,
                                       enum store_change change)
{
    static const char *const words[] = {"added", "changed", "removed", "moved", "returned"};
    pthread_mutex_lock(&fixture->lock);
    strbuf_appendf(&fixture->changes, "%s %u %s;", what, number, words[change]);
    pthread_mutex_unlock(&fixture->lock);
}

static inline void fixture_hear_inbox(void *context, uint32_t inbox, enum store_change change,
                                      const char *former_name)
{
    struct store_fixture *fixture = context;
    struct inbox_view view;
    /* This call would never return if the store called listeners with its lock held. */
    store_get_inbox(fixture->store, inbox, &view);
    fixture_hear_change(fixture, "inbox", inbox, change);
}

static inline void fixture_hear_email(void *context, uint32_t email, enum store_change change)
{
    struct store_fixture *fixture = context;
    struct email_view view;
    if (fixture->store == NULL) /* the store imports files of version 0.2 while it opens */
        return;
    assert_true(store_get_email(fixture->store, email, &view));
    if (view.inbox != STORE_SENT)
        fixture_hear_change(fixture, "email", email, change);
    else if (fixture->hears_sent)
        fixture_hear_change(fixture, "sent", email, change);
}

static inline void fixture_hear_content(void *context)
{
    struct store_fixture *fixture = context;
    pthread_mutex_lock(&fixture->lock);
    strbuf_append_str(&fixture->changes, "content;");
    pthread_mutex_unlock(&fixture->lock);
}

/* Returns the record of an email. The caller frees it. */
static inline char *fixture_read(struct store_fixture *fixture, uint32_t email)
{
    char *json = NULL;
    size_t len;
    assert_int_equal(store_read_email(fixture->store, email, &json, &len), 0);
    return json;
}

static inline void fixture_open(struct store_fixture *fixture)
{
    _cleanup_free_ char *reason = NULL;
    const struct store_config config = {
        .service = fake_service_as_service(fixture->fake),
        .clock = &fixture->clock.clock,
        .state_dir_fd = fixture->dir.fd,
        .poll_interval_ms = fixture->poll_interval_ms,
        .adopt_state = fixture->adopt_state,
        .content_cache_bytes = fixture->content_cache_bytes,
        .listener = {.inbox_changed = fixture_hear_inbox,
                     .email_changed = fixture_hear_email,
                     .abilities_changed = fixture_hear_content,
                     .context = fixture},
        .events = {fixture_hear_event, fixture},
    };
    assert_int_equal(store_open(&config, &fixture->store, &reason), 0);
}

static inline void fixture_init(struct store_fixture *fixture)
{
    *fixture = (struct store_fixture){.events = STRBUF_INIT(1 << 20), .changes = STRBUF_INIT(1 << 20)};
    temp_dir_init(&fixture->dir);
    fake_clock_init(&fixture->clock, WORLD_START_MS);
    fixture->fake = fake_service_new();
    pthread_mutex_init(&fixture->lock, NULL);
}

/* Adds the inbox in-1, alice@inbox.example. */
static inline void fixture_init_with_alice(struct store_fixture *fixture)
{
    fixture_init(fixture);
    fake_service_add_inbox(
        fixture->fake, "{\"id\": \"in-1\", \"name\": \"alice\", \"email_address\": \"alice@inbox.example\"}");
}

static inline void fixture_start(struct store_fixture *fixture)
{
    fixture_open(fixture);
    assert_int_equal(store_start(fixture->store), 0);
}

static inline void fixture_close(struct store_fixture *fixture)
{
    store_stop(fixture->store);
    store_free(fixture->store);
    fixture->store = NULL;
}

/* Closes and opens the store, as a restart of inboxfs does. */
static inline void fixture_restart(struct store_fixture *fixture)
{
    fixture_close(fixture);
    fixture_start(fixture);
}

static inline void fixture_release(struct store_fixture *fixture)
{
    if (fixture->store != NULL)
        fixture_close(fixture);
    fake_service_free(fixture->fake);
    fake_clock_release(&fixture->clock);
    strbuf_release(&fixture->events);
    strbuf_release(&fixture->changes);
    pthread_mutex_destroy(&fixture->lock);
    temp_dir_release(&fixture->dir);
}

/* For TEST_WITH(): releases and frees the fixture. */
static inline int fixture_tear_down(void **state)
{
    struct store_fixture *fixture = *state;
    fixture_release(fixture);
    free(fixture);
    return 0;
}

static inline int fixture_sync(struct store_fixture *fixture)
{
    _cleanup_free_ char *reason = NULL;
    int error = store_sync(fixture->store, NULL, NULL, &reason);
    assert_true((error == 0) == (reason == NULL));
    return error;
}

/* Syncs twice: the second list confirms the removals of the first. */
static inline int fixture_sync_removal(struct store_fixture *fixture)
{
    assert_int_equal(fixture_sync(fixture), 0);
    fake_clock_advance(&fixture->clock, INDEX_CONFIRM_MS);
    return fixture_sync(fixture);
}

static inline uint32_t fixture_inbox(struct store_fixture *fixture, const char *name)
{
    struct inbox_view view;
    assert_true(store_find_inbox(fixture->store, name, &view));
    return view.number;
}

/* Returns the names of all emails of an inbox, joined by blanks. The caller frees them. */
static inline char *fixture_emails(struct store_fixture *fixture, const char *inbox)
{
    struct strbuf names = STRBUF_INIT(1 << 20);
    struct email_view views[3];
    uint64_t positions[3];
    uint64_t position = 0;
    size_t count;
    uint32_t number = fixture_inbox(fixture, inbox);
    while ((count = store_list_emails(fixture->store, number, false, position, views, positions, 3)) > 0) {
        for (size_t i = 0; i < count; i++)
            strbuf_appendf(&names, "%s%s", names.len > 0 ? " " : "", views[i].name);
        position = positions[count - 1];
    }
    char *text = strdup(strbuf_str(&names));
    strbuf_release(&names);
    return text;
}

static inline void assert_emails(struct store_fixture *fixture, const char *inbox, const char *expected)
{
    _cleanup_free_ char *names = fixture_emails(fixture, inbox);
    assert_string_equal(names, expected);
}

static inline size_t fixture_count(struct store_fixture *fixture)
{
    struct store_status status;
    store_get_status(fixture->store, &status);
    return status.emails;
}

/* `expected` has the names of all inboxes, joined by blanks. */
static inline void assert_inboxes(struct store_fixture *fixture, const char *expected)
{
    _cleanup_strbuf_ struct strbuf names = STRBUF_INIT(1 << 16);
    struct inbox_view view;
    uint64_t position = 0;
    while (store_next_inbox(fixture->store, &position, &view))
        strbuf_appendf(&names, "%s%s", names.len > 0 ? " " : "", view.name);
    assert_string_equal(strbuf_str(&names), expected);
}

/* Clears the recorded events and changes. */
static inline void fixture_forget(struct store_fixture *fixture)
{
    pthread_mutex_lock(&fixture->lock);
    strbuf_clear(&fixture->events);
    strbuf_clear(&fixture->changes);
    pthread_mutex_unlock(&fixture->lock);
}

static inline void assert_heard(struct store_fixture *fixture, struct strbuf *what, const char *expected)
{
    pthread_mutex_lock(&fixture->lock);
    assert_string_equal(strbuf_str(what), expected);
    pthread_mutex_unlock(&fixture->lock);
}

static inline void assert_events(struct store_fixture *fixture, const char *expected)
{
    assert_heard(fixture, &fixture->events, expected);
}

static inline void assert_changes(struct store_fixture *fixture, const char *expected)
{
    assert_heard(fixture, &fixture->changes, expected);
}

/* Adds the emails from ID-FROM to ID-(TO - 1); the highest is the newest. */
static inline void fixture_add_emails(struct store_fixture *fixture, const char *inbox_id, int from, int to)
{
    for (int i = from; i < to; i++) {
        char id[64];
        char subject[32];
        snprintf(id, sizeof(id), "%08d-%s", i, inbox_id);
        snprintf(subject, sizeof(subject), "mail %d", i);
        fake_service_add_simple_email(fixture->fake, inbox_id, id, subject);
    }
}

#endif
