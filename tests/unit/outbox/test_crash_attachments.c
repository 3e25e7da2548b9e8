/* SPDX-License-Identifier: MIT */
/*
 * The crash points of attachments: a message keeps the content that it bound, whatever the dead process was
 * doing to the file. The table below has the folder and the content of the file after the recovery.
 * docs/OUTBOX.md has the crash points.
 */
#include "crash_fixture.h"

#include "base/lock.h"
#include "outbox/change.h"
#include "support/test.h"

#define WITH_A "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n"
#define OLD "the old content"

/* ---------------------------------------------------------------- actions of the dying process */

static void must(bool is_so)
{
    if (!is_so)
        _exit(3);
}

static void put_as(struct fixture *fixture, const char *name, const char *content)
{
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    must(outbox_create(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, name, 0, NULL, &handle, &stat) == 0);
    must(outbox_write(handle, content, strlen(content), 0, 0) == (ssize_t)strlen(content));
    must(outbox_flush(handle, 0) == 0);
    outbox_release(handle);
    outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, 0, NULL);
}

static void put(struct fixture *fixture, const char *content)
{
    put_as(fixture, "a.txt", content);
}

/* Returns true once the 503 for m.eml is recorded, which happens after its next attempt got a time. */
static bool waits_for_service(struct fixture *fixture)
{
    LOCK_GUARD(&fixture->outbox->lock);
    const struct item *item = item_table_find(&fixture->outbox->table, OUTBOX_FOLDER_OUTBOX, "m.eml");
    return item->row.state == ITEM_QUEUED && item->row.http_status == 503 && item->claim == CLAIM_NONE;
}

/* Uploads a.txt to the pool, and queues a message that binds it and waits for the service. */
static void queue_bound(struct fixture *fixture)
{
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    put(fixture, OLD);
    fake_service_set(fixture->fake, FAKE_SEND,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    must(outbox_create(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", 0, NULL, &handle, &stat) == 0);
    must(outbox_write(handle, WITH_A, strlen(WITH_A), 0, 0) == (ssize_t)strlen(WITH_A));
    must(outbox_flush(handle, 0) == 0);
    outbox_release(handle);
    outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_OUTBOX, 0, NULL);
    while (!waits_for_service(fixture))
        usleep(1000);
}

static void write_to_it(struct fixture *fixture, int flags, const char *text, off_t offset)
{
    struct outbox_handle *handle = NULL;
    must(open_attached(fixture, "a.txt", O_WRONLY | flags, &handle) == 0);
    outbox_write(handle, text, strlen(text), offset, 0);
    outbox_flush(handle, 0);
    outbox_release(handle);
}

/* Binds the file by handing in the message, which is still a draft. */
static void bind_it(struct fixture *fixture)
{
    put(fixture, OLD);
    put_draft(fixture, "m.eml", WITH_A);
    move_in(fixture, "m.eml", OUT, "m.eml");
}

static void upload(struct fixture *fixture)
{
    put(fixture, OLD);
}

static void write_anew(struct fixture *fixture)
{
    queue_bound(fixture);
    write_to_it(fixture, O_TRUNC, "new", 0);
}

static void append_to_it(struct fixture *fixture)
{
    queue_bound(fixture);
    write_to_it(fixture, 0, " and more", strlen(OLD));
}

static void move_a_draft_onto_it(struct fixture *fixture)
{
    queue_bound(fixture);
    put_draft(fixture, "a.txt", "new");
    move_in(fixture, "a.txt", ATTACHED, "a.txt");
}

/* The file that got the name last is the newer file, even if it was created first. */
static void rename_an_earlier_one_onto_it(struct fixture *fixture)
{
    put_as(fixture, "b.txt", "new");
    queue_bound(fixture);
    move(fixture, ATTACHED, "b.txt", ATTACHED, "a.txt");
}

static void remove_it(struct fixture *fixture)
{
    put(fixture, OLD);
    outbox_unlink(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt");
}

/* ---------------------------------------------------------------- results of the recovery */

static const struct crash {
    const char *point;
    const char *what;
    void (*act)(struct fixture *fixture);
    int folder;          /* folder of a.txt after recovery; -1 if a.txt is gone */
    const char *content; /* content of a.txt after recovery */
    bool has_message;
    size_t uploads; /* number of uploads by both processes and after a later change; 0 if it may vary */
} rows[] = {
    {"upload_answered", "upload", upload, ATTACHED, OLD, false, 3},
    {"linked", "bind", bind_it, ATTACHED, OLD, false, 2},
    {"renewed", "write anew", write_anew, ATTACHED, OLD, true, 2},
    {"begun_again", "write anew", write_anew, FAILED, OLD, true, 1},
    {"renewed", "append", append_to_it, ATTACHED, OLD, true, 2},
    {"begun_again", "append", append_to_it, FAILED, OLD, true, 1},
    {"saved_row", "mv onto it", move_a_draft_onto_it, ATTACHED, OLD, true, 2},
    {"moved_in", "mv onto it", move_a_draft_onto_it, ATTACHED, "new", true, 0},
    {"removed", "mv onto it", move_a_draft_onto_it, ATTACHED, "new", true, 0},
    {"renamed", "rename onto it", rename_an_earlier_one_onto_it, ATTACHED, "new", true, 0},
    {"removed", "rm", remove_it, -1, NULL, false, 1},
};

static void expect_file(struct fixture *fixture, const struct crash *row)
{
    assert_int_equal(is_listed(fixture, ATTACHED, "a.txt"), row->folder == ATTACHED);
    assert_int_equal(is_listed(fixture, FAILED, "a.txt"), row->folder == FAILED);
    assert_false(is_listed(fixture, ATTACHED, "b.txt"));
    if (row->folder < 0)
        return;
    _cleanup_free_ char *content = read_shown(fixture, row->folder, "a.txt");
    assert_string_equal(content, row->content);
    if (row->folder == FAILED)
        assert_true(shown_contains(fixture, FAILED, "a.txt.receipt.json", "\"interrupted\""));
}

static void expect_message_with_old_content(struct fixture *fixture)
{
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, SENT, "m.eml"));
    assert_true(shown_contains(fixture, SENT, "m.eml.receipt.json", OLD));
}

/* The file is still writable, and writing does not change the content that the message bound. */
static void write_again(struct fixture *fixture, const struct crash *row)
{
    if (row->folder == ATTACHED)
        write_to_it(fixture, 0, "THE", 0);
    assert_int_equal(settle_uploads(fixture), 0);
}

static void run_row(const struct crash *row)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    void *state = fixture;
    struct logging_service logging;
    print_message("# %s, %s\n", row->point, row->what);
    fixture_prepare(fixture);
    pid_t child = fork();
    if (child == 0) {
        start_before_crash(fixture, &logging, row->point);
        row->act(fixture);
        exit_without_crash(fixture);
    }
    expect_killed(child);

    note_calls(&logging, fixture);
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    fixture_open(fixture);
    assert_int_equal(settle_uploads(fixture), 0);
    expect_file(fixture, row);
    write_again(fixture, row);
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    if (row->has_message)
        expect_message_with_old_content(fixture);
    fixture_reopen(fixture); /* another restart changes nothing */
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(count_calls(fixture, "send "), row->has_message ? 2 : 0); /* one of them answered 503 */
    if (row->uploads > 0)
        assert_int_equal(count_calls(fixture, "upload "), row->uploads);
    fixture_teardown(&state);
    close(logging.log);
}

TEST(no_crash_changes_the_attachments_of_a_message)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        pid_t child = fork();
        if (child == 0) {
            run_row(&rows[i]);
            _exit(0);
        }
        expect_success(child, rows[i].point);
    }
}
