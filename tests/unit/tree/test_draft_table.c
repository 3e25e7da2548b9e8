/* SPDX-License-Identifier: MIT */
/*
 * The table of drafts: each file has one node, which is freed with its last reference; a file cannot be
 * written while it is moved into the outbox.
 */
#include "tree/draft_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "support/fake_clock.h"
#include "support/temp_dir.h"
#include "support/test.h"

struct fixture {
    struct temp_dir dir;
    struct fake_clock clock;
    struct draft_table table;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    temp_dir_init(&fixture->dir);
    fake_clock_init(&fixture->clock, 1000);
    assert_int_equal(draft_table_init(&fixture->table, &fixture->clock.clock, dup(fixture->dir.fd)), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    draft_table_release(&fixture->table);
    fake_clock_release(&fixture->clock);
    temp_dir_release(&fixture->dir);
    free(fixture);
    return 0;
}

static void make_file(const struct fixture *fixture, const char *name)
{
    int fd = openat(fixture->dir.fd, name, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static struct draft_node *find(struct fixture *fixture, const char *name)
{
    struct draft_node *node = NULL;
    struct stat stat;
    assert_int_equal(draft_table_find(&fixture->table, &fixture->table.root, name, &node, &stat), 0);
    return node;
}

TEST_WITH(a_file_has_one_node_under_all_its_names, set_up, tear_down)
{
    struct fixture *fixture = *state;
    make_file(fixture, "a");
    make_file(fixture, "b");
    assert_int_equal(linkat(fixture->dir.fd, "a", fixture->dir.fd, "c", 0), 0);
    struct draft_node *a = find(fixture, "a");
    assert_ptr_equal(find(fixture, "a"), a);
    assert_ptr_equal(find(fixture, "c"), a);
    assert_ptr_not_equal(find(fixture, "b"), a);
    assert_ptr_equal(draft_table_node(&fixture->table, draft_node_number(a)), a);
    assert_int_not_equal(draft_node_number(a), 0);
    draft_node_unref(&fixture->table, a, 3);
    assert_int_equal(g_hash_table_size(fixture->table.nodes), 1);
}

TEST_WITH(a_lookup_of_a_missing_name_returns_enoent, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct draft_node *node = NULL;
    struct stat stat;
    assert_int_equal(draft_table_find(&fixture->table, &fixture->table.root, "no", &node, &stat), -ENOENT);
    assert_ptr_equal(draft_table_node(&fixture->table, 0), &fixture->table.root);
    assert_int_equal(draft_node_number(&fixture->table.root), 0);
}

TEST_WITH(a_lookup_does_not_follow_a_symbolic_link, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct draft_node *node = NULL;
    struct stat stat;
    assert_int_equal(symlinkat("/etc/passwd", fixture->dir.fd, "link"), 0);
    assert_int_equal(draft_table_find(&fixture->table, &fixture->table.root, "link", &node, &stat), 0);
    assert_true(S_ISLNK(stat.st_mode));
}

/* ---------------------------------------------------------------- numbers and names */

static int count_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static struct draft_node *find_in(struct fixture *fixture, struct draft_node *parent, const char *name)
{
    struct draft_node *node = NULL;
    struct stat stat;
    assert_int_equal(draft_table_find(&fixture->table, parent, name, &node, &stat), 0);
    return node;
}

/* Holds the node, and checks that its descriptor is that of its file. Returns draft_hold()'s result. */
static int try_hold(struct fixture *fixture, struct draft_node *node)
{
    _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
    struct stat stat;
    int error = draft_hold(&fixture->table, node, &hold);
    if (error != 0)
        return error;
    assert_int_equal(fstat(hold.fd, &stat), 0);
    assert_int_equal(stat.st_ino, node->ino);
    return 0;
}

/* A needless close(2) would close the descriptor of another part of the program. */
TEST_WITH(the_table_closes_only_its_own_descriptors, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct stat before;
    struct stat after;
    int kept = dup(0); /* saves descriptor 0, which a descriptor that was not initialised would close */
    int file = openat(fixture->dir.fd, "file", O_CREAT | O_RDWR, 0600);
    assert_true(file > 0);
    assert_int_equal(dup2(file, 0), 0);
    make_file(fixture, "a");
    make_file(fixture, "b");
    for (int i = 0; i < 3; i++) {
        draft_node_unref(&fixture->table, find(fixture, i % 2 == 0 ? "a" : "b"), 1);
        assert_int_equal(fstat(file, &before), 0);
        assert_int_equal(fstat(0, &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
    }
    close(file);
    assert_int_equal(kept < 0 ? close(0) : dup2(kept, 0), 0);
    close(kept);
}

TEST_WITH(a_known_draft_needs_no_descriptor, set_up, tear_down)
{
    struct fixture *fixture = *state;
    char name[16];
    char second[32];
    int before = count_descriptors();
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "%d", i);
        snprintf(second, sizeof(second), "second%d", i);
        make_file(fixture, name);
        assert_int_equal(linkat(fixture->dir.fd, name, fixture->dir.fd, second, 0), 0);
        struct draft_node *node = find(fixture, name);
        assert_ptr_equal(find(fixture, second), node);
        /* git removes the first name and keeps the second. */
        assert_int_equal(draft_table_remove(&fixture->table, &fixture->table.root, name, 0), 0);
        assert_int_equal(try_hold(fixture, node), 0);
    }
    assert_int_equal(count_descriptors(), before);
    assert_int_equal(g_hash_table_size(fixture->table.nodes), 200);
}

TEST_WITH(a_removed_draft_can_be_held_until_the_kernel_forgets_it, set_up, tear_down)
{
    struct fixture *fixture = *state;
    int before = count_descriptors();
    make_file(fixture, "a");
    make_file(fixture, "b");
    struct draft_node *a = find(fixture, "a");
    struct draft_node *b = find(fixture, "b");
    assert_int_equal(draft_table_remove(&fixture->table, &fixture->table.root, "a", 0), 0);
    assert_int_equal(
        draft_table_rename(&fixture->table, &fixture->table.root, "b", &fixture->table.root, "a", 0), 0);
    make_file(fixture, "c"); /* must not get the node of the removed file */
    assert_ptr_not_equal(find(fixture, "c"), a);
    assert_int_equal(try_hold(fixture, a), 0);
    assert_int_equal(try_hold(fixture, b), 0);
    assert_ptr_equal(find(fixture, "a"), b);
    assert_int_equal(count_descriptors(), before + 1);
    draft_node_unref(&fixture->table, a, 1);
    assert_int_equal(count_descriptors(), before);
    /* A file that a rename replaces also keeps its node. */
    struct draft_node *c = find(fixture, "c");
    assert_int_equal(
        draft_table_rename(&fixture->table, &fixture->table.root, "a", &fixture->table.root, "c", 0), 0);
    assert_int_equal(try_hold(fixture, c), 0);
    draft_node_unref(&fixture->table, c, 2);
    assert_int_equal(count_descriptors(), before);
    assert_int_equal(try_hold(fixture, b), 0);
}

TEST_WITH(drafts_can_be_held_after_renames_of_folders_above_them, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct draft_table *table = &fixture->table;
    assert_int_equal(mkdirat(fixture->dir.fd, "one", 0700), 0);
    assert_int_equal(mkdirat(fixture->dir.fd, "one/two", 0700), 0);
    assert_int_equal(mkdirat(fixture->dir.fd, "other", 0700), 0);
    make_file(fixture, "one/two/file");
    struct draft_node *one = find(fixture, "one");
    struct draft_node *two = find_in(fixture, one, "two");
    struct draft_node *file = find_in(fixture, two, "file");
    struct draft_node *other = find(fixture, "other");
    assert_int_equal(try_hold(fixture, file), 0);
    assert_int_equal(draft_table_rename(table, &table->root, "one", other, "below", 0), 0);
    assert_int_equal(try_hold(fixture, file), 0);
    assert_int_equal(draft_table_rename(table, one, "two", &table->root, "two", 0), 0);
    assert_int_equal(draft_table_rename(table, &table->root, "two", &table->root, "other", RENAME_EXCHANGE),
                     0);
    assert_int_equal(try_hold(fixture, file), 0);
    assert_int_equal(try_hold(fixture, one), 0);
    assert_ptr_equal(find(fixture, "other"), two);
    assert_int_equal(draft_table_rename(table, &table->root, "two", &table->root, "other", 0), -ENOTEMPTY);
    assert_int_equal(try_hold(fixture, other), 0);
    assert_int_equal(try_hold(fixture, file), 0);
}

TEST_WITH(a_node_keeps_the_name_that_was_looked_up_last, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(mkdirat(fixture->dir.fd, "one", 0700), 0);
    assert_int_equal(mkdirat(fixture->dir.fd, "two", 0700), 0);
    make_file(fixture, "one/file");
    assert_int_equal(linkat(fixture->dir.fd, "one/file", fixture->dir.fd, "two/file", 0), 0);
    struct draft_node *one = find(fixture, "one");
    struct draft_node *two = find(fixture, "two");
    struct draft_node *file = find_in(fixture, one, "file");
    assert_ptr_equal(find_in(fixture, two, "file"), file);
    draft_node_unref(&fixture->table, one, 1);
    draft_node_unref(&fixture->table, two, 1);
    assert_int_equal(g_hash_table_size(fixture->table.nodes), 2);
    assert_int_equal(try_hold(fixture, file), 0);
    draft_node_unref(&fixture->table, file, 2);
    assert_int_equal(g_hash_table_size(fixture->table.nodes), 0);
}

/* git links an object to its final name, and removes the first name. */
TEST_WITH(a_draft_is_stale_once_all_its_looked_up_names_are_removed, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct draft_node *root = &fixture->table.root;
    make_file(fixture, "first");
    assert_int_equal(linkat(fixture->dir.fd, "first", fixture->dir.fd, "second", 0), 0);
    struct draft_node *node = find(fixture, "first");
    find(fixture, "second");
    assert_int_equal(draft_table_remove(&fixture->table, root, "first", 0), 0);
    assert_int_equal(try_hold(fixture, node), 0);
    assert_int_equal(linkat(fixture->dir.fd, "second", fixture->dir.fd, "third", 0), 0);
    int before = count_descriptors();
    assert_int_equal(draft_table_remove(&fixture->table, root, "second", 0), 0);
    assert_int_equal(try_hold(fixture, node), -ESTALE);
    assert_int_equal(count_descriptors(), before);
    assert_ptr_equal(find(fixture, "third"), node);
    assert_int_equal(try_hold(fixture, node), 0);
}

TEST_WITH(renaming_a_draft_to_its_other_name_keeps_its_node, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct draft_node *root = &fixture->table.root;
    make_file(fixture, "a");
    assert_int_equal(linkat(fixture->dir.fd, "a", fixture->dir.fd, "b", 0), 0);
    struct draft_node *node = find(fixture, "a");
    assert_int_equal(draft_table_rename(&fixture->table, root, "a", root, "b", 0), 0);
    assert_int_equal(try_hold(fixture, node), 0);
    assert_ptr_equal(find(fixture, "b"), node);
}

TEST_WITH(a_folder_deeper_than_the_longest_path_cannot_be_held, set_up, tear_down)
{
    struct fixture *fixture = *state;
    char name[205];
    struct draft_node *node = &fixture->table.root;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < 20; i++) { /* 20 times 205 bytes, with '/' and NUL, are 4,100 */
        _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
        assert_int_equal(draft_hold(&fixture->table, node, &hold), 0);
        assert_int_equal(mkdirat(hold.fd, name, 0700), 0);
        node = find_in(fixture, node, name);
    }
    assert_int_equal(try_hold(fixture, node), -ENAMETOOLONG);
    assert_int_equal(draft_table_remove(&fixture->table, node->parent, name, AT_REMOVEDIR), 0);
}

TEST_WITH(a_draft_renamed_without_the_table_is_stale_until_its_lookup, set_up, tear_down)
{
    struct fixture *fixture = *state;
    make_file(fixture, "a");
    struct draft_node *node = find(fixture, "a");
    assert_int_equal(renameat(fixture->dir.fd, "a", fixture->dir.fd, "b"), 0);
    assert_int_equal(try_hold(fixture, node), -ESTALE);
    make_file(fixture, "a");
    assert_int_equal(try_hold(fixture, node), -ESTALE);
    assert_int_equal(symlinkat("b", fixture->dir.fd, "c"), 0);
    assert_ptr_not_equal(find(fixture, "c"), node);
    assert_ptr_equal(find(fixture, "b"), node);
    assert_int_equal(try_hold(fixture, node), 0);
}

/* openat(2) follows the link to another file, whose inode number differs. */
TEST_WITH(a_draft_is_stale_if_a_symbolic_link_replaces_its_folder, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(mkdirat(fixture->dir.fd, "a", 0700), 0);
    assert_int_equal(mkdirat(fixture->dir.fd, "b", 0700), 0);
    make_file(fixture, "a/file");
    make_file(fixture, "b/file");
    struct draft_node *file = find_in(fixture, find(fixture, "a"), "file");
    assert_int_equal(renameat(fixture->dir.fd, "a", fixture->dir.fd, "moved"), 0);
    assert_int_equal(symlinkat("b", fixture->dir.fd, "a"), 0);
    assert_int_equal(try_hold(fixture, file), -ESTALE);
    find_in(fixture, find(fixture, "moved"), "file");
    assert_int_equal(try_hold(fixture, file), 0);
}

struct renamer {
    struct fixture *fixture;
    atomic_bool is_done;
};

static void *rename_to_and_fro(void *argument)
{
    struct renamer *renamer = argument;
    struct draft_table *table = &renamer->fixture->table;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(draft_table_rename(table, &table->root, "here", &table->root, "there", 0), 0);
        assert_int_equal(draft_table_rename(table, &table->root, "there", &table->root, "here", 0), 0);
    }
    renamer->is_done = true;
    return NULL;
}

TEST_WITH(files_can_be_held_while_their_folder_is_renamed, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct renamer renamer = {.fixture = fixture};
    pthread_t thread;
    struct draft_node *other = NULL;
    struct stat stat;
    assert_int_equal(mkdirat(fixture->dir.fd, "here", 0700), 0);
    make_file(fixture, "here/file");
    struct draft_node *folder = find(fixture, "here");
    struct draft_node *file = find_in(fixture, folder, "file");
    assert_int_equal(thread_start(&thread, "renamer", rename_to_and_fro, &renamer), 0);
    while (!renamer.is_done) {
        assert_int_equal(try_hold(fixture, file), 0);
        assert_int_equal(try_hold(fixture, folder), 0);
        assert_ptr_equal(find_in(fixture, folder, "file"), file);
        /* A lookup meanwhile must not restore a removed name. */
        if (draft_table_find(&fixture->table, &fixture->table.root, "there", &other, &stat) == 0)
            draft_node_unref(&fixture->table, other, 1);
    }
    pthread_join(thread, NULL);
    assert_int_equal(try_hold(fixture, file), 0);
    assert_string_equal(folder->name, "here");
}

/* ---------------------------------------------------------------- writers */

TEST_WITH(a_draft_cannot_be_written_during_its_move, set_up, tear_down)
{
    struct fixture *fixture = *state;
    make_file(fixture, "a");
    struct draft_node *node = find(fixture, "a");
    assert_int_equal(draft_node_begin_move(&fixture->table, node, NULL), 0);
    assert_int_equal(draft_node_begin_write(&fixture->table, node), -EBUSY);
    assert_int_equal(draft_node_begin_move(&fixture->table, node, NULL), -EBUSY);
    draft_node_end_move(&fixture->table, node, false);
    assert_int_equal(draft_node_begin_write(&fixture->table, node), 0);
    draft_node_end_write(&fixture->table, node);
}

TEST_WITH(a_draft_that_left_returns_with_another_node, set_up, tear_down)
{
    struct fixture *fixture = *state;
    make_file(fixture, "a");
    struct draft_node *node = find(fixture, "a");
    assert_int_equal(draft_node_begin_move(&fixture->table, node, NULL), 0);
    assert_int_equal(mkdirat(fixture->dir.fd, "spool", 0700), 0);
    assert_int_equal(renameat(fixture->dir.fd, "a", fixture->dir.fd, "spool/1"), 0);
    draft_node_end_move(&fixture->table, node, true);
    assert_int_equal(draft_node_begin_write(&fixture->table, node), -EBUSY);
    assert_int_equal(renameat(fixture->dir.fd, "spool/1", fixture->dir.fd, "again"), 0);
    struct draft_node *again = find(fixture, "again");
    assert_ptr_not_equal(again, node);
    assert_int_equal(draft_node_begin_write(&fixture->table, again), 0);
    draft_node_end_write(&fixture->table, again);
    assert_int_equal(draft_node_begin_write(&fixture->table, node), -EBUSY);
}

struct mover {
    struct fixture *fixture;
    struct draft_node *node;
    struct cancel *cancel;
    int error;
};

static void *move(void *argument)
{
    struct mover *mover = argument;
    mover->error = draft_node_begin_move(&mover->fixture->table, mover->node, mover->cancel);
    return NULL;
}

TEST_WITH(a_move_waits_for_a_writer_to_be_released, set_up, tear_down)
{
    struct fixture *fixture = *state;
    pthread_t thread;
    make_file(fixture, "a");
    struct mover mover = {.fixture = fixture, .node = find(fixture, "a"), .error = 1};
    assert_int_equal(draft_node_begin_write(&fixture->table, mover.node), 0);
    assert_int_equal(thread_start(&thread, "mover", move, &mover), 0);
    fake_clock_await_waiters(&fixture->clock, 1);
    draft_node_end_write(&fixture->table, mover.node);
    fake_clock_advance(&fixture->clock, 1);
    pthread_join(thread, NULL);
    assert_int_equal(mover.error, 0);
}

TEST_WITH(a_move_gives_up_after_two_seconds, set_up, tear_down)
{
    struct fixture *fixture = *state;
    pthread_t thread;
    make_file(fixture, "a");
    struct mover mover = {.fixture = fixture, .node = find(fixture, "a")};
    assert_int_equal(draft_node_begin_write(&fixture->table, mover.node), 0);
    assert_int_equal(thread_start(&thread, "mover", move, &mover), 0);
    fake_clock_await_waiters(&fixture->clock, 1);
    fake_clock_advance(&fixture->clock, 2000);
    pthread_join(thread, NULL);
    assert_int_equal(mover.error, -EBUSY);
    assert_int_equal(draft_node_begin_write(&fixture->table, mover.node), 0);
}

TEST_WITH(a_cancelled_move_returns_eintr, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct cancel cancel;
    make_file(fixture, "a");
    struct draft_node *node = find(fixture, "a");
    cancel_init(&cancel);
    cancel_set(&cancel);
    assert_int_equal(draft_node_begin_write(&fixture->table, node), 0);
    assert_int_equal(draft_node_begin_move(&fixture->table, node, &cancel), -EINTR);
    cancel_release(&cancel);
}
