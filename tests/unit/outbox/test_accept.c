/* SPDX-License-Identifier: MIT */
/*
 * mv from drafts/: its errors, the drafts that it leaves in place, and the move back to drafts/.
 */
#include "outbox_world.h"

#include <inttypes.h>

#include "support/test.h"

WORLD_TEST(a_bad_draft_stays_a_draft_and_has_its_errno)
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
        {MESSAGE, SENT, "m.eml", -EPERM},
        {MESSAGE, FAILED, "m.eml", -EPERM},
        {"", ATTACHED, "a.txt", -EBADMSG},
    };
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        put_draft(world, "m.eml", rows[i].content);
        world->news_len = 0;
        assert_int_equal(move_in(world, "m.eml", rows[i].folder, rows[i].name), rows[i].error);
        assert_true(has_draft(world, "m.eml"));
        assert_true(was_told(world, EVENT_REFUSED, "drafts/m.eml"));
        assert_true(world->news[0].error[0] != '\0');
    }
    struct outbox_status status;
    outbox_get_status(world->outbox, &status);
    assert_int_equal(status.queued, 0);
    world_reopen(world);
    outbox_get_status(world->outbox, &status);
    assert_int_equal(status.queued, 0);
    assert_int_equal(sends(world), 0);
}

WORLD_TEST(only_ordinary_files_are_accepted)
{
    struct world *world = *state;
    put_draft(world, "m.eml", MESSAGE);
    assert_int_equal(symlinkat("m.eml", world->drafts, "link"), 0);
    assert_int_equal(mkdirat(world->drafts, "dir", 0700), 0);
    assert_int_equal(mkfifoat(world->drafts, "fifo", 0600), 0);
    assert_int_equal(move_in(world, "link", OUT, "a"), -ELOOP);
    assert_int_equal(move_in(world, "dir", OUT, "a"), -EISDIR);
    assert_int_equal(move_in(world, "fifo", OUT, "a"), -EBADMSG);
    assert_int_equal(move_in(world, "nothing", OUT, "a"), -ENOENT);
    assert_int_equal(linkat(world->drafts, "m.eml", world->drafts, "second", 0), 0);
    assert_int_equal(move_in(world, "m.eml", OUT, "a"), -EMLINK);
    assert_int_equal(sends(world), 0);
}

WORLD_TEST(sizes_are_bounded)
{
    struct world *world = *state;
    put_draft(world, "m.eml", MESSAGE);
    int fd = openat(world->drafts, "m.eml", O_RDWR);
    assert_int_equal(ftruncate(fd, 24 * 1000 * 1000 + 1), 0);
    assert_int_equal(move_in(world, "m.eml", OUT, "m.eml"), -EMSGSIZE);
    assert_int_equal(ftruncate(fd, 10 * 1000 * 1000 + 1), 0);
    assert_int_equal(move_in(world, "m.eml", ATTACHED, "m.eml"), -EFBIG);
    assert_int_equal(ftruncate(fd, 10 * 1000 * 1000), 0);
    assert_int_equal(move_in(world, "m.eml", ATTACHED, "m.eml"), 0);
    close(fd);
    put_draft(world, "n.txt", "one byte more");
    assert_int_equal(move_in(world, "n.txt", ATTACHED, "n.txt"), 0);
    assert_int_equal(mail(world, "big.eml", "To: b@x.example\nAttach: m.eml\nAttach: n.txt\n\nb\n"),
                     -EMSGSIZE);
    assert_true(has_draft(world, "big.eml"));
    /* The limit is on attached parts and files attached by name together. */
    assert_int_equal(
        mail(world, "part.eml",
             "To: b@x.example\nAttach: m.eml\nContent-Type: multipart/mixed; boundary=b\n\n"
             "--b\n\nb\n--b\nContent-Disposition: attachment; filename=p.txt\n\none byte more\n--b--\n"),
        -EMSGSIZE);
}

WORLD_TEST(a_rename_onto_an_unsent_message_replaces_it)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_next_attempt(world);
    assert_int_equal(mail(world, "m.eml", MESSAGE "Edited.\n"), 0); /* replaces the first */
    assert_true(shown_contains(world, OUT, "m.eml", "Edited."));
    put_draft(world, "m.eml", MESSAGE);

    copy_in(world, OUT, "held.eml", "");
    assert_int_equal(outbox_hand_in(world->outbox, world->drafts, "m.eml", "drafts/m.eml",
                                    OUTBOX_FOLDER_OUTBOX, "held.eml", RENAME_NOREPLACE, 0, NULL),
                     -EEXIST);
    assert_int_equal(move_in(world, "m.eml", OUT, "held.eml"), 0);
    assert_false(has_draft(world, "m.eml"));
    assert_true(shown_contains(world, OUT, "held.eml", "How are you?"));

    struct outbox_handle *handle = create(world, OUT, "open.eml");
    put_draft(world, "n.eml", MESSAGE);
    assert_int_equal(move_in(world, "n.eml", OUT, "open.eml"), 0);
    append(handle, "half a message", 0);
    finish(handle);
    assert_true(shown_contains(world, OUT, "open.eml", "How are you?"));
    world_reopen(world);
    assert_true(shown_contains(world, OUT, "held.eml", "How are you?"));
}

WORLD_TEST(names_never_sent_are_held_unchecked)
{
    struct world *world = *state;
    put_draft(world, "x", "anything");
    assert_int_equal(move_in(world, "x", OUT, "x.tmp"), 0);
    assert_false(has_draft(world, "x"));
    assert_int_equal(settle(world), 0);
    assert_true(is_listed(world, OUT, "x.tmp"));
    assert_int_equal(move(world, OUT, "x.tmp", OUT, "x.eml"), 0);
    assert_int_equal(settle(world), -EIO);
    assert_true(is_listed(world, FAILED, "x.eml"));
    assert_int_equal(sends(world), 0);
}

WORLD_TEST(a_file_that_cannot_be_moved_stays_a_draft)
{
    struct world *world = *state;
    put_draft(world, "m.eml", MESSAGE);
    /* The file cannot be moved, whichever number it gets. */
    for (int i = 1; i < 20; i++) {
        char name[64];
        snprintf(name, sizeof(name), "spool/%d.data", i);
        assert_int_equal(mkdirat(world->dir.fd, name, 0700), 0);
    }
    assert_int_equal(move_in(world, "m.eml", OUT, "m.eml"), -EISDIR);
    world_reopen(world);
    assert_true(has_draft(world, "m.eml"));
    assert_false(is_listed(world, OUT, "m.eml"));
}

/* ---------------------------------------------------------------- back to drafts/ */

WORLD_TEST(queued_messages_are_cancelled_by_taking_them_out)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    assert_int_equal(
        outbox_take_out(world->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", world->drafts, "back.eml", 0), 0);
    assert_true(has_draft(world, "back.eml"));
    assert_false(is_listed(world, OUT, "m.eml"));
    fake_service_set_reachable(world->fake, true);
    world_reopen(world);
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count_sent(world->fake, false), 0);
}

WORLD_TEST(a_message_being_sent_cannot_be_cancelled)
{
    struct world *world = *state;
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), -EBUSY);
    assert_int_equal(move(world, OUT, "m.eml", OUT, "m.tmp"), -EBUSY);
    assert_int_equal(outbox_take_out(world->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml", world->drafts, "x", 0),
                     -EBUSY);
    assert_false(has_draft(world, "x"));
    fake_service_open_gate(world->fake, FAKE_SEND);
    assert_int_equal(settle(world), 0);
}

WORLD_TEST(receipts_cannot_be_moved)
{
    struct world *world = *state;
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(
        outbox_take_out(world->outbox, OUTBOX_FOLDER_SENT, "m.eml.receipt.json", world->drafts, "x", 0),
        -EPERM);
    assert_int_equal(move(world, SENT, "m.eml.receipt.json", OUT, "x"), -EPERM);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_SENT, "m.eml.receipt.json"), -EPERM);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_SENT, "n.eml.receipt.json"), -ENOENT);
}

/* ---------------------------------------------------------------- idempotency keys */

static char *key_of_send(struct world *world, unsigned int index)
{
    return strdup(fake_service_get(world->fake, FAKE_SEND, index).key);
}

static void fail_one(struct world *world, const char *content)
{
    fake_service_push(world->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_UNKNOWN});
    assert_int_equal(mail(world, "m.eml", content), 0);
    assert_int_equal(settle(world), -EIO);
}

WORLD_TEST(an_unedited_message_from_failed_keeps_its_key)
{
    struct world *world = *state;
    fail_one(world, MESSAGE);
    assert_int_equal(move(world, FAILED, "m.eml", OUT, "again.eml"), 0);
    assert_int_equal(settle(world), 0);
    _cleanup_free_ char *first = key_of_send(world, 0);
    _cleanup_free_ char *second = key_of_send(world, 1);
    assert_string_equal(first, second);
}

WORLD_TEST(a_failed_message_moved_through_drafts_gets_a_new_key)
{
    struct world *world = *state;
    fail_one(world, MESSAGE);
    assert_int_equal(outbox_take_out(world->outbox, OUTBOX_FOLDER_FAILED, "m.eml", world->drafts, "m.eml", 0),
                     0);
    assert_int_equal(move_in(world, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(world), 0);
    _cleanup_free_ char *first = key_of_send(world, 0);
    _cleanup_free_ char *second = key_of_send(world, 1);
    assert_string_not_equal(first, second);
}

WORLD_TEST(an_edited_message_gets_a_new_key)
{
    struct world *world = *state;
    fail_one(world, MESSAGE);
    assert_int_equal(outbox_take_out(world->outbox, OUTBOX_FOLDER_FAILED, "m.eml", world->drafts, "m.eml", 0),
                     0);
    put_draft(world, "m.eml", MESSAGE "And you?\n");
    assert_int_equal(move_in(world, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(world), 0);
    _cleanup_free_ char *first = key_of_send(world, 0);
    _cleanup_free_ char *second = key_of_send(world, 1);
    assert_string_not_equal(first, second);
}

/* The text before the edit may have been sent; the edited text was not. */
WORLD_TEST(a_refused_edited_text_was_certainly_not_sent)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    fail_one(world, MESSAGE);
    assert_int_equal(move(world, FAILED, "m.eml", OUT, "m.eml~"), 0);
    uint64_t number = number_of(world, OUT, "m.eml~");
    assert_int_equal(outbox_open_item(world->outbox, number, O_WRONLY | O_TRUNC, 0, &handle), 0);
    append(handle, MESSAGE "And you?\n", 0);
    finish(handle);
    fake_service_push(world->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    assert_int_equal(move(world, OUT, "m.eml~", OUT, "m.eml"), 0);
    assert_int_equal(settle(world), -EIO);
    assert_true(shown_contains(world, FAILED, "m.eml.receipt.json", "\"state\": \"failed\""));
}

WORLD_TEST(a_refusal_at_a_later_hand_in_leaves_the_outcome_unknown)
{
    struct world *world = *state;
    copy_in(world, ATTACHED, "a.txt", "text");
    assert_int_equal(settle_uploads(world), 0);
    fail_one(world, "To: bob@x.example\nSubject: Hello\nAttach: a.txt\n\nHow are you?\n");
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt"), 0);
    assert_int_equal(move(world, FAILED, "m.eml", OUT, "m.eml~"), 0);
    assert_int_equal(move(world, OUT, "m.eml~", OUT, "m.eml"), 0);
    assert_int_equal(settle(world), -EIO);
    assert_true(shown_contains(world, FAILED, "m.eml.receipt.json", "a.txt"));
    assert_true(shown_contains(world, FAILED, "m.eml.receipt.json", "\"state\": \"unknown outcome\""));
}

WORLD_TEST(a_message_from_sent_gets_a_new_key)
{
    struct world *world = *state;
    assert_int_equal(mail(world, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(move(world, SENT, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(outbox_take_out(world->outbox, OUTBOX_FOLDER_SENT, "m.eml", world->drafts, "m.eml", 0),
                     0);
    assert_int_equal(move_in(world, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(world), 0);
    _cleanup_free_ char *first = key_of_send(world, 0);
    _cleanup_free_ char *second = key_of_send(world, 1);
    _cleanup_free_ char *third = key_of_send(world, 2);
    assert_string_not_equal(first, second);
    assert_string_not_equal(second, third);
}
