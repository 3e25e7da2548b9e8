/* SPDX-License-Identifier: MIT */
/*
 * Readers during syncs that add, change and remove emails see whole records, and no name twice.
 */
#include <stdatomic.h>

#include "support/test.h"

#include "base/thread.h"
#include "unit/store/store_fixture.h"

enum {
    READERS = 3,
    ROUNDS = 12,
    EMAILS = 300,
};

struct reading {
    struct store_fixture *fixture;
    atomic_bool *is_over;
    unsigned long seen;
};

static void check_email(struct store *store, uint32_t inbox, const struct email_view *view)
{
    struct email_view found;
    _cleanup_free_ char *json = NULL;
    size_t len;
    assert_int_equal(store_read_email(store, view->number, &json, &len), 0);
    assert_int_equal(json[len - 1], '\n');
    assert_int_equal(strlen(json), len);
    assert_true(store_get_email(store, view->number, &found));
    assert_int_equal(found.inbox, inbox);
    assert_string_equal(found.name, view->name);
    if (store_find_email(store, inbox, false, view->name, &found))
        assert_int_equal(found.number, view->number);
}

static void *read_all(void *argument)
{
    struct reading *reading = argument;
    struct store *store = reading->fixture->store;
    while (!*reading->is_over) {
        struct inbox_view inbox;
        struct email_view view;
        struct store_status status;
        uint64_t position = 0;
        uint64_t previous = 0;
        if (!store_find_inbox(store, "alice@inbox.example", &inbox))
            continue;
        while (store_list_emails(store, inbox.number, false, position, &view, &position, 1) > 0) {
            assert_true(position > previous);
            previous = position;
            check_email(store, inbox.number, &view);
            reading->seen++;
        }
        store_get_status(store, &status);
    }
    return NULL;
}

static void change_everything(struct store_fixture *fixture, int round)
{
    for (int i = 0; i < EMAILS; i += 7) {
        char id[64];
        char json[160];
        snprintf(id, sizeof(id), "%08d-in-1", i);
        snprintf(json, sizeof(json), "{\"id\": \"%s\", \"inbox_id\": \"in-1\", \"round\": %d}", id, round);
        if (round % 2 == 0)
            fake_service_replace_email(fixture->fake, id, json);
        else
            fake_service_remove_email(fixture->fake, id);
        if (round % 2 != 0)
            fake_service_add_simple_email(fixture->fake, "in-1", id, "back");
    }
    fixture_add_emails(fixture, "in-1", EMAILS + round * 50, EMAILS + round * 50 + 50);
    if (round > 0)
        fake_service_remove_email(fixture->fake, "00000299-in-1");
    fake_service_add_simple_email(fixture->fake, "in-1", "00000299-in-1", "mail 299");
}

TEST(readers_see_whole_records_while_mail_changes)
{
    struct store_fixture fixture;
    atomic_bool is_over = false;
    struct reading readings[READERS];
    pthread_t threads[READERS];
    unsigned long seen = 0;
    fixture_init_with_alice(&fixture);
    fixture_add_emails(&fixture, "in-1", 0, EMAILS - 1);
    fixture_start(&fixture);
    for (size_t i = 0; i < READERS; i++) {
        readings[i] = (struct reading){&fixture, &is_over, 0};
        assert_int_equal(thread_start(&threads[i], "reader", read_all, &readings[i]), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        _cleanup_free_ char *reason = NULL;
        char address[32];
        uint32_t inbox;
        change_everything(&fixture, round);
        assert_int_equal(fixture_sync(&fixture), 0);
        snprintf(address, sizeof(address), "box%d@inbox.example", round);
        assert_int_equal(store_create_inbox(fixture.store, address, NULL, &inbox, &reason), 0);
    }
    is_over = true;
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
        seen += readings[i].seen;
    }
    assert_true(seen > 0);
    assert_int_equal(fixture_sync(&fixture), 0);
    assert_int_equal(fixture_count(&fixture), EMAILS + ROUNDS * 50);
    fixture_release(&fixture);
}
