/* SPDX-License-Identifier: MIT */
/*
 * The process creates announced files, here in an ordinary folder, and only if they are new and on the given
 * device.
 */
#include "fs/watch_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/temp_dir.h"
#include "support/test.h"

enum {
    DEADLINE_MS = 10 * 1000
};

struct fixture {
    struct temp_dir dir;
    struct watch_helper helper;
    dev_t device;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct stat status;
    temp_dir_init(&fixture->dir);
    assert_int_equal(fstat(fixture->dir.fd, &status), 0);
    fixture->device = status.st_dev;
    assert_int_equal(watch_helper_init(&fixture->helper), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    watch_helper_release(&fixture->helper);
    temp_dir_release(&fixture->dir);
    free(fixture);
    return 0;
}

static bool exists(const struct fixture *fixture, const char *name)
{
    return faccessat(fixture->dir.fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool appears(const struct fixture *fixture, const char *name)
{
    int64_t until_ms = clock_monotonic_ms(clock_system()) + DEADLINE_MS;
    while (!exists(fixture, name) && clock_monotonic_ms(clock_system()) < until_ms)
        usleep(1000);
    return exists(fixture, name);
}

TEST_WITH(announced_files_exist_after_the_wait, set_up, tear_down)
{
    struct fixture *fixture = *state;
    char name[32];
    watch_helper_start(&fixture->helper, fixture->device, fixture->dir.path);
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "file %d", i);
        watch_helper_announce(&fixture->helper, name);
    }
    watch_helper_wait(&fixture->helper, DEADLINE_MS, NULL);
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "file %d", i);
        assert_true(exists(fixture, name));
    }
    assert_true(watch_helper_has_pid(&fixture->helper, fixture->helper.pid));
    assert_false(watch_helper_has_pid(&fixture->helper, getpid()));
    assert_false(watch_helper_has_pid(&fixture->helper, 0));
}

TEST_WITH(more_files_than_the_pipe_holds_can_be_announced_in_rounds, set_up, tear_down)
{
    enum {
        ROUNDS = 50,
        NAMES = 5000
    };
    struct fixture *fixture = *state;
    watch_helper_start(&fixture->helper, fixture->device, fixture->dir.path);
    for (unsigned int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < NAMES; i++)
            watch_helper_announce(&fixture->helper, "file");
        watch_helper_wait(&fixture->helper, DEADLINE_MS, NULL);
    }
    assert_int_equal(fixture->helper.shared->done, ROUNDS * NAMES);
}

TEST_WITH(nothing_is_created_on_another_device, set_up, tear_down)
{
    struct fixture *fixture = *state;
    watch_helper_start(&fixture->helper, fixture->device + 1, fixture->dir.path);
    watch_helper_announce(&fixture->helper, "foreign");
    watch_helper_wait(&fixture->helper, DEADLINE_MS, NULL);
    assert_int_equal(fixture->helper.shared->done, 1);
    assert_false(exists(fixture, "foreign"));
}

TEST_WITH(links_are_not_followed, set_up, tear_down)
{
    struct fixture *fixture = *state;
    assert_int_equal(symlinkat("elsewhere", fixture->dir.fd, "link"), 0);
    watch_helper_start(&fixture->helper, fixture->device, fixture->dir.path);
    watch_helper_announce(&fixture->helper, "link");
    watch_helper_announce(&fixture->helper, "last");
    assert_true(appears(fixture, "last"));
    assert_false(exists(fixture, "elsewhere"));
}

TEST_WITH(a_killed_process_is_replaced, set_up, tear_down)
{
    struct fixture *fixture = *state;
    watch_helper_start(&fixture->helper, fixture->device, fixture->dir.path);
    watch_helper_announce(&fixture->helper, "first");
    assert_true(appears(fixture, "first"));
    assert_int_equal(kill(fixture->helper.pid, SIGKILL), 0);
    int64_t until_ms = clock_monotonic_ms(clock_system()) + DEADLINE_MS;
    /* Paths that are sent while the process dies may be lost. */
    for (int i = 0; !exists(fixture, "again") && clock_monotonic_ms(clock_system()) < until_ms; i++) {
        watch_helper_announce(&fixture->helper, "again");
        usleep(1000);
    }
    assert_true(exists(fixture, "again"));
    /* watch_helper_wait() does not wait for lost paths. */
    int64_t before_ms = clock_monotonic_ms(clock_system());
    watch_helper_wait(&fixture->helper, DEADLINE_MS, NULL);
    assert_true(clock_monotonic_ms(clock_system()) < before_ms + DEADLINE_MS);
}

TEST_WITH(a_wait_does_not_include_paths_lost_with_a_killed_process, set_up, tear_down)
{
    struct fixture *fixture = *state;
    siginfo_t stopped;
    int waiting_bytes = 0;
    watch_helper_start(&fixture->helper, fixture->device, fixture->dir.path);
    watch_helper_announce(&fixture->helper, "first");
    assert_true(appears(fixture, "first"));
    pid_t pid = fixture->helper.pid;
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &stopped, WSTOPPED | WNOWAIT), 0);
    watch_helper_announce(&fixture->helper, "lost");
    int64_t until_ms = clock_monotonic_ms(clock_system()) + DEADLINE_MS;
    while (waiting_bytes == 0 && clock_monotonic_ms(clock_system()) < until_ms) {
        assert_int_equal(ioctl(fixture->helper.fd, FIONREAD, &waiting_bytes), 0);
        usleep(1000);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    int64_t before_ms = clock_monotonic_ms(clock_system());
    watch_helper_wait(&fixture->helper, DEADLINE_MS, NULL);
    assert_true(clock_monotonic_ms(clock_system()) < before_ms + DEADLINE_MS);
    while (!exists(fixture, "again") && clock_monotonic_ms(clock_system()) < until_ms) {
        watch_helper_announce(&fixture->helper, "again");
        usleep(1000);
    }
    assert_true(exists(fixture, "again"));
    assert_false(exists(fixture, "lost"));
    before_ms = clock_monotonic_ms(clock_system());
    watch_helper_wait(&fixture->helper, DEADLINE_MS, NULL);
    assert_true(clock_monotonic_ms(clock_system()) < before_ms + DEADLINE_MS);
}

TEST_WITH(a_process_that_could_not_be_forked_is_started_later, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct rlimit before;
    watch_helper_release(&fixture->helper);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max}), 0);
    assert_int_equal(watch_helper_init(&fixture->helper), -EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(watch_helper_has_pid(&fixture->helper, 0));
    watch_helper_start(&fixture->helper, fixture->device, fixture->dir.path);
    watch_helper_announce(&fixture->helper, "file");
    assert_true(appears(fixture, "file"));
}

TEST_WITH(a_process_can_start_with_the_first_announcement, set_up, tear_down)
{
    struct fixture *fixture = *state;
    watch_helper_release(&fixture->helper);
    watch_helper_init_without_process(&fixture->helper);
    watch_helper_announce(&fixture->helper, "early");
    watch_helper_start(&fixture->helper, fixture->device, fixture->dir.path);
    assert_int_equal(fixture->helper.pid, 0);
    watch_helper_announce(&fixture->helper, "file");
    assert_true(fixture->helper.pid > 0);
    watch_helper_wait(&fixture->helper, DEADLINE_MS, NULL);
    assert_true(exists(fixture, "file"));
    assert_false(exists(fixture, "early"));
    watch_helper_stop(&fixture->helper);
    watch_helper_stop(&fixture->helper);
}

TEST_WITH(a_path_that_the_pipe_does_not_take_is_dropped, set_up, tear_down)
{
    struct fixture *fixture = *state;
    char path[1001];
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(kill(fixture->helper.pid, SIGSTOP), 0);
    watch_helper_start(&fixture->helper, fixture->device, fixture->dir.path);
    for (int i = 0; i < 5000; i++)
        watch_helper_announce(&fixture->helper, path);
    assert_true(fixture->helper.announced < 5000);
    assert_int_equal(kill(fixture->helper.pid, SIGCONT), 0);
    watch_helper_wait(&fixture->helper, DEADLINE_MS, NULL);
    assert_int_equal(fixture->helper.shared->done, fixture->helper.announced);
    watch_helper_announce(&fixture->helper, "last");
    assert_true(appears(fixture, "last"));
}

TEST_WITH(a_wait_ends_at_its_time_out_or_when_it_is_cancelled, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct cancel cancel;
    cancel_init(&cancel);
    cancel_set(&cancel);
    assert_int_equal(kill(fixture->helper.pid, SIGSTOP), 0);
    watch_helper_start(&fixture->helper, fixture->device, fixture->dir.path);
    watch_helper_announce(&fixture->helper, "stopped");
    watch_helper_wait(&fixture->helper, DEADLINE_MS, &cancel);
    assert_false(exists(fixture, "stopped"));
    watch_helper_wait(&fixture->helper, 100, NULL);
    assert_false(exists(fixture, "stopped"));
    cancel_release(&cancel);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return test_run();
}
