/* SPDX-License-Identifier: MIT */
/*
 * Renames and removals inside the four folders, and conflicts of names.
 */
#include "outbox_fixture.h"

#include "support/disk.h"
#include "support/test.h"

FIXTURE_TEST(names_that_are_taken_get_a_number)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 12; i++) {
        assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
        assert_int_equal(settle(fixture), 0);
    }
    assert_true(is_listed(fixture, SENT, "m.eml"));
    for (int i = 2; i <= 12; i++) {
        char name[64];
        snprintf(name, sizeof(name), "m-%d.eml", i);
        assert_true(is_listed(fixture, SENT, name));
        snprintf(name, sizeof(name), "m-%d.eml.receipt.json", i);
        assert_true(is_listed(fixture, SENT, name));
    }
    assert_true(has_event(fixture, EVENT_SENT, "sent/m-12.eml"));
    fixture_reopen(fixture);
    assert_true(is_listed(fixture, SENT, "m-12.eml"));
}

FIXTURE_TEST(a_taken_numbered_name_gets_the_next_number)
{
    static const char *const names[] = {"m.eml", "m-2.eml", "m-2.eml", "m-3.eml", "n-2.eml", "n-2.eml"};
    static const char *const shown[] = {"m.eml", "m-2.eml", "m-3.eml", "m-4.eml", "n-2.eml", "n-2-2.eml"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_int_equal(mail(fixture, names[i], MESSAGE), 0);
        assert_int_equal(settle(fixture), 0);
        assert_true(is_listed(fixture, SENT, shown[i]));
    }
}

/* The name of the receipt must also fit into NAME_MAX. */
FIXTURE_TEST(names_that_are_too_long_are_shortened)
{
    struct fixture *fixture = *state;
    char name[256];
    char shown[300];
    struct outbox_listing listing;
    memset(name, 'n', sizeof(name));
    memcpy(name + 255 - 4, ".eml", 5);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mail(fixture, name, MESSAGE), 0);
        assert_int_equal(settle(fixture), 0);
    }
    snprintf(shown, sizeof(shown), "%.238s.eml", name);
    assert_true(is_listed(fixture, SENT, shown));
    char path[310];
    snprintf(path, sizeof(path), "sent/%s", shown);
    assert_true(has_event(fixture, EVENT_SENT, path));
    copy_in(fixture, OUT, name, "bad");
    assert_int_equal(settle(fixture), -EIO);
    assert_true(is_listed(fixture, FAILED, shown));
    fixture_reopen(fixture);
    assert_true(shown_contains(fixture, FAILED, strcat(shown, ".receipt.json"), "failed"));
    outbox_list(fixture->outbox, OUTBOX_FOLDER_SENT, &listing);
    assert_int_equal(listing.len, 6);
    for (size_t i = 0; i < listing.len; i++)
        assert_true(strlen(listing.entries[i].name) <= 255);
    outbox_listing_release(&listing);

    memcpy(name + 229, ".receipt.jsonxxxxxxxxxxxxxxxx", 26); /* begins with a receipt's name */
    copy_in(fixture, OUT, name, MESSAGE);
    assert_int_equal(settle(fixture), 0);
    outbox_list(fixture->outbox, OUTBOX_FOLDER_SENT, &listing);
    assert_int_equal(listing.len, 8);
    outbox_listing_release(&listing);
}

FIXTURE_TEST(a_message_name_may_contain_control_characters)
{
    static const char *const names[] = {"new\nline",      "\x1b[31mred", "bell\a\t\x7f",
                                        "\xc2\x85\u202e", "\"\\",        " "};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[64];
        assert_int_equal(mail(fixture, names[i], MESSAGE), 0);
        assert_int_equal(settle(fixture), 0);
        snprintf(path, sizeof(path), "sent/%s", names[i]);
        assert_true(has_event(fixture, EVENT_SENT, path));
        copy_in(fixture, OUT, names[i], "bad");
        assert_int_equal(settle(fixture), -EIO);
    }
    fixture_reopen(fixture);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        assert_true(is_listed(fixture, SENT, names[i]));
        assert_int_equal(move(fixture, FAILED, names[i], OUT, ".again"), 0);
        assert_int_equal(move(fixture, OUT, ".again", OUT, names[i]), 0);
        assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, names[i]), 0);
    }
}

FIXTURE_TEST(a_forbidden_rename_returns_its_errno)
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
    struct fixture *fixture = *state;
    assert_int_equal(mail(fixture, "sent.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), 0);
    copy_in(fixture, OUT, "failed.eml", "bad");
    assert_int_equal(settle(fixture), -EIO);
    copy_in(fixture, OUT, "held.tmp", MESSAGE);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(move(fixture, rows[i].from, rows[i].name, rows[i].to, rows[i].new_name),
                         rows[i].error);
}

/* Tries again if an attempt is under way, which may begin at any time. */
static int rename_between_attempts(struct fixture *fixture, const char *name, const char *new_name)
{
    int error;
    while ((error = outbox_rename(fixture->outbox, OUTBOX_FOLDER_OUTBOX, name, OUTBOX_FOLDER_OUTBOX, new_name,
                                  RENAME_NOREPLACE, 0)) == -EBUSY)
        usleep(1000);
    return error;
}

FIXTURE_TEST(a_renamed_queued_message_keeps_its_position)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "1.eml", "To: b@x.example\nSubject: first\n\nb\n"), 0);
    assert_int_equal(mail(fixture, "2.eml", "To: b@x.example\nSubject: second\n\nb\n"), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_next_attempt(fixture);
    await_paused(fixture, true);
    assert_int_equal(rename_between_attempts(fixture, "1.eml", "2.eml"), -EEXIST);
    assert_int_equal(rename_between_attempts(fixture, "1.eml", "9.eml"), 0);
    fixture_reopen(fixture);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_next_attempt(fixture);
    unsigned int before = sends(fixture);
    fake_service_set_reachable(fixture->fake, true);
    outbox_wake(fixture->outbox);
    await_event(fixture, EVENT_SENT, "sent/9.eml");
    await_event(fixture, EVENT_SENT, "sent/2.eml");
    assert_true(sent_contains(fixture, before, "first"));
    assert_true(sent_contains(fixture, before + 1, "second"));
}

/* Calls outbox_rename() while the disk is full. */
static int rename_on_a_full_disk(struct fixture *fixture, const char *name, const char *new_name, pid_t pid)
{
    disk_fill(0);
    int error =
        outbox_rename(fixture->outbox, OUTBOX_FOLDER_OUTBOX, name, OUTBOX_FOLDER_OUTBOX, new_name, 0, pid);
    disk_empty();
    return error;
}

/* An item that is renamed in memory alone would have the old name again after a restart. */
FIXTURE_TEST(a_rename_that_cannot_be_recorded_changes_nothing)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "old.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_paused(fixture, true);
    assert_true(rename_on_a_full_disk(fixture, "old.eml", "new.eml", 0) < 0);
    assert_true(is_listed(fixture, OUT, "old.eml"));
    assert_false(is_listed(fixture, OUT, "new.eml"));
    assert_int_equal(move(fixture, OUT, "old.eml", OUT, "new.eml"), 0);
    assert_true(is_listed(fixture, OUT, "new.eml"));
}

FIXTURE_TEST(a_rename_to_a_never_sent_name_cancels_the_message)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_next_attempt(fixture);
    assert_int_equal(move(fixture, OUT, "m.eml", OUT, "m.tmp"), 0);
    fake_service_set_reachable(fixture->fake, true);
    outbox_wake(fixture->outbox);
    assert_int_equal(settle(fixture), 0);
    fixture_reopen(fixture);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, OUT, "m.tmp"));
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 0);
    assert_int_equal(move(fixture, OUT, "m.tmp", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 1);
}

FIXTURE_TEST(rm_cancels_a_waiting_message)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_next_attempt(fixture);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), 0);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), -ENOENT);
    fake_service_set_reachable(fixture->fake, true);
    fixture_reopen(fixture);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 0);
}

/* The row cannot be removed, so the content is. A message without content must not stay. */
FIXTURE_TEST(rm_on_a_disk_that_cannot_sync_is_an_error_and_removes_the_message)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    await_paused(fixture, true);
    disk_fail_syncs("/spool", EIO);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "m.eml"), -EIO);
    disk_fail_syncs("/spool", 0);
    assert_false(is_listed(fixture, OUT, "m.eml"));
    fixture_reopen(fixture);
    assert_false(is_listed(fixture, OUT, "m.eml"));
}

FIXTURE_TEST(a_temporary_file_that_is_renamed_into_place_is_sent)
{
    struct fixture *fixture = *state;
    copy_in(fixture, OUT, "m.eml", "");
    copy_in(fixture, OUT, ".m.eml.Xy12", MESSAGE);
    assert_int_equal(outbox_rename(fixture->outbox, OUTBOX_FOLDER_OUTBOX, ".m.eml.Xy12", OUTBOX_FOLDER_OUTBOX,
                                   "m.eml", RENAME_NOREPLACE, 0),
                     -EEXIST);
    assert_int_equal(move(fixture, OUT, ".m.eml.Xy12", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, SENT, "m.eml"));
    assert_false(is_listed(fixture, OUT, ".m.eml.Xy12"));
    struct outbox_listing listing;
    outbox_list(fixture->outbox, OUTBOX_FOLDER_OUTBOX, &listing);
    assert_int_equal(listing.len, 0);
    outbox_listing_release(&listing);
}

FIXTURE_TEST(a_file_can_be_renamed_while_it_is_written)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, OUT, "x.tmp");
    append(handle, MESSAGE, 0);
    assert_int_equal(move(fixture, OUT, "x.tmp", OUT, "x.eml"), 0);
    assert_int_equal(sends(fixture), 0);
    finish(handle);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, SENT, "x.eml"));
}

/* The program closed the file once, but then writes more. */
FIXTURE_TEST(a_temporary_file_renamed_while_open_is_handed_in_when_closed)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle;
    copy_in(fixture, OUT, "x.tmp", MESSAGE);
    uint64_t number = number_of(fixture, OUT, "x.tmp");
    assert_int_equal(outbox_open_item(fixture->outbox, number, O_RDWR, 0, &handle), 0);
    assert_int_equal(move(fixture, OUT, "x.tmp", OUT, "x.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 0);
    append(handle, "The end of it.\n", (off_t)strlen(MESSAGE));
    finish(handle);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 1);
    assert_true(sent_contains(fixture, 0, "The end of it."));
}

FIXTURE_TEST(retry_hands_in_a_failed_message)
{
    struct fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_SEND, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    assert_int_equal(mail(fixture, "m.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(outbox_retry(fixture->outbox, NULL), 0);
    assert_true(is_listed(fixture, FAILED, "m.eml"));
    assert_int_equal(outbox_retry(fixture->outbox, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, SENT, "m.eml"));
    assert_false(is_listed(fixture, FAILED, "m.eml"));
    assert_int_equal(outbox_retry(fixture->outbox, "m.eml"), -ENOENT);

    fake_service_push(
        fixture->fake, FAKE_SEND,
        (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503, .retry_after_ms = HOUR_MS});
    assert_int_equal(mail(fixture, "n.eml", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_next_attempt(fixture);
    await_paused(fixture, true);
    assert_int_equal(outbox_retry(fixture->outbox, "n.eml"), 0);
    await_event(fixture, EVENT_SENT, "sent/n.eml");
}

enum {
    WRITER = 5000001, /* higher than any process id of Linux */
};

static void write_as(struct fixture *fixture, const char *name, const char *text, pid_t pid)
{
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    assert_int_equal(outbox_create(fixture->outbox, OUTBOX_FOLDER_OUTBOX, name, pid, NULL, &handle, &stat),
                     0);
    assert_int_equal(outbox_write(handle, text, strlen(text), 0, pid), strlen(text));
    assert_int_equal(outbox_flush(handle, 0), 0);
    outbox_release(handle);
}

static int rename_as(struct fixture *fixture, const char *name, const char *new_name, pid_t pid)
{
    return outbox_rename(fixture->outbox, OUTBOX_FOLDER_OUTBOX, name, OUTBOX_FOLDER_OUTBOX, new_name, 0, pid);
}

/* An empty file cannot be sent, and an open file may still fail. */
FIXTURE_TEST(an_empty_or_open_file_replaces_no_message)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(mail(fixture, "letter", MESSAGE), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_paused(fixture, true);
    write_as(fixture, ".empty", "", WRITER);
    assert_int_equal(rename_as(fixture, ".empty", "letter", WRITER), -EBADMSG);
    write_as(fixture, "empty", "", WRITER);
    assert_int_equal(rename_as(fixture, "empty", "letter", WRITER), -EBADMSG);
    assert_true(has_event(fixture, EVENT_REFUSED, "outbox/empty"));
    struct outbox_handle *handle = NULL;
    struct outbox_stat stat;
    assert_int_equal(
        outbox_create(fixture->outbox, OUTBOX_FOLDER_OUTBOX, "open", WRITER, NULL, &handle, &stat), 0);
    assert_int_equal(outbox_write(handle, "To: ", 4, 0, WRITER), 4);
    assert_int_equal(rename_as(fixture, "open", "letter", WRITER), -EBUSY);
    finish(handle);
    assert_true(shown_contains(fixture, OUT, "letter", "How are you?"));
    fake_service_set_reachable(fixture->fake, true);
    outbox_wake(fixture->outbox);
    await_event(fixture, EVENT_SENT, "sent/letter");
}

FIXTURE_TEST(listings_are_in_order_of_hand_in)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    struct outbox_handle *handle = create(fixture, OUT, "last.eml");
    assert_int_equal(mail(fixture, "b.eml", MESSAGE), 0);
    assert_int_equal(mail(fixture, "a.eml", MESSAGE), 0);
    append(handle, MESSAGE, 0);
    finish(handle);
    struct outbox_listing listing;
    outbox_list(fixture->outbox, OUTBOX_FOLDER_OUTBOX, &listing);
    assert_int_equal(listing.len, 3);
    assert_string_equal(listing.entries[0].name, "b.eml");
    assert_string_equal(listing.entries[1].name, "a.eml");
    assert_string_equal(listing.entries[2].name, "last.eml");
    outbox_listing_release(&listing);
}
