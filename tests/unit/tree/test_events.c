/* SPDX-License-Identifier: MIT */
/*
 * events.jsonl and `events`: reads return the appended lines, a restart keeps all lines, and a full log drops
 * its older file.
 */
#include "tree_fixture.h"

#include <sys/stat.h>

#include "base/cleanup.h"
#include "support/disk.h"
#include "support/test.h"

enum {
    BOUND = 1024 * 1024,
    MANY = 30 * 1000, /* events: more than twice BOUND in bytes */
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

/* Makes a tree without store and outbox. */
static struct tree *open_log(const struct temp_dir *dir)
{
    const struct tree_config config = {
        .clock = clock_system(), .state_dir_fd = dir->fd, .source = "https://inbox.example"};
    struct tree *tree = NULL;
    char *reason = NULL;
    assert_int_equal(tree_new(&config, &tree, &reason), 0);
    return tree;
}

static void append(struct tree *tree, int number)
{
    char path[32];
    snprintf(path, sizeof(path), "sent/%06d", number);
    const struct event event = {.time_ms = 1000 + number, .kind = EVENT_SENT, .path = path};
    struct event_listener listener = tree_event_listener(tree);
    listener.notify(listener.context, &event);
}

static struct tree_entry find(struct tree *tree, const char *file)
{
    struct tree_entry entry;
    assert_int_equal(tree_lookup(tree, &any_caller, TREE_ROOT_INO, file, &entry), 0);
    return entry;
}

static size_t size_of(struct tree *tree, uint64_t ino)
{
    struct tree_attributes attributes;
    assert_int_equal(tree_get_attributes(tree, &any_caller, ino, &attributes), 0);
    return (size_t)attributes.stat.st_size;
}

static struct tree_handle *open_file(struct tree *tree, uint64_t ino)
{
    struct tree_handle *handle = NULL;
    assert_int_equal(tree_open(tree, &any_caller, ino, O_RDONLY, &handle), 0);
    return handle;
}

static size_t read_at(struct tree_handle *handle, char *ret_bytes, size_t len, off_t offset)
{
    struct tree_data data;
    assert_int_equal(tree_read(handle, len, offset, &data), 0);
    if (data.len > 0)
        memcpy(ret_bytes, data.bytes, data.len);
    size_t count = data.len;
    tree_data_release(&data);
    return count;
}

static char *read_all(struct tree *tree)
{
    uint64_t ino = find(tree, name).ino;
    struct tree_handle *handle = open_file(tree, ino);
    size_t size = size_of(tree, ino);
    char *text = calloc(1, size + 1);
    assert_int_equal(read_at(handle, text, size + 1, 0), size);
    tree_release(handle);
    return text;
}

TEST_WITH(events_jsonl_has_the_appended_events, set_up, tear_down)
{
    struct tree *tree = open_log(*state);
    uint64_t ino = find(tree, name).ino;
    struct tree_handle *handle = open_file(tree, ino);
    assert_int_equal(size_of(tree, ino), 0);
    append(tree, 1);
    append(tree, 2);
    _cleanup_free_ char *text = read_all(tree);
    assert_non_null(strstr(text, "sent/000001"));
    assert_non_null(strstr(text, "sent/000002"));
    assert_int_equal(text[strlen(text) - 1], '\n');
    struct timespec time = find(tree, name).attributes.stat.st_mtim;
    assert_int_equal(time.tv_sec, 1);
    assert_int_equal(time.tv_nsec, 2 * 1000 * 1000);

    struct tree_data data;
    char part[5] = "";
    assert_int_equal(read_at(handle, part, 4, 1), 4);
    assert_memory_equal(part, text + 1, 4);
    assert_int_equal(read_at(handle, part, 4, (off_t)strlen(text)), 0);
    assert_int_equal(read_at(handle, part, 4, 1 << 30), 0);
    assert_int_equal(tree_read(handle, 4, -1, &data), -EINVAL);
    tree_release(handle);
    tree_free(tree);
}

TEST_WITH(events_survive_a_restart, set_up, tear_down)
{
    struct tree *tree = open_log(*state);
    append(tree, 1);
    append(tree, 2);
    _cleanup_free_ char *before = read_all(tree);
    tree_free(tree);

    tree = open_log(*state);
    _cleanup_free_ char *after = read_all(tree);
    assert_string_equal(before, after);
    append(tree, 3);
    tree_free(tree);

    const struct temp_dir *dir = *state;
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(file_read_at(dir->fd, name, BOUND, &bytes, &len), 0);
    assert_memory_equal(bytes, before, strlen(before));
    assert_non_null(strstr(bytes + strlen(before), "sent/000003"));
}

static char *read_files(const struct temp_dir *dir)
{
    _cleanup_free_ char *older = NULL;
    _cleanup_free_ char *newer = NULL;
    size_t older_len = 0;
    size_t newer_len = 0;
    char *both = NULL;
    assert_int_equal(file_read_at(dir->fd, "events.jsonl.1", BOUND, &older, &older_len), 0);
    assert_int_equal(file_read_at(dir->fd, name, BOUND, &newer, &newer_len), 0);
    assert_true(asprintf(&both, "%s%s", older, newer) > 0);
    return both;
}

TEST_WITH(a_full_log_drops_its_older_file, set_up, tear_down)
{
    const struct temp_dir *dir = *state;
    struct tree *tree = open_log(dir);
    for (int i = 0; i < MANY; i++) {
        append(tree, i);
        assert_true(find(tree, name).attributes.stat.st_size <= BOUND);
    }
    _cleanup_free_ char *text = read_all(tree);
    assert_true(strlen(text) > BOUND / 4);
    assert_int_equal(text[0], '{');
    assert_non_null(strstr(text, "sent/029999"));
    assert_null(strstr(text, "sent/000000"));
    tree_free(tree);

    _cleanup_free_ char *files = read_files(dir);
    assert_string_equal(files, text);
    tree = open_log(dir);
    _cleanup_free_ char *again = read_all(tree);
    assert_string_equal(again, text);
    tree_free(tree);
}

TEST_WITH(a_stream_begins_at_its_open_and_can_be_read_again, set_up, tear_down)
{
    struct tree *tree = open_log(*state);
    append(tree, 1);
    struct tree_handle *stream = open_file(tree, find(tree, "events").ino);
    char bytes[512];
    assert_false(tree_is_readable(stream));
    assert_int_equal(read_at(stream, bytes, sizeof(bytes), 0), 0);
    append(tree, 2);
    assert_true(tree_is_readable(stream));
    assert_int_equal(read_at(stream, bytes, 1, 0), 1);
    assert_int_equal(bytes[0], '{');
    size_t len = read_at(stream, bytes, sizeof(bytes) - 1, 1);
    bytes[len] = '\0';
    assert_non_null(strstr(bytes, "sent/000002"));
    assert_null(strstr(bytes, "sent/000001"));
    assert_int_equal(read_at(stream, bytes, sizeof(bytes), (off_t)len + 1), 0);
    assert_false(tree_is_readable(stream));
    /* A program that read more than a line seeks back. */
    assert_int_equal(read_at(stream, bytes, 1, 0), 1);
    assert_int_equal(bytes[0], '{');
    tree_release(stream);
    tree_free(tree);
}

TEST_WITH(a_slow_reader_of_events_continues_at_the_start_of_a_line, set_up, tear_down)
{
    struct tree *tree = open_log(*state);
    struct tree_handle *stream = open_file(tree, find(tree, "events").ino);
    for (int i = 0; i < MANY; i++)
        append(tree, i);
    char bytes[512] = "";
    assert_int_equal(read_at(stream, bytes, sizeof(bytes) - 1, 0), sizeof(bytes) - 1);
    assert_int_equal(bytes[0], '{');
    assert_null(strstr(bytes, "sent/000000"));
    tree_release(stream);
    tree_free(tree);
}

TEST_WITH(an_open_events_file_keeps_its_offsets_when_lines_are_dropped, set_up, tear_down)
{
    struct tree *tree = open_log(*state);
    uint64_t ino = find(tree, name).ino;
    struct tree_handle *handle = open_file(tree, ino);
    char bytes[4096];
    size_t at = 0;
    for (int i = 0; i < MANY; i++) {
        append(tree, i);
        assert_true(size_of(tree, ino) > at);
        size_t len = read_at(handle, bytes, sizeof(bytes) - 1, (off_t)at);
        bytes[len] = '\0';
        char path[32];
        snprintf(path, sizeof(path), "sent/%06d\"", i);
        assert_non_null(strstr(bytes, path));
        assert_string_equal(strchr(bytes, '\n'), "\n"); /* the read returns one line */
        at += len;
    }
    assert_int_equal(size_of(tree, ino), at);
    /* A new open finds another inode, whose st_ino is that of the old one. */
    struct tree_entry now = find(tree, name);
    assert_int_not_equal(now.ino, ino);
    struct tree_attributes before;
    assert_int_equal(tree_get_attributes(tree, &any_caller, ino, &before), 0);
    assert_int_equal(now.attributes.stat.st_ino, before.stat.st_ino);
    /* Dropped bytes read as line feeds, up to the first line that is kept. */
    size_t begin = at - (size_t)now.attributes.stat.st_size;
    assert_true(begin > BOUND);
    assert_int_equal(read_at(handle, bytes, 3, 1), 3);
    assert_memory_equal(bytes, "\n\n\n", 3);
    assert_int_equal(read_at(handle, bytes, 3, (off_t)begin - 1), 3);
    assert_memory_equal(bytes, "\n{\"", 3);
    tree_release(handle);
    tree_free(tree);
}

TEST_WITH(an_event_after_half_a_line_begins_a_new_line, set_up, tear_down)
{
    const struct temp_dir *dir = *state;
    assert_int_equal(file_replace_at(dir->fd, name, "{\"a\":1}\n{\"b", 11, 0600), 0);
    struct tree *tree = open_log(dir);
    append(tree, 1);
    _cleanup_free_ char *text = read_all(tree);
    assert_memory_equal(text, "{\"a\":1}\n{\"b\n{", 13);
    tree_free(tree);
    /* The file, which the next start reads, has the same lines. */
    tree = open_log(dir);
    _cleanup_free_ char *again = read_all(tree);
    assert_string_equal(again, text);
    tree_free(tree);
}

TEST_WITH(an_events_file_that_is_too_long_is_removed, set_up, tear_down)
{
    const struct temp_dir *dir = *state;
    _cleanup_free_ char *junk = calloc(1, BOUND + 1);
    struct stat stat;
    assert_int_equal(file_replace_at(dir->fd, name, junk, BOUND + 1, 0600), 0);
    struct tree *tree = open_log(dir);
    assert_int_equal(find(tree, name).attributes.stat.st_size, 0);
    tree_free(tree);
    assert_int_equal(fstatat(dir->fd, name, &stat, 0), -1);
}

TEST_WITH(events_stay_in_memory_if_their_file_cannot_be_written, set_up, tear_down)
{
    const struct temp_dir *dir = *state;
    assert_int_equal(mkdirat(dir->fd, name, 0700), 0);
    struct tree *tree = open_log(dir);
    append(tree, 1);
    append(tree, 2);
    _cleanup_free_ char *text = read_all(tree);
    assert_non_null(strstr(text, "sent/000001"));
    tree_free(tree);
}

TEST_WITH(a_half_written_line_is_removed_from_the_file, set_up, tear_down)
{
    const struct temp_dir *dir = *state;
    struct stat stat;
    struct tree *tree = open_log(dir);
    append(tree, 1);
    _cleanup_free_ char *first = read_all(tree);
    disk_fill(strlen(first) + 10);
    append(tree, 2);
    assert_int_equal(fstatat(dir->fd, name, &stat, 0), 0);
    assert_int_equal(stat.st_size, strlen(first));
    disk_empty();
    append(tree, 3);
    _cleanup_free_ char *text = read_all(tree);
    assert_non_null(strstr(text, "sent/000002"));
    tree_free(tree);
    tree = open_log(dir);
    _cleanup_free_ char *after = read_all(tree);
    assert_null(strstr(after, "sent/000002"));
    assert_non_null(strstr(after, "sent/000003"));
    tree_free(tree);
}

TEST_WITH(event_files_cannot_be_opened_for_writing, set_up, tear_down)
{
    static const char *const files[] = {name, "events"};
    struct tree *tree = open_log(*state);
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        uint64_t ino = find(tree, files[i]).ino;
        struct tree_handle *handle = NULL;
        assert_int_equal(tree_open(tree, &any_caller, ino, O_WRONLY, &handle), -EACCES);
        assert_int_equal(tree_open(tree, &any_caller, ino, O_RDONLY | O_TRUNC, &handle), -EACCES);
    }
    tree_free(tree);
}
