/* SPDX-License-Identifier: MIT */
/*
 * The commands of `ctl`.
 */
#include "tree_fixture.h"

#include "base/cleanup.h"
#include "support/test.h"

static struct tree_handle *open_control(struct tree_fixture *fixture)
{
    struct tree_handle *handle = NULL;
    assert_int_equal(
        tree_open(fixture->tree, &any_caller, fixture_ino(fixture, "ctl"), O_WRONLY | O_TRUNC, &handle), 0);
    return handle;
}

static void put(struct tree_handle *handle, const char *text)
{
    assert_int_equal(tree_write(handle, &any_caller, text, strlen(text), 0), strlen(text));
}

static const struct {
    const char *line;
    int error;
} cases[] = {
    {"sync", 0},
    {"  sync\t", 0},
    {"sync\r", 0},
    {"sync alice@inbox.example", 0},
    {"sync   alice@inbox.example  ", 0},
    {"sync bob@inbox.example", -ENOENT},
    {"retry all", 0},
    {"retry two words.txt", 0},
    {"  retry   two words.txt\t", 0},
    {"retry two", -ENOENT},
    {"retry alles", -ENOENT},
    {"", 0},
    {"   ", 0},
    {"retry", -EINVAL},
    {"retry  ", -EINVAL},
    {"Sync", -EINVAL},
    {"syncx", -EINVAL},
    {"delete everything", -EINVAL},
};

/* Puts a message into failed/. Later tries fail, too. */
static void put_into_failed(struct tree_fixture *fixture, const char *name)
{
    const struct fake_outcome rejected = {.outcome = SERVICE_REJECTED, .http_status = 400};
    struct tree_entry entry;
    struct tree_handle *handle = NULL;
    uint64_t outbox = fixture_ino(fixture, "outbox");
    fake_service_set(fixture->fake, FAKE_SEND, rejected);
    assert_int_equal(
        tree_create(fixture->tree, &any_caller, outbox, name, 0600, O_WRONLY | O_CREAT, &entry, &handle), 0);
    put(handle, message);
    assert_int_equal(tree_flush(handle, &any_caller), 0);
    tree_release(handle);
    assert_int_equal(tree_sync_folder(fixture->tree, &any_caller, outbox), -EIO);
}

TEST_WITH(each_line_is_executed_or_refused, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    put_into_failed(fixture, "two words.txt");
    struct tree_handle *handle = open_control(fixture);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ssize_t len = (ssize_t)strlen(cases[i].line);
        print_message("# %s\n", cases[i].line);
        assert_int_equal(tree_write(handle, &any_caller, cases[i].line, (size_t)len, 0),
                         cases[i].error != 0 ? cases[i].error : len);
        /* Waits until a message that was retried has failed again. */
        tree_sync_folder(fixture->tree, &any_caller, fixture_ino(fixture, "outbox"));
    }
    tree_release(handle);
}

TEST_WITH(an_argument_can_be_as_long_as_a_name_and_no_longer, fixture_set_up, fixture_tear_down)
{
    char line[400] = "retry ";
    struct tree_handle *handle = open_control(*state);
    memset(line + 6, 'x', 300);
    assert_int_equal(tree_write(handle, &any_caller, line, 6 + 255, 0), -ENOENT);
    assert_int_equal(tree_write(handle, &any_caller, line, 6 + 255 + 1, 0), -EINVAL);
    tree_release(handle);
}

TEST_WITH(a_command_with_a_nul_is_refused, fixture_set_up, fixture_tear_down)
{
    struct tree_handle *handle = open_control(*state);
    assert_int_equal(tree_write(handle, &any_caller, "sync\0x", 6, 0), -EINVAL);
    assert_int_equal(tree_write(handle, &any_caller, "retry a\0b", 9, 0), -EINVAL);
    tree_release(handle);
}

TEST_WITH(ctl_runs_its_commands_before_the_write_returns, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_control(fixture);
    unsigned int before = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
    put(handle, "sync\n");
    assert_true(fake_service_count(fixture->fake, FAKE_LIST_EMAILS) > before);
    put(handle, "sync alice@inbox.example\nretry all\n");
    assert_int_equal(tree_write(handle, &any_caller, "sync bob@x\n", 11, 0), -ENOENT);
    assert_int_equal(tree_write(handle, &any_caller, "retry nothing", 13, 0), -ENOENT);
    assert_int_equal(tree_write(handle, &any_caller, "jump\n", 5, 0), -EINVAL);
    _cleanup_free_ char *events = fixture_read(fixture, "events.jsonl");
    assert_non_null(strstr(events, "\"path\":\"ctl\",\"id\":null,\"error\":\"the commands are: sync,"));
    assert_non_null(strstr(events, "no inbox of this address"));
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(tree_write(handle, &any_caller, "sync\n", 5, 0), -EHOSTUNREACH);
    tree_release(handle);
}
