/* SPDX-License-Identifier: MIT */
/*
 * Renames and removals inside the four folders, and conflicts of names.
 */
#include "outbox_world.h"

#include "support/disk.h"
#include "support/test.h"

WORLD_TEST(names_that_are_taken_get_a_number)
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

WORLD_TEST(a_number_is_counted_on_not_numbered)
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

/* The name of the receipt must also fit into NAME_MAX. */
WORLD_TEST(names_that_are_too_long_are_shortened)
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

    memcpy(name + 229, ".receipt.jsonxxxxxxxxxxxxxxxx", 26); /* begins with a receipt's name */
    copy_in(world, OUT, name, MESSAGE);
    assert_int_equal(settle(world), 0);
    assert_int_equal(outbox_list(world->outbox, OUTBOX_FOLDER_SENT, &listing), 0);
    assert_int_equal(listing.len, 8);
    outbox_listing_release(&listing);
}

WORLD_TEST(names_may_hold_any_text)
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
        assert_int_equal(move(world, OUT, ".again", OUT, names[i]), 0);
        assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_OUTBOX, names[i]), 0);
    }
}

WORLD_TEST(which_renames_are_allowed)
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
    assert_int_equal(settle(world), -EIO);
    copy_in(world, OUT, "held.tmp", MESSAGE);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(move(world, rows[i].from, rows[i].name, rows[i].to, rows[i].new_name),
                         rows[i].error);
    assert_int_equal(outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, "other.tmp", OUTBOX_FOLDER_OUTBOX,
                                   "y", RENAME_EXCHANGE, 0),
                     -EINVAL);
}

/* An attempt may begin at any time. The rename then has to wait for the end of the attempt. */
static int rename_between_attempts(struct world *world, const char *name, const char *new_name)
{
    int error;
    while ((error = outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, name, OUTBOX_FOLDER_OUTBOX, new_name,
                                  RENAME_NOREPLACE, 0)) == -EBUSY)
        usleep(1000);
    return error;
}

WORLD_TEST(a_queued_message_keeps_its_place_under_another_name)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "1.eml", "To: b@x.example\nSubject: first\n\nb\n"), 0);
    assert_int_equal(mail(world, "2.eml", "To: b@x.example\nSubject: second\n\nb\n"), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_next_attempt(world);
    await_paused(world, true);
    assert_int_equal(rename_between_attempts(world, "1.eml", "2.eml"), -EEXIST);
    assert_int_equal(rename_between_attempts(world, "1.eml", "9.eml"), 0);
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

/* Calls outbox_rename() while the disk is full. */
static int rename_on_a_full_disk(struct world *world, const char *name, const char *new_name, pid_t pid)
{
    disk_fill(0);
    int error =
        outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, name, OUTBOX_FOLDER_OUTBOX, new_name, 0, pid);
    disk_empty();
    return error;
}

/* Otherwise the old name would be back after a restart. */
WORLD_TEST(a_rename_that_cannot_be_recorded_changes_nothing)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "old.eml", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
    assert_true(rename_on_a_full_disk(world, "old.eml", "new.eml", 0) < 0);
    assert_true(is_listed(world, OUT, "old.eml"));
    assert_false(is_listed(world, OUT, "new.eml"));
    assert_int_equal(move(world, OUT, "old.eml", OUT, "new.eml"), 0);
    assert_true(is_listed(world, OUT, "new.eml"));
}

WORLD_TEST(a_rename_to_a_name_never_sent_cancels)
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

WORLD_TEST(rm_cancels_a_waiting_message)
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

WORLD_TEST(a_temporary_file_that_is_renamed_into_place_is_sent)
{
    struct world *world = *state;
    copy_in(world, OUT, "m.eml", "");
    copy_in(world, OUT, ".m.eml.Xy12", MESSAGE);
    assert_int_equal(outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, ".m.eml.Xy12", OUTBOX_FOLDER_OUTBOX,
                                   "m.eml", RENAME_NOREPLACE, 0),
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

WORLD_TEST(a_file_that_is_written_can_be_renamed)
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

/* The file was closed once, but its program writes more. */
WORLD_TEST(a_temporary_file_renamed_while_open_is_handed_in_when_closed)
{
    struct world *world = *state;
    struct outbox_handle *handle;
    copy_in(world, OUT, "x.tmp", MESSAGE);
    uint64_t number = number_of(world, OUT, "x.tmp");
    assert_int_equal(outbox_open_item(world->outbox, number, O_RDWR, 0, &handle), 0);
    assert_int_equal(move(world, OUT, "x.tmp", OUT, "x.eml"), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 0);
    append(handle, "The end of it.\n", (off_t)strlen(MESSAGE));
    finish(handle);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 1);
    assert_true(sent_contains(world, 0, "The end of it."));
}

WORLD_TEST(retry_hands_in_a_failed_message)
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
    WRITER = 5000001, /* Linux assigns no process id this high */
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
    return outbox_rename(world->outbox, OUTBOX_FOLDER_OUTBOX, name, OUTBOX_FOLDER_OUTBOX, new_name, 0, pid);
}

/* An empty file cannot be sent, and an open file may still fail. */
WORLD_TEST(an_empty_or_open_file_replaces_no_message)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    assert_int_equal(mail(world, "letter", MESSAGE), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_paused(world, true);
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

WORLD_TEST(listings_are_in_order_of_hand_in)
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
