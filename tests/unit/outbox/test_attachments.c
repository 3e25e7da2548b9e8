/* SPDX-License-Identifier: MIT */
/*
 * Files of attachments/: uploading, and the messages that bind them.
 */
#include "outbox_fixture.h"

#include <dirent.h>
#include <inttypes.h>

#include "outbox/change.h"
#include "support/disk.h"
#include "support/test.h"

#define WITH_A "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n"

FIXTURE_TEST(an_uploaded_file_remains_in_attachments_with_a_receipt)
{
    struct fixture *fixture = *state;
    copy_in(fixture, ATTACHED, "a.txt", "some text\n");
    put_draft(fixture, "b.pdf", "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n");
    assert_int_equal(move_in(fixture, "b.pdf", ATTACHED, "b.pdf"), 0);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 2);
    assert_true(is_listed(fixture, ATTACHED, "a.txt"));
    assert_true(shown_contains(fixture, ATTACHED, "a.txt", "some text"));
    assert_true(shown_contains(fixture, ATTACHED, "a.txt.receipt.json", "\"state\": \"uploaded\""));
    assert_true(shown_contains(fixture, ATTACHED, "a.txt.receipt.json", "\"kind\": \"attachment\""));
    assert_true(shown_contains(fixture, ATTACHED, "a.txt.receipt.json", "\"attempts\": 1,"));
    assert_true(has_event(fixture, EVENT_UPLOADED, "attachments/a.txt"));
    for (unsigned int i = 0; i < 2; i++) {
        struct fake_record upload = fake_service_get(fixture->fake, FAKE_UPLOAD, i);
        assert_string_equal(upload.key, strcmp(upload.text, "a.txt") == 0 ? "text/plain" : "application/pdf");
    }
    fixture_reopen(fixture);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 2);
}

/* shutil.copy2() and rsync --inplace set the times after they close the file. */
FIXTURE_TEST(touching_a_file_does_not_end_its_upload)
{
    struct fixture *fixture = *state;
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
    struct outbox_stat stat;
    fake_service_close_gate(fixture->fake, FAKE_UPLOAD);
    copy_in(fixture, ATTACHED, "a.txt", "some text\n");
    fake_service_wait_at_gate(fixture->fake, FAKE_UPLOAD, 1);
    assert_int_equal(outbox_set_times(fixture->outbox, number_of(fixture, ATTACHED, "a.txt"), times), 0);
    fake_service_open_gate(fixture->fake, FAKE_UPLOAD);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 1);
    assert_true(shown_contains(fixture, ATTACHED, "a.txt.receipt.json", "\"state\": \"uploaded\""));
    assert_true(outbox_find(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt", &stat));
    assert_int_equal(stat.mtime.tv_sec, 2000);
}

FIXTURE_TEST(the_content_type_follows_from_extension_or_bytes)
{
    static const struct {
        const char *name;
        const char *bytes;
        const char *type;
    } cases[] = {
        {"drawing", "<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n",
         "image/svg+xml"},
        {"x.DOCX", "PK\3\4", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
        {"page", "<!DOCTYPE html><html><body>x</body></html>\n", "text/html"},
        {"lines.csv", "a,b\n", "text/csv"},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        copy_in(fixture, ATTACHED, cases[i].name, cases[i].bytes);
    assert_int_equal(settle_uploads(fixture), 0);
    for (unsigned int i = 0; i < ARRAY_LEN(cases); i++) {
        struct fake_record upload = fake_service_get(fixture->fake, FAKE_UPLOAD, i);
        size_t of = 0;
        while (strcmp(cases[of].name, upload.text) != 0)
            assert_true(++of < ARRAY_LEN(cases));
        assert_string_equal(upload.key, cases[of].type);
    }
}

FIXTURE_TEST(a_message_waits_for_its_attachment)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, ATTACHED, "a.txt");
    append(handle, "first half, ", 0);
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    assert_int_equal(mail(fixture, "n.eml", "To: b@x.example\nSubject: later\n\nb\n"), 0);
    await_event(fixture, EVENT_SENT, "sent/n.eml"); /* an endless writer delays no other message */
    fake_service_close_gate(fixture->fake, FAKE_UPLOAD);
    append(handle, "second half", 12);
    finish(handle);
    fake_service_wait_at_gate(fixture->fake, FAKE_UPLOAD, 1);
    assert_int_equal(sends(fixture), 1);
    fake_service_open_gate(fixture->fake, FAKE_UPLOAD);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 2);
    assert_int_equal(fake_service_get(fixture->fake, FAKE_UPLOAD, 0).len, 23);
    assert_true(sent_contains(fixture, 1, "attachment_ids"));
}

FIXTURE_TEST(a_message_that_waits_for_an_upload_delays_later_messages_to_its_recipients)
{
    struct fixture *fixture = *state;
    fake_service_close_gate(fixture->fake, FAKE_UPLOAD);
    copy_in(fixture, ATTACHED, "a.txt", "some text\n");
    fake_service_wait_at_gate(fixture->fake, FAKE_UPLOAD, 1);
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    assert_int_equal(mail(fixture, "n.eml", "To: b@x.example\nSubject: later\n\nb\n"), 0);
    assert_int_equal(mail(fixture, "o.eml", MESSAGE), 0); /* to another recipient */
    await_event(fixture, EVENT_SENT, "sent/o.eml");
    fake_service_open_gate(fixture->fake, FAKE_UPLOAD);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 3);
    assert_true(sent_contains(fixture, 1, "\"attachment-"));
    assert_true(sent_contains(fixture, 2, "\"later\""));
}

FIXTURE_TEST(a_message_whose_attachment_is_interrupted_fails)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, ATTACHED, "a.txt");
    append(handle, "half", 0);
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    assert_int_equal(outbox_write(handle, "x", 1, 10 * 1000 * 1000, 0), -EFBIG);
    finish(handle);
    assert_int_equal(settle(fixture), -EIO);
    assert_true(is_listed(fixture, FAILED, "m.eml"));
    assert_true(shown_contains(fixture, FAILED, "m.eml.receipt.json", "a.txt"));
    assert_true(is_listed(fixture, FAILED, "a.txt"));
    assert_true(shown_contains(fixture, FAILED, "a.txt.receipt.json", "\"kind\": \"attachment\""));
    assert_int_equal(sends(fixture), 0);

    assert_int_equal(move(fixture, FAILED, "a.txt", OUT, "a.txt"), -EPERM);
    assert_int_equal(move(fixture, FAILED, "a.txt", ATTACHED, "a.txt"), 0);
    assert_int_equal(move(fixture, FAILED, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(sends(fixture), 1);
}

/* "db.bak" is a backup's name, which is never sent in outbox/, but is an ordinary name in attachments/. */
FIXTURE_TEST(an_interrupted_attachment_of_a_backup_name_goes_to_failed)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = create(fixture, ATTACHED, "db.bak");
    append(handle, "half", 0);
    assert_int_equal(outbox_write(handle, "x", 1, 10 * 1000 * 1000, 0), -EFBIG);
    finish(handle);
    assert_false(is_listed(fixture, ATTACHED, "db.bak"));
    assert_true(shown_contains(fixture, FAILED, "db.bak", "half"));
    assert_true(shown_contains(fixture, FAILED, "db.bak.receipt.json", "\"kind\": \"attachment\""));
    assert_true(has_event(fixture, EVENT_FAILED, "failed/db.bak"));
    assert_int_equal(move(fixture, FAILED, "db.bak", ATTACHED, "db.bak"), 0);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_true(is_listed(fixture, ATTACHED, "db.bak"));
}

FIXTURE_TEST(a_refused_upload_fails_the_attachment_and_its_messages)
{
    struct fixture *fixture = *state;
    fake_service_set(fixture->fake, FAKE_UPLOAD,
                     (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 413});
    fake_service_close_gate(fixture->fake, FAKE_UPLOAD);
    copy_in(fixture, ATTACHED, "a.txt", "text");
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    fake_service_open_gate(fixture->fake, FAKE_UPLOAD);
    assert_int_equal(settle(fixture), -EIO);
    assert_int_equal(settle_uploads(fixture), -EIO);
    assert_true(shown_contains(fixture, FAILED, "a.txt.receipt.json", "413"));
    assert_true(is_listed(fixture, FAILED, "m.eml"));
}

/* Queues a message that binds the current content of a.txt and cannot be sent yet. */
static void queue_bound(struct fixture *fixture)
{
    copy_in(fixture, ATTACHED, "a.txt", "version 1");
    assert_int_equal(settle_uploads(fixture), 0);
    fake_service_set(fixture->fake, FAKE_SEND,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    assert_int_equal(settle(fixture), -EAGAIN);
    await_next_attempt(fixture);
    await_paused(fixture, true);
    fake_service_set(fixture->fake, FAKE_SEND, (struct fake_outcome){0});
}

static void expect_bound_to_first_upload(struct fixture *fixture, const char *first_id)
{
    outbox_wake(fixture->outbox);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    assert_true(sent_contains(fixture, sends(fixture) - 1, first_id));
}

static char *id_in_receipt(struct fixture *fixture)
{
    char *receipt = read_shown(fixture, ATTACHED, "a.txt.receipt.json");
    char *id = strstr(receipt, "\"id\": \"") + strlen("\"id\": \"");
    char *copy = strndup(id, strcspn(id, "\""));
    free(receipt);
    return copy;
}

FIXTURE_TEST(rewriting_an_attachment_changes_no_queued_message)
{
    struct fixture *fixture = *state;
    queue_bound(fixture);
    _cleanup_free_ char *id = id_in_receipt(fixture);
    struct outbox_handle *handle = NULL;
    assert_int_equal(open_attached(fixture, "a.txt", O_WRONLY | O_TRUNC, &handle), 0);
    append(handle, "version 2", 0);
    finish(handle);
    outbox_wake(fixture->outbox);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    assert_int_equal(settle_uploads(fixture), 0);
    assert_true(sent_contains(fixture, sends(fixture) - 1, id));
    assert_true(shown_contains(fixture, ATTACHED, "a.txt", "version 2"));
    _cleanup_free_ char *second = id_in_receipt(fixture);
    assert_string_not_equal(id, second);
}

FIXTURE_TEST(appending_to_an_attachment_changes_no_queued_message)
{
    struct fixture *fixture = *state;
    queue_bound(fixture);
    _cleanup_free_ char *id = id_in_receipt(fixture);
    struct outbox_handle *reader = NULL;
    struct outbox_handle *handle = NULL;
    uint64_t number = number_of(fixture, ATTACHED, "a.txt");
    char text[32] = "";
    assert_int_equal(outbox_open_item(fixture->outbox, number, O_RDONLY, 0, &reader), 0);
    assert_int_equal(open_attached(fixture, "a.txt", O_RDWR, &handle), 0);
    append(handle, ", and 2", 9);
    assert_int_equal(outbox_read(handle, text, sizeof(text), 0), 16);
    assert_memory_equal(text, "version 1, and 2", 16);
    assert_int_equal(outbox_read(reader, text, sizeof(text), 0), 9);
    finish(handle);
    outbox_release(reader);
    fixture_reopen(fixture);
    expect_bound_to_first_upload(fixture, id);
    assert_true(shown_contains(fixture, ATTACHED, "a.txt", "version 1, and 2"));
}

/* Writing to the file cancels its upload. */
FIXTURE_TEST(a_message_binds_attachments_written_before_it)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = NULL;
    fake_service_close_gate(fixture->fake, FAKE_UPLOAD);
    copy_in(fixture, ATTACHED, "a.txt", "old");
    fake_service_wait_at_gate(fixture->fake, FAKE_UPLOAD, 1);
    assert_int_equal(open_attached(fixture, "a.txt", O_WRONLY, &handle), 0);
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    append(handle, "new", 0);
    finish(handle);
    fake_service_open_gate(fixture->fake, FAKE_UPLOAD);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(settle_uploads(fixture), 0);
    _cleanup_free_ char *id = id_in_receipt(fixture);
    assert_true(sent_contains(fixture, 0, "\"attachment-"));
    assert_false(sent_contains(fixture, 0, id));
}

/* The kernel looks a name up before it opens the file. ESTALE makes it look the name up again. */
FIXTURE_TEST(opening_a_replaced_or_removed_attachment_returns_estale)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle;
    copy_in(fixture, ATTACHED, "a.txt", "first");
    uint64_t replaced = number_of(fixture, ATTACHED, "a.txt");
    copy_in(fixture, ATTACHED, "b.txt", "second");
    assert_int_equal(outbox_rename(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, "b.txt",
                                   OUTBOX_FOLDER_ATTACHMENTS, "a.txt", 0, getpid()),
                     0);
    uint64_t removed = number_of(fixture, ATTACHED, "a.txt");
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt"), 0);
    assert_int_equal(outbox_open_item(fixture->outbox, replaced, O_RDONLY, 0, &handle), -ESTALE);
    assert_int_equal(outbox_open_item(fixture->outbox, removed, O_RDWR, 0, &handle), -ESTALE);
}

FIXTURE_TEST(replacing_an_attachment_by_rename_changes_no_queued_message)
{
    struct fixture *fixture = *state;
    queue_bound(fixture);
    _cleanup_free_ char *id = id_in_receipt(fixture);
    put_draft(fixture, "a.txt", "version 2");
    assert_int_equal(move_in(fixture, "a.txt", ATTACHED, "a.txt"), 0);
    fixture_reopen(fixture);
    assert_true(shown_contains(fixture, ATTACHED, "a.txt", "version 2"));
    expect_bound_to_first_upload(fixture, id);
    assert_int_equal(settle_uploads(fixture), 0);
}

static size_t count_spool_files(struct fixture *fixture)
{
    char command[400];
    snprintf(command, sizeof(command), "ls %s/spool | grep -c 'data$'", fixture->dir.path);
    FILE *pipe = popen(command, "r");
    size_t count = 0;
    assert_int_equal(fscanf(pipe, "%zu", &count), 1);
    pclose(pipe);
    return count;
}

FIXTURE_TEST(an_attachment_without_an_id_fails_with_its_message)
{
    struct fixture *fixture = *state;
    fake_service_push(fixture->fake, FAKE_UPLOAD, (struct fake_outcome){.without_id = true});
    copy_in(fixture, ATTACHED, "a.txt", "version 1");
    assert_int_equal(settle_uploads(fixture), -EIO);
    assert_true(shown_contains(fixture, FAILED, "a.txt.receipt.json", "gave it no id"));
    assert_int_equal(mail(fixture, "m.eml", WITH_A), -ENODATA);
    assert_int_equal(sends(fixture), 0);
}

FIXTURE_TEST(a_file_whose_copy_cannot_be_created_stays_whole)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = NULL;
    char blocker[64];
    fake_service_set_reachable(fixture->fake, false);
    copy_in(fixture, ATTACHED, "a.txt", "version 1");
    assert_int_equal(settle_uploads(fixture), -EAGAIN);
    await_next_attempt(fixture);
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    uint64_t number = number_of(fixture, ATTACHED, "a.txt");

    /* The file for the copy cannot be created, as on a full disk. */
    snprintf(blocker, sizeof(blocker), "spool/%d.data.new", (int)number);
    assert_int_equal(mkdirat(fixture->dir.fd, blocker, 0700), 0);
    assert_int_equal(outbox_open_item(fixture->outbox, number, O_WRONLY | O_TRUNC, 0, &handle), -EISDIR);
    assert_int_equal(unlinkat(fixture->dir.fd, blocker, AT_REMOVEDIR), 0);
    assert_true(shown_contains(fixture, ATTACHED, "a.txt", "version 1"));
    assert_int_equal(count_spool_files(fixture), 3); /* one file has two links */

    fake_service_set_reachable(fixture->fake, true);
    outbox_wake(fixture->outbox);
    await_event(fixture, EVENT_SENT, "sent/m.eml");
    unsigned int uploads = fake_service_count(fixture->fake, FAKE_UPLOAD);
    assert_int_equal(fake_service_get(fixture->fake, FAKE_UPLOAD, uploads - 1).len, strlen("version 1"));

    assert_int_equal(open_attached(fixture, "a.txt", O_RDWR, &handle), 0);
    append(handle, " and 2", 9);
    finish(handle);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_true(shown_contains(fixture, ATTACHED, "a.txt", "version 1 and 2"));
}

FIXTURE_TEST(a_removed_attachment_is_kept_for_its_messages)
{
    struct fixture *fixture = *state;
    queue_bound(fixture);
    _cleanup_free_ char *id = id_in_receipt(fixture);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt"), 0);
    assert_false(is_listed(fixture, ATTACHED, "a.txt"));
    fixture_reopen(fixture);
    assert_false(is_listed(fixture, ATTACHED, "a.txt"));
    assert_int_equal(mail(fixture, "other.eml", WITH_A), -ENODATA);
    expect_bound_to_first_upload(fixture, id);
    fixture_close(fixture);
    assert_int_equal(count_spool_files(fixture), 1);
    fixture_open(fixture);
}

FIXTURE_TEST(a_file_removed_before_its_upload_is_still_sent)
{
    struct fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    copy_in(fixture, ATTACHED, "a.txt", "text");
    assert_int_equal(settle_uploads(fixture), -EAGAIN);
    await_next_attempt(fixture);
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt"), 0);
    fake_service_set_reachable(fixture->fake, true);
    fixture_reopen(fixture);
    assert_int_equal(settle(fixture), 0);
    assert_true(is_listed(fixture, SENT, "m.eml"));
}

FIXTURE_TEST(a_renamed_file_is_uploaded_under_its_new_name)
{
    struct fixture *fixture = *state;
    queue_bound(fixture);
    _cleanup_free_ char *id = id_in_receipt(fixture);
    assert_int_equal(move(fixture, ATTACHED, "a.txt", ATTACHED, "b.txt"), 0);
    expect_bound_to_first_upload(fixture, id);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_string_equal(fake_service_get(fixture->fake, FAKE_UPLOAD, 1).text, "b.txt");
    assert_true(is_listed(fixture, ATTACHED, "b.txt.receipt.json"));
    assert_false(is_listed(fixture, ATTACHED, "a.txt"));
}

/* ---------------------------------------------------------------- numbers of contents */

/* Queues a message that binds the attachment and cannot be sent yet. */
static void queue_binding(struct fixture *fixture, const char *name, const char *attachment)
{
    char content[200];
    snprintf(content, sizeof(content), "To: %s@x.example\nSubject: %s\nAttach: %s\n\nb\n", name, name,
             attachment);
    assert_int_equal(mail(fixture, name, content), 0);
}

/* The id identifies the upload, because the test pushes the ids in the order of the uploads. */
static void expect_sent_with(struct fixture *fixture, const char *name, const char *id)
{
    char subject[64];
    bool is_found = false;
    snprintf(subject, sizeof(subject), "\"%s\"", name);
    for (unsigned int i = 0; i < sends(fixture); i++) {
        if (!sent_contains(fixture, i, subject))
            continue;
        is_found = true;
        if (!sent_contains(fixture, i, id))
            fail_msg("not with %s: %s", id, fake_service_get(fixture->fake, FAKE_SEND, i).text);
    }
    assert_true(is_found);
}

static void upload_as(struct fixture *fixture, unsigned int number)
{
    char id[32];
    snprintf(id, sizeof(id), "pool-%u", number);
    fake_service_push(fixture->fake, FAKE_UPLOAD, (struct fake_outcome){.id = id});
}

static void rewrite(struct fixture *fixture, const char *name, const char *text)
{
    struct outbox_handle *handle = NULL;
    assert_int_equal(open_attached(fixture, name, O_WRONLY | O_TRUNC, &handle), 0);
    append(handle, text, 0);
    finish(handle);
}

static void send_after_restart(struct fixture *fixture)
{
    fixture_reopen(fixture);
    fake_service_set(fixture->fake, FAKE_SEND, (struct fake_outcome){0});
    outbox_wake(fixture->outbox);
    assert_int_equal(settle(fixture), 0);
}

/* After a restart only a message's row shows which contents the message has bound. */
FIXTURE_TEST(after_a_restart_each_message_has_the_content_that_it_bound)
{
    struct fixture *fixture = *state;
    fake_service_set(fixture->fake, FAKE_SEND,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    for (unsigned int i = 0; i < 3; i++)
        upload_as(fixture, i);
    copy_in(fixture, ATTACHED, "a.txt", "one");
    assert_int_equal(settle_uploads(fixture), 0);
    queue_binding(fixture, "first", "a.txt");
    rewrite(fixture, "a.txt", "one, and two");
    assert_int_equal(settle_uploads(fixture), 0);
    queue_binding(fixture, "second", "a.txt");
    assert_int_equal(move(fixture, ATTACHED, "a.txt", ATTACHED, "b.txt"), 0);
    assert_int_equal(settle_uploads(fixture), 0);
    queue_binding(fixture, "third", "b.txt");
    await_paused(fixture, true);

    send_after_restart(fixture);
    assert_true(is_listed(fixture, ATTACHED, "b.txt"));
    expect_sent_with(fixture, "first", "pool-0");
    expect_sent_with(fixture, "second", "pool-1");
    expect_sent_with(fixture, "third", "pool-2");
}

/* The attachment was open for writing when the message was handed in, so the message bound a copy. */
FIXTURE_TEST(after_a_restart_a_message_has_the_attachments_of_its_hand_in)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = NULL;
    fake_service_set(fixture->fake, FAKE_SEND,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    for (unsigned int i = 0; i < 2; i++)
        upload_as(fixture, i);
    copy_in(fixture, ATTACHED, "a.txt", "one");
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(open_attached(fixture, "a.txt", O_WRONLY, &handle), 0);
    queue_binding(fixture, "first", "a.txt");
    append(handle, "two", 0);
    finish(handle);
    assert_int_equal(settle_uploads(fixture), 0);
    await_paused(fixture, true);

    send_after_restart(fixture);
    expect_sent_with(fixture, "first", "pool-0");
}

FIXTURE_TEST(after_a_restart_each_message_has_the_moved_in_file_that_it_names)
{
    static const char *const names[] = {"a.txt", "b.txt"};
    static const char *const ids[] = {"pool-0", "pool-1"};
    struct fixture *fixture = *state;
    fake_service_set(fixture->fake, FAKE_SEND,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    for (unsigned int i = 0; i < ARRAY_LEN(names); i++) {
        upload_as(fixture, i);
        put_draft(fixture, names[i], names[i]);
        assert_int_equal(move_in(fixture, names[i], ATTACHED, names[i]), 0);
        assert_int_equal(settle_uploads(fixture), 0);
    }
    for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
        queue_binding(fixture, i == 0 ? "first" : "second", names[i]);
    await_paused(fixture, true);

    send_after_restart(fixture);
    for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
        expect_sent_with(fixture, i == 0 ? "first" : "second", ids[i]);
}

/* A handle opened before a message bound the file cannot write to the bound content, even if the file is
 * renamed or removed. */
FIXTURE_TEST(an_old_handle_cannot_write_into_a_bound_attachment)
{
    struct fixture *fixture = *state;
    struct outbox_handle *handle = NULL;
    copy_in(fixture, ATTACHED, "a.txt", "bound");
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(open_attached(fixture, "a.txt", O_RDWR, &handle), 0);
    fake_service_push(fixture->fake, FAKE_SEND,
                      (struct fake_outcome){
                          .outcome = SERVICE_REJECTED, .http_status = 422, .detail = "no such attachment"});
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    assert_int_equal(move(fixture, ATTACHED, "a.txt", ATTACHED, "b.txt"), 0);
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(outbox_unlink(fixture->outbox, OUTBOX_FOLDER_ATTACHMENTS, "b.txt"), 0);
    assert_int_equal(outbox_write(handle, "TORN!", 5, 0, 0), -ESTALE);
    assert_int_equal(outbox_set_size(handle, 0, 0), -ESTALE);
    outbox_release(handle);

    fake_service_open_gate(fixture->fake, FAKE_SEND); /* refused: its attachments are uploaded again */
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 3);
    assert_memory_equal(fake_service_get(fixture->fake, FAKE_UPLOAD, 2).bytes, "bound", 5);
}

/* A write through one handle gives a bound file a new content. A close through another handle, opened before,
 * syncs that new content. */
FIXTURE_TEST(a_close_syncs_the_file_that_another_handle_renewed)
{
    struct fixture *fixture = *state;
    struct outbox_handle *writer = NULL;
    struct outbox_handle *other = NULL;
    char name[32];
    copy_in(fixture, ATTACHED, "a.txt", "bound");
    assert_int_equal(settle_uploads(fixture), 0);
    snprintf(name, sizeof(name), "spool/%" PRIu64 ".data", number_of(fixture, ATTACHED, "a.txt"));
    fake_service_close_gate(fixture->fake, FAKE_SEND);
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_SEND, 1);
    assert_int_equal(open_attached(fixture, "a.txt", O_RDWR, &writer), 0);
    assert_int_equal(open_attached(fixture, "a.txt", O_RDWR, &other), 0);
    append(writer, "longer than before", 0);
    finish(other);
    finish(writer);
    assert_true(disk_has_newest_size(fixture->dir.fd, name));
    fake_service_open_gate(fixture->fake, FAKE_SEND);
}

FIXTURE_TEST(a_file_that_changed_in_the_spool_is_not_uploaded)
{
    struct fixture *fixture = *state;
    char path[32];
    fake_service_push(fixture->fake, FAKE_UPLOAD,
                      (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    copy_in(fixture, ATTACHED, "a.txt", "as written");
    assert_int_equal(settle_uploads(fixture), -EAGAIN);
    snprintf(path, sizeof(path), "spool/%" PRIu64 ".data", number_of(fixture, ATTACHED, "a.txt"));
    _cleanup_close_ int fd = openat(fixture->dir.fd, path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "is", 2, 0), 2);
    assert_int_equal(outbox_retry(fixture->outbox, "a.txt"), 0);
    assert_int_equal(settle_uploads(fixture), -EIO);
    assert_true(shown_contains(fixture, FAILED, "a.txt.receipt.json", "the file changed in the spool"));
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 1);
}

FIXTURE_TEST(an_empty_or_temporary_file_cannot_be_attached)
{
    struct fixture *fixture = *state;
    copy_in(fixture, ATTACHED, "a.txt", "");
    assert_int_equal(mail(fixture, "m.eml", WITH_A), -ENODATA);
    copy_in(fixture, ATTACHED, "b.tmp", "text");
    assert_int_equal(settle_uploads(fixture), 0);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 0);
    assert_int_equal(move(fixture, ATTACHED, "b.tmp", ATTACHED, "a.txt"), 0);
    assert_int_equal(mail(fixture, "m.eml", WITH_A), 0);
    assert_int_equal(settle(fixture), 0);
}

FIXTURE_TEST(a_backup_can_be_attached)
{
    struct fixture *fixture = *state;
    copy_in(fixture, ATTACHED, "db.bak", "text");
    assert_int_equal(mail(fixture, "m.eml", "To: b@x.example\nSubject: s\nAttach: db.bak\n\nb\n"), 0);
    assert_int_equal(settle(fixture), 0);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_UPLOAD), 1);
    assert_true(is_listed(fixture, SENT, "m.eml"));
}
