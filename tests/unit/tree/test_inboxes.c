/* SPDX-License-Identifier: MIT */
/*
 * Inboxes: writing inbox.json; passing the content of an email to the kernel at its first open; listings of
 * very large inboxes.
 */
#include "tree_fixture.h"

#include <limits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "support/test.h"
#include "tree/node.h"

enum {
    THOUSANDS = 17 * 1000,
    MANY = INBOX_LISTED_WITH_ATTRIBUTES + 4 * INBOX_LOOKUPS_OF_DEMAND
};

static const char alice[] = "inboxes/alice@inbox.example";
static const char bob[] = "inboxes/bob@inbox.example";

/* ---------------------------------------------------------------- inbox.json */

static const char record[] = "inboxes/alice@inbox.example/inbox.json";

static struct tree_caller opener(void)
{
    return (struct tree_caller){.pid = getpid()};
}

static const struct tree_caller other_process = {.pid = 1};

static struct tree_handle *open_record(struct tree_fixture *fixture, int flags)
{
    const struct tree_caller caller = opener();
    struct tree_handle *handle = NULL;
    assert_int_equal(tree_open(fixture->tree, &caller, fixture_ino(fixture, record), flags, &handle), 0);
    return handle;
}

static void put(struct tree_handle *handle, const char *text, off_t offset)
{
    assert_int_equal(tree_write(handle, &any_caller, text, strlen(text), offset), strlen(text));
}

static unsigned int upserts(struct tree_fixture *fixture)
{
    return fake_service_count(fixture->fake, FAKE_UPSERT);
}

TEST_WITH(a_complete_inbox_json_is_sent_once, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_record(fixture, O_WRONLY | O_TRUNC);
    assert_int_equal(tree_flush(handle, &any_caller), 0); /* as when a program closes a duplicate early */
    put(handle, "{\"name\":", 0);
    assert_int_equal(tree_flush(handle, &other_process), 0);
    assert_int_equal(upserts(fixture), 0);
    put(handle, "\"Al\"}\n", 8);
    assert_int_equal(tree_flush(handle, &any_caller), 0);
    assert_int_equal(tree_flush(handle, &any_caller), 0);
    tree_release(handle);
    assert_int_equal(upserts(fixture), 1);
    _cleanup_free_ char *text = fixture_read(fixture, record);
    assert_non_null(strstr(text, "\"Al\""));
}

TEST_WITH(closing_an_unchanged_or_empty_inbox_json_sends_nothing, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    for (int i = 0; i < 2; i++) {
        struct tree_handle *handle = open_record(fixture, O_RDWR | (i == 0 ? 0 : O_TRUNC));
        assert_int_equal(tree_flush(handle, &any_caller), 0);
        tree_release(handle);
    }
    assert_int_equal(upserts(fixture), 0);
    _cleanup_free_ char *events = fixture_read(fixture, "events.jsonl");
    assert_null(strstr(events, "JSON"));
}

TEST_WITH(an_incomplete_inbox_json_fails_the_close_of_its_opener, fixture_set_up, fixture_tear_down)
{
    const struct tree_caller caller = opener();
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_record(fixture, O_WRONLY | O_TRUNC);
    put(handle, "{\"name\":", 0);
    assert_int_equal(tree_flush(handle, &other_process), 0);
    assert_int_equal(tree_flush(handle, &caller), -EINVAL);
    tree_release(handle);
    assert_int_equal(upserts(fixture), 0);
    _cleanup_free_ char *events = fixture_read(fixture, "events.jsonl");
    assert_non_null(strstr(events, "not a complete JSON value"));
}

TEST_WITH(close_returns_the_error_of_an_invalid_inbox_json, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *text;
        int error;
    } cases[] = {
        {"[1]", -EINVAL},
        {"{\"id\":\"another\"}", -EINVAL},
    };
    struct tree_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tree_handle *handle = open_record(fixture, O_WRONLY | O_TRUNC);
        print_message("# %s\n", cases[i].text);
        put(handle, cases[i].text, 0);
        assert_int_equal(tree_flush(handle, &any_caller), cases[i].error);
        assert_int_equal(tree_flush(handle, &any_caller), 0);
        tree_release(handle);
    }
    assert_int_equal(upserts(fixture), 0);
}

TEST_WITH(the_size_of_inbox_json_is_bounded, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_record(fixture, O_WRONLY | O_TRUNC);
    assert_int_equal(tree_write(handle, &any_caller, "x", 1, 1024 * 1024), -EFBIG);
    assert_int_equal(tree_write(handle, &any_caller, "x", 1, -1), -EFBIG);
    const struct tree_change size = {.fields = TREE_SET_SIZE, .size = 2 * 1024 * 1024};
    assert_int_equal(
        tree_set_attributes(fixture->tree, &any_caller, fixture_ino(fixture, record), handle, &size), -EFBIG);
    tree_release(handle);
}

TEST_WITH(inbox_json_can_have_holes_and_be_truncated, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_record(fixture, O_RDWR | O_TRUNC);
    struct tree_data data;
    put(handle, "x", 3);
    assert_int_equal(tree_read(handle, 10, 0, &data), 0);
    assert_int_equal(data.len, 4);
    assert_memory_equal(data.bytes, "\0\0\0x", 4);
    tree_data_release(&data);
    const struct tree_change size = {.fields = TREE_SET_SIZE, .size = 1};
    assert_int_equal(
        tree_set_attributes(fixture->tree, &any_caller, fixture_ino(fixture, record), handle, &size), 0);
    assert_int_equal(tree_read(handle, 10, 0, &data), 0);
    assert_int_equal(data.len, 1);
    tree_data_release(&data);
    tree_release(handle);
}

/* ---------------------------------------------------------------- first opens */

static struct tree_handle *open_for_reading(struct tree_fixture *fixture, const char *path)
{
    struct tree_handle *handle = NULL;
    assert_int_equal(tree_open(fixture->tree, &any_caller, fixture_ino(fixture, path), O_RDONLY, &handle), 0);
    return handle;
}

TEST_WITH(only_the_first_open_passes_an_email_to_the_kernel, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct email_view view;
    struct tree_data handed;
    struct tree_data read;
    char path[512];
    assert_true(store_get_email(fixture->store, 0, &view));
    snprintf(path, sizeof(path), "inboxes/alice@inbox.example/%s", view.name);

    struct tree_handle *handle = open_for_reading(fixture, path);
    assert_true(tree_take_first_content(handle, &handed));
    assert_int_equal(tree_read(handle, 65536, 0, &read), 0);
    assert_int_equal(handed.len, read.len);
    assert_memory_equal(handed.bytes, read.bytes, read.len);
    tree_data_release(&handed);
    tree_data_release(&read);
    assert_false(tree_take_first_content(handle, &handed));
    tree_release(handle);

    handle = open_for_reading(fixture, path);
    assert_false(tree_take_first_content(handle, &handed));
    tree_release(handle);
}

/* An email changes while the kernel gets its content, which must not stay in the kernel's cache. */
TEST_WITH(a_change_of_an_email_makes_its_passed_content_outdated, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct email_view view;
    struct tree_data handed;
    char path[512];
    assert_true(store_get_email(fixture->store, 0, &view));
    snprintf(path, sizeof(path), "inboxes/alice@inbox.example/%s", view.name);
    struct tree_handle *handle = open_for_reading(fixture, path);
    assert_true(tree_take_first_content(handle, &handed));
    tree_data_release(&handed);
    assert_true(tree_is_first_content_current(handle));
    fake_service_replace_email(fixture->fake, "3c90c3cc-0d44",
                               "{\"id\": \"3c90c3cc-0d44\", \"inbox_id\": \"i1\", \"subject\": \"Hullo\", "
                               "\"date\": \"2026-11-20T10:00:00Z\", "
                               "\"from_address\": {\"address\": \"bob@sender.example\", \"name\": null}}");
    fixture_sync(fixture);
    assert_false(tree_is_first_content_current(handle));
    tree_release(handle);
}

TEST_WITH(only_emails_are_passed_to_the_kernel, fixture_set_up, fixture_tear_down)
{
    static const char *const paths[] = {"README", "status.json", "events.jsonl"};
    struct tree_data data;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct tree_handle *handle = open_for_reading(*state, paths[i]);
        assert_false(tree_take_first_content(handle, &data));
        tree_release(handle);
    }
}

/* ---------------------------------------------------------------- very large inboxes */

static int set_up_emails(void **state, int count)
{
    char id[32];
    struct tree_fixture *fixture = calloc(1, sizeof(*fixture));
    temp_dir_init(&fixture->dir);
    fixture->fake = fake_service_new();
    fake_service_add_inbox(fixture->fake,
                           "{\"id\":\"i1\",\"name\":\"alice\",\"email_address\":\"alice@inbox.example\"}");
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof(id), "%08x", i);
        fake_service_add_simple_email(fixture->fake, "i1", id, "Hello");
    }
    fake_service_add_inbox(fixture->fake,
                           "{\"id\":\"i2\",\"name\":\"bob\",\"email_address\":\"bob@inbox.example\"}");
    fake_service_add_simple_email(fixture->fake, "i2", "b0b", "Hello");
    fixture_open_layers(fixture);
    *state = fixture;
    return 0;
}

static int set_up_many(void **state)
{
    return set_up_emails(state, MANY);
}

static int set_up_thousands(void **state)
{
    return set_up_emails(state, THOUSANDS);
}

struct listed {
    unsigned int entries;
    unsigned int with_attributes;
    unsigned int first_without; /* number of entries before the first entry without attributes */
    char last[NAME_MAX + 1];
};

static bool take(void *context, const char *name, const struct tree_entry *entry, uint64_t next)
{
    struct listed *listed = context;
    assert_true(entry->attributes.stat.st_ino != 0);
    assert_true(entry->attributes.stat.st_mode != 0);
    if (entry->ino != 0)
        listed->with_attributes++;
    else if (listed->first_without == 0 && name[0] != '.')
        listed->first_without = listed->entries;
    listed->entries++;
    snprintf(listed->last, sizeof(listed->last), "%s", name);
    return true;
}

static struct listed list(struct tree_fixture *fixture, const char *box)
{
    struct listed listed = {.entries = 0};
    struct tree_handle *dir = NULL;
    assert_int_equal(tree_open_dir(fixture->tree, &any_caller, fixture_ino(fixture, box), &dir), 0);
    assert_int_equal(tree_read_dir(dir, 0, take, &listed), 0);
    tree_release(dir);
    return listed;
}

enum {
    OWN = 2,  /* inbox.json, index.jsonl */
    DOTS = 2, /* "." and "..", which need no attributes */
};

TEST_WITH(a_usual_inbox_is_listed_with_all_attributes, fixture_set_up, fixture_tear_down)
{
    struct listed listed = list(*state, alice);
    assert_int_equal(listed.entries, 1 + OWN + DOTS);
    assert_int_equal(listed.with_attributes, 1 + OWN);
}

TEST_WITH(a_very_large_inbox_is_listed_with_all_attributes_only_after_lookups, set_up_many, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct listed listed = list(fixture, alice);
    assert_int_equal(listed.entries, MANY + OWN + DOTS);
    assert_int_equal(listed.with_attributes, INBOX_LISTED_WITH_ATTRIBUTES + OWN);
    assert_int_equal(listed.first_without, INBOX_LISTED_WITH_ATTRIBUTES + OWN + DOTS);

    struct tree_entry entry;
    for (int i = 0; i < INBOX_LOOKUPS_OF_DEMAND; i++)
        assert_int_equal(
            tree_lookup(fixture->tree, &any_caller, fixture_ino(fixture, alice), listed.last, &entry), 0);
    listed = list(fixture, alice);
    assert_int_equal(listed.entries, MANY + OWN + DOTS);
    assert_int_equal(listed.with_attributes, MANY + OWN);

    /* A lookup in another inbox ends the demand for alice's attributes. */
    struct listed other = list(fixture, bob);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, fixture_ino(fixture, bob), other.last, &entry),
                     0);
    listed = list(fixture, alice);
    assert_int_equal(listed.with_attributes, INBOX_LISTED_WITH_ATTRIBUTES + OWN);
}

TEST_WITH(each_of_many_emails_is_passed_to_the_kernel_once, set_up_thousands, fixture_tear_down)
{
    static const uint32_t numbers[] = {0, 1, 63, 64, 65, 16383, 16384, THOUSANDS, 5};
    struct tree_fixture *fixture = *state;
    for (unsigned int is_again = 0; is_again < 2; is_again++)
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
            struct tree_handle *handle = NULL;
            struct tree_data data;
            uint64_t ino = node_ino(NODE_EMAIL, numbers[i]);
            assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_RDONLY, &handle), 0);
            assert_int_equal(tree_take_first_content(handle, &data), is_again == 0);
            if (is_again == 0)
                tree_data_release(&data);
            tree_release(handle);
        }
}
