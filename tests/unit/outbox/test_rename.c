/* SPDX-License-Identifier: MIT */
/*
 * Renames and removals inside the four folders, and names that clash.
 */
#include "outbox_world.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/thread.h"

/* Whether the disk fails when a folder is to be made durable. */
static atomic_bool folders_fail;

/* Takes the place of libc's. */
int fsync(int fd)
{
    struct stat file;
    if (atomic_load(&folders_fail) && fstat(fd, &file) == 0 && S_ISDIR(file.st_mode)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

/* The end of the names of files that the disk does not let go; NULL: it lets all go. */
static _Atomic(const char *) staying;

/* Takes the place of libc's. */
int unlinkat(int dir_fd, const char *path, int flags)
{
    const char *end = atomic_load(&staying);
    if (end != NULL && strlen(path) >= strlen(end) && strcmp(path + strlen(path) - strlen(end), end) == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_unlinkat, dir_fd, path, flags);
}

static void names_that_are_taken_get_a_number(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 12; i++) {
        assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
        assert_int_equal(settle(world), 0);
    }
    assert_true(is_listed(world, SENT, "m.eml"));
    for (int i = 2; i <= 12; i++) {
        char name[64];
        snprintf(name, sizeof(name), "m-%d.eml", i);
        assert_true(is_listed(world, SENT, name));
        snprintf(name, sizeof(name), "m-%d.eml.receipt.json", i);
        assert_true(is_listed(world, SENT, name));
    }
    assert_true(was_told(world, EVENT_SENT, "sent/m-12.eml"));
    world_reopen(world);
    assert_true(is_listed(world, SENT, "m-12.eml"));
}

static void a_number_is_counted_on_not_numbered(void **state)
{
    static const char *const names[] = {"m.eml", "m-2.eml", "m-2.eml", "m-3.eml", "n-2.eml", "n-2.eml"};
    static const char *const shown[] = {"m.eml", "m-2.eml", "m-3.eml", "m-4.eml", "n-2.eml", "n-2-2.eml"};
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_int_equal(mail(world, names[i], MESSAGE), 0);
        assert_int_equal(settle(world), 0);
        assert_true(is_listed(world, SENT, shown[i]));
    }
}

/* A receipt's name fits beside it. */
static void names_that_are_too_long_are_shortened(void **state)
{
    struct world *world = *state;
    char name[256];
    char shown[300];
    struct outbox_listing listing;
    memset(name, 'n', sizeof(name));
    memcpy(name + 255 - 4, ".eml", 5);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mail(world, name, MESSAGE), 0);
        assert_int_equal(settle(world), 0);
    }
    snprintf(shown, sizeof(shown), "%.238s.eml", name);
    assert_true(is_listed(world, SENT, shown));
    char path[310];
    snprintf(path, sizeof(path), "sent/%s", shown);
    assert_true(was_told(world, EVENT_SENT, path));
    copy_in(world, OUT, name, "bad");
    assert_int_equal(settle(world), -EIO);
    assert_true(is_listed(world, FAILED, shown));
    world_reopen(world);
    assert_true(shown_contains(world, FAILED, strcat(shown, ".receipt.json"), "failed"));
    assert_int_equal(outbox_list(world->outbox, OUTBOX_FOLDER_SENT, &listing), 0);
    assert_int_equal(listing.len, 6);
    for (size_t i = 0; i < listing.len; i++)
        assert_true(strlen(listing.entries[i].name) <= 255);
    outbox_listing_release(&listing);

    memcpy(name + 229, ".receipt.jsonxxxxxxxxxxxxxxxx", 26); /* whose beginning is a receipt's name */
    copy_in(world, OUT, name, MESSAGE);
    assert_int_equal(settle(world), 0);
    assert_int_equal(outbox_list(world->outbox, OUTBOX_FOLDER_SENT, &listing), 0);
    assert_int_equal(listing.len, 8);
    outbox_listing_release(&listing);
}

static void names_may_hold_any_text(void **state)
{
    static const char *const names[] = {"new\nline",      "\x1b[31mred", "bell\a\t\x7f",
                                        "\xc2\x85\u202e", "\"\\",        " "};
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[64];
        assert_int_equal(mail(world, names[i], MESSAGE), 0);
        assert_int_equal(settle(world), 0);
        snprintf(path, sizeof(path), "sent/%s", names[i]);
        assert_true(was_told(world, EVENT_SENT, path));
        copy_in(world, OUT, names[i], "bad");
        assert_int_equal(settle(world), -EIO);
    }
    world_reopen(world);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_true(is_listed(world, SENT, names[i]));
        assert_int_equal(move(world, FAILED, names[i], OUT, ".again"), 0);
        assert_int_equal(move(world, OUT, ".again", OUT, names[i]), -EBADMSG);
        assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, ".again"), 0);
    }
}

static void what_may_be_renamed_where(void **state)
{
    static const struct {
        int from;
        const char *name;
        int to;
        const char *new_name;
        int error;
    } rows[] = {
        {SENT, "sent.eml", SENT, "x.eml", -EPERM},         {SENT, "sent.eml", FAILED, "x.eml", -EPERM},
        {SENT, "sent.eml", ATTACHED, "x.eml", -EPERM},     {FAILED, "failed.eml", FAILED, "x.eml", -EPERM},
        {FAILED, "failed.eml", ATTACHED, "x.eml", -EPERM}, {OUT, "held.tmp", ATTACHED, "x.eml", -EPERM},
        {OUT, "held.tmp", SENT, "x.eml", -EPERM},          {OUT, "none", OUT, "x.eml", -ENOENT},
        {OUT, "held.tmp", OUT, "x.receipt.json", -EPERM},  {OUT, "held.tmp", OUT, "x\xff", -EILSEQ},
        {ATTACHED, "held.tmp", ATTACHED, "x\ny", -EILSEQ}, {OUT, "held.tmp", OUT, "other.tmp", 0},
        {OUT, "other.tmp", OUT, "other.tmp", 0},
    };
    struct world *world = *state;
    assert_int_equal(mail(world, "sent.eml", MESSAGE), 0);
    assert_int_equal(settle(world), 0);
    copy_in(world, OUT, "failed.eml", "bad");
    copy_in(world, OUT, "held.tmp", MESSAGE);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(move(world, rows[i].from, rows[i].name, rows[i].to, rows[i].new_name),
                         rows[i].error);
    assert_int_equal(outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, "other.tmp", OUTBOX_FOLDER_OUTBOX,
                                   "y", RENAME_EXCHANGE, 0, NULL),
                     -EINVAL);
}

static void a_queued_message_keeps_its_place_under_another_name(void **state)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "1.eml", "To: b@x.example\nSubject: first\n\nb\n"), 0);
    assert_int_equal(mail(world, "2.eml", "To: b@x.example\nSubject: second\n\nb\n"), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    assert_int_equal(move(world, OUT, "1.eml", OUT, "2.eml"), -EEXIST);
    assert_int_equal(move(world, OUT, "1.eml", OUT, "9.eml"), 0);
    world_reopen(world);
    assert_int_equal(settle(world), -EAGAIN);
    await_next_attempt(world);
    unsigned int before = sends(world);
    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/9.eml");
    await_news(world, EVENT_SENT, "sent/2.eml");
    assert_true(sent_contains(world, before, "first"));
    assert_true(sent_contains(world, before + 1, "second"));
}

/* outbox_rename() while the disk takes nothing. */
static int rename_on_a_full_disk(struct world *world, const char *name, const char *new_name, pid_t pid)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct rlimit full = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    int error = outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, name, OUTBOX_FOLDER_OUTBOX, new_name, 0,
                              pid, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, handler);
    return error;
}

/* Else the old name would be back after a restart. */
static void a_rename_that_cannot_be_recorded_is_none(void **state)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "old.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    assert_int_equal(rename_on_a_full_disk(world, "old.eml", "new.eml", 0), -EFBIG);
    assert_true(is_listed(world, OUT, "old.eml"));
    assert_false(is_listed(world, OUT, "new.eml"));
    assert_int_equal(move(world, OUT, "old.eml", OUT, "new.eml"), 0);
    assert_true(is_listed(world, OUT, "new.eml"));
}

/* The new envelope was in its place when the disk failed. Else the next start would send what stayed on hold.
 */
static void a_rename_that_is_not_durable_is_none(void **state)
{
    struct world *world = *state;
    copy_in(world, OUT, "m.tmp", MESSAGE);
    assert_int_equal(move(world, OUT, "m.tmp", OUT, "n.tmp"), 0);
    atomic_store(&folders_fail, true);
    assert_int_equal(move(world, OUT, "n.tmp", OUT, "m.eml"), -EIO);
    atomic_store(&folders_fail, false);
    assert_true(is_listed(world, OUT, "n.tmp"));
    world_reopen(world);
    assert_int_equal(settle(world), 0);
    assert_true(is_listed(world, OUT, "n.tmp"));
    assert_int_equal(sends(world), 0);
}

static void a_rename_to_a_name_never_sent_cancels(void **state)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_next_attempt(world);
    assert_int_equal(move(world, OUT, "m.eml", OUT, "m.tmp"), 0);
    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    assert_int_equal(settle(world), 0);
    world_reopen(world);
    assert_int_equal(settle(world), 0);
    assert_true(is_listed(world, OUT, "m.tmp"));
    assert_int_equal(fake_service_count_sent(world->fake, false), 0);
    assert_int_equal(move(world, OUT, "m.tmp", OUT, "m.eml"), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
}

static void rm_cancels(void **state)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_next_attempt(world);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), 0);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), -ENOENT);
    fake_service_set_reachable(world->fake, true);
    world_reopen(world);
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, false), 0);
}

/* What the disk refused is tried again 10 s later, counted from the end of the attempt, which may come after
 * the clock was moved. */
static void await_no_file(struct world *world, uint64_t number, const char *end)
{
    char path[64];
    snprintf(path, sizeof(path), "spool/%" PRIu64 "%s", number, end);
    for (int tries = 0; tries < 20000 && faccessat(world->dir.fd, path, F_OK, 0) == 0; tries++) {
        if (tries % 1000 == 0)
            fake_clock_advance(&world->clock, 20 * 1000);
        usleep(1000);
    }
    assert_int_equal(faccessat(world->dir.fd, path, F_OK, 0), -1);
}

/* The content is gone, and then the disk fails. Were the envelope to stand for the message still, that one
 * would be tried for ever, and with no content. */
static void what_lost_its_content_is_removed(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        void *made;
        int folder = i % 4 == 3 ? ATTACHED : OUT;
        int error;
        assert_int_equal(world_setup(&made), 0);
        struct world *world = made;
        fake_service_set_reachable(world->fake, false);
        assert_int_equal(mail(world, "other", MESSAGE), 0);
        assert_int_equal(settle(world), -EAGAIN);
        await_paused(world, true);
        copy_in(world, folder, "m", MESSAGE);
        assert_int_equal(settle_uploads(world), folder == OUT ? 0 : -EAGAIN);
        uint64_t number = number_of(world, folder, "m");
        if (i % 4 == 1)
            atomic_store(&folders_fail, true);
        else
            atomic_store(&staying, ".json");
        if (i % 4 == 2)
            error =
                outbox_take_out(world->outbox, (enum outbox_folder)folder, "m", world->drafts, "draft", 0);
        else
            error = outbox_unlink(world->outbox, (enum outbox_folder)folder, "m");
        atomic_store(&folders_fail, false);
        atomic_store(&staying, NULL);
        assert_int_equal(error, 0);
        assert_false(is_listed(world, folder, "m"));
        fake_service_set_reachable(world->fake, true);
        unsigned int uploads = fake_service_count(world->fake, FAKE_UPLOAD);
        if (i >= 4)
            world_reopen(world);
        outbox_wake(world->outbox);
        assert_int_equal(settle(world), 0);
        assert_int_equal(settle_uploads(world), 0);
        await_no_file(world, number, ".json");
        assert_false(is_listed(world, FAILED, "m"));
        assert_int_equal(fake_service_count_sent(world->fake, false), 1); /* the other */
        assert_int_equal(fake_service_count(world->fake, FAKE_UPLOAD), uploads);
        world_teardown(&made);
    }
}

/* Under the key of a message that is out a service that honours keys would send nothing. */
static void what_was_removed_leaves_no_key_where_its_envelope_stays(void **state)
{
    struct world *world = *state;
    fake_service_push(world->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_UNKNOWN});
    assert_int_equal(mail(world, "m", MESSAGE), 0);
    assert_int_equal(settle(world), -EIO);
    assert_int_equal(move(world, FAILED, "m", OUT, "m"), 0);
    assert_int_equal(settle(world), 0);
    atomic_store(&staying, ".json");
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_SENT, "m"), 0);
    atomic_store(&staying, NULL);
    assert_int_equal(mail(world, "m", MESSAGE), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, true), 2);
}

static void a_temporary_file_that_is_renamed_into_place_is_sent(void **state)
{
    struct world *world = *state;
    copy_in(world, OUT, "m.eml", "");
    copy_in(world, OUT, ".m.eml.Xy12", MESSAGE);
    assert_int_equal(outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, ".m.eml.Xy12", OUTBOX_FOLDER_OUTBOX,
                                   "m.eml", RENAME_NOREPLACE, 0, NULL),
                     -EEXIST);
    assert_int_equal(move(world, OUT, ".m.eml.Xy12", OUT, "m.eml"), 0);
    assert_int_equal(settle(world), 0);
    assert_true(is_listed(world, SENT, "m.eml"));
    assert_false(is_listed(world, OUT, ".m.eml.Xy12"));
    struct outbox_listing listing;
    assert_int_equal(outbox_list(world->outbox, OUTBOX_FOLDER_OUTBOX, &listing), 0);
    assert_int_equal(listing.len, 0);
    outbox_listing_release(&listing);
}

static void a_file_that_is_written_can_be_renamed(void **state)
{
    struct world *world = *state;
    struct outbox_handle *handle = create(world, OUT, "x.tmp");
    append(handle, MESSAGE, 0);
    assert_int_equal(move(world, OUT, "x.tmp", OUT, "x.eml"), 0);
    assert_int_equal(sends(world), 0);
    finish(handle);
    assert_int_equal(settle(world), 0);
    assert_true(is_listed(world, SENT, "x.eml"));
}

/* It was closed once, and its program goes on writing. */
static void a_temporary_file_that_is_open_again_is_handed_in_when_it_is_closed(void **state)
{
    struct world *world = *state;
    struct outbox_handle *handle;
    copy_in(world, OUT, "x.tmp", MESSAGE);
    uint64_t number = number_of(world, OUT, "x.tmp");
    assert_int_equal(outbox_open_item(world->outbox, number, OUTBOX_CONTENT, O_RDWR, 0, &handle), 0);
    assert_int_equal(move(world, OUT, "x.tmp", OUT, "x.eml"), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 0);
    append(handle, "The end of it.\n", (off_t)strlen(MESSAGE));
    finish(handle);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 1);
    assert_true(sent_contains(world, 0, "The end of it."));
}

static void retry_brings_back_what_failed(void **state)
{
    struct world *world = *state;
    fake_service_push(world->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EIO);
    assert_int_equal(outbox_retry(world->outbox, NULL), 0);
    assert_true(is_listed(world, FAILED, "m.eml"));
    assert_int_equal(outbox_retry(world->outbox, "m.eml"), 0);
    assert_int_equal(settle(world), 0);
    assert_true(is_listed(world, SENT, "m.eml"));
    assert_false(is_listed(world, FAILED, "m.eml"));
    assert_int_equal(outbox_retry(world->outbox, "m.eml"), -ENOENT);

    fake_service_push(
        world->fake, FAKE_SEND,
        (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503, .retry_after_ms = HOUR_MS});
    assert_int_equal(mail(world, "n.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_next_attempt(world);
    await_paused(world, true);
    assert_int_equal(outbox_retry(world->outbox, "n.eml"), 0);
    await_news(world, EVENT_SENT, "sent/n.eml");
}

enum {
    WORKERS = 4,      /* that sleep */
    WRITER = 5000001, /* beyond what Linux gives out */
    OTHER = 5000002,
};

static void write_as(struct world *world, const char *name, const char *text, pid_t pid)
{
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    assert_int_equal(outbox_create(world->outbox, OUTBOX_FOLDER_OUTBOX, name, pid, &handle, &stat), 0);
    assert_int_equal(outbox_write(handle, text, strlen(text), 0, pid), strlen(text));
    assert_int_equal(outbox_flush(handle, 0), 0);
    outbox_release(handle);
}

static int rename_as(struct world *world, const char *name, const char *new_name, pid_t pid)
{
    return outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, name, OUTBOX_FOLDER_OUTBOX, new_name, 0, pid,
                         NULL);
}

static bool finds_left(struct world *world, const char *name, pid_t pid)
{
    struct outbox_stat stat;
    return outbox_find_left(world->outbox, OUTBOX_FOLDER_OUTBOX, name, pid, &stat);
}

static void what_is_out_is_renamed_by_its_writer_alone(void **state)
{
    struct world *world = *state;
    assert_int_equal(mail(world, "final", MESSAGE), 0);
    write_as(world, "temporary", MESSAGE, WRITER);
    assert_int_equal(settle(world), 0);
    assert_true(finds_left(world, "final", MOVER));
    assert_false(finds_left(world, "final", OTHER));
    assert_int_equal(rename_as(world, "temporary", "final", OTHER), -ENOENT);
    assert_int_equal(rename_as(world, "temporary", "final.bak", WRITER), -ENOENT);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "temporary"), -ENOENT);
    assert_int_equal(rename_as(world, "temporary", "final", WRITER), 0);
    assert_false(is_listed(world, SENT, "temporary"));
    assert_true(is_listed(world, SENT, "final-2"));
    assert_true(shown_contains(world, SENT, "final-2.receipt.json", "\"plain_text\":\"How are you?\\n\""));
    assert_false(finds_left(world, "temporary", WRITER));
    assert_false(finds_left(world, "final", OTHER));
    assert_true(finds_left(world, "final", WRITER));
    assert_int_equal(rename_as(world, "final", "last", WRITER), 0);
    world_reopen(world);
    assert_true(is_listed(world, SENT, "last"));
    assert_true(shown_contains(world, SENT, "last.receipt.json", "\"plain_text\":\"How are you?\\n\""));
    assert_int_equal(sends(world), 2);
}

static void what_is_out_is_renamed_by_who_renamed_it_before(void **state)
{
    struct world *world = *state;
    write_as(world, ".m.Xy12", MESSAGE, WRITER);
    assert_int_equal(rename_as(world, ".m.Xy12", "m", OTHER), 0);
    assert_int_equal(settle(world), 0);
    assert_true(is_listed(world, SENT, "m"));
    assert_true(finds_left(world, "m", OTHER));
    assert_int_equal(rename_as(world, "m", "last", OTHER), 0);
    assert_true(is_listed(world, SENT, "last"));
    assert_int_equal(sends(world), 1);
}

static void what_failed_is_renamed_and_fails_once(void **state)
{
    struct world *world = *state;
    write_as(world, "temporary", "bad", WRITER);
    assert_int_equal(settle(world), -EIO);
    assert_int_equal(rename_as(world, "temporary", "final", WRITER), 0);
    assert_true(is_listed(world, FAILED, "final"));
    assert_true(shown_contains(world, FAILED, "final.receipt.json", "\"failed\""));
    assert_int_equal(settle(world), 0);
}

/* Else neither of them would be sent. */
static void what_failed_does_not_take_the_place_of_what_it_was_edited_from(void **state)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    fake_service_set_reachable(world->fake, false);
    write_as(world, "letter", MESSAGE, OTHER);
    assert_int_equal(outbox_open_item(world->outbox, number_of(world, OUT, "letter"), OUTBOX_CONTENT,
                                      O_RDONLY, WRITER, &handle),
                     0);
    outbox_release(handle);
    write_as(world, "edited", "bad", WRITER);
    assert_int_equal(rename_as(world, "edited", "letter", WRITER), 0);
    assert_true(is_listed(world, FAILED, "letter"));
    assert_true(shown_contains(world, OUT, "letter", "How are you?"));
    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/letter");
    assert_true(sent_contains(world, sends(world) - 1, "Hello"));
}

static void what_is_being_sent_is_renamed(void **state)
{
    struct world *world = *state;
    fake_service_close_gate(world->fake, FAKE_SEND);
    write_as(world, "temporary", MESSAGE, WRITER);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    assert_int_equal(rename_as(world, "temporary", "final.bak", WRITER), -EBUSY);
    assert_int_equal(rename_as(world, "temporary", "final", WRITER), 0);
    assert_int_equal(rename_as(world, "final", "last", OTHER), 0);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "last"), -EBUSY);
    assert_true(is_listed(world, OUT, "last"));
    fake_service_open_gate(world->fake, FAKE_SEND);
    assert_int_equal(settle(world), 0);
    assert_true(is_listed(world, SENT, "last"));
    assert_true(was_told(world, EVENT_SENT, "sent/last"));
    assert_true(finds_left(world, "last", WRITER));
    assert_false(finds_left(world, "final", WRITER));
    assert_int_equal(sends(world), 1);
}

/* Two programs that give their messages one name: both go out. One that has read what waits has edited it. */
static void a_name_that_is_taken_by_a_message_that_waits(void **state)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    fake_service_set_reachable(world->fake, false);
    write_as(world, "letter", "To: b@x.example\nSubject: one\n\nb\n", OTHER);
    write_as(world, "draft", "To: b@x.example\nSubject: two\n\nb\n", WRITER);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    assert_int_equal(rename_as(world, "draft", "letter", OTHER), -EEXIST);
    assert_int_equal(outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, "draft", OUTBOX_FOLDER_OUTBOX,
                                   "letter", RENAME_NOREPLACE, WRITER, NULL),
                     -EEXIST);
    assert_int_equal(rename_as(world, "draft", "letter", WRITER), 0);
    assert_true(is_listed(world, OUT, "letter"));
    assert_true(is_listed(world, OUT, "letter-2"));

    assert_int_equal(outbox_open_item(world->outbox, number_of(world, OUT, "letter"), OUTBOX_CONTENT,
                                      O_RDONLY, OTHER, &handle),
                     0);
    outbox_release(handle);
    write_as(world, "edited", "To: b@x.example\nSubject: one, edited\n\nb\n", OTHER);
    assert_int_equal(rename_as(world, "edited", "letter", OTHER), 0);
    fake_service_set_reachable(world->fake, true);
    unsigned int before = sends(world);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/letter");
    await_news(world, EVENT_SENT, "sent/letter-2");
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), before + 2);
    assert_true(sent_contains(world, before, "edited")); /* in the place of the first */
    assert_true(sent_contains(world, before + 1, "two"));
}

static void read_as(struct world *world, const char *name, pid_t pid)
{
    struct outbox_handle *handle = NULL;
    assert_int_equal(
        outbox_open_item(world->outbox, number_of(world, OUT, name), OUTBOX_CONTENT, O_RDONLY, pid, &handle),
        0);
    outbox_release(handle);
}

/* The release of what is closed comes late; what is read meanwhile is the text that will wait. */
static void what_was_read_before_its_release_came_is_edited_too(void **state)
{
    struct world *world = *state;
    static const char more[] = "More.\n";
    for (int is_written_on = 0; is_written_on <= 1; is_written_on++) {
        const char *name = is_written_on ? "longer" : "letter";
        struct outbox_handle *handle = NULL;
        struct outbox_stat stat;
        assert_int_equal(outbox_create(world->outbox, OUTBOX_FOLDER_OUTBOX, name, OTHER, &handle, &stat), 0);
        assert_int_equal(outbox_write(handle, MESSAGE, strlen(MESSAGE), 0, OTHER), strlen(MESSAGE));
        assert_int_equal(outbox_flush(handle, 0), 0);
        read_as(world, name, WRITER);
        fake_service_set_reachable(world->fake, false);
        if (is_written_on)
            assert_int_equal(outbox_write(handle, more, strlen(more), (off_t)strlen(MESSAGE), OTHER),
                             strlen(more));
        assert_int_equal(outbox_flush(handle, 0), 0);
        outbox_release(handle);
        assert_int_equal(settle(world), -EAGAIN);
        await_paused(world, true);
        write_as(world, "edited", MESSAGE "Edited.\n", WRITER);
        assert_int_equal(rename_as(world, "edited", name, WRITER), 0);
        assert_int_equal(is_listed(world, OUT, "longer-2"), is_written_on); /* not what it has read */
    }
    assert_false(is_listed(world, OUT, "letter-2"));
}

/* Its first attempt arrived, and was answered by 502: it waits to be repeated with its key. */
static void mail_of_unknown_outcome(struct world *world, const char *name)
{
    world->config.trusts_idempotency = true;
    world_reopen(world);
    fake_service_push(world->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502, .happens = true});
    assert_int_equal(mail(world, name, MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_next_attempt(world);
}

/* An editor that saves a message as it is sends it no second time, whether its temporary file is handed in at
 * once, or has a never-sent name. */
static void what_is_saved_unedited_is_the_same_message(void **state)
{
    static const char *const temporary[] = {"saved", ".saved"};
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_LEN(temporary); i++) {
        unsigned int before = sends(world);
        mail_of_unknown_outcome(world, "letter");
        uint64_t number = number_of(world, OUT, "letter");
        read_as(world, "letter", WRITER);
        write_as(world, temporary[i], MESSAGE, WRITER);
        assert_int_equal(rename_as(world, temporary[i], "letter", WRITER), 0);
        assert_int_equal(number_of(world, OUT, "letter"), number);
        assert_false(is_listed(world, OUT, temporary[i]));
        outbox_wake(world->outbox);
        assert_int_equal(settle(world), 0);
        assert_int_equal(sends(world), before + 2);
        assert_string_equal(fake_service_get(world->fake, FAKE_SEND, before).key,
                            fake_service_get(world->fake, FAKE_SEND, before + 1).key);
        assert_true(finds_left(world, "letter", WRITER));
    }
    assert_int_equal(fake_service_count_sent(world->fake, true), 2);
}

static bool was_told_why(struct world *world, const char *path, const char *words)
{
    bool is_found = false;
    pthread_mutex_lock(&world->lock);
    for (size_t i = 0; i < world->news_len; i++)
        is_found =
            is_found || (world->news[i].kind == EVENT_FAILED && strcmp(world->news[i].path, path) == 0 &&
                         strstr(world->news[i].error, words) != NULL);
    pthread_mutex_unlock(&world->lock);
    return is_found;
}

/* Whoever withdraws a message, or edits it, is told that the first text may have been sent. */
static void what_may_have_been_sent_leaves_a_word(void **state)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "plain", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    await_next_attempt(world);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "plain"), 0);
    assert_false(was_told(world, EVENT_FAILED, "outbox/plain"));
    fake_service_set_reachable(world->fake, true);
    mail_of_unknown_outcome(world, "removed");
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "removed"), 0);
    assert_true(was_told_why(world, "outbox/removed", "removed; it may have been sent"));
    mail_of_unknown_outcome(world, "letter");
    read_as(world, "letter", WRITER);
    write_as(world, ".edited", MESSAGE "More.\n", WRITER);
    assert_int_equal(rename_as(world, ".edited", "letter", WRITER), 0);
    assert_true(was_told_why(world, "outbox/letter", "replaced by an edited text; it may have been sent"));
    assert_int_equal(settle(world), 0);
    mail_of_unknown_outcome(world, "late");
    read_as(world, "late", WRITER);
    write_as(world, "edited", "To: carol@x.example\nSubject: Hello\n\nIs out already.\n", WRITER);
    await_news(world, EVENT_SENT, "sent/edited");
    assert_int_equal(rename_as(world, "edited", "late", WRITER), 0);
    assert_true(was_told_why(world, "outbox/late", "replaced by an edited text; it may have been sent"));
    assert_int_equal(settle(world), 0);
}

/* A message of unknown outcome that was withdrawn, and handed in again under its key, and waits for its turn.
 */
static void withdraw_and_hand_in_again(struct world *world, const char *name)
{
    mail_of_unknown_outcome(world, name);
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "other", "To: carol@x.example\nSubject: s\n\nb\n"), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    assert_int_equal(rename_as(world, name, ".withdrawn", WRITER), 0);
    assert_int_equal(rename_as(world, ".withdrawn", name, WRITER), 0);
}

/* The first text may have been sent before it was handed in again. */
static void what_may_have_been_sent_before_leaves_a_word_too(void **state)
{
    (void)state;
    for (int is_edited = 0; is_edited <= 1; is_edited++) {
        void *made;
        assert_int_equal(world_setup(&made), 0);
        struct world *world = made;
        withdraw_and_hand_in_again(world, "letter");
        if (is_edited) {
            read_as(world, "letter", WRITER);
            write_as(world, ".edited", MESSAGE "More.\n", WRITER);
            assert_int_equal(rename_as(world, ".edited", "letter", WRITER), 0);
            assert_true(
                was_told_why(world, "outbox/letter", "replaced by an edited text; it may have been sent"));
        } else {
            assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "letter"), 0);
            assert_true(was_told_why(world, "outbox/letter", "removed; it may have been sent"));
            fake_service_set_reachable(world->fake, true);
            outbox_wake(world->outbox);
            await_news(world, EVENT_SENT, "sent/other");
            assert_int_equal(mail(world, "again", MESSAGE), 0); /* nobody remembers the key */
            assert_int_equal(settle(world), 0);
            assert_int_equal(fake_service_count_sent(world->fake, true), 3);
        }
        world_teardown(&made);
    }
}

/* It is out while the message that it was edited from still waits. */
static void send_an_edited_text(struct world *world)
{
    mail_of_unknown_outcome(world, "letter");
    read_as(world, "letter", WRITER);
    write_as(world, "edited", "To: carol@x.example\nSubject: Hello\n\nIs out already.\n", WRITER);
    await_news(world, EVENT_SENT, "sent/edited");
}

/* The message that waits is removed already when the disk does not take the new name of what is out. Were the
 * rename told as failed, the edited text would be saved, and sent, once more. */
static void a_text_that_is_out_takes_the_place_whatever_the_disk_says(void **state)
{
    struct world *world = *state;
    send_an_edited_text(world);
    assert_int_equal(rename_on_a_full_disk(world, "edited", "letter", WRITER), 0);
    assert_false(is_listed(world, OUT, "letter"));
    assert_true(is_listed(world, SENT, "letter"));
    assert_true(was_told_why(world, "outbox/letter", "replaced by an edited text; it may have been sent"));
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 2);
    world_reopen(world);
    assert_true(shown_contains(world, SENT, "letter.receipt.json", "Is out already."));
}

/* Who renamed it is told of a failure, and finds both as they were. */
static void a_text_that_is_out_keeps_its_name_where_the_waiting_one_stays(void **state)
{
    struct world *world = *state;
    send_an_edited_text(world);
    atomic_store(&staying, ".data");
    assert_int_equal(rename_as(world, "edited", "letter", WRITER), -EIO);
    atomic_store(&staying, NULL);
    assert_true(is_listed(world, SENT, "edited"));
    assert_true(is_listed(world, OUT, "letter"));
    assert_int_equal(rename_as(world, "edited", "letter", WRITER), 0);
    assert_true(is_listed(world, SENT, "letter"));
    assert_false(is_listed(world, OUT, "letter"));
}

/* The edited text alone says that the old one is not to be sent, and the disk did not let that one go. So
 * whatever takes the edited text away takes the old one away first. */
static void what_was_edited_is_not_sent_once_the_edited_text_is_gone(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        void *made;
        assert_int_equal(world_setup(&made), 0);
        struct world *world = made;
        fake_service_set_reachable(world->fake, false);
        assert_int_equal(mail(world, "letter", MESSAGE), 0);
        assert_int_equal(settle(world), -EAGAIN);
        await_paused(world, true);
        read_as(world, "letter", WRITER);
        write_as(world, "1st", MESSAGE "first\n", WRITER);
        atomic_store(&staying, ".data");
        assert_int_equal(rename_as(world, "1st", "letter", WRITER), 0);
        if (i == 0) {
            assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "letter"), -EIO);
            assert_int_equal(
                outbox_take_out(world->outbox, OUTBOX_FOLDER_OUTBOX, "letter", world->drafts, "1st", 0),
                -EIO);
            assert_true(shown_contains(world, OUT, "letter", "first"));
        }
        atomic_store(&staying, NULL);
        if (i == 2) { /* edited again */
            write_as(world, "2nd", MESSAGE "second\n", WRITER);
            assert_int_equal(rename_as(world, "2nd", "letter", WRITER), 0);
        } else if (i == 3) { /* the edited text takes the place of another message, too */
            assert_int_equal(mail(world, "other", MESSAGE "other\n"), 0);
            read_as(world, "other", WRITER);
            assert_int_equal(rename_as(world, "letter", "other", WRITER), 0);
            assert_int_equal(rename_as(world, "other", "letter", WRITER), 0);
        }
        if (i == 1)
            assert_int_equal(
                outbox_take_out(world->outbox, OUTBOX_FOLDER_OUTBOX, "letter", world->drafts, "1st", 0), 0);
        else
            assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "letter"), 0);
        unsigned int before = sends(world);
        fake_service_set_reachable(world->fake, true);
        world_reopen(world);
        assert_int_equal(settle(world), 0);
        assert_int_equal(sends(world), before);
        world_teardown(&made);
    }
}

/* The disk says still that the old one is being sent, and lets it not go either, until the program ends. */
static void what_was_edited_is_not_sent_by_the_next_start(void **state)
{
    struct world *world = *state;
    world->config.trusts_idempotency = true;
    world_reopen(world);
    fake_service_close_gate(world->fake, FAKE_SEND);
    fake_service_push(world->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .http_status = 502});
    assert_int_equal(mail(world, "letter", MESSAGE), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    atomic_store(&folders_fail, true);
    fake_service_open_gate(world->fake, FAKE_SEND);
    fake_clock_await_waiters(&world->clock, WORKERS);
    atomic_store(&folders_fail, false);
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "other", "To: carol@x.example\nSubject: s\n\nb\n"), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);

    read_as(world, "letter", WRITER);
    write_as(world, "edited", MESSAGE "edited\n", WRITER);
    atomic_store(&staying, ".data");
    assert_int_equal(rename_as(world, "edited", "letter", WRITER), 0);
    atomic_store(&folders_fail, true);
    world_close(world);
    atomic_store(&folders_fail, false);
    atomic_store(&staying, NULL);
    fake_service_set_reachable(world->fake, true);
    world_open(world);
    await_news(world, EVENT_SENT, "sent/letter");
    await_news(world, EVENT_SENT, "sent/other");
    assert_int_equal(settle(world), 0);
    assert_true(shown_contains(world, SENT, "letter", "edited"));
    assert_int_equal(fake_service_count_sent(world->fake, false), 2);
}

struct edit_watch {
    struct world *world;
    uint64_t old_number;
    bool was_told;
    bool was_removed;  /* the edited text, by who was told of it */
    bool is_old_there; /* in the spool, then */
};

static void remove_the_edited(void *context, const struct event *event)
{
    struct edit_watch *watch = context;
    char path[64];
    if (event->kind != EVENT_FAILED || event->path == NULL || strcmp(event->path, "outbox/letter") != 0) {
        world_hear(watch->world, event);
        return;
    }
    watch->was_told = true;
    watch->was_removed = outbox_unlink(watch->world->outbox, OUTBOX_FOLDER_OUTBOX, "letter") == 0;
    snprintf(path, sizeof(path), "spool/%" PRIu64 ".json", watch->old_number);
    watch->is_old_there = faccessat(watch->world->dir.fd, path, F_OK, 0) == 0;
}

/* The edited text says in its envelope that the old one is not to be sent. Were it removed first, a crash
 * would leave the old one to be sent. */
static void an_edited_text_that_can_be_removed_has_no_old_one_behind_it(void **state)
{
    struct world *world = *state;
    struct edit_watch watch = {.world = world};
    world->config.events = (struct event_listener){remove_the_edited, &watch};
    mail_of_unknown_outcome(world, "letter");
    fake_service_set_reachable(world->fake, false); /* so that no worker has the edited text */
    assert_int_equal(mail(world, "other", "To: carol@x.example\nSubject: s\n\nb\n"), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    read_as(world, "letter", WRITER);
    watch.old_number = number_of(world, OUT, "letter");
    write_as(world, ".edited", MESSAGE "More.\n", WRITER);
    assert_int_equal(rename_as(world, ".edited", "letter", WRITER), 0);
    assert_true(watch.was_told);
    assert_true(watch.was_removed);
    assert_false(watch.is_old_there);
}

/* An editor that renames the old text to a backup, and writes the new one under its name, or has written it
 * before (`sed -i.bak`). The backup has the key; it goes to the text that is sent. */
static void what_is_saved_unedited_beside_its_backup_keeps_its_key(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < 3; i++) {
        unsigned int before = sends(world);
        mail_of_unknown_outcome(world, "letter");
        if (i == 0)
            write_as(world, "saved", MESSAGE, WRITER);
        assert_int_equal(rename_as(world, "letter", "letter~", WRITER), 0);
        if (i == 2) /* the backup remembers it over a restart */
            world_reopen(world);
        if (i > 0)
            write_as(world, "saved", MESSAGE, WRITER);
        if (i == 1)
            assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "letter~"), 0);
        outbox_wake(world->outbox);
        assert_int_equal(settle(world), 0);
        assert_int_equal(sends(world), before + 2);
        assert_string_equal(fake_service_get(world->fake, FAKE_SEND, before).key,
                            fake_service_get(world->fake, FAKE_SEND, before + 1).key);
        assert_true(fake_service_get(world->fake, FAKE_SEND, before + 1).is_repeat); /* never without it */
        if (i == 1)
            continue;
        assert_int_equal(rename_as(world, "letter~", "again", WRITER), 0); /* once more: another message */
        assert_int_equal(settle(world), 0);
        assert_string_not_equal(fake_service_get(world->fake, FAKE_SEND, before).key,
                                fake_service_get(world->fake, FAKE_SEND, before + 2).key);
    }
}

/* The text was handed in before its backup was there, and the backup is removed before it could be sent. */
static void a_backup_that_is_removed_leaves_its_key_to_the_same_text(void **state)
{
    struct world *world = *state;
    mail_of_unknown_outcome(world, "letter");
    assert_int_equal(mail(world, "before", MESSAGE "This goes out first.\n"), 0);
    write_as(world, "saved", MESSAGE, WRITER);
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(rename_as(world, "letter", "letter~", WRITER), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "letter~"), 0);
    assert_false(is_listed(world, OUT, "letter~"));
    fake_service_open_gate(world->fake, FAKE_SEND);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 3);
    assert_string_equal(fake_service_get(world->fake, FAKE_SEND, 0).key,
                        fake_service_get(world->fake, FAKE_SEND, 2).key);
    assert_int_equal(mail(world, "again", MESSAGE), 0); /* nobody remembers the key any more */
    assert_int_equal(settle(world), 0);
    assert_string_not_equal(fake_service_get(world->fake, FAKE_SEND, 0).key,
                            fake_service_get(world->fake, FAKE_SEND, 3).key);
}

/* The text may have been sent. Its editor saves it as it was, beside a backup, which remembers its key; and
 * nothing goes out meanwhile. */
static void save_beside_its_backup(struct world *world)
{
    mail_of_unknown_outcome(world, "letter");
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "other", "To: carol@x.example\nSubject: s\n\nb\n"), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    read_as(world, "letter", WRITER);
    write_as(world, "saved", MESSAGE, WRITER);
    assert_int_equal(rename_as(world, "letter", "letter.bak", WRITER), 0);
    assert_int_equal(rename_as(world, "saved", "letter", WRITER), 0);
}

static void expect_that_both_go_out_under_one_key_each(struct world *world)
{
    fake_clock_advance(&world->clock, HOUR_MS);
    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/letter");
    await_news(world, EVENT_SENT, "sent/other");
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, true), 2);
}

/* Saved once more as it was, by way of a temporary file, or by renaming the backup back. What is renamed has
 * the key that may have been used, and not the message whose name it takes. */
static void what_is_saved_unedited_twice_keeps_its_key(void **state)
{
    static const char *const renamed[] = {"again", ".again", "letter.bak"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(renamed); i++) {
        void *made;
        assert_int_equal(world_setup(&made), 0);
        struct world *world = made;
        save_beside_its_backup(world);
        read_as(world, "letter", WRITER);
        if (i < 2)
            write_as(world, renamed[i], MESSAGE, WRITER);
        assert_int_equal(rename_as(world, renamed[i], "letter", WRITER), 0);
        expect_that_both_go_out_under_one_key_each(world);
        world_teardown(&made);
    }
}

/* Something else takes the name of the backup: a backup of the text that was saved, of which another copy is
 * written, or any file. Or the copy that has taken the key over is removed. */
static void a_backup_that_is_replaced_leaves_its_key_to_the_same_text(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        void *made;
        assert_int_equal(world_setup(&made), 0);
        struct world *world = made;
        save_beside_its_backup(world);
        if (i == 0) {
            assert_int_equal(rename_as(world, "letter", "letter.bak", WRITER), 0);
            write_as(world, "letter", MESSAGE, WRITER);
        } else if (i == 1) {
            write_as(world, "other.bak", "other text", WRITER);
            assert_int_equal(rename_as(world, "other.bak", "letter.bak", WRITER), 0);
        } else if (i == 2) {
            put_draft(world, "letter.bak", "other text");
            assert_int_equal(move_in(world, "letter.bak", OUT, "letter.bak"), 0);
        } else {
            write_as(world, "copy", MESSAGE, WRITER);
            assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "copy"), 0);
        }
        if (i % 2 == 1)
            world_reopen(world);
        expect_that_both_go_out_under_one_key_each(world);
        world_teardown(&made);
    }
}

/* Its content is gone, and then the disk fails. */
static void a_backup_that_lost_its_content_is_removed_and_leaves_its_key(void **state)
{
    struct world *world = *state;
    save_beside_its_backup(world);
    atomic_store(&folders_fail, true);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "letter.bak"), 0);
    atomic_store(&folders_fail, false);
    assert_false(is_listed(world, OUT, "letter.bak"));
    expect_that_both_go_out_under_one_key_each(world);
}

/* Another file takes its name, and the disk lets it go later. */
static void a_backup_that_the_disk_keeps_leaves_its_key_when_it_goes(void **state)
{
    struct world *world = *state;
    mail_of_unknown_outcome(world, "letter");
    assert_int_equal(rename_as(world, "letter", "letter.bak", WRITER), 0);
    uint64_t number = number_of(world, OUT, "letter.bak");
    write_as(world, "other.bak", "other text", WRITER);
    atomic_store(&staying, ".data");
    assert_int_equal(rename_as(world, "other.bak", "letter.bak", WRITER), 0);
    atomic_store(&staying, NULL);
    await_no_file(world, number, ".data");
    assert_int_equal(mail(world, "letter", MESSAGE), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 2);
    assert_int_equal(fake_service_count_sent(world->fake, true), 1);
}

static void what_is_saved_unedited_while_it_is_being_sent_is_the_same_message(void **state)
{
    struct world *world = *state;
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail(world, "letter", MESSAGE), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    read_as(world, "letter", WRITER);
    write_as(world, "saved", MESSAGE, WRITER);
    assert_int_equal(rename_as(world, "saved", "letter", WRITER), 0);
    write_as(world, "edited", MESSAGE "And more.\n", WRITER);
    assert_int_equal(rename_as(world, "edited", "letter", WRITER), -EBUSY);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "edited"), 0);
    fake_service_open_gate(world->fake, FAKE_SEND);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 1);
    assert_true(is_listed(world, SENT, "letter"));
}

/* The disk does not let the copy go, whatever the name of its temporary file is. It is not sent beside the
 * message, nor after a restart, and is removed later. */
static void a_copy_that_the_disk_keeps_is_not_sent(void **state)
{
    static const char *const temporary[] = {"saved", ".saved"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        void *made;
        const char *name = temporary[i % 2];
        assert_int_equal(world_setup(&made), 0);
        struct world *world = made;
        fake_service_set_reachable(world->fake, false);
        assert_int_equal(mail(world, "letter", MESSAGE), 0);
        assert_int_equal(settle(world), -EAGAIN);
        await_paused(world, true);
        read_as(world, "letter", WRITER);
        write_as(world, name, MESSAGE, WRITER);
        uint64_t number = number_of(world, OUT, name);
        atomic_store(&staying, ".data");
        assert_int_equal(rename_as(world, name, "letter", WRITER), 0);
        atomic_store(&staying, NULL);
        assert_false(is_listed(world, OUT, name));
        assert_true(is_listed(world, OUT, "letter"));
        fake_service_set_reachable(world->fake, true);
        if (i >= 2)
            world_reopen(world);
        outbox_wake(world->outbox);
        await_news(world, EVENT_SENT, "sent/letter");
        assert_int_equal(settle(world), 0);
        assert_int_equal(fake_service_count_sent(world->fake, false), 1);
        await_no_file(world, number, ".data");
        world_teardown(&made);
    }
}

/* A message that was saved with another attachment of the same name is another message. */
static void the_same_text_with_another_attachment_is_edited(void **state)
{
    static const char text[] = "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n";
    struct world *world = *state;
    copy_in(world, ATTACHED, "a.txt", "old");
    assert_int_equal(settle_uploads(world), 0);
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "letter", text), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    read_as(world, "letter", WRITER);
    uint64_t number = number_of(world, OUT, "letter");
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt"), 0);
    copy_in(world, ATTACHED, "a.txt", "new");
    write_as(world, "saved", text, WRITER);
    assert_int_equal(rename_as(world, "saved", "letter", WRITER), 0);
    assert_int_not_equal(number_of(world, OUT, "letter"), number);
    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/letter");
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
}

/* Each save takes the place of the one before, also of an editor that reads the file but once. */
static void an_editor_that_saves_again_supersedes_what_it_saved(void **state)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "letter", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    read_as(world, "letter", WRITER);
    write_as(world, "1st", MESSAGE "first\n", WRITER);
    assert_int_equal(rename_as(world, "1st", "letter", WRITER), 0);
    write_as(world, "2nd", MESSAGE "second\n", WRITER);
    assert_int_equal(rename_as(world, "2nd", "letter", WRITER), 0);
    assert_false(is_listed(world, OUT, "letter-2"));
    world_reopen(world);
    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/letter");
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
    assert_true(sent_contains(world, sends(world) - 1, "second"));
}

static bool was_refused(struct world *world, const char *path, const char *words)
{
    bool is_found = false;
    pthread_mutex_lock(&world->lock);
    for (size_t i = 0; i < world->news_len; i++)
        is_found =
            is_found || (world->news[i].kind == EVENT_REFUSED && strcmp(world->news[i].path, path) == 0 &&
                         strstr(world->news[i].error, words) != NULL);
    pthread_mutex_unlock(&world->lock);
    return is_found;
}

/* A message that is at the service, and was read there. */
static void mail_and_read(struct world *world, const char *name, const char *text, pid_t reader)
{
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail(world, name, text), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    read_as(world, name, reader);
}

static void let_out(struct world *world, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "sent/%s", name);
    fake_service_open_gate(world->fake, FAKE_SEND);
    await_news(world, EVENT_SENT, path);
}

/* The message is on its way, or out a moment ago, when the text of who has read it is to take its place. */
static void an_edit_that_comes_too_late_is_not_sent(void **state)
{
    static const char *const temporary[] = {"edited", ".edited"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        void *made;
        const char *name = temporary[i % 2];
        char path[64];
        snprintf(path, sizeof(path), "outbox/%s", name);
        assert_int_equal(world_setup(&made), 0);
        struct world *world = made;
        copy_in(world, ATTACHED, "a.txt", "text");
        assert_int_equal(settle_uploads(world), 0);
        mail_and_read(world, "letter", MESSAGE, getpid());
        if (i >= 2)
            let_out(world, "letter");
        write_as(world, name, "To: b@x.example\nSubject: s\nAttach: a.txt\n\nMore.\n", getpid());
        assert_int_equal(rename_as(world, name, "letter", getpid()), -EBUSY);
        assert_true(
            was_refused(world, path, "is being sent, or was sent a moment ago; it is not sent, unless"));
        if (i < 2)
            let_out(world, "letter");
        fake_clock_advance(&world->clock, 20 * 1000);
        assert_int_equal(settle(world), 0);
        world_reopen(world);
        assert_int_equal(settle(world), 0);
        assert_int_equal(fake_service_count_sent(world->fake, false), 1);

        assert_true(shown_contains(world, OUT, name, "More."));
        assert_int_equal(rename_as(world, name, "new letter", getpid()), 0);
        await_news(world, EVENT_SENT, "sent/new letter");
        assert_int_equal(fake_service_count_sent(world->fake, false), 2);
        assert_true(sent_contains(world, sends(world) - 1, "attachment_ids"));
        world_teardown(&made);
    }
}

/* It went out between the look at its name and the open. */
static void who_opens_a_message_that_just_went_out_edits_it_too_late(void **state)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    fake_service_close_gate(world->fake, FAKE_SEND);
    write_as(world, "letter", MESSAGE, OTHER);
    uint64_t number = number_of(world, OUT, "letter");
    let_out(world, "letter");
    assert_int_equal(outbox_open_item(world->outbox, number, OUTBOX_CONTENT, O_RDONLY, getpid(), &handle), 0);
    outbox_release(handle);
    write_as(world, "edited", MESSAGE "More.\n", getpid());
    assert_int_equal(rename_as(world, "edited", "letter", getpid()), -EBUSY);
    assert_true(was_refused(world, "outbox/edited", "was sent a moment ago; it is not sent, unless"));
    fake_clock_advance(&world->clock, 20 * 1000);
    settle(world);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
}

/* The text that was read may be out, or not: nobody knows. */
static void an_edit_of_what_may_have_been_sent_is_not_sent(void **state)
{
    struct world *world = *state;
    fake_service_push(world->fake, FAKE_SEND,
                      (struct fake_outcome){.outcome = SERVICE_UNKNOWN, .happens = true});
    mail_and_read(world, "letter", MESSAGE, getpid());
    fake_service_open_gate(world->fake, FAKE_SEND);
    await_news(world, EVENT_FAILED, "failed/letter");
    write_as(world, "edited", MESSAGE "More.\n", getpid());
    assert_int_equal(rename_as(world, "edited", "letter", getpid()), -EBUSY);
    assert_true(was_refused(world, "outbox/edited", "was sent a moment ago; it is not sent, unless"));
    fake_clock_advance(&world->clock, 20 * 1000);
    settle(world);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
    assert_true(shown_contains(world, OUT, "edited", "More."));
}

/* Something has the name again: an empty file, as of an editor that takes the name first, one that is open,
 * or the message of another program. The edit comes too late all the same; a text that was saved as it was is
 * the message that is out. */
static void an_edit_that_comes_too_late_finds_another_file_in_its_place(void **state)
{
    static const char *const temporary[] = {"edited", ".edited"};
    (void)state;
    for (int i = 0; i < 12; i++) {
        void *made;
        const char *name = temporary[i % 2];
        bool is_edited = i / 2 % 2 == 0;
        bool is_open = i / 4 == 1;
        bool is_message = i / 4 == 2;
        struct outbox_handle *handle = NULL;
        assert_int_equal(world_setup(&made), 0);
        struct world *world = made;
        mail_and_read(world, "letter", MESSAGE, getpid());
        let_out(world, "letter");
        if (is_open) {
            handle = create(world, OUT, "letter");
        } else if (is_message) {
            fake_service_close_gate(world->fake, FAKE_SEND);
            assert_int_equal(mail(world, "letter", MESSAGE "Another.\n"), 0);
            fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
        } else {
            write_as(world, "letter", "", getpid());
        }
        assert_true(is_listed(world, OUT, "letter"));
        write_as(world, name, is_edited ? MESSAGE "More.\n" : MESSAGE, getpid());
        assert_int_equal(rename_as(world, name, "letter", getpid()), is_edited ? -EBUSY : 0);
        assert_int_equal(is_listed(world, OUT, name), is_edited);
        assert_int_equal(is_listed(world, OUT, "letter"), is_edited || is_open || is_message);
        if (is_open)
            finish(handle);
        fake_service_open_gate(world->fake, FAKE_SEND);
        fake_clock_advance(&world->clock, 20 * 1000);
        assert_int_equal(settle(world), 0);
        world_reopen(world);
        assert_int_equal(settle(world), 0);
        assert_int_equal(fake_service_count_sent(world->fake, false), is_message ? 2 : 1);
        if (is_edited) { /* long after, it takes the name */
            assert_int_equal(rename_as(world, name, "letter", getpid()), 0);
            assert_int_equal(settle(world), 0);
            assert_int_equal(fake_service_count_sent(world->fake, false), is_message ? 3 : 2);
        }
        world_teardown(&made);
    }
}

/* The disk does not take the envelope in which it is on hold. */
static void an_edit_that_comes_too_late_is_not_sent_by_a_disk_that_fails(void **state)
{
    struct world *world = *state;
    mail_and_read(world, "letter", MESSAGE, getpid());
    let_out(world, "letter");
    write_as(world, "edited", MESSAGE "More.\n", getpid());
    assert_int_equal(rename_on_a_full_disk(world, "edited", "letter", getpid()), -EBUSY);
    fake_clock_advance(&world->clock, 20 * 1000);
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
    assert_true(is_listed(world, OUT, "edited"));
}

/* The same, where the program ends in good order before the disk is tried again. */
static void what_the_disk_did_not_take_is_tried_once_more_at_the_end(void **state)
{
    struct world *world = *state;
    mail_and_read(world, "letter", MESSAGE, getpid());
    let_out(world, "letter");
    write_as(world, "edited", MESSAGE "More.\n", getpid());
    assert_int_equal(rename_on_a_full_disk(world, "edited", "letter", getpid()), -EBUSY);
    world_reopen(world);
    fake_clock_advance(&world->clock, 20 * 1000);
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
    assert_true(is_listed(world, OUT, "edited"));
}

/* A text that is renamed before it is closed: nobody knows yet whether it comes to a good end. Its process
 * was told that the rename failed. */
static void an_edit_that_is_open_is_interrupted(void **state)
{
    static const char *const words[] = {"before it was closed", "is being sent, or was sent",
                                        "is being sent, or was sent"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        void *made;
        struct outbox_handle *handle = NULL;
        struct outbox_stat stat;
        assert_int_equal(world_setup(&made), 0);
        struct world *world = made;
        if (i == 0) {
            fake_service_set_reachable(world->fake, false);
            assert_int_equal(mail(world, "letter", MESSAGE), 0);
            assert_int_equal(settle(world), -EAGAIN);
            await_paused(world, true);
            read_as(world, "letter", WRITER);
        } else {
            mail_and_read(world, "letter", MESSAGE, WRITER);
        }
        if (i == 2)
            let_out(world, "letter");
        assert_int_equal(outbox_create(world->outbox, OUTBOX_FOLDER_OUTBOX, "edited", WRITER, &handle, &stat),
                         0);
        assert_int_equal(outbox_write(handle, MESSAGE, strlen(MESSAGE), 0, WRITER), strlen(MESSAGE));
        assert_int_equal(rename_as(world, "edited", "letter", WRITER), -EBUSY);
        assert_true(was_refused(world, "outbox/edited", words[i]));
        finish(handle);
        fake_service_set_reachable(world->fake, true);
        outbox_wake(world->outbox);
        let_out(world, "letter");
        assert_int_equal(settle(world), -EIO);
        assert_true(shown_contains(world, FAILED, "edited.receipt.json", words[i]));
        assert_int_equal(fake_service_count_sent(world->fake, false), 1);
        world_teardown(&made);
    }
}

/* A file on hold that was opened, and not written to yet. It may be written still, and is told so. */
static void an_edit_that_is_opened_and_not_written_is_on_hold(void **state)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    mail_and_read(world, "letter", MESSAGE, WRITER);
    write_as(world, "edited", "", WRITER);
    assert_int_equal(outbox_open_item(world->outbox, number_of(world, OUT, "edited"), OUTBOX_CONTENT,
                                      O_WRONLY, WRITER, &handle),
                     0);
    assert_int_equal(rename_as(world, "edited", "letter", WRITER), -EBUSY);
    assert_true(was_refused(world, "outbox/edited",
                            "; it is not sent, unless it is written anew or gets another name"));
    assert_int_equal(outbox_write(handle, MESSAGE, strlen(MESSAGE), 0, WRITER), strlen(MESSAGE));
    finish(handle);
    let_out(world, "letter");
    await_news(world, EVENT_SENT, "sent/edited");
    assert_int_equal(settle(world), 0);
}

/* Saved as it was, it is the message that is being sent, or out, whatever the name of its temporary file is.
 * Its editor may touch it, and is an editor still. */
static void an_unedited_text_that_comes_too_late_is_dropped(void **state)
{
    static const char *const temporary[] = {"saved", ".saved"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        void *made;
        const char *name = temporary[i % 2];
        assert_int_equal(world_setup(&made), 0);
        struct world *world = made;
        copy_in(world, ATTACHED, "a.txt", "text");
        assert_int_equal(settle_uploads(world), 0);
        mail_and_read(world, "letter", "Attach: a.txt\n" MESSAGE, getpid());
        if (i >= 2)
            let_out(world, "letter");
        write_as(world, name, "Attach: a.txt\n" MESSAGE, getpid());
        assert_int_equal(rename_as(world, name, "letter", getpid()), 0);
        assert_false(is_listed(world, OUT, name));
        let_out(world, "letter");
        assert_true(finds_left(world, "letter", getpid()));
        write_as(world, name, "Attach: a.txt\n" MESSAGE "More.\n", getpid());
        assert_int_equal(rename_as(world, name, "letter", getpid()), -EBUSY);
        assert_int_equal(settle(world), 0);
        assert_int_equal(sends(world), 1);
        world_teardown(&made);
    }
}

/* Who has edited a message, and saves again when that edit is out, has read what is out. */
static void an_editor_that_saves_again_too_late_is_refused(void **state)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "letter", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    read_as(world, "letter", getpid());
    write_as(world, "1st", MESSAGE "first\n", getpid());
    assert_int_equal(rename_as(world, "1st", "letter", getpid()), 0);
    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/letter");
    write_as(world, "2nd", MESSAGE "second\n", getpid());
    assert_int_equal(rename_as(world, "2nd", "letter", getpid()), -EBUSY);
    fake_clock_advance(&world->clock, 20 * 1000);
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
}

/* Another text under the name of one that is out: from who made that one, from who read it long ago, from who
 * wants a new name, and after it was refused. */
static void what_is_no_edit_of_what_went_out_is_sent(void **state)
{
    struct world *world = *state;
    fake_service_close_gate(world->fake, FAKE_SEND);
    write_as(world, "made", MESSAGE, WRITER);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    read_as(world, "made", WRITER);
    let_out(world, "made");
    write_as(world, ".more", MESSAGE "More.\n", WRITER);
    assert_int_equal(rename_as(world, ".more", "made", WRITER), 0);
    await_news(world, EVENT_SENT, "sent/made-2");

    mail_and_read(world, "letter", MESSAGE "of old\n", WRITER);
    let_out(world, "letter");
    write_as(world, ".more", MESSAGE "of today\n", WRITER);
    assert_int_equal(outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, ".more", OUTBOX_FOLDER_OUTBOX,
                                   "letter", RENAME_NOREPLACE, WRITER, NULL),
                     0);
    await_news(world, EVENT_SENT, "sent/letter-2");
    fake_clock_advance(&world->clock, 10 * 1000);
    write_as(world, ".more", MESSAGE "of tomorrow\n", WRITER);
    assert_int_equal(rename_as(world, ".more", "letter", WRITER), 0);
    await_news(world, EVENT_SENT, "sent/letter-3");

    fake_service_push(world->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    mail_and_read(world, "refused", MESSAGE "refused\n", WRITER);
    fake_service_open_gate(world->fake, FAKE_SEND);
    await_news(world, EVENT_FAILED, "failed/refused");
    write_as(world, ".more", MESSAGE "mended\n", WRITER);
    assert_int_equal(rename_as(world, ".more", "refused", WRITER), 0);
    await_news(world, EVENT_SENT, "sent/refused");
}

/* Who wrote it is not known, as of pages of a mapping. Nobody is taken for its writer then: who has read it
 * has edited it. */
static void a_late_edit_of_what_was_written_by_nobody_knows_who_is_not_sent(void **state)
{
    struct world *world = *state;
    fake_service_close_gate(world->fake, FAKE_SEND);
    copy_in(world, OUT, "letter", MESSAGE);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    read_as(world, "letter", getpid());
    let_out(world, "letter");
    write_as(world, ".same", MESSAGE, getpid());
    assert_int_equal(rename_as(world, ".same", "letter", getpid()), 0);
    write_as(world, ".edited", MESSAGE "More.\n", getpid());
    assert_int_equal(rename_as(world, ".edited", "letter", getpid()), -EBUSY);
    fake_clock_advance(&world->clock, 20 * 1000);
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
}

/* A rename that fails does not keep back what another process has handed in. */
static void the_message_of_another_process_is_not_kept_back(void **state)
{
    struct world *world = *state;
    mail_and_read(world, "letter", MESSAGE, OTHER);
    write_as(world, "mine", MESSAGE "mine\n", WRITER);
    assert_int_equal(rename_as(world, "mine", "letter", OTHER), -EBUSY);
    let_out(world, "letter");
    await_news(world, EVENT_SENT, "sent/mine");
}

static void *settle_beside(void *argument)
{
    struct world *world = argument;
    return settle(world) == 0 ? world : NULL;
}

/* Who has read a message, and lives, may be about to rename what it has written: that is not sent for two
 * seconds, unless it is renamed before; a barrier waits for it. */
static void what_may_be_an_edit_waits_for_its_rename(void **state)
{
    struct world *world = *state;
    pthread_t barrier;
    void *result = NULL;
    mail_and_read(world, "letter", MESSAGE, getpid());
    let_out(world, "letter");
    write_as(world, "copy", MESSAGE "copy\n", getpid());
    assert_int_equal(thread_start(&barrier, "barrier", settle_beside, world), 0);
    fake_clock_await_waiters(&world->clock, WORKERS + 1);
    fake_clock_advance(&world->clock, 1999);
    fake_clock_await_waiters(&world->clock, WORKERS + 1);
    assert_true(is_listed(world, OUT, "copy"));
    fake_clock_advance(&world->clock, 1);
    await_news(world, EVENT_SENT, "sent/copy");
    pthread_join(barrier, &result);
    assert_ptr_equal(result, world);

    write_as(world, "second", MESSAGE "second\n", getpid());
    assert_true(is_listed(world, OUT, "second"));
    assert_int_equal(rename_as(world, "second", "third", getpid()), 0);
    await_news(world, EVENT_SENT, "sent/third");
    write_as(world, "another", MESSAGE "another\n", WRITER); /* has read nothing */
    await_news(world, EVENT_SENT, "sent/another");
    fake_clock_advance(&world->clock, 10 * 1000); /* that one left long ago */
    write_as(world, "fourth", MESSAGE "fourth\n", getpid());
    await_news(world, EVENT_SENT, "sent/fourth");
}

/* An editor that made the message itself, and opens it for reading and writing to read it. */
static void what_is_read_through_a_file_open_for_writing_is_edited_too(void **state)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    char bytes[sizeof(MESSAGE)];
    fake_service_set_reachable(world->fake, false);
    write_as(world, "letter", MESSAGE, WRITER);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    assert_int_equal(outbox_open_item(world->outbox, number_of(world, OUT, "letter"), OUTBOX_CONTENT, O_RDWR,
                                      WRITER, &handle),
                     0);
    assert_int_equal(outbox_read(handle, bytes, sizeof(bytes), 0), strlen(MESSAGE));
    outbox_release(handle);
    write_as(world, "edited", MESSAGE "More.\n", WRITER);
    assert_int_equal(rename_as(world, "edited", "letter", WRITER), 0);
    assert_true(shown_contains(world, OUT, "letter", "More."));
    assert_false(is_listed(world, OUT, "letter-2"));
    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/letter");
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, false), 1);
}

/* Who has made the message may open it, and is told that it waits when it writes; of one that is out, that
 * would not be true. */
static void a_write_to_what_is_out_is_not_told_as_one_that_waits(void **state)
{
    static const char words[] = "it waits to be sent";
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    for (int is_out = 0; is_out <= 1; is_out++) {
        const char *name = is_out ? "letter" : "waits";
        fake_service_close_gate(world->fake, FAKE_SEND);
        write_as(world, name, MESSAGE, WRITER);
        uint64_t number = number_of(world, OUT, name);
        if (is_out)
            let_out(world, name);
        assert_int_equal(outbox_open_item(world->outbox, number, OUTBOX_CONTENT, O_RDWR, WRITER, &handle), 0);
        assert_int_equal(outbox_write(handle, "x", 1, 0, WRITER), -EBUSY);
        outbox_release(handle);
    }
    assert_true(was_refused(world, "outbox/waits", words));
    assert_false(was_refused(world, "outbox/letter", words));
}

/* What a program has read was edited meanwhile by another: its own edit takes no place. */
static void an_edit_of_an_older_text_takes_no_place(void **state)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "letter", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    read_as(world, "letter", WRITER);
    read_as(world, "letter", OTHER);
    write_as(world, "other", MESSAGE "by rename\n", OTHER);
    assert_int_equal(rename_as(world, "other", "letter", OTHER), 0);
    write_as(world, "mine", MESSAGE "of the first text\n", WRITER);
    assert_int_equal(rename_as(world, "mine", "letter", WRITER), 0);
    assert_true(shown_contains(world, OUT, "letter", "by rename"));
    assert_true(shown_contains(world, OUT, "letter-2", "of the first text"));

    read_as(world, "letter", WRITER); /* withdrawn, written anew, and handed in again */
    assert_int_equal(rename_as(world, "letter", "letter~", OTHER), 0);
    assert_int_equal(outbox_open_item(world->outbox, number_of(world, OUT, "letter~"), OUTBOX_CONTENT,
                                      O_WRONLY | O_TRUNC, OTHER, &handle),
                     0);
    append(handle, MESSAGE "in place\n", 0);
    finish(handle);
    assert_int_equal(rename_as(world, "letter~", "letter", OTHER), 0);
    write_as(world, "mine", MESSAGE "of the second text\n", WRITER);
    assert_int_equal(rename_as(world, "mine", "letter", WRITER), 0);
    assert_true(shown_contains(world, OUT, "letter", "in place"));
    assert_true(shown_contains(world, OUT, "letter-3", "of the second text"));
}

/* Nothing to send takes no place, and neither does what may still come to a bad end. */
static void an_empty_or_open_file_takes_no_place(void **state)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "letter", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    read_as(world, "letter", WRITER);
    read_as(world, "letter", 0);
    write_as(world, ".empty", "", WRITER);
    assert_int_equal(rename_as(world, ".empty", "letter", WRITER), -EBADMSG);
    write_as(world, "empty", "", WRITER);
    assert_int_equal(rename_as(world, "empty", "letter", WRITER), -EBADMSG);
    assert_true(was_told(world, EVENT_REFUSED, "outbox/empty"));
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    assert_int_equal(outbox_create(world->outbox, OUTBOX_FOLDER_OUTBOX, "open", WRITER, &handle, &stat), 0);
    assert_int_equal(outbox_write(handle, "To: ", 4, 0, WRITER), 4);
    assert_int_equal(rename_as(world, "open", "letter", WRITER), -EBUSY);
    finish(handle);
    assert_true(shown_contains(world, OUT, "letter", "How are you?"));
    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/letter");
}

/* The file went to failed/, and what it was to replace is another: messages have it still. */
static void an_attachment_that_failed_takes_no_place(void **state)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    copy_in(world, ATTACHED, "a.txt", "whole");
    assert_int_equal(settle_uploads(world), 0);
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "m.eml", "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n"), 0);
    assert_int_equal(settle(world), -EAGAIN);

    assert_int_equal(outbox_create(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "new", WRITER, &handle, &stat),
                     0);
    assert_int_equal(outbox_write(handle, "half", 4, 0, WRITER), 4);
    assert_int_equal(outbox_write(handle, "of it", 5, 10 * 1000 * 1000, WRITER), -EFBIG);
    assert_int_equal(outbox_flush(handle, 0), 0);
    outbox_release(handle);
    assert_true(is_listed(world, FAILED, "new"));
    assert_int_equal(outbox_rename(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "new", OUTBOX_FOLDER_ATTACHMENTS,
                                   "a.txt", 0, WRITER, NULL),
                     -ENOENT);
    assert_true(is_listed(world, FAILED, "new"));
    assert_true(shown_contains(world, ATTACHED, "a.txt", "whole"));

    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/m.eml");
}

/* Upon -ESTALE the kernel looks the name up once more, but not twice. */
static void a_name_under_which_several_left_is_free_at_once(void **state)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    for (int i = 0; i < 3; i++) {
        write_as(world, "temporary", MESSAGE, WRITER);
        assert_int_equal(settle(world), 0);
        assert_int_equal(rename_as(world, "temporary", "final", WRITER), 0);
    }
    write_as(world, "theirs", MESSAGE, OTHER);
    assert_int_equal(settle(world), 0);
    assert_int_equal(rename_as(world, "theirs", "final", OTHER), 0);
    assert_true(outbox_find_left(world->outbox, OUTBOX_FOLDER_OUTBOX, "final", WRITER, &stat));
    assert_int_equal(outbox_open_item(world->outbox, stat.number, OUTBOX_CONTENT, O_WRONLY, WRITER, &handle),
                     -ESTALE);
    assert_false(finds_left(world, "final", WRITER));
    assert_true(finds_left(world, "final", OTHER));
}

static void listings_are_in_order_of_hand_in(void **state)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    struct outbox_handle *handle = create(world, OUT, "last.eml");
    assert_int_equal(mail(world, "b.eml", MESSAGE), 0);
    assert_int_equal(mail(world, "a.eml", MESSAGE), 0);
    append(handle, MESSAGE, 0);
    finish(handle);
    struct outbox_listing listing;
    assert_int_equal(outbox_list(world->outbox, OUTBOX_FOLDER_OUTBOX, &listing), 0);
    assert_int_equal(listing.len, 3);
    assert_string_equal(listing.entries[0].name, "b.eml");
    assert_string_equal(listing.entries[1].name, "a.eml");
    assert_string_equal(listing.entries[2].name, "last.eml");
    outbox_listing_release(&listing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(names_that_are_taken_get_a_number),
        WORLD_TEST(a_number_is_counted_on_not_numbered),
        WORLD_TEST(names_that_are_too_long_are_shortened),
        WORLD_TEST(names_may_hold_any_text),
        WORLD_TEST(what_may_be_renamed_where),
        WORLD_TEST(a_queued_message_keeps_its_place_under_another_name),
        WORLD_TEST(a_rename_that_cannot_be_recorded_is_none),
        WORLD_TEST(a_rename_that_is_not_durable_is_none),
        WORLD_TEST(a_rename_to_a_name_never_sent_cancels),
        WORLD_TEST(rm_cancels),
        cmocka_unit_test(what_lost_its_content_is_removed),
        WORLD_TEST(what_was_removed_leaves_no_key_where_its_envelope_stays),
        WORLD_TEST(a_temporary_file_that_is_renamed_into_place_is_sent),
        WORLD_TEST(a_file_that_is_written_can_be_renamed),
        WORLD_TEST(a_temporary_file_that_is_open_again_is_handed_in_when_it_is_closed),
        WORLD_TEST(what_is_out_is_renamed_by_its_writer_alone),
        WORLD_TEST(what_is_out_is_renamed_by_who_renamed_it_before),
        WORLD_TEST(what_failed_is_renamed_and_fails_once),
        WORLD_TEST(what_failed_does_not_take_the_place_of_what_it_was_edited_from),
        WORLD_TEST(what_is_being_sent_is_renamed),
        WORLD_TEST(a_name_that_is_taken_by_a_message_that_waits),
        WORLD_TEST(what_was_read_before_its_release_came_is_edited_too),
        WORLD_TEST(what_is_saved_unedited_is_the_same_message),
        cmocka_unit_test(a_copy_that_the_disk_keeps_is_not_sent),
        WORLD_TEST(what_may_have_been_sent_leaves_a_word),
        cmocka_unit_test(what_may_have_been_sent_before_leaves_a_word_too),
        WORLD_TEST(a_text_that_is_out_takes_the_place_whatever_the_disk_says),
        WORLD_TEST(a_text_that_is_out_keeps_its_name_where_the_waiting_one_stays),
        cmocka_unit_test(what_was_edited_is_not_sent_once_the_edited_text_is_gone),
        WORLD_TEST(what_was_edited_is_not_sent_by_the_next_start),
        WORLD_TEST(an_edited_text_that_can_be_removed_has_no_old_one_behind_it),
        WORLD_TEST(what_is_saved_unedited_beside_its_backup_keeps_its_key),
        WORLD_TEST(a_backup_that_is_removed_leaves_its_key_to_the_same_text),
        cmocka_unit_test(what_is_saved_unedited_twice_keeps_its_key),
        cmocka_unit_test(a_backup_that_is_replaced_leaves_its_key_to_the_same_text),
        WORLD_TEST(a_backup_that_lost_its_content_is_removed_and_leaves_its_key),
        WORLD_TEST(a_backup_that_the_disk_keeps_leaves_its_key_when_it_goes),
        WORLD_TEST(what_is_saved_unedited_while_it_is_being_sent_is_the_same_message),
        WORLD_TEST(the_same_text_with_another_attachment_is_edited),
        WORLD_TEST(an_editor_that_saves_again_supersedes_what_it_saved),
        cmocka_unit_test(an_edit_that_comes_too_late_is_not_sent),
        WORLD_TEST(who_opens_a_message_that_just_went_out_edits_it_too_late),
        WORLD_TEST(an_edit_of_what_may_have_been_sent_is_not_sent),
        cmocka_unit_test(an_edit_that_comes_too_late_finds_another_file_in_its_place),
        WORLD_TEST(an_edit_that_comes_too_late_is_not_sent_by_a_disk_that_fails),
        WORLD_TEST(what_the_disk_did_not_take_is_tried_once_more_at_the_end),
        cmocka_unit_test(an_edit_that_is_open_is_interrupted),
        WORLD_TEST(an_edit_that_is_opened_and_not_written_is_on_hold),
        cmocka_unit_test(an_unedited_text_that_comes_too_late_is_dropped),
        WORLD_TEST(an_editor_that_saves_again_too_late_is_refused),
        WORLD_TEST(what_is_no_edit_of_what_went_out_is_sent),
        WORLD_TEST(a_late_edit_of_what_was_written_by_nobody_knows_who_is_not_sent),
        WORLD_TEST(the_message_of_another_process_is_not_kept_back),
        WORLD_TEST(what_may_be_an_edit_waits_for_its_rename),
        WORLD_TEST(what_is_read_through_a_file_open_for_writing_is_edited_too),
        WORLD_TEST(a_write_to_what_is_out_is_not_told_as_one_that_waits),
        WORLD_TEST(an_edit_of_an_older_text_takes_no_place),
        WORLD_TEST(an_empty_or_open_file_takes_no_place),
        WORLD_TEST(an_attachment_that_failed_takes_no_place),
        WORLD_TEST(a_name_under_which_several_left_is_free_at_once),
        WORLD_TEST(retry_brings_back_what_failed),
        WORLD_TEST(listings_are_in_order_of_hand_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
