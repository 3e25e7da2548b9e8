/* SPDX-License-Identifier: MIT */
/*
 * The event log: what is read is what was appended, the file is the same after a restart, the older half
 * goes.
 */
#include "tree/events.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "support/temp_dir.h"

enum {
    BOUND = 4096
};

static const char name[] = "events.jsonl";

static int set_up(void **state)
{
    struct temp_dir *dir = calloc(1, sizeof(*dir));
    temp_dir_init(dir);
    *state = dir;
    return 0;
}

static int tear_down(void **state)
{
    temp_dir_release(*state);
    free(*state);
    return 0;
}

static struct event_log *open_log(const struct temp_dir *dir)
{
    struct event_log *log = NULL;
    assert_int_equal(event_log_new(dir->fd, name, BOUND, &log), 0);
    return log;
}

static void append(struct event_log *log, int number)
{
    char path[32];
    snprintf(path, sizeof(path), "sent/%06d", number);
    const struct event event = {.time_ms = 1000 + number, .kind = EVENT_SENT, .path = path};
    event_log_append(log, &event);
}

static char *read_all(struct event_log *log)
{
    uint64_t begin = event_log_begin(log);
    size_t size = event_log_size(log, begin);
    char *text = calloc(1, size + 1);
    assert_int_equal(event_log_read(log, begin, text, size + 1, 0), size);
    return text;
}

static void what_is_appended_is_read(void **state)
{
    struct event_log *log = open_log(*state);
    assert_int_equal(event_log_size(log, 0), 0);
    append(log, 1);
    append(log, 2);
    _cleanup_free_ char *text = read_all(log);
    assert_non_null(strstr(text, "sent/000001"));
    assert_non_null(strstr(text, "sent/000002"));
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_int_equal(event_log_changed_ms(log), 1002);

    char part[5] = "";
    assert_int_equal(event_log_read(log, 0, part, 4, 1), 4);
    assert_memory_equal(part, text + 1, 4);
    assert_int_equal(event_log_read(log, 0, part, 4, (off_t)strlen(text)), 0);
    assert_int_equal(event_log_read(log, 0, part, 4, 1 << 30), 0);
    assert_int_equal(event_log_read(log, 0, part, 4, -1), 0);
    event_log_free(log);
}

static void it_is_the_same_after_a_restart(void **state)
{
    struct event_log *log = open_log(*state);
    append(log, 1);
    append(log, 2);
    _cleanup_free_ char *before = read_all(log);
    event_log_free(log);

    log = open_log(*state);
    _cleanup_free_ char *after = read_all(log);
    assert_string_equal(before, after);
    append(log, 3);
    event_log_free(log);

    const struct temp_dir *dir = *state;
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(file_read_at(dir->fd, name, BOUND, &bytes, &len), 0);
    assert_memory_equal(bytes, before, strlen(before));
    assert_non_null(strstr(bytes + strlen(before), "sent/000003"));
}

static void the_older_half_is_cut_at_a_line(void **state)
{
    const struct temp_dir *dir = *state;
    struct event_log *log = open_log(dir);
    for (int i = 0; i < 1000; i++) {
        append(log, i);
        assert_true(event_log_size(log, event_log_begin(log)) <= BOUND);
    }
    _cleanup_free_ char *text = read_all(log);
    assert_true(strlen(text) > BOUND / 4);
    assert_int_equal(text[0], '{');
    assert_non_null(strstr(text, "sent/000999"));
    assert_null(strstr(text, "sent/000000"));
    event_log_free(log);

    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(file_read_at(dir->fd, name, BOUND, &bytes, &len), 0);
    assert_string_equal(bytes, text);
}

static void a_stream_gets_each_byte_once(void **state)
{
    struct event_log *log = open_log(*state);
    append(log, 1);
    uint64_t position = event_log_end(log);
    char bytes[512];
    assert_int_equal(event_log_follow(log, &position, bytes, sizeof(bytes)), 0);
    append(log, 2);
    assert_int_equal(event_log_follow(log, &position, bytes, 1), 1);
    assert_int_equal(bytes[0], '{');
    size_t len = event_log_follow(log, &position, bytes, sizeof(bytes) - 1);
    bytes[len] = '\0';
    assert_non_null(strstr(bytes, "sent/000002"));
    assert_null(strstr(bytes, "sent/000001"));
    assert_int_equal(event_log_follow(log, &position, bytes, sizeof(bytes)), 0);
    event_log_free(log);
}

static void a_slow_stream_goes_on_at_a_line(void **state)
{
    struct event_log *log = open_log(*state);
    uint64_t position = event_log_end(log);
    for (int i = 0; i < 1000; i++)
        append(log, i);
    char bytes[2] = "";
    assert_int_equal(event_log_follow(log, &position, bytes, 1), 1);
    assert_int_equal(bytes[0], '{');
    assert_true(position > 1);
    event_log_free(log);
}

static void who_has_the_file_open_reads_on_when_it_is_cut(void **state)
{
    struct event_log *log = open_log(*state);
    char bytes[BOUND];
    size_t at = 0;
    for (int i = 0; i < 1000; i++) {
        append(log, i);
        assert_true(event_log_size(log, 0) > at);
        size_t len = event_log_read(log, 0, bytes, sizeof(bytes) - 1, (off_t)at);
        bytes[len] = '\0';
        char path[32];
        snprintf(path, sizeof(path), "sent/%06d\"", i);
        assert_non_null(strstr(bytes, path));
        assert_string_equal(strchr(bytes, '\n'), "\n"); /* that line and no other */
        at += len;
    }
    assert_int_equal(event_log_size(log, 0), at);
    /* What is gone reads as empty lines, up to the first that is there. */
    uint64_t begin = event_log_begin(log);
    assert_true(begin > BOUND);
    assert_int_equal(event_log_read(log, 0, bytes, 3, 1), 3);
    assert_memory_equal(bytes, "\n\n\n", 3);
    assert_int_equal(event_log_read(log, 0, bytes, 3, (off_t)begin - 1), 3);
    assert_memory_equal(bytes, "\n{\"", 3);
    event_log_free(log);
}

static void half_a_line_from_a_crash_stays_apart(void **state)
{
    const struct temp_dir *dir = *state;
    assert_int_equal(file_replace_at(dir->fd, name, "{\"a\":1}\n{\"b", 11, 0600), 0);
    struct event_log *log = open_log(dir);
    append(log, 1);
    _cleanup_free_ char *text = read_all(log);
    assert_memory_equal(text, "{\"a\":1}\n{\"b\n{", 13);
    event_log_free(log);
    /* In the file, too, which the next start reads. */
    log = open_log(dir);
    _cleanup_free_ char *again = read_all(log);
    assert_string_equal(again, text);
    event_log_free(log);
}

static void a_file_that_is_too_long_is_begun_anew(void **state)
{
    const struct temp_dir *dir = *state;
    _cleanup_free_ char *junk = calloc(1, BOUND + 1);
    struct stat stat;
    assert_int_equal(file_replace_at(dir->fd, name, junk, BOUND + 1, 0600), 0);
    struct event_log *log = open_log(dir);
    assert_int_equal(event_log_size(log, 0), 0);
    event_log_free(log);
    assert_int_equal(fstatat(dir->fd, name, &stat, 0), 0);
    assert_int_equal(stat.st_size, 0);
}

static void a_file_that_cannot_be_written_loses_nothing_in_memory(void **state)
{
    const struct temp_dir *dir = *state;
    assert_int_equal(mkdirat(dir->fd, name, 0700), 0);
    struct event_log *log = open_log(dir);
    append(log, 1);
    append(log, 2);
    _cleanup_free_ char *text = read_all(log);
    assert_non_null(strstr(text, "sent/000001"));
    event_log_free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_appended_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_the_same_after_a_restart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_older_half_is_cut_at_a_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_gets_each_byte_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_stream_goes_on_at_a_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_the_file_open_reads_on_when_it_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_a_line_from_a_crash_stays_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_is_too_long_is_begun_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_written_loses_nothing_in_memory, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
