/* SPDX-License-Identifier: MIT */
/*
 * mv from drafts/ to outbox/: its errors, the drafts that it leaves in place, and the move back to drafts/.
 */
#include "outbox_fixture.h"

#include <inttypes.h>

#include "support/test.h"

FIXTURE_TEST(a_refused_draft_stays_a_draft_and_returns_its_errno)
{
    static const struct {
        const char *content;
        int folder;
        const char *name;
        int error;
    } rows[] = {
        {"no header at all", OUT, "m.eml", -EBADMSG},
        {"", OUT, "m.eml", -EBADMSG},
        {"{\"subject\": \"s\"", OUT, "m.eml", -EBADMSG},
        {"Subject: s\n\nb\n", OUT, "m.eml", -EDESTADDRREQ},
        {"To: b@x.example\nSubject: s\nAttach: none\n\nb\n", OUT, "m.eml", -ENODATA},
        {"From: stranger@y.example\nTo: b@x.example\nSubject: s\n\nb\n", OUT, "m.eml", -EADDRNOTAVAIL},
        {MESSAGE, OUT, "m.receipt.json", -EPERM},
        {MESSAGE, OUT, "m\xff", -EILSEQ},
        {MESSAGE, OUT, "m.bak", -EPERM},
        {"", OUT, ".m", -EPERM},
        {MESSAGE, ATTACHED, "m.tmp", -EPERM},
        {MESSAGE, SENT, "m.eml", -EPERM},
        {MESSAGE, FAILED, "m.eml", -EPERM},
        {"", ATTACHED, "a.txt", -EBADMSG},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        put_draft(fixture, "m.eml", rows[i].content);
        fixture->events_len = 0;
        assert_int_equal(move_in(fixture, "m.eml", rows[i].folder, rows[i].name), rows[i].error);
        assert_true(has_draft(fixture, "m.eml"));
        assert_true(has_event(fixture, EVENT_REFUSED, "drafts/m.eml"));
        assert_true(fixture->events[0].error[0] != '\0');
    }
    struct outbox_status status;
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.queued, 0);
    fixture_reopen(fixture);
    outbox_get_status(fixture->outbox, &status);
    assert_int_equal(status.queued, 0);
    assert_int_equal(sends(fixture), 0);
}

FIXTURE_TEST(only_ordinary_files_are_accepted)
{
    struct fixture *fixture = *state;
    put_draft(fixture, "m.eml", MESSAGE);
    assert_int_equal(symlinkat("m.eml", fixture->drafts, "link"), 0);
    assert_int_equal(mkdirat(fixture->drafts, "dir", 0700), 0);
    assert_int_equal(mkfifoat(fixture->drafts, "fifo", 0600), 0);
    assert_int_equal(move_in(fixture, "link", OUT, "a"), -ELOOP);
    assert_int_equal(move_in(fixture, "dir", OUT, "a"), -EISDIR);
    assert_int_equal(move_in(fixture, "fifo", OUT, "a"), -EBADMSG);
    assert_int_equal(move_in(fixture, "nothing", OUT, "a"), -ENOENT);
    assert_int_equal(linkat(fixture->drafts, "m.eml", fixture->drafts, "second", 0), 0);
    assert_int_equal(move_in(fixture, "m.eml", OUT, "a"), -EMLINK);
    assert_int_equal(sends(fixture), 0);
}

FIXTURE_TEST(oversized_drafts_are_refused)
{
    struct fixture *fixture = *state;
    put_draft(fixture, "m.eml", MESSAGE);
    int fd = openat(fixture->drafts, "m.eml", O_RDWR);
    assert_int_equal(ftruncate(fd, 24 * 1000 * 1000 + 1), 0);
    assert_int_equal(move_in(fixture, "m.eml", OUT, "m.eml"), -EMSGSIZE);
    assert_int_equal(ftruncate(fd, 10 * 1000 * 1000 + 1), 0);
    assert_int_equal(move_in(fixture, "m.eml", ATTACHED, "m.eml"), -EFBIG);
    assert_int_equal(ftruncate(fd, 10 * 1000 * 1000), 0);
    assert_int_equal(move_in(fixture, "m.eml", ATTACHED, "m.eml"), 0);
    close(fd);
    put_draft(fixture, "n.txt", "one byte more");
    assert_int_equal(move_in(fixture, "n.txt", ATTACHED, "n.txt"), 0);
    assert_int_equal(mail(fixture, "big.eml", "To: b@x.example\nAttach: m.eml\nAttach: n.txt\n\nb\n"),
                     -EMSGSIZE);
    assert_true(has_draft(fixture, "big.eml"));
    /* The limit applies to the sum of attached parts and of files attached by name. */
    assert_int_equal(
        mail(fixture, "part.eml",
             "To: b@x.example\nAttach: m.eml\nContent-Type: multipart/mixed; boundary=b\n\n"
             "--b\n\nb\n--b\nContent-Disposition: attachment; filename=p.txt\n\none byte more\n--b--\n"),
        -EMSGSIZE);
}

FIXTURE_TEST(a_rename_onto_an_unsent_message_replaces_it)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_next_attempt(fixture);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE "Edited.\n"), 0); /* replaces the first message */
    assert_true(shown_contains(fixture, OUT, "m.eml", "Edited."));
    put_draft(fixture, "m.eml", MESSAGE);

    copy_in(fixture, OUT, "held.eml", "");
    const struct hand_in free_name = {
        .folder = OUTBOX_FOLDER_OUTBOX, .name = "held.eml", .flags = RENAME_NOREPLACE};
    assert_int_equal(
        outbox_hand_in(fixture->outbox, fixture->drafts, "m.eml", "drafts/m.eml", &free_name, 0, NULL),
        -EEXIST);
    assert_int_equal(move_in(fixture, "m.eml", OUT, "held.eml"), 0);
    assert_false(has_draft(fixture, "m.eml"));
    assert_true(shown_contains(fixture, OUT, "held.eml", "How are you?"));

    struct outbox_handle *handle = create(fixture, OUT, "open.eml");
    put_draft(fixture, "n.eml", MESSAGE);
    assert_int_equal(move_in(fixture, "n.eml", OUT, "open.eml"), 0);
    append(handle, "half a message", 0);
    finish(handle);
    assert_true(shown_contains(fixture, OUT, "open.eml", "How are you?"));
    fixture_reopen(fixture);
    assert_true(shown_contains(fixture, OUT, "held.eml", "How are you?"));
}

FIXTURE_TEST(a_file_of_a_never_sent_name_is_checked_when_it_is_renamed)
{
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "x.tmp", "anything");
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, OUT, "x.tmp"));
    assert_int_equal(move(fixture, OUT, "x.tmp", OUT, "x.eml"), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_true(is_listed(fixture, FAILED, "x.eml"));
    assert_int_equal(sends(fixture), 0);
}

FIXTURE_TEST(a_file_that_cannot_be_moved_stays_a_draft)
{
    struct fixture *fixture = *state;
    put_draft(fixture, "m.eml", MESSAGE);
    /* The move fails, whatever number the new item gets. */
    for (int i = 1; i < 20; i++) {
        char name[64];
        snprintf(name, sizeof(name), "spool/%d.data", i);
        assert_int_equal(mkdirat(fixture->dir.fd, name, 0700), 0);
    }
    assert_int_equal(move_in(fixture, "m.eml", OUT, "m.eml"), -EISDIR);
    fixture_reopen(fixture);
    assert_true(has_draft(fixture, "m.eml"));
    assert_false(is_listed(fixture, OUT, "m.eml"));
}

/* ---------------------------------------------------------------- back to drafts/ */

FIXTURE_TEST(moving_a_queued_message_to_drafts_cancels_it)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_paused(fixture, true);
    assert_int_equal(
        outbox_take_out(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", fixture->drafts, "back.eml", 0), 0);
    assert_true(has_draft(fixture, "back.eml"));
    assert_false(is_listed(fixture, OUT, "m.eml"));
    fake_service_set_reachable(fixture->fake, true);
    fixture_reopen(fixture);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 0);
}

FIXTURE_TEST(a_message_being_sent_cannot_be_cancelled)
{
    struct fixture *fixture = *state;
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), -EBUSY);
    assert_int_equal(move(fixture, OUT, "m.eml", OUT, "m.tmp"), -EBUSY);
    assert_int_equal(outbox_take_out(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", fixture->drafts, "x", 0),
                     -EBUSY);
    assert_false(has_draft(fixture, "x"));
    fake_service_open_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(settle(fixture), 0);
}

FIXTURE_TEST(a_receipt_cannot_be_removed_alone)
{
    struct fixture *fixture = *state;
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_SENT, "m.eml.receipt.json"), -EPERM);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_SENT, "n.eml.receipt.json"), -ENOENT);
}

/* ---------------------------------------------------------------- idempotency keys */

static char *key_of_send(struct fixture *fixture, unsigned int index)
{
    return strdup(fake_service_get(fixture->fake, FAKE_SEND, index).key);
}

static void fail_one(struct fixture *fixture, const char *content)
{
    fake_service_push(fixture->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_UNKNOWN});
    assert_int_equal(mail(fixture, "m.eml", content), 0);
    assert_int_equal(settle(fixture), -EIO);
}

FIXTURE_TEST(an_unedited_message_from_failed_keeps_its_key)
{
    struct fixture *fixture = *state;
    fail_one(fixture, MESSAGE);
    assert_int_equal(move(fixture, FAILED, "m.eml", OUT, "again.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    _cleanup_free_ char *first = key_of_send(fixture, 0);
    _cleanup_free_ char *second = key_of_send(fixture, 1);
    assert_string_equal(first, second);
}

FIXTURE_TEST(a_failed_message_moved_through_drafts_gets_a_new_key)
{
    struct fixture *fixture = *state;
    fail_one(fixture, MESSAGE);
    assert_int_equal(
        outbox_take_out(fixture->outbox, OUTBOX_FOLDER_FAILED, "m.eml", fixture->drafts, "m.eml", 0), 0);
    assert_int_equal(move_in(fixture, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    _cleanup_free_ char *first = key_of_send(fixture, 0);
    _cleanup_free_ char *second = key_of_send(fixture, 1);
    assert_string_not_equal(first, second);
}

FIXTURE_TEST(an_edited_message_gets_a_new_key)
{
    struct fixture *fixture = *state;
    fail_one(fixture, MESSAGE);
    assert_int_equal(
        outbox_take_out(fixture->outbox, OUTBOX_FOLDER_FAILED, "m.eml", fixture->drafts, "m.eml", 0), 0);
    put_draft(fixture, "m.eml", MESSAGE "And you?\n");
    assert_int_equal(move_in(fixture, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    _cleanup_free_ char *first = key_of_send(fixture, 0);
    _cleanup_free_ char *second = key_of_send(fixture, 1);
    assert_string_not_equal(first, second);
}

/* The text before the edit may have been sent; the edited text was certainly not sent. */
FIXTURE_TEST(a_refused_edited_text_is_reported_as_not_sent)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = NULL;
    fail_one(fixture, MESSAGE);
    assert_int_equal(move(fixture, FAILED, "m.eml", OUT, "m.eml~"), 0);
    uint64_t number = number_of(fixture, OUT, "m.eml~");
    assert_int_equal(outbox_open_item(fixture->outbox, number, O_WRONLY | O_TRUNC, 0, &handle), 0);
    append(handle, MESSAGE "And you?\n", 0);
    finish(handle);
    fake_service_push(fixture->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    assert_int_equal(move(fixture, OUT, "m.eml~", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"state\": \"failed\""));
}

FIXTURE_TEST(a_refusal_at_a_later_hand_in_leaves_the_outcome_unknown)
{
    struct fixture *fixture = *state;
    copy_in(fixture, ATTACHED, "a.txt", "text");
    assert_int_equal(settle_uploads(fixture), 0);
    fail_one(fixture, "To: bob@x.example\nSubject: Hello\nAttach: a.txt\n\nHow are you?\n");
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt"), 0);
    assert_int_equal(move(fixture, FAILED, "m.eml", OUT, "m.eml~"), 0);
    assert_int_equal(move(fixture, OUT, "m.eml~", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "a.txt"));
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "\"state\": \"unknown outcome\""));
}

FIXTURE_TEST(a_message_from_sent_gets_a_new_key)
{
    struct fixture *fixture = *state;
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(move(fixture, SENT, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(
        outbox_take_out(fixture->outbox, OUTBOX_FOLDER_SENT, "m.eml", fixture->drafts, "m.eml", 0), 0);
    assert_int_equal(move_in(fixture, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    _cleanup_free_ char *first = key_of_send(fixture, 0);
    _cleanup_free_ char *second = key_of_send(fixture, 1);
    _cleanup_free_ char *third = key_of_send(fixture, 2);
    assert_string_not_equal(first, second);
    assert_string_not_equal(second, third);
}
