/* SPDX-License-Identifier: MIT */
/*
 * The service's list of sent mail.
 */
#include <fcntl.h>
#include <unistd.h>

#include "support/test.h"

#include "sql/query.h"
#include "unit/store/store_world.h"

static const struct service_capabilities extended = {.inbox_list = CAPABILITY_PRESENT};

static void add(struct store_world *world, const char *id, const char *rest)
{
    char json[512];
    snprintf(json, sizeof(json), "{\"id\": \"%s\", \"date\": \"2026-11-20T10:00:00Z\", \"subject\": \"s\"%s}",
             id, rest);
    fake_service_add_outbound(world->fake, "in-1", json);
}

static int set_up(void **state)
{
    struct store_world *world = malloc(sizeof(*world));
    world_init_with_alice(world);
    world->hears_sent = true;
    fake_service_set_capabilities(world->fake, &extended);
    add(world, "00000001", ", \"status\": \"pending\"");
    add(world, "00000002", ", \"status\": \"sent\"");
    world_start(world);
    assert_int_equal(world_sync(world), 0);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct store_world *world = *state;
    world_release(world);
    free(world);
    return 0;
}

static void assert_sent(struct store_world *world, const char *expected)
{
    _cleanup_strbuf_ struct strbuf names = STRBUF_INIT(1 << 16);
    struct email_view view;
    uint64_t position = 0;
    while (store_list_sent(world->store, position, &view, &position, 1) > 0)
        strbuf_appendf(&names, "%s%s", names.len > 0 ? " " : "", view.name);
    assert_string_equal(strbuf_str(&names), expected);
}

#define FIRST "20261120T100000Z_s_00000001.json"
#define SECOND "20261120T100000Z_s_00000002.json"

TEST_WITH(sent_mail_is_listed_and_survives_a_restart, set_up, tear_down)
{
    struct store_world *world = *state;
    struct email_view view;
    assert_sent(world, SECOND " " FIRST);
    assert_true(store_find_sent(world->store, FIRST, &view));
    assert_string_equal(store_get_email_id(world->store, view.number), "00000001");
    assert_true(store_find_sent_by_id(world->store, "00000002", &view));
    _cleanup_free_ char *json = NULL;
    size_t len;
    assert_int_equal(store_read_email(world->store, view.number, &json, &len), 0);
    assert_non_null(strstr(json, "\"status\": \"sent\""));
    assert_false(store_find_sent_by_id(world->store, "00000003", &view));
    /* Sent mail is not counted as received, nor is it shown as an inbox. */
    assert_int_equal(world_count(world), 0);
    assert_inboxes(world, "alice@inbox.example");
    assert_events(world, "");
    fake_service_set_reachable(world->fake, false);
    world_restart(world);
    assert_sent(world, SECOND " " FIRST);
}

TEST_WITH(sent_mail_is_removed_only_after_two_lists_without_it, set_up, tear_down)
{
    struct store_world *world = *state;
    fake_service_remove_outbound(world->fake);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(world_sync(world), 0);
        assert_sent(world, SECOND " " FIRST);
    }
    fake_clock_advance(&world->clock, INDEX_CONFIRM_MS);
    assert_int_equal(world_sync(world), 0);
    assert_sent(world, "");
}

TEST_WITH(new_sent_mail_is_reported, set_up, tear_down)
{
    struct store_world *world = *state;
    world_forget(world);
    assert_int_equal(world_sync(world), 0);
    assert_changes(world, "");
    add(world, "00000003", ", \"status\": \"sent\"");
    assert_int_equal(world_sync(world), 0);
    struct email_view view;
    char expected[64];
    assert_true(store_find_sent_by_id(world->store, "00000003", &view));
    snprintf(expected, sizeof(expected), "sent %u added;", view.number);
    assert_non_null(strstr(strbuf_str(&world->changes), expected));
}

TEST_WITH(sent_mail_costs_one_request_a_sync, set_up, tear_down)
{
    struct store_world *world = *state;
    unsigned int before = fake_service_count(world->fake, FAKE_LIST_OUTBOUND);
    assert_int_equal(world_sync(world), 0);
    assert_int_equal(fake_service_count(world->fake, FAKE_LIST_OUTBOUND), before + 1);
}

TEST_WITH(a_failed_list_of_sent_mail_does_not_fail_the_sync, set_up, tear_down)
{
    struct store_world *world = *state;
    static const enum service_outcome outcomes[] = {SERVICE_RETRY, SERVICE_REJECTED, SERVICE_ABSENT,
                                                    SERVICE_UNKNOWN};
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        fake_service_set(world->fake, FAKE_LIST_OUTBOUND, (struct fake_outcome){.outcome = outcomes[i]});
        assert_int_equal(world_sync(world), 0);
        assert_sent(world, SECOND " " FIRST);
    }
}

TEST(a_core_server_is_not_asked_for_sent_mail)
{
    struct store_world world;
    world_init_with_alice(&world);
    world_start(&world);
    assert_int_equal(world_sync(&world), 0);
    assert_int_equal(fake_service_count(world.fake, FAKE_LIST_OUTBOUND), 0);
    world_release(&world);
}

TEST_WITH(hidden_sent_mail_stays_hidden, set_up, tear_down)
{
    struct store_world *world = *state;
    store_hide_sent(world->store, "00000002");
    store_hide_sent(world->store, "00000003"); /* the service has not listed it yet */
    assert_sent(world, FIRST);
    add(world, "00000003", ", \"status\": \"sent\"");
    add(world, "00000004", ", \"status\": \"sent\"");
    assert_int_equal(world_sync(world), 0);
    assert_sent(world, FIRST " 20261120T100000Z_s_00000004.json");
    world_restart(world);
    assert_int_equal(world_sync(world), 0);
    assert_sent(world, FIRST " 20261120T100000Z_s_00000004.json");
}

/* Makes a cache of version 0.2, in which 00000002 is hidden. */
TEST_WITH(mail_that_version_0_2_hid_stays_hidden, set_up, tear_down)
{
    struct store_world *world = *state;
    char path[64];
    sqlite3 *old = NULL;
    world_close(world);
    assert_int_equal(unlinkat(world->dir.fd, "cache/mail.sqlite3", 0), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d/cache/records.sqlite3", world->dir.fd);
    assert_int_equal(sqlite3_open(path, &old), SQLITE_OK);
    assert_int_equal(query_script(old, "CREATE TABLE sent_emails (key TEXT, is_held INTEGER);"
                                       "INSERT INTO sent_emails VALUES ('00000001', 0), ('00000002', 1)"),
                     0);
    assert_int_equal(sqlite3_close(old), SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        world_start(world);
        assert_int_equal(world_sync(world), 0);
        assert_sent(world, FIRST);
        assert_int_equal(faccessat(world->dir.fd, "cache/records.sqlite3", F_OK, 0), -1);
        world_close(world);
    }
}
