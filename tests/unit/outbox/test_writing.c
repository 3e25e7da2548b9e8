/* SPDX-License-Identifier: MIT */
/*
 * Files written in outbox/: when they are handed in, and which files are never handed in.
 */
#include "outbox_fixture.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "base/thread.h"
#include "outbox/change.h"
#include "support/disk.h"
#include "support/test.h"

static atomic_uint syncs;        /* syncs of files that have begun */
static atomic_bool is_disk_slow; /* while true, no sync of a file ends */

static void count_and_wait(int fd)
{
    struct stat file;
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode))
        atomic_fetch_add(&syncs, 1);
    while (atomic_load(&is_disk_slow))
        usleep(1000);
}

FIXTURE_TEST(each_fsync_makes_earlier_writes_durable)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, OUT, "m.eml");
    disk_call_before_syncs(count_and_wait);
    for (int i = 0; i < 3; i++) {
        append(handle, "To: bob@x.example\n", i * 18);
        unsigned int before = atomic_load(&syncs);
        assert_int_equal(outbox_sync_file(handle), 0);
        assert_true(atomic_load(&syncs) > before);
        before = atomic_load(&syncs);
        assert_int_equal(outbox_sync_file(handle), 0); /* no new bytes, so no sync */
        assert_int_equal(atomic_load(&syncs), before);
    }
    disk_reset();
    outbox_release(handle);
}

struct syncing {
    struct outbox_handle *handle;
    atomic_bool has_ended;
};

static void *sync_beside(void *argument)
{
    struct syncing *syncing = argument;
    if (outbox_sync_file(syncing->handle) == 0)
        atomic_store(&syncing->has_ended, true);
    return NULL;
}

/* If two fsyncs run at the same time, the second has to wait for the disk like the first. */
FIXTURE_TEST(an_fsync_does_not_return_before_a_concurrent_one_has_ended)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, OUT, "m.tmp");
    pthread_t threads[2];
    struct syncing syncing[2] = {{.handle = handle}, {.handle = handle}};
    disk_call_before_syncs(count_and_wait);
    append(handle, "one\n", 0);
    assert_int_equal(outbox_sync_file(handle), 0);
    append(handle, "two\n", 4);
    unsigned int before = atomic_load(&syncs);
    atomic_store(&is_disk_slow, true);
    for (unsigned int i = 0; i < 2; i++) {
        assert_int_equal(thread_start(&threads[i], "sync", sync_beside, &syncing[i]), 0);
        while (atomic_load(&syncs) == before + i && !atomic_load(&syncing[i].has_ended))
            usleep(1000);
    }
    bool was_early = atomic_load(&syncing[1].has_ended);
    atomic_store(&is_disk_slow, false);
    for (unsigned int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_false(was_early);
    assert_int_equal(outbox_sync_file(handle), 0);
    assert_int_equal(atomic_load(&syncs), before + 2); /* no new bytes, so no sync */
    disk_reset();
    outbox_release(handle);
}

FIXTURE_TEST(two_writers_hand_in_once_at_the_last_release)
{
    struct fixture *fixture = *state;
    struct outbox_handle *one = create(fixture, OUT, "m.eml");
    struct outbox_handle *other = NULL;
    assert_int_equal(outbox_open_item(fixture->outbox, number_of(fixture, OUT, "m.eml"), O_WRONLY, 0, &other),
                     0);
    append(one, "To: bob@x.example\n", 0);
    finish(one);
    assert_true(is_listed(fixture, OUT, "m.eml"));
    assert_int_equal(sends(fixture), 0);
    append(other, "Subject: s\n\nb\n", 18);
    finish(other);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 1);
}

enum {
    ONE = 5000001, /* higher than any process id of Linux */
    OTHER = 5000002,
};

static struct outbox_handle *open_as(struct fixture *fixture, const char *name, int flags, pid_t pid)
{
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    if (outbox_find(fixture->outbox, OUTBOX_FOLDER_OUTBOX, name, &stat))
        assert_int_equal(outbox_open_item(fixture->outbox, stat.number, flags, pid, &handle), 0);
    else
        assert_int_equal(
            outbox_create(fixture->outbox, OUTBOX_FOLDER_OUTBOX, name, pid, NULL, &handle, &stat), 0);
    return handle;
}

static void write_as(struct outbox_handle *handle, const char *text, off_t offset, pid_t pid)
{
    assert_int_equal(outbox_write(handle, text, strlen(text), offset, pid), strlen(text));
}

static void close_as(struct outbox_handle *handle, pid_t pid)
{
    assert_int_equal(outbox_flush(handle, pid), 0);
    outbox_release(handle);
}

/* Whatever the order of the writes, the text in the file is neither writer's text. */
FIXTURE_TEST(a_text_of_two_writers_is_never_sent)
{
    static const int flags[] = {O_WRONLY, O_WRONLY | O_TRUNC, O_WRONLY | O_APPEND};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(flags); i++) {
        char name[16];
        char receipt[48];
        bool closes_first = i >= ARRAY_LEN(flags); /* the first program closes before the second one writes */
        snprintf(name, sizeof(name), "m%zu", i);
        snprintf(receipt, sizeof(receipt), "%s.receipt.json", name);
        struct outbox_handle *one = open_as(fixture, name, O_WRONLY, ONE);
        struct outbox_handle *other = open_as(fixture, name, O_WRONLY, OTHER);
        write_as(one, MESSAGE, 0, ONE);
        if (closes_first)
            close_as(one, ONE);
        struct outbox_handle *last = open_as(fixture, name, flags[i % ARRAY_LEN(flags)], OTHER);
        write_as(last, "To: x", (flags[i % ARRAY_LEN(flags)] & O_APPEND) != 0 ? (off_t)strlen(MESSAGE) : 0,
                 OTHER);
        close_as(last, OTHER);
        close_as(other, OTHER);
        if (!closes_first)
            close_as(one, ONE);
        assert_int_equal(settle(fixture), -EIO);
        assert_true(shown_contains(fixture, FAILED, receipt, "two programs wrote to the file"));
    }
    struct outbox_handle *one = open_as(fixture, "cut", O_WRONLY, ONE);
    write_as(one, MESSAGE, 0, ONE);
    struct outbox_handle *other = open_as(fixture, "cut", O_WRONLY | O_TRUNC, OTHER);
    close_as(other, OTHER);
    write_as(one, MESSAGE, (off_t)strlen(MESSAGE), ONE);
    close_as(one, ONE);
    assert_int_equal(settle(fixture), -EIO);
    assert_true(shown_contains(fixture, FAILED, "cut.receipt.json", "two programs wrote to the file"));
    assert_int_equal(sends(fixture), 0);
}

/* All programs of a shell's redirection write through one open of the file, and one program may open a file
 * twice. A program that opens the file and writes nothing does no harm, nor does O_TRUNC of an empty file.
 */
FIXTURE_TEST(several_processes_or_opens_of_one_writer_do_not_interrupt)
{
    struct fixture *fixture = *state;
    struct outbox_handle *one = open_as(fixture, "inherited", O_WRONLY, ONE);
    struct outbox_handle *idle = open_as(fixture, "inherited", O_WRONLY | O_TRUNC, OTHER);
    write_as(one, MESSAGE, 0, ONE);
    write_as(one, "More.\n", (off_t)strlen(MESSAGE), OTHER);
    close_as(idle, OTHER);
    close_as(one, ONE);
    assert_int_equal(settle(fixture), 0);

    one = open_as(fixture, "emptied", O_WRONLY, ONE); /* emptied by its writer before OTHER opens it */
    write_as(one, "No.\n", 0, ONE);
    assert_int_equal(outbox_set_size(one, 0, ONE), 0);
    idle = open_as(fixture, "emptied", O_WRONLY | O_TRUNC, OTHER);
    close_as(idle, OTHER);
    write_as(one, MESSAGE, 0, ONE);
    close_as(one, ONE);
    assert_int_equal(settle(fixture), 0);

    one = open_as(fixture, "twice", O_WRONLY, ONE);
    write_as(one, MESSAGE, 0, OTHER);
    struct outbox_handle *again = open_as(fixture, "twice", O_WRONLY | O_APPEND, ONE);
    write_as(again, "More.\n", (off_t)strlen(MESSAGE), ONE);
    close_as(one, ONE);
    close_as(again, ONE);
    assert_int_equal(settle(fixture), 0);

    one = open_as(fixture, "first", O_WRONLY, ONE); /* the opener lets another program write */
    struct outbox_handle *other = open_as(fixture, "first", O_WRONLY, OTHER);
    close_as(one, ONE);
    write_as(other, MESSAGE, 0, OTHER);
    close_as(other, OTHER);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 4);
}

FIXTURE_TEST(only_the_last_close_hands_a_file_in)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, OUT, "m.eml");
    assert_int_equal(outbox_flush(handle, 0), 0); /* a shell closes duplicates before it writes */
    append(handle, "To: bob@x.example\n", 0);
    assert_int_equal(outbox_flush(handle, 0), 0);
    append(handle, "Subject: s\n\nb\n", 18);
    assert_true(is_listed(fixture, OUT, "m.eml"));
    finish(handle);
    assert_int_equal(settle(fixture), 0);
    assert_true(sent_contains(fixture, 0, "\"s\""));
}

FIXTURE_TEST(bad_messages_go_to_failed)
{
    static const struct {
        const char *content;
        const char *words;
    } rows[] = {
        {"no header at all", "error"},
        {"Subject: nobody\n\nb\n", "recipient"},
        {"From: stranger@y.example\nTo: b@x.example\nSubject: s\n\nb\n", "stranger@y.example"},
        {"To: b@x.example\nAttach: none.pdf\nSubject: s\n\nb\n", "none.pdf"},
        {"{\"subject\": 1}", "error"},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        copy_in(fixture, OUT, "bad.eml", rows[i].content);
        assert_int_equal(settle(fixture), -EIO);
        assert_true(is_listed(fixture, FAILED, "bad.eml"));
        assert_true(shown_contains(fixture, FAILED, "bad.eml.receipt.json", "\"state\": \"failed\""));
        assert_true(shown_contains(fixture, FAILED, "bad.eml.receipt.json", rows[i].words));
        assert_true(has_event(fixture, EVENT_FAILED, "failed/bad.eml"));
        assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_FAILED, "bad.eml"), 0);
        assert_false(is_listed(fixture, FAILED, "bad.eml.receipt.json"));
    }
    assert_int_equal(sends(fixture), 0);
}

FIXTURE_TEST(files_of_never_sent_names_survive_restarts)
{
    static const char *const names[] = {".x.swp", "x~",    "x.tmp",   "x.part", "x.swp",
                                        "4913",   "x.bak", ".hidden", "#x#"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        copy_in(fixture, OUT, names[i], MESSAGE);
    assert_int_equal(settle(fixture), 0);
    fixture_reopen(fixture);
    assert_int_equal(settle(fixture), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_true(is_listed(fixture, OUT, names[i]));
    assert_int_equal(sends(fixture), 0);

    assert_int_equal(move(fixture, OUT, "x.tmp", OUT, "x.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, SENT, "x.eml"));
    assert_int_equal(sends(fixture), 1);
}

FIXTURE_TEST(an_empty_file_waits_for_content_across_restarts)
{
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "m.eml", "");
    assert_int_equal(settle(fixture), -EAGAIN);
    fixture_reopen(fixture);
    assert_int_equal(settle(fixture), -EAGAIN);
    assert_int_equal(sends(fixture), 0);
    struct outbox_handle *handle = NULL;
    uint64_t number = number_of(fixture, OUT, "m.eml");
    assert_int_equal(outbox_open_item(fixture->outbox, number, O_WRONLY | O_TRUNC, 0, &handle), 0);
    append(handle, MESSAGE, 0);
    finish(handle);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, SENT, "m.eml"));
}

FIXTURE_TEST(a_failed_write_is_never_sent)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, OUT, "m.eml");
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_write(handle, "x", 1, 24 * 1000 * 1000, 0), -EFBIG);
    finish(handle);
    assert_int_equal(settle(fixture), -EIO);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"interrupted\""));
    assert_int_equal(sends(fixture), 0);

    assert_int_equal(move(fixture, FAILED, "m.eml", OUT, "m.eml"),
                     0); /* the user accepts the text as it is */
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 1);
}

/* ---------------------------------------------------------------- writers that die */

/* Returns a zombie that ended by this exit status or signal. The caller calls reap(). */
static pid_t make_dead(int exit_status, int number)
{
    pid_t child = fork();
    if (child == 0) {
        if (number != 0) {
            signal(number, SIG_DFL); /* SIGPIPE may be ignored by default */
            kill(getpid(), number);
        }
        _exit(exit_status);
    }
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
    return child;
}

FIXTURE_TEST(a_failed_or_killed_writer_interrupts_its_file)
{
    static const struct {
        const char *what;
        int exit_status;
        int signal;
        bool writes;  /* the process wrote to the file, and did not only hold it open */
        bool is_last; /* no other process closes the file later */
        bool is_sent;
    } rows[] = {
        {"ends well", 0, 0, true, true, true},
        {"fails after writing, as the last", 1, 0, true, true, false},
        {"fails after writing, another holds the file", 1, 0, true, false, false},
        {"fails as the last, another wrote", 1, 0, false, true, false},
        {"fails, another wrote and holds the file", 1, 0, false, false, true},
        {"is killed after writing, as the last", 0, SIGKILL, true, true, false},
        {"is killed after writing, another holds the file", 0, SIGTERM, true, false, false},
        {"is killed as the last, another wrote", 0, SIGTERM, false, true, false},
        {"is killed, another wrote and holds the file", 0, SIGKILL, false, false, false},
        {"is cut off by SIGPIPE after writing", 0, SIGPIPE, true, false, false},
        {"is cut off by SIGPIPE as the last, another wrote", 0, SIGPIPE, false, true, false},
        {"is cut off by SIGPIPE, another wrote and holds the file", 0, SIGPIPE, false, false, true},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        print_message("# %s\n", rows[i].what);
        pid_t writer = make_dead(rows[i].exit_status, rows[i].signal);
        struct outbox_handle *handle = create(fixture, OUT, "m.eml");
        pid_t wrote = rows[i].writes ? writer : getpid();
        assert_int_equal(outbox_write(handle, MESSAGE, strlen(MESSAGE), 0, wrote), strlen(MESSAGE));
        assert_int_equal(outbox_flush(handle, writer), 0);
        if (!rows[i].is_last)
            assert_int_equal(outbox_flush(handle, getpid()), 0);
        outbox_release(handle);
        waitpid(writer, NULL, 0);
        assert_int_equal(settle(fixture), rows[i].is_sent ? 0 : -EIO);
        int folder = rows[i].is_sent ? SENT : FAILED;
        assert_true(is_listed(fixture, folder, "m.eml"));
        assert_true(shown_contains(fixture, folder, "m.eml", "How are you?"));
        if (!rows[i].is_sent)
            assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"interrupted\""));
        assert_int_equal(outbox_unlink(fixture->outbox, (enum outbox_folder)folder, "m.eml"), 0);
    }
}

static void write_and_die(struct fixture *fixture, const char *name, const char *text)
{
    pid_t writer = make_dead(0, SIGKILL);
    struct outbox_handle *handle = create(fixture, OUT, name);
    assert_int_equal(outbox_write(handle, text, strlen(text), 0, writer), strlen(text));
    assert_int_equal(outbox_flush(handle, writer), 0);
    outbox_release(handle);
    waitpid(writer, NULL, 0);
}

/* A user wants to recover text from a swap file. */
FIXTURE_TEST(an_interrupted_temporary_file_cannot_be_renamed_to_a_sendable_name)
{
    struct fixture *fixture = *state;
    write_and_die(fixture, ".m.swp", MESSAGE);
    assert_int_equal(settle(fixture), 0);
    assert_true(shown_contains(fixture, OUT, ".m.swp", "How are you?"));
    assert_int_equal(move(fixture, OUT, ".m.swp", OUT, "m.tmp"), 0);
    assert_int_equal(move(fixture, OUT, "m.tmp", OUT, "m.eml"), -EBADMSG);
    assert_true(has_event(fixture, EVENT_REFUSED, "outbox/m.tmp"));
    fixture_reopen(fixture);
    assert_int_equal(move(fixture, OUT, "m.tmp", OUT, "m.eml"), -EBADMSG);

    struct outbox_handle *handle = NULL;
    uint64_t number = number_of(fixture, OUT, "m.tmp");
    assert_int_equal(outbox_open_item(fixture->outbox, number, O_RDWR, 0, &handle), 0);
    assert_int_equal(move(fixture, OUT, "m.tmp", OUT, "m.eml"), -EBADMSG);
    append(handle, "more", (off_t)strlen(MESSAGE));
    finish(handle);
    assert_int_equal(move(fixture, OUT, "m.tmp", OUT, "m.eml"), -EBADMSG);
    assert_int_equal(sends(fixture), 0);

    /* A file that is written again from the start is a new message. */
    assert_int_equal(outbox_open_item(fixture->outbox, number, O_RDWR | O_TRUNC, 0, &handle), 0);
    append(handle, MESSAGE, 0);
    finish(handle);
    assert_int_equal(move(fixture, OUT, "m.tmp", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 1);
}

FIXTURE_TEST(files_open_at_a_crash_are_interrupted)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, OUT, "m.eml");
    struct outbox_handle *swap = create(fixture, OUT, ".n.swp");
    append(handle, MESSAGE, 0);
    append(swap, MESSAGE, 0);
    assert_int_equal(outbox_flush(handle, 0), 0);
    assert_int_equal(outbox_flush(swap, 0), 0);

    /* A second outbox, on a copy of the present spool, acts as the program after a power cut. */
    struct temp_dir other;
    temp_dir_init(&other);
    char command[700];
    snprintf(command, sizeof(command), "cp -a %s/spool %s/spool", fixture->dir.path, other.path);
    assert_int_equal(system(command), 0);
    outbox_release(handle);
    outbox_release(swap);
    assert_int_equal(settle(fixture), 0);

    fixture_close(fixture);
    fixture->config.state_dir_fd = other.fd;
    fixture_open(fixture);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, FAILED, "m.eml"));
    assert_true(shown_contains(fixture, FAILED, "m.eml", "How are you?"));
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"interrupted\""));
    assert_true(has_event(fixture, EVENT_FAILED, "failed/m.eml"));
    /* The program that wrote the file may read it to recover the text. */
    assert_true(shown_contains(fixture, OUT, ".n.swp", "How are you?"));
    assert_int_equal(move(fixture, OUT, ".n.swp", OUT, "n.eml"), -EBADMSG);
    fixture_close(fixture);
    fixture->config.state_dir_fd = fixture->dir.fd;
    fixture_open(fixture);
    temp_dir_release(&other);
}

/* ---------------------------------------------------------------- errors of files */

FIXTURE_TEST(a_forbidden_creation_returns_its_errno)
{
    char long_name[300];
    char longer_name[300];
    memset(long_name, 'n', sizeof(long_name));
    memset(longer_name, 'n', sizeof(longer_name));
    long_name[243] = '\0';
    longer_name[256] = '\0';
    const struct {
        int folder;
        const char *name;
        int error;
    } rows[] = {
        {SENT, "m", -EPERM},
        {FAILED, "m", -EPERM},
        {OUT, "m.receipt.json", -EPERM},
        {ATTACHED, "m.receipt.json", -EPERM},
        {OUT, "bad\xff", -EILSEQ},
        {ATTACHED, "bad\xff", -EILSEQ},
        {ATTACHED, "new\nline", -EILSEQ},
        {OUT, longer_name, -ENAMETOOLONG},
        {ATTACHED, long_name, -ENAMETOOLONG},
        {OUT, "there", -EEXIST},
    };
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "there", "");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct outbox_handle *handle = NULL;
        struct outbox_stat stat;
        assert_int_equal(outbox_create(fixture->outbox, (enum outbox_folder)rows[i].folder, rows[i].name, 0,
                                       NULL, &handle, &stat),
                         rows[i].error);
    }
}

/* ---------------------------------------------------------------- sent after a quiet time */

static void expect_quiet(struct fixture *fixture, const char *name)
{
    assert_true(is_listed(fixture, OUT, name));
    assert_int_equal(sends(fixture), 0);
}

FIXTURE_TEST(a_closed_message_is_sent_after_two_seconds_without_a_change)
{
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "m.eml", MESSAGE);
    fake_clock_advance(&fixture->clock, QUIET_MS - 1);
    expect_quiet(fixture, "m.eml");
    fake_clock_advance(&fixture->clock, 1);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    assert_int_equal(sends(fixture), 1);
}

static void append_to(struct fixture *fixture, const char *name, const char *text)
{
    struct outbox_handle *handle = open_as(fixture, name, O_WRONLY | O_APPEND, getpid());
    struct outbox_stat stat;
    assert_true(outbox_find(fixture->outbox, OUTBOX_FOLDER_OUTBOX, name, &stat));
    write_as(handle, text, stat.size, getpid());
    close_as(handle, getpid());
}

FIXTURE_TEST(a_write_rename_or_utime_restarts_the_quiet_time)
{
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "a", "To: bob@x.example\n");
    fake_clock_advance(&fixture->clock, QUIET_MS - 1);
    append_to(fixture, "a", "Subject: s\n");
    fake_clock_advance(&fixture->clock, QUIET_MS - 1);
    expect_quiet(fixture, "a");
    assert_int_equal(move(fixture, OUT, "a", OUT, "b"), 0);
    fake_clock_advance(&fixture->clock, QUIET_MS - 1);
    expect_quiet(fixture, "b");
    assert_int_equal(outbox_set_times(fixture->outbox, number_of(fixture, OUT, "b"), times), 0);
    fake_clock_advance(&fixture->clock, QUIET_MS - 1);
    expect_quiet(fixture, "b");
    append_to(fixture, "b", "\nHello.\n");
    fake_clock_advance(&fixture->clock, QUIET_MS);
    await_event(fixture, EVENT_SENT, "sent/b");
    assert_true(sent_contains(fixture, 0, "Hello."));
    assert_int_equal(sends(fixture), 1);
}

FIXTURE_TEST(an_open_file_is_never_handed_in)
{
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "m.eml", MESSAGE);
    struct outbox_handle *handle = open_as(fixture, "m.eml", O_RDWR, getpid());
    fake_clock_advance(&fixture->clock, HOUR_MS);
    assert_int_equal(settle(fixture), 0); /* a barrier does not wait for an open file */
    expect_quiet(fixture, "m.eml");
    close_as(handle, getpid()); /* closed without a write */
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 1);
}

FIXTURE_TEST(a_waiting_file_is_sent_after_a_restart)
{
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "m.eml", MESSAGE);
    fixture_reopen(fixture);
    fake_clock_advance(&fixture->clock, QUIET_MS - 1);
    expect_quiet(fixture, "m.eml");
    fake_clock_advance(&fixture->clock, 1);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    assert_int_equal(sends(fixture), 1);
}

FIXTURE_TEST(a_waiting_file_can_be_replaced_and_removed)
{
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "removed", MESSAGE);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "removed"), 0);
    copy_in(fixture, OUT, "m.eml", "To: bob@x.example\nSubject: old\n\nb\n");
    copy_in(fixture, OUT, "new", "To: bob@x.example\nSubject: new\n\nb\n");
    assert_int_equal(move(fixture, OUT, "new", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 1);
    assert_true(sent_contains(fixture, 0, "\"new\""));
    assert_true(is_listed(fixture, SENT, "m.eml"));
}

/* The service is unreachable, and has received nothing of the message. */
FIXTURE_TEST(an_accepted_message_can_be_edited_until_it_may_have_been_sent)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = NULL;
    fake_service_set_reachable(fixture->fake, false);
    copy_in(fixture, OUT, "m.eml", MESSAGE);
    assert_int_equal(settle(fixture), -EAGAIN);
    handle = open_as(fixture, "m.eml", O_WRONLY | O_TRUNC, getpid());
    write_as(handle, "To: bob@x.example\nSubject: edited\n\nb\n", 0, getpid());
    close_as(handle, getpid());
    fake_service_set_reachable(fixture->fake, true);
    outbox_wake(fixture->outbox);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(fake_service_count_sent(fixture->fake, true), 1);
    assert_true(sent_contains(fixture, sends(fixture) - 1, "edited"));
}

FIXTURE_TEST(a_message_that_may_have_been_sent_cannot_be_changed)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = NULL;
    fixture->config.trusts_idempotency = true;
    fixture_reopen(fixture);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    copy_in(fixture, OUT, "m.eml", MESSAGE);
    assert_int_equal(settle(fixture), -EAGAIN);
    uint64_t number = number_of(fixture, OUT, "m.eml");
    assert_int_equal(outbox_open_item(fixture->outbox, number, O_WRONLY | O_APPEND, 0, &handle), -EBUSY);
    assert_true(has_event(fixture, EVENT_REFUSED, "outbox/m.eml"));
    assert_int_equal(outbox_truncate(fixture->outbox, number, 0, 0), -EBUSY);
    assert_int_equal(move(fixture, OUT, "m.eml", OUT, "n.eml"), -EBUSY);
    copy_in(fixture, OUT, "new", MESSAGE "More.\n");
    assert_int_equal(move(fixture, OUT, "new", OUT, "m.eml"), -EBUSY);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), -EBUSY);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), 0);
    assert_true(has_event(fixture, EVENT_FAILED, "outbox/m.eml"));
    assert_int_equal(settle(fixture), 0);
}

FIXTURE_TEST(settled_files_cannot_be_opened_for_writing)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = NULL;
    copy_in(fixture, OUT, "m.eml", MESSAGE);
    assert_int_equal(settle(fixture), 0);
    uint64_t number = number_of(fixture, SENT, "m.eml");
    assert_int_equal(outbox_open_item(fixture->outbox, number, O_WRONLY, 0, &handle), -EACCES);
    assert_int_equal(outbox_open_item(fixture->outbox, number + 1000, O_RDONLY, 0, &handle), -ESTALE);
}

FIXTURE_TEST(times_and_sizes_survive_a_restart)
{
    struct fixture *fixture = *state;
    struct outbox_stat stat;
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
    struct outbox_handle *handle = create(fixture, OUT, "x.tmp");
    append(handle, "12345", 0);
    uint64_t number = number_of(fixture, OUT, "x.tmp");
    assert_int_equal(outbox_set_size(handle, 3, 0), 0);
    assert_int_equal(outbox_set_times(fixture->outbox, number, times), 0);
    finish(handle);
    fixture_reopen(fixture);
    assert_true(outbox_find(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "x.tmp", &stat));
    assert_int_equal(stat.number, number);
    assert_int_equal(stat.size, 3);
    assert_int_equal(stat.mtime.tv_sec, 2000);
    assert_int_equal(stat.mode, 0600);
}

FIXTURE_TEST(a_removed_file_is_not_handed_in)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, OUT, "m.eml");
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), 0);
    finish(handle);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 0);
}

/* A program may write headers and body in two opens. The text after the first open looks complete. */
FIXTURE_TEST(a_message_is_not_sent_after_the_disk_refused_more_of_it)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = NULL;
    copy_in(fixture, OUT, "m.eml", MESSAGE);
    assert_int_equal(
        outbox_open_item(fixture->outbox, number_of(fixture, OUT, "m.eml"), O_WRONLY, 0, &handle), 0);
    disk_fill(0);
    assert_true(outbox_write(handle, "more", 4, (off_t)strlen(MESSAGE), 0) < 0);
    disk_empty();
    assert_int_equal(outbox_flush(handle, 0), 0);
    outbox_release(handle);
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(sends(fixture), 0);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "a write to the file failed"));
    assert_true(shown_contains(fixture, FAILED, "m.eml", MESSAGE));
}

/* The user who moves an interrupted text back to outbox/ takes it as it is, and may write on. */
FIXTURE_TEST(an_interrupted_message_that_is_moved_back_can_be_continued_and_sent)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, OUT, "m.eml");
    append(handle, MESSAGE, 0);
    assert_int_equal(outbox_write(handle, "More.\n", 6, INT64_C(1) << 40, 0), -EFBIG);
    finish(handle);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "the file became larger"));
    assert_int_equal(move(fixture, FAILED, "m.eml", OUT, "m.eml~"), 0);
    assert_int_equal(
        outbox_open_item(fixture->outbox, number_of(fixture, OUT, "m.eml~"), O_WRONLY, 0, &handle), 0);
    append(handle, "More.\n", (off_t)strlen(MESSAGE));
    finish(handle);
    assert_int_equal(move(fixture, OUT, "m.eml~", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_true(shown_contains(fixture, SENT, "m.eml", "More."));
}

/* A message of unknown outcome that gets a never-sent name waits with its key, and can be edited. */
FIXTURE_TEST(a_disk_that_is_full_at_the_close_fails_a_message_that_may_have_been_sent)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle;
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(move(fixture, FAILED, "m.eml", OUT, "m.eml~"), 0);
    uint64_t number = number_of(fixture, OUT, "m.eml~");
    assert_int_equal(outbox_open_item(fixture->outbox, number, O_WRONLY, 0, &handle), 0);
    append(handle, "more\n", (off_t)strlen(MESSAGE));
    assert_int_equal(outbox_flush(handle, 0), 0);
    disk_fill(0);
    outbox_release(handle);
    disk_empty();
    assert_false(is_listed(fixture, OUT, "m.eml~"));
    assert_true(shown_contains(fixture, FAILED, "m.eml~.receipt.json", "\"state\": \"unknown outcome\""));
}
