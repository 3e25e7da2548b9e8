/* SPDX-License-Identifier: MIT */
/*
 * A tree over a real store and a real outbox, with a fake service in memory: one inbox, alice, with one
 * email; one draft; an empty outbox.
 */
#ifndef INBOXFS_TESTS_TREE_FIXTURE_H
#define INBOXFS_TESTS_TREE_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "support/fake_clock.h"
#include "support/fake_service.h"
#include "support/temp_dir.h"
#include "tree/tree.h"

struct tree_fixture {
    struct temp_dir dir;
    struct fake_service *fake;
    struct tree *tree;
    struct store *store;
    struct outbox *outbox;
};

static const struct tree_caller any_caller;
static struct clock *fixture_clock; /* NULL for the system's clock */
static struct fake_clock fixture_fake_clock;
static uint64_t fixture_content_bytes; /* 0 if emails have no folders */
static const char message[] = "To: bob@inbox.example\nSubject: hello\n\nHow are you?\n";

static int fixture_find_sender(void *context, const char *address, char **ret_address)
{
    return store_find_sender(context, address, ret_address);
}

static void fixture_open_layers(struct tree_fixture *fixture)
{
    char *reason = NULL;
    struct clock *clock = fixture_clock != NULL ? fixture_clock : clock_system();
    struct mail_service *service = fake_service_as_service(fixture->fake);
    const struct tree_config tree_config = {.clock = clock,
                                            .shown_as = {-1, -1, -1},
                                            .service = service,
                                            .state_dir_fd = fixture->dir.fd,
                                            .source = "https://inbox.example",
                                            .poll_interval_ms = 30000};
    assert_int_equal(tree_new(&tree_config, &fixture->tree, &reason), 0);
    const struct store_config store_config = {.service = service,
                                              .clock = clock,
                                              .state_dir_fd = fixture->dir.fd,
                                              .content_cache_bytes = fixture_content_bytes,
                                              .listener = tree_store_listener(fixture->tree),
                                              .events = tree_event_listener(fixture->tree)};
    assert_int_equal(store_open(&store_config, &fixture->store, &reason), 0);
    assert_int_equal(store_first_contact(fixture->store, NULL, &reason), 0);
    const struct outbox_config outbox_config = {
        .service = service,
        .clock = clock,
        .state_dir_fd = fixture->dir.fd,
        .senders = {.find_sender = fixture_find_sender, .context = fixture->store},
        .daily_limit = -1,
        .events = tree_event_listener(fixture->tree)};
    assert_int_equal(outbox_open(&outbox_config, &fixture->outbox, &reason), 0);
    tree_attach(fixture->tree, fixture->store, fixture->outbox);
    assert_int_equal(store_start(fixture->store), 0);
    assert_int_equal(store_sync(fixture->store, NULL, NULL, &reason), 0);
    assert_int_equal(outbox_start(fixture->outbox), 0);
}

static inline int fixture_set_up(void **state)
{
    struct tree_fixture *fixture = calloc(1, sizeof(*fixture));
    temp_dir_init(&fixture->dir);
    fixture->fake = fake_service_new();
    fake_service_add_inbox(fixture->fake,
                           "{\"id\":\"i1\",\"name\":\"alice\",\"email_address\":\"alice@inbox.example\"}");
    fake_service_add_simple_email(fixture->fake, "i1", "3c90c3cc-0d44", "Hello");
    fixture_open_layers(fixture);
    int drafts = file_open_dir(fixture->dir.fd, "drafts");
    assert_int_equal(file_replace_at(drafts, "draft", message, strlen(message), 0600), 0);
    close(drafts);
    *state = fixture;
    return 0;
}

static inline int fixture_tear_down(void **state)
{
    struct tree_fixture *fixture = *state;
    store_stop(fixture->store);
    outbox_stop(fixture->outbox);
    tree_abandon_handles(fixture->tree);
    outbox_free(fixture->outbox);
    store_free(fixture->store);
    tree_free(fixture->tree);
    fake_service_free(fixture->fake);
    temp_dir_release(&fixture->dir);
    free(fixture);
    return 0;
}

/* From here on, time passes only by fake_clock_advance(). */
static inline void fixture_use_fake_clock(void)
{
    fake_clock_init(&fixture_fake_clock, INT64_C(1795168800000));
    fixture_clock = &fixture_fake_clock.clock;
}

static inline int fixture_set_up_with_fake_clock(void **state)
{
    fixture_use_fake_clock();
    return fixture_set_up(state);
}

static inline int fixture_tear_down_with_fake_clock(void **state)
{
    int error = fixture_tear_down(state);
    fixture_clock = NULL;
    fake_clock_release(&fixture_fake_clock);
    return error;
}

static inline void fixture_sync(struct tree_fixture *fixture)
{
    char *reason = NULL;
    assert_int_equal(store_sync(fixture->store, NULL, NULL, &reason), 0);
}

/* Syncs until `has` returns true: store_has_content() or store_has_raw(). */
static inline void fixture_await(struct tree_fixture *fixture, bool (*has)(struct store *store))
{
    for (int i = 0; i < 2000 && !has(fixture->store); i++) {
        fixture_sync(fixture);
        usleep(5000);
    }
    assert_true(has(fixture->store));
}

/* Looks up a path from the root. Return: 0 and the entry; the error of tree_lookup(). */
static inline int fixture_find(struct tree_fixture *fixture, const char *path, struct tree_entry *ret)
{
    char copy[512];
    char *rest = NULL;
    snprintf(copy, sizeof(copy), "%s", path);
    *ret = (struct tree_entry){.ino = TREE_ROOT_INO};
    tree_get_attributes(fixture->tree, &any_caller, TREE_ROOT_INO, &ret->attributes);
    for (char *name = strtok_r(copy, "/", &rest); name != NULL; name = strtok_r(NULL, "/", &rest)) {
        int error = tree_lookup(fixture->tree, &any_caller, ret->ino, name, ret);
        if (error != 0)
            return error;
    }
    return 0;
}

static inline uint64_t fixture_ino(struct tree_fixture *fixture, const char *path)
{
    struct tree_entry entry;
    assert_int_equal(fixture_find(fixture, path, &entry), 0);
    return entry.ino;
}

/* Returns the contents of a file, which the caller frees. */
static inline char *fixture_read(struct tree_fixture *fixture, const char *path)
{
    enum {
        READ_MAX_BYTES = 65536
    };
    struct tree_handle *handle = NULL;
    struct tree_data data;
    char *text = calloc(1, READ_MAX_BYTES + 1);
    assert_int_equal(tree_open(fixture->tree, &any_caller, fixture_ino(fixture, path), O_RDONLY, &handle), 0);
    assert_int_equal(tree_read(handle, READ_MAX_BYTES, 0, &data), 0);
    if (data.len > 0)
        memcpy(text, data.bytes, data.len);
    tree_data_release(&data);
    tree_release(handle);
    return text;
}

struct fixture_names {
    char text[4096]; /* names, each followed by a space */
    size_t at_most;  /* names that one tree_read_dir() may return; 0 for all */
    size_t taken;    /* names that tree_read_dir() has returned */
    uint64_t next;
};

static inline bool fixture_take_name(void *context, const char *name, const struct tree_entry *entry,
                                     uint64_t next)
{
    struct fixture_names *names = context;
    if (names->at_most > 0 && names->taken == names->at_most)
        return false;
    size_t len = strlen(names->text);
    snprintf(names->text + len, sizeof(names->text) - len, "%s ", name);
    names->taken++;
    names->next = next;
    return true;
}

/* Lists a folder, with as many calls of tree_read_dir() as `at_most` requires. */
static inline void fixture_list_ino(struct tree_fixture *fixture, const struct tree_caller *caller,
                                    uint64_t ino, size_t at_most, struct fixture_names *ret)
{
    struct tree_handle *dir = NULL;
    size_t taken = 0;
    *ret = (struct fixture_names){.at_most = at_most};
    assert_int_equal(tree_open_dir(fixture->tree, caller, ino, &dir), 0);
    do {
        ret->taken = 0;
        assert_int_equal(tree_read_dir(dir, ret->next, fixture_take_name, ret), 0);
        taken += ret->taken;
        assert_true(taken < 100); /* ends the loop if positions repeat */
    } while (at_most > 0 && ret->taken > 0);
    ret->taken = taken;
    tree_release(dir);
}

static inline void fixture_list(struct tree_fixture *fixture, const char *path, size_t at_most,
                                struct fixture_names *ret)
{
    fixture_list_ino(fixture, &any_caller, fixture_ino(fixture, path), at_most, ret);
}

#endif
