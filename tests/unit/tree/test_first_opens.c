/* SPDX-License-Identifier: MIT */
/*
 * First opens, and that an email is handed over with its first open alone.
 */
#include "tree_fixture.h"

#include "tree/inboxes.h"

static void each_number_is_first_once(void **state)
{
    static const uint32_t numbers[] = {0, 1, 63, 64, 65, 16383, 16384, 1000000, 5};
    struct first_opens opens;
    (void)state;
    first_opens_init(&opens);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        assert_true(first_opens_take(&opens, numbers[i]));
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        assert_false(first_opens_take(&opens, numbers[i]));
    assert_true(first_opens_take(&opens, 2));
    first_opens_release(&opens);
}

static struct tree_handle *open_for_reading(struct tree_fixture *fixture, const char *path)
{
    struct tree_handle *handle = NULL;
    assert_int_equal(tree_open(fixture->tree, &nobody, fixture_ino(fixture, path), O_RDONLY, &handle), 0);
    return handle;
}

static void an_email_is_handed_over_once(void **state)
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

static void other_files_are_not_handed_over(void **state)
{
    static const char *const paths[] = {"README", "status.json", "events.jsonl"};
    struct tree_data data;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct tree_handle *handle = open_for_reading(*state, paths[i]);
        assert_false(tree_take_first_content(handle, &data));
        tree_release(handle);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_is_first_once),
        cmocka_unit_test_setup_teardown(an_email_is_handed_over_once, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(other_files_are_not_handed_over, fixture_set_up, fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
