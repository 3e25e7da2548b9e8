/* SPDX-License-Identifier: MIT */
/*
 * The table of drafts: each file has one node, which is freed with its last reference; a file cannot be
 * written while it is moved into the outbox.
 */
#include "tree/draft_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    assert_int_equal(draft_table_find(&fixture->table, fixture->table.root.fd, name, &node, &stat), 0);
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
    assert_int_equal(draft_table_find(&fixture->table, fixture->table.root.fd, "no", &node, &stat), -ENOENT);
    assert_ptr_equal(draft_table_node(&fixture->table, 0), &fixture->table.root);
    assert_int_equal(draft_node_number(&fixture->table.root), 0);
}

TEST_WITH(a_lookup_does_not_follow_a_symbolic_link, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct draft_node *node = NULL;
    struct stat stat;
    assert_int_equal(symlinkat("/etc/passwd", fixture->dir.fd, "link"), 0);
    assert_int_equal(draft_table_find(&fixture->table, fixture->table.root.fd, "link", &node, &stat), 0);
    assert_true(S_ISLNK(stat.st_mode));
}

/* ---------------------------------------------------------------- descriptors */

static int count_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
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

TEST_WITH(a_node_reaches_its_file_after_all_names_have_changed, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct stat stat;
    make_file(fixture, "a");
    struct draft_node *node = find(fixture, "a");
    assert_int_equal(mkdirat(fixture->dir.fd, "folder", 0700), 0);
    assert_int_equal(renameat(fixture->dir.fd, "a", fixture->dir.fd, "folder/b"), 0);
    assert_int_equal(fstat(node->fd, &stat), 0);
    assert_int_equal(stat.st_ino, node->ino);
    assert_ptr_equal(find(fixture, "folder/b"), node);
    assert_int_equal(unlinkat(fixture->dir.fd, "folder/b", 0), 0);
    make_file(fixture, "c"); /* must not get the inode number of the removed file */
    assert_ptr_not_equal(find(fixture, "c"), node);
}

TEST_WITH(a_node_closes_its_descriptor_when_it_is_forgotten, set_up, tear_down)
{
    struct fixture *fixture = *state;
    make_file(fixture, "a");
    int before = count_descriptors();
    struct draft_node *node = find(fixture, "a");
    find(fixture, "a");
    assert_int_equal(count_descriptors(), before + 1);
    draft_node_unref(&fixture->table, node, 2);
    assert_int_equal(count_descriptors(), before);
    assert_int_equal(g_hash_table_size(fixture->table.nodes), 0);
}

TEST_WITH(nodes_leave_a_quarter_of_the_descriptors_to_others, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct draft_node *node = NULL;
    struct stat stat;
    struct rlimit before;
    char name[16];
    int error = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit low = {.rlim_cur = 100, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < 100 && error == 0; i++) {
        snprintf(name, sizeof(name), "%d", i);
        make_file(fixture, name);
        error = draft_table_find(&fixture->table, fixture->table.root.fd, name, &node, &stat);
    }
    assert_int_equal(error, -EMFILE);
    int fd = dup(fixture->dir.fd);
    assert_int_equal(fd, 75);
    close(fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* ---------------------------------------------------------------- writers */

TEST_WITH(a_draft_cannot_be_written_during_its_move, set_up, tear_down)
{
    struct fixture *fixture = *state;
    make_file(fixture, "a");
    struct draft_node *node = find(fixture, "a");
    assert_int_equal(draft_node_begin_move(&fixture->table, node, NULL), 0);
    assert_int_equal(draft_node_begin_use(&fixture->table, node, true), -EBUSY);
    assert_int_equal(draft_node_begin_move(&fixture->table, node, NULL), -EBUSY);
    draft_node_end_move(&fixture->table, node, false);
    assert_int_equal(draft_node_begin_use(&fixture->table, node, true), 0);
    draft_node_end_use(&fixture->table, node, true);
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
    assert_int_equal(draft_node_begin_use(&fixture->table, node, true), -ESTALE);
    assert_int_equal(renameat(fixture->dir.fd, "spool/1", fixture->dir.fd, "again"), 0);
    struct draft_node *again = find(fixture, "again");
    assert_ptr_not_equal(again, node);
    assert_int_equal(draft_node_begin_use(&fixture->table, again, true), 0);
    draft_node_end_use(&fixture->table, again, true);
}

TEST_WITH(a_draft_that_left_keeps_its_descriptor_while_it_is_in_use, set_up, tear_down)
{
    struct fixture *fixture = *state;
    make_file(fixture, "a");
    int before = count_descriptors();
    struct draft_node *node = find(fixture, "a");
    assert_int_equal(draft_node_begin_use(&fixture->table, node, false), 0);
    assert_int_equal(draft_node_begin_move(&fixture->table, node, NULL), 0);
    draft_node_end_move(&fixture->table, node, true);
    assert_int_equal(draft_node_begin_use(&fixture->table, node, true), -EBUSY);
    assert_int_equal(draft_node_begin_use(&fixture->table, node, false), 0);
    draft_node_end_use(&fixture->table, node, false);
    assert_int_equal(count_descriptors(), before + 1);
    draft_node_end_use(&fixture->table, node, false);
    assert_int_equal(count_descriptors(), before);
    assert_int_equal(draft_node_begin_use(&fixture->table, node, false), -ESTALE);
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
    assert_int_equal(draft_node_begin_use(&fixture->table, mover.node, true), 0);
    assert_int_equal(thread_start(&thread, "mover", move, &mover), 0);
    fake_clock_await_waiters(&fixture->clock, 1);
    draft_node_end_use(&fixture->table, mover.node, true);
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
    assert_int_equal(draft_node_begin_use(&fixture->table, mover.node, true), 0);
    assert_int_equal(thread_start(&thread, "mover", move, &mover), 0);
    fake_clock_await_waiters(&fixture->clock, 1);
    fake_clock_advance(&fixture->clock, 2000);
    pthread_join(thread, NULL);
    assert_int_equal(mover.error, -EBUSY);
    assert_int_equal(draft_node_begin_use(&fixture->table, mover.node, true), 0);
}

TEST_WITH(a_cancelled_move_returns_eintr, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct cancel cancel;
    make_file(fixture, "a");
    struct draft_node *node = find(fixture, "a");
    cancel_init(&cancel);
    cancel_set(&cancel);
    assert_int_equal(draft_node_begin_use(&fixture->table, node, true), 0);
    assert_int_equal(draft_node_begin_move(&fixture->table, node, &cancel), -EINTR);
    cancel_release(&cancel);
}
