/* SPDX-License-Identifier: MIT */
/*
 * What becomes of open files when the filesystem goes: a file that was closed well goes out, though nobody
 * came to say that it was closed; of any other it is not known.
 */
#include "tree_fixture.h"

#include "tree/node.h"

static struct tree_handle *begin(struct tree_fixture *fixture, const char *name, const char *text)
{
    struct tree_handle *handle = NULL;
    struct tree_entry entry;
    uint64_t outbox = fixture_ino(fixture, "outbox");
    assert_int_equal(
        tree_create(fixture->tree, &nobody, outbox, name, 0600, O_WRONLY | O_CREAT, &entry, &handle), 0);
    assert_int_equal(tree_write(handle, &nobody, text, strlen(text), 0), strlen(text));
    return handle;
}

/* Waits until what was handed in is settled. */
static void settle(struct tree_fixture *fixture)
{
    assert_int_equal(tree_sync_folder(fixture->tree, &nobody, fixture_ino(fixture, "outbox")), 0);
}

static bool is_there(struct tree_fixture *fixture, const char *path)
{
    struct tree_entry entry;
    return fixture_find(fixture, path, &entry) == 0;
}

static void what_was_closed_well_goes_out(void **state)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = NULL;
    assert_int_equal(tree_flush(begin(fixture, "closed", message), &nobody), 0);
    assert_int_equal(tree_open(fixture->tree, &nobody, fixture_ino(fixture, "README"), O_RDONLY, &handle), 0);
    tree_close_handles(fixture->tree);
    settle(fixture);
    assert_true(is_there(fixture, "sent/closed"));
    assert_true(fixture->tree->open_handles.next == &fixture->tree->open_handles);
}

static void what_was_written_after_a_close_does_not(void **state)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = begin(fixture, "half", message);
    assert_int_equal(tree_flush(handle, &nobody), 0);
    assert_int_equal(tree_write(handle, &nobody, "more", 4, (off_t)strlen(message)), 4);
    begin(fixture, "open", message);
    tree_close_handles(fixture->tree);
    assert_true(is_there(fixture, "outbox/half"));
    assert_true(is_there(fixture, "outbox/open"));
    assert_int_equal(fake_service_count(fixture->fake, FAKE_SEND), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_closed_well_goes_out, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(what_was_written_after_a_close_does_not, fixture_set_up,
                                        fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
