/* SPDX-License-Identifier: MIT */
/*
 * How processes end, read from the text of stat files and from real children.
 */

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "outbox/writer_fate.h"

/* Writes a stat file of 52 fields with this name, these flags and this exit code. */
static void make_stat(char *text, size_t size, const char *name, unsigned int flags, const char *exit_code)
{
    int len = snprintf(text, size, "123 (%s) R 1 2 3 4 5 %u", name, flags);
    for (int field = 10; field < 52; field++)
        len += snprintf(text + len, size - (size_t)len, " 0");
    snprintf(text + len, size - (size_t)len, " %s\n", exit_code);
}

TEST(a_stat_file_shows_how_its_task_ends)
{
    static const struct {
        const char *name;
        unsigned int flags;
        const char *exit_code;
        bool may_look;
        enum writer_fate fate;
    } rows[] = {
        {"cp", 0x400000, "0", true, WRITER_LIVES},
        {"cp", 0x400004, "0", true, WRITER_SUCCEEDED},
        {"cp", 0x400004, "256", true, WRITER_EXITED},
        {"cp", 0x400004, "9", true, WRITER_KILLED},
        {"cp", 0x400004, "139", true, WRITER_KILLED}, /* a signal with a core dump */
        {"cp", 0x400004, "0", false, WRITER_HIDDEN},
        {"cp", 0x400000, "0", false, WRITER_LIVES},
        {"a) R 1 2 3 4 5 4 (", 0x400000, "9", true, WRITER_LIVES}, /* a name that looks like fields */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[1024];
        make_stat(text, sizeof(text), rows[i].name, rows[i].flags, rows[i].exit_code);
        assert_int_equal(writer_fate_parse(text, rows[i].may_look), rows[i].fate);
    }
}

TEST(a_malformed_stat_file_shows_no_exit_code)
{
    static const char *const texts[] = {"",    "1",           "1 (", "1 (cp)", "1 (cp) R 1 2 3 4 5",
                                        ")))", "1 (cp) R x x"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_int_equal(writer_fate_parse(texts[i], true), WRITER_LIVES);
    assert_int_equal(writer_fate_parse("1 (cp) R 1 2 3 4 5 4", true), WRITER_HIDDEN);
}

static enum writer_fate fate_of_child(int exit_status, int signal)
{
    pid_t child = fork();
    if (child == 0) {
        if (signal != 0)
            kill(getpid(), signal);
        _exit(exit_status);
    }
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT); /* the child remains as a zombie */
    enum writer_fate fate = writer_fate_read(child);
    waitpid(child, NULL, 0);
    return fate;
}

TEST(the_end_of_a_child_process_is_recognised)
{
    assert_int_equal(fate_of_child(0, 0), WRITER_SUCCEEDED);
    assert_int_equal(fate_of_child(3, 0), WRITER_EXITED);
    assert_int_equal(fate_of_child(0, SIGKILL), WRITER_KILLED);
    assert_int_equal(fate_of_child(0, SIGTERM), WRITER_KILLED);
    assert_int_equal(writer_fate_read(getpid()), WRITER_LIVES);
    assert_int_equal(writer_fate_read(0), WRITER_UNSEEN);
    assert_int_equal(writer_fate_read(-1), WRITER_UNSEEN);
}

static void *find_own_process(void *argument)
{
    pid_t *process = argument;
    *process = writer_process((pid_t)syscall(SYS_gettid));
    return NULL;
}

TEST(the_process_of_a_thread_is_found)
{
    pthread_t thread;
    pid_t process = 0;
    assert_int_equal(pthread_create(&thread, NULL, find_own_process, &process), 0);
    pthread_join(thread, NULL);
    assert_int_equal(process, getpid());
    assert_int_equal(writer_process(0), 0);
}
