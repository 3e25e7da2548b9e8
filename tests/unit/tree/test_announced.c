/* SPDX-License-Identifier: MIT */
/*
 * What appeared is told once, whole, and can be created by the process that announces it.
 */
#include "tree_fixture.h"

#include "tree/tree.h"

struct told {
    unsigned int count;
    char path[512];
};

static void appeared(void *context, const char *path)
{
    struct told *told = context;
    told->count++;
    snprintf(told->path, sizeof(told->path), "%s", path);
}

static void new_mail_is_told_of_by_a_path_that_is_there(void **state)
{
    struct tree_fixture *fixture = *state;
    struct told told = {.count = 0};
    struct tree_entry entry;
    const struct tree_listener listener = {.appeared = appeared, .context = &told};
    char *reason = NULL;
    tree_set_listener(fixture->tree, &listener);
    fake_service_add_simple_email(fixture->fake, "i1", "ffffffff-1", "Second");
    assert_int_equal(store_sync(fixture->store, NULL, NULL, &reason), 0);
    assert_int_equal(store_sync(fixture->store, NULL, NULL, &reason), 0);
    fake_service_remove_email(fixture->fake, "ffffffff-1");
    assert_int_equal(store_sync(fixture->store, NULL, NULL, &reason), 0);
    tree_set_listener(fixture->tree, NULL);

    assert_int_equal(told.count, 1);
    assert_int_equal(strncmp(told.path, "inboxes/alice@inbox.example/", 28), 0);
    assert_non_null(strstr(told.path, "_second_ffffffff"));
    assert_int_equal(fixture_find(fixture, told.path, &entry), -ENOENT); /* it was removed since */
}

static void creating_what_is_there_gives_it_as_it_is(void **state)
{
    static const char record[] = "inboxes/alice@inbox.example/inbox.json";
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = NULL;
    struct tree_entry entry;
    uint64_t folder = fixture_ino(fixture, "inboxes/alice@inbox.example");
    assert_int_equal(tree_create_announced(fixture->tree, folder, "inbox.json", &entry, &handle), 0);
    assert_int_equal(entry.ino, fixture_ino(fixture, record));
    assert_false(tree_handle_is_writable(handle));
    assert_int_equal(tree_write(handle, &nobody, "x", 1, 0), -EBADF);
    assert_int_equal(tree_flush(handle, &nobody), 0);
    tree_release(handle);
    assert_int_equal(tree_create_announced(fixture->tree, folder, "missing", &entry, &handle), -ENOENT);
}

static void only_where_no_request_waits_for_the_service(void **state)
{
    static const struct {
        const char *folder;
        bool is_announced;
    } cases[] = {
        {"inboxes/alice@inbox.example", true},
        {"sent", true},
        {"failed", true},
        {"outbox", false},
        {"inboxes", false},
        {"attachments", false},
        {"drafts", false},
    };
    struct tree_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tree_handle *handle = NULL;
        struct tree_entry entry;
        uint64_t folder = fixture_ino(fixture, cases[i].folder);
        print_message("# %s\n", cases[i].folder);
        assert_int_equal(tree_is_announced(folder), cases[i].is_announced);
        assert_int_equal(tree_create_announced(fixture->tree, folder, "missing", &entry, &handle),
                         cases[i].is_announced ? -ENOENT : -EPERM);
    }
    assert_false(tree_is_announced(TREE_ROOT_INO));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(new_mail_is_told_of_by_a_path_that_is_there, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(creating_what_is_there_gives_it_as_it_is, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(only_where_no_request_waits_for_the_service, fixture_set_up,
                                        fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
