/* SPDX-License-Identifier: MIT */
/*
 * Concurrent use: each message is sent exactly once, with a key of its own.
 */
#include "outbox_fixture.h"

#include <stdatomic.h>

#include "base/lock.h"
#include "base/thread.h"
#include "outbox/change.h"
#include "support/test.h"

enum {
    THREADS = 8,
    MESSAGES = 50,
};

struct crowd {
    struct fixture *fixture;
    int number;
    pthread_t thread;
    int result;
};

static void make_content(char *content, size_t size, int thread, int message)
{
    snprintf(content, size, "To: r%d-%d@x.example\nSubject: message %d of %d\n\nb\n", thread, message,
             message, thread);
}

/* Hands in messages by mv and by cp in turn. Threads cannot use assertions: the test counts the requests. */
static void *hand_in_many(void *argument)
{
    struct crowd *crowd = argument;
    struct fixture *fixture = crowd->fixture;
    for (int i = 0; i < MESSAGES; i++) {
        char name[64];
        char content[160];
        struct outbox_handle *handle = NULL;
        struct outbox_stat stat;
        snprintf(name, sizeof(name), "%d-%d.eml", crowd->number, i);
        make_content(content, sizeof(content), crowd->number, i);
        if (i % 2 == 0) {
            int fd = openat(fixture->drafts, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            const struct hand_in same = {
                .folder = OUTBOX_FOLDER_OUTBOX, .name = "same.eml", .flags = RENAME_NOREPLACE};
            if (file_write_all(fd, content, strlen(content)) == 0 &&
                outbox_hand_in(fixture->outbox, fixture->drafts, name, name, &same, 0, NULL) != 0)
                move_in(fixture, name, OUT, name);
            close(fd);
        } else if (outbox_create(fixture->outbox, OUTBOX_FOLDER_OUTBOX, name, 0, NULL, &handle, &stat) == 0) {
            outbox_write(handle, content, strlen(content), 0, getpid());
            outbox_flush(handle, getpid());
            outbox_release(handle);
        }
    }
    return NULL;
}

FIXTURE_TEST(concurrent_hand_ins_are_each_sent_exactly_once)
{
    struct fixture *fixture = *state;
    struct crowd crowds[THREADS];
    for (int i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){.fixture = fixture, .number = i};
        assert_int_equal(thread_start(&crowds[i].thread, "crowd", hand_in_many, &crowds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(crowds[i].thread, NULL);
    assert_int_equal(settle(fixture), 0);

    assert_int_equal(sends(fixture), THREADS * MESSAGES);
    assert_int_equal(fake_service_count_sent(fixture->fake, true), THREADS * MESSAGES);
    for (int thread = 0; thread < THREADS; thread++) {
        for (int message = 0; message < MESSAGES; message++) {
            char part[64];
            unsigned int times = 0;
            snprintf(part, sizeof(part), "message %d of %d\"", message, thread);
            for (unsigned int i = 0; i < THREADS * MESSAGES; i++)
                times += sent_contains(fixture, i, part) ? 1 : 0;
            assert_int_equal(times, 1);
        }
    }
    struct outbox_status status;
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.sent, THREADS * MESSAGES);
    assert_int_equal(status.queued + status.failed, 0);
}

/* ---------------------------------------------------------------- reading */

struct reading {
    struct outbox_handle *handle;
    atomic_bool is_over;
    atomic_uint errors;
};

static void *read_again_and_again(void *argument)
{
    struct reading *reading = argument;
    char text[8];
    while (!atomic_load(&reading->is_over))
        if (outbox_read(reading->handle, text, sizeof(text), 0) != 4)
            atomic_fetch_add(&reading->errors, 1);
    return NULL;
}

FIXTURE_TEST(a_file_can_be_read_while_it_gets_a_content_of_its_own)
{
    struct fixture *fixture = *state;
    fake_service_set(fixture->fake, FAKE_SEND,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    copy_in(fixture, ATTACHED, "a.txt", "text");
    assert_int_equal(settle_uploads(fixture), 0);
    for (int i = 0; i < 20; i++) {
        struct reading reading = {.handle = NULL};
        pthread_t thread;
        char name[32];
        snprintf(name, sizeof(name), "%d.eml", i);
        assert_int_equal(open_attached(fixture, "a.txt", O_RDWR, &reading.handle), 0);
        assert_int_equal(mail(fixture, name, "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n"), 0);
        assert_int_equal(thread_start(&thread, "reader", read_again_and_again, &reading), 0);
        append(reading.handle, "TEXT", 0);
        atomic_store(&reading.is_over, true);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&reading.errors), 0);
        finish(reading.handle);
        assert_int_equal(settle_uploads(fixture), 0);
    }
}

/* ---------------------------------------------------------------- all operations at once, for the sanitizers
 */

static void *stir(void *argument)
{
    struct crowd *crowd = argument;
    struct fixture *fixture = crowd->fixture;
    struct outbox *outbox = fixture->outbox;
    for (int i = 0; i < 60; i++) {
        struct outbox_listing listing;
        struct outbox_status status;
        struct outbox_stat stat;
        struct outbox_handle *handle = NULL;
        if (outbox_create(outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt", 0, NULL, &handle, &stat) == 0 ||
            open_attached(fixture, "a.txt", O_RDWR | (i % 2 == 0 ? O_TRUNC : 0), &handle) == 0) {
            outbox_write(handle, "text", 4, 0, 0);
            outbox_flush(handle, 0);
            outbox_release(handle);
        }
        char name[32];
        char draft[32];
        const char *content = "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n";
        snprintf(draft, sizeof(draft), "%d.eml", crowd->number);
        snprintf(name, sizeof(name), "%d.eml", i % 5);
        int fd = openat(fixture->drafts, draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd >= 0 && file_write_all(fd, content, strlen(content)) == 0)
            move_in(fixture, draft, OUT, name);
        close(fd);
        outbox_rename(outbox, OUTBOX_FOLDER_OUTBOX, name, OUTBOX_FOLDER_OUTBOX, "x.tmp", 0, 0);
        outbox_rename(outbox, OUTBOX_FOLDER_OUTBOX, "x.tmp", OUTBOX_FOLDER_OUTBOX, name, 0, 0);
        move(fixture, ATTACHED, "a.txt", ATTACHED, "b.txt");
        move(fixture, ATTACHED, "b.txt", ATTACHED, "a.txt");
        if (i % 7 == 0)
            outbox_unlink(outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt");
        if (i % 11 == 0)
            outbox_take_out(outbox, OUTBOX_FOLDER_OUTBOX, name, fixture->drafts, draft, 0);
        if (i % 13 == 0)
            outbox_unlink(outbox, OUTBOX_FOLDER_SENT, name);
        outbox_get_status(outbox, &status);
        outbox_list(outbox, OUTBOX_FOLDER_SENT, &listing);
        outbox_listing_release(&listing);
        outbox_wake(outbox);
    }
    return NULL;
}

FIXTURE_TEST(concurrent_use_leaves_no_message_unsettled)
{
    struct fixture *fixture = *state;
    struct crowd crowds[THREADS];
    for (int i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){.fixture = fixture, .number = i};
        assert_int_equal(thread_start(&crowds[i].thread, "stir", stir, &crowds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(crowds[i].thread, NULL);
    int settled = settle(fixture);
    assert_true(settled == 0 || settled == -EIO);
    assert_int_equal(settle_uploads(fixture), 0);
    struct outbox_status status;
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.queued + status.uploading, 0);
    assert_int_equal(fake_service_count_sent(fixture->fake, true), sends(fixture));
    fixture_reopen(fixture);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(fake_service_count_sent(fixture->fake, true), sends(fixture));
}

/* ---------------------------------------------------------------- a last close beside a rename */

static void *close_file(void *handle)
{
    outbox_release(handle);
    return NULL;
}

FIXTURE_TEST(a_file_closed_for_the_last_time_during_a_rename_is_sent)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < MESSAGES; i++) {
        struct outbox_handle *handle = NULL;
        pthread_t closer;
        char name[32];
        snprintf(name, sizeof(name), "%d.eml", i);
        copy_in(fixture, OUTBOX_FOLDER_OUTBOX, "x.tmp", "To: b@x.example\nSubject: s\n\nb\n");
        uint64_t number = number_of(fixture, OUTBOX_FOLDER_OUTBOX, "x.tmp");
        assert_int_equal(outbox_open_item(fixture->outbox, number, O_WRONLY, 0, &handle), 0);
        assert_int_equal(thread_start(&closer, "closer", close_file, handle), 0);
        assert_int_equal(move(fixture, OUTBOX_FOLDER_OUTBOX, "x.tmp", OUTBOX_FOLDER_OUTBOX, name), 0);
        pthread_join(closer, NULL);
    }
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), MESSAGES);
}

/* ---------------------------------------------------------------- renames that wait */

static void *rename_onto_target(void *argument)
{
    struct crowd *crowd = argument;
    char name[32];
    snprintf(name, sizeof(name), "%d.tmp", crowd->number);
    crowd->result = move(crowd->fixture, OUTBOX_FOLDER_OUTBOX, name, OUTBOX_FOLDER_OUTBOX, "target.tmp");
    return NULL;
}

/* A thread that finds the target claimed has changed nothing. If it woke the other threads, they would wake
 * one another, and keep the processor from the thread that writes to the disk. */
FIXTURE_TEST(renames_that_wait_for_the_disk_do_not_wake_each_other)
{
    enum {
        RENAMES = 3,
        MANY_WAKES = 200,
        SILENCE_MS = 100
    };
    struct fixture *fixture = *state;
    struct outbox *outbox = fixture->outbox;
    struct crowd crowds[RENAMES];
    copy_in(fixture, OUTBOX_FOLDER_OUTBOX, "target.tmp", "t");
    pthread_mutex_lock(&outbox->lock);
    struct item *target = item_table_find(&outbox->table, OUTBOX_FOLDER_OUTBOX, "target.tmp");
    assert_int_equal(claim_take_locked(outbox, target, CLAIM_DISK), 0);
    pthread_mutex_unlock(&outbox->lock);
    for (int i = 0; i < RENAMES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%d.tmp", i);
        copy_in(fixture, OUTBOX_FOLDER_OUTBOX, name, "t");
        crowds[i] = (struct crowd){.fixture = fixture, .number = i, .result = -1};
        assert_int_equal(thread_start(&crowds[i].thread, "rename", rename_onto_target, &crowds[i]), 0);
    }
    int wakes = 0;
    int error = 0;
    pthread_mutex_lock(&outbox->lock);
    while (error == 0 && wakes < MANY_WAKES) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += SILENCE_MS * 1000 * 1000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        error = pthread_cond_clockwait(&outbox->changed, &outbox->lock, CLOCK_MONOTONIC, &until);
        wakes++;
    }
    pthread_mutex_unlock(&outbox->lock);
    claim_release(outbox, target);
    for (int i = 0; i < RENAMES; i++) {
        pthread_join(crowds[i].thread, NULL);
        assert_int_equal(crowds[i].result, 0);
    }
    assert_int_equal(error, ETIMEDOUT);
}

/* ---------------------------------------------------------------- names that are given up */

struct user {
    struct fixture *fixture;
    pthread_t thread;
    atomic_int id; /* gettid(2); 0 before the thread runs */
    int result;
};

static void *create_x(void *argument)
{
    struct user *user = argument;
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    user->result = outbox_create(user->fixture->outbox, OUTBOX_FOLDER_OUTBOX, "x", 0, NULL, &handle, &stat);
    return NULL;
}

static void *move_to_x(void *argument)
{
    struct user *user = argument;
    user->id = gettid();
    user->result = move_in(user->fixture, "draft", OUT, "x");
    return NULL;
}

static bool is_taken(struct outbox *outbox, const char *name)
{
    LOCK_GUARD(&outbox->lock);
    return item_table_is_taken(&outbox->table, OUTBOX_FOLDER_OUTBOX, name);
}

static bool is_asleep(pid_t id)
{
    char path[64];
    char state = 'R';
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", id);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        fclose(file);
    }
    return state == 'S';
}

/* A file is created whose content cannot be made, while a draft is to be moved to its name. */
FIXTURE_TEST(a_rename_does_not_wait_for_a_name_that_was_given_up)
{
    struct fixture *fixture = *state;
    struct outbox *outbox = fixture->outbox;
    struct user creator = {.fixture = fixture};
    struct user mover = {.fixture = fixture};
    struct connection *turn;
    int fd;
    put_draft(fixture, "draft", MESSAGE);
    uint64_t next = spool_take_number(outbox->spool) + 1;
    assert_int_equal(spool_open_content(outbox->spool, next, O_RDWR | O_CREAT | O_EXCL, &fd), 0);
    close(fd);
    assert_int_equal(spool_begin(outbox->spool, &turn), 0);
    assert_int_equal(thread_start(&creator.thread, "creator", create_x, &creator), 0);
    while (!is_taken(outbox, "x"))
        sched_yield();
    assert_int_equal(thread_start(&mover.thread, "mover", move_to_x, &mover), 0);
    while (mover.id == 0 || !is_asleep(mover.id))
        sched_yield();
    assert_int_equal(spool_end(outbox->spool, turn, 0), 0);
    pthread_join(creator.thread, NULL);
    assert_int_equal(creator.result, -EEXIST);
    pthread_join(mover.thread, NULL);
    assert_int_equal(mover.result, 0);
}
