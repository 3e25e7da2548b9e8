/* SPDX-License-Identifier: MIT */
/*
 * Writing inbox.json: put to the service once, when it is complete, and its errors come from the close.
 */
#include "tree_fixture.h"

#include <unistd.h>

#include "base/cleanup.h"

static const char record[] = "inboxes/alice@inbox.example/inbox.json";

/* Who opens: this process. Another one may close what it was given. */
static struct tree_caller opener(void)
{
    return (struct tree_caller){.pid = getpid()};
}

static const struct tree_caller started_by_it = {.pid = 1};

static struct tree_handle *open_record(struct tree_fixture *fixture, int flags)
{
    const struct tree_caller caller = opener();
    struct tree_handle *handle = NULL;
    assert_int_equal(tree_open(fixture->tree, &caller, fixture_ino(fixture, record), flags, &handle), 0);
    return handle;
}

static void put(struct tree_handle *handle, const char *text, off_t offset)
{
    assert_int_equal(tree_write(handle, &nobody, text, strlen(text), offset), strlen(text));
}

static unsigned int upserts(struct tree_fixture *fixture)
{
    return fake_service_count(fixture->fake, FAKE_UPSERT);
}

static void a_complete_text_is_put_to_the_service_once(void **state)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_record(fixture, O_WRONLY | O_TRUNC);
    assert_int_equal(tree_flush(handle, &nobody), 0); /* a duplicate closed before the first write */
    put(handle, "{\"name\":", 0);
    assert_int_equal(tree_flush(handle, &started_by_it), 0);
    assert_int_equal(upserts(fixture), 0);
    put(handle, "\"Al\"}\n", 8);
    assert_int_equal(tree_flush(handle, &nobody), 0);
    assert_int_equal(tree_flush(handle, &nobody), 0);
    tree_release(handle);
    assert_int_equal(upserts(fixture), 1);
    _cleanup_free_ char *text = fixture_read(fixture, record);
    assert_non_null(strstr(text, "\"Al\""));
}

static void closing_unchanged_asks_nothing(void **state)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_record(fixture, O_RDWR);
    assert_int_equal(tree_flush(handle, &nobody), 0);
    tree_release(handle);
    assert_int_equal(upserts(fixture), 0);
}

static void an_incomplete_text_fails_the_close_of_its_opener(void **state)
{
    const struct tree_caller caller = opener();
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_record(fixture, O_WRONLY | O_TRUNC);
    put(handle, "{\"name\":", 0);
    assert_int_equal(tree_flush(handle, &started_by_it), 0);
    assert_int_equal(tree_flush(handle, &caller), -EINVAL);
    tree_release(handle);
    assert_int_equal(upserts(fixture), 0);
    _cleanup_free_ char *events = fixture_read(fixture, "events.jsonl");
    assert_non_null(strstr(events, "not a complete JSON value"));
}

static void errors_come_from_the_close(void **state)
{
    static const struct {
        const char *text;
        int error;
    } cases[] = {
        {"[1]", -EINVAL},
        {"{\"id\":\"another\"}", -EINVAL},
        {"{\"allow_cc\":\"perhaps\"}", -EINVAL},
    };
    struct tree_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tree_handle *handle = open_record(fixture, O_WRONLY | O_TRUNC);
        print_message("# %s\n", cases[i].text);
        put(handle, cases[i].text, 0);
        assert_int_equal(tree_flush(handle, &nobody), cases[i].error);
        assert_int_equal(tree_flush(handle, &nobody), 0);
        tree_release(handle);
    }
    assert_int_equal(upserts(fixture), 0);
}

static void a_text_is_bounded(void **state)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_record(fixture, O_WRONLY | O_TRUNC);
    assert_int_equal(tree_write(handle, &nobody, "x", 1, 1024 * 1024), -EFBIG);
    assert_int_equal(tree_write(handle, &nobody, "x", 1, -1), -EFBIG);
    const struct tree_change size = {.fields = TREE_SET_SIZE, .size = 2 * 1024 * 1024};
    assert_int_equal(tree_set_attributes(fixture->tree, &nobody, fixture_ino(fixture, record), handle, &size),
                     -EFBIG);
    tree_release(handle);
}

static void a_hole_is_zeros_and_truncating_shortens(void **state)
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
    assert_int_equal(tree_set_attributes(fixture->tree, &nobody, fixture_ino(fixture, record), handle, &size),
                     0);
    assert_int_equal(tree_read(handle, 10, 0, &data), 0);
    assert_int_equal(data.len, 1);
    tree_data_release(&data);
    tree_release(handle);
}

static void ctl_runs_its_commands_before_the_write_returns(void **state)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = NULL;
    unsigned int before = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
    assert_int_equal(
        tree_open(fixture->tree, &nobody, fixture_ino(fixture, "ctl"), O_WRONLY | O_TRUNC, &handle), 0);
    put(handle, "sync\n", 0);
    assert_true(fake_service_count(fixture->fake, FAKE_LIST_EMAILS) > before);
    put(handle, "sync alice@inbox.example\nretry all\n", 0);
    assert_int_equal(tree_write(handle, &nobody, "sync bob@x\n", 11, 0), -ENOENT);
    assert_int_equal(tree_write(handle, &nobody, "retry nothing", 13, 0), -ENOENT);
    assert_int_equal(tree_write(handle, &nobody, "jump\n", 5, 0), -EINVAL);
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(tree_write(handle, &nobody, "sync\n", 5, 0), -EHOSTUNREACH);
    tree_release(handle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_complete_text_is_put_to_the_service_once, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(closing_unchanged_asks_nothing, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(an_incomplete_text_fails_the_close_of_its_opener, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(errors_come_from_the_close, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_text_is_bounded, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_hole_is_zeros_and_truncating_shortens, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(ctl_runs_its_commands_before_the_write_returns, fixture_set_up,
                                        fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
