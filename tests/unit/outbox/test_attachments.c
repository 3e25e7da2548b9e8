/* SPDX-License-Identifier: MIT */
/*
 * Files of attachments/: uploading, and the messages that bind them.
 */
#include "outbox_world.h"

#include <dirent.h>
#include <inttypes.h>

#include "outbox/change.h"
#include "support/test.h"

#define WITH_A "To: b@x.example\nSubject: s\nAttach: a.txt\n\nb\n"

WORLD_TEST(a_file_is_uploaded_and_stays)
{
    struct world *world = *state;
    copy_in(world, ATTACHED, "a.txt", "some text\n");
    put_draft(world, "b.pdf", "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n");
    assert_int_equal(move_in(world, "b.pdf", ATTACHED, "b.pdf"), 0);
    assert_int_equal(settle_uploads(world), 0);
    assert_int_equal(fake_service_count(world->fake, FAKE_UPLOAD), 2);
    assert_true(is_listed(world, ATTACHED, "a.txt"));
    assert_true(shown_contains(world, ATTACHED, "a.txt", "some text"));
    assert_true(shown_contains(world, ATTACHED, "a.txt.receipt.json", "\"state\": \"uploaded\""));
    assert_true(shown_contains(world, ATTACHED, "a.txt.receipt.json", "\"kind\": \"attachment\""));
    assert_true(shown_contains(world, ATTACHED, "a.txt.receipt.json", "\"attempts\": 1,"));
    assert_true(was_told(world, EVENT_UPLOADED, "attachments/a.txt"));
    for (unsigned int i = 0; i < 2; i++) {
        struct fake_record upload = fake_service_get(world->fake, FAKE_UPLOAD, i);
        assert_string_equal(upload.key, strcmp(upload.text, "a.txt") == 0 ? "text/plain" : "application/pdf");
    }
    world_reopen(world);
    assert_int_equal(settle_uploads(world), 0);
    assert_int_equal(fake_service_count(world->fake, FAKE_UPLOAD), 2);
}

/* shutil.copy2() and rsync --inplace set the times after they close the file. */
WORLD_TEST(a_file_may_be_touched_while_it_is_uploaded)
{
    struct world *world = *state;
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
    struct outbox_stat stat;
    fake_service_close_gate(world->fake, FAKE_UPLOAD);
    copy_in(world, ATTACHED, "a.txt", "some text\n");
    fake_service_wait_at_gate(world->fake, FAKE_UPLOAD, 1);
    assert_int_equal(outbox_set_times(world->outbox, number_of(world, ATTACHED, "a.txt"), times), 0);
    fake_service_open_gate(world->fake, FAKE_UPLOAD);
    assert_int_equal(settle_uploads(world), 0);
    assert_int_equal(fake_service_count(world->fake, FAKE_UPLOAD), 1);
    assert_true(shown_contains(world, ATTACHED, "a.txt.receipt.json", "\"state\": \"uploaded\""));
    assert_true(outbox_find(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt", &stat));
    assert_int_equal(stat.mtime.tv_sec, 2000);
}

WORLD_TEST(the_content_type_follows_from_extension_or_bytes)
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
    struct world *world = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        copy_in(world, ATTACHED, cases[i].name, cases[i].bytes);
    assert_int_equal(settle_uploads(world), 0);
    for (unsigned int i = 0; i < ARRAY_LEN(cases); i++) {
        struct fake_record upload = fake_service_get(world->fake, FAKE_UPLOAD, i);
        size_t of = 0;
        while (strcmp(cases[of].name, upload.text) != 0)
            assert_true(++of < ARRAY_LEN(cases));
        assert_string_equal(upload.key, cases[of].type);
    }
}

WORLD_TEST(a_message_waits_for_its_attachment)
{
    struct world *world = *state;
    struct outbox_handle *handle = create(world, ATTACHED, "a.txt");
    append(handle, "first half, ", 0);
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    assert_int_equal(mail(world, "n.eml", "To: b@x.example\nSubject: later\n\nb\n"), 0);
    await_news(world, EVENT_SENT, "sent/n.eml"); /* an endless writer delays no other message */
    fake_service_close_gate(world->fake, FAKE_UPLOAD);
    append(handle, "second half", 12);
    finish(handle);
    fake_service_wait_at_gate(world->fake, FAKE_UPLOAD, 1);
    assert_int_equal(sends(world), 1);
    fake_service_open_gate(world->fake, FAKE_UPLOAD);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 2);
    assert_int_equal(fake_service_get(world->fake, FAKE_UPLOAD, 0).len, 23);
    assert_true(sent_contains(world, 1, "attachment_ids"));
}

WORLD_TEST(a_message_that_waits_for_an_upload_holds_up_those_behind_it)
{
    struct world *world = *state;
    fake_service_close_gate(world->fake, FAKE_UPLOAD);
    copy_in(world, ATTACHED, "a.txt", "some text\n");
    fake_service_wait_at_gate(world->fake, FAKE_UPLOAD, 1);
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    assert_int_equal(mail(world, "n.eml", "To: b@x.example\nSubject: later\n\nb\n"), 0);
    assert_int_equal(mail(world, "o.eml", MESSAGE), 0); /* to another recipient */
    await_news(world, EVENT_SENT, "sent/o.eml");
    fake_service_open_gate(world->fake, FAKE_UPLOAD);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 3);
    assert_true(sent_contains(world, 1, "\"attachment-"));
    assert_true(sent_contains(world, 2, "\"later\""));
}

WORLD_TEST(a_message_whose_attachment_is_interrupted_fails)
{
    struct world *world = *state;
    struct outbox_handle *handle = create(world, ATTACHED, "a.txt");
    append(handle, "half", 0);
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    assert_int_equal(outbox_write(handle, "x", 1, 10 * 1000 * 1000, 0), -EFBIG);
    finish(handle);
    assert_int_equal(settle(world), -EIO);
    assert_true(is_listed(world, FAILED, "m.eml"));
    assert_true(shown_contains(world, FAILED, "m.eml.receipt.json", "a.txt"));
    assert_true(is_listed(world, FAILED, "a.txt"));
    assert_true(shown_contains(world, FAILED, "a.txt.receipt.json", "\"kind\": \"attachment\""));
    assert_int_equal(sends(world), 0);

    assert_int_equal(move(world, FAILED, "a.txt", OUT, "a.txt"), -EPERM);
    assert_int_equal(move(world, FAILED, "a.txt", ATTACHED, "a.txt"), 0);
    assert_int_equal(move(world, FAILED, "m.eml", OUT, "m.eml"), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(sends(world), 1);
}

/* "db.bak" is a backup's name. In attachments/ only the names of temporary files have a meaning. */
WORLD_TEST(an_interrupted_backup_goes_to_failed_as_any_file)
{
    struct world *world = *state;
    struct outbox_handle *handle = create(world, ATTACHED, "db.bak");
    append(handle, "half", 0);
    assert_int_equal(outbox_write(handle, "x", 1, 10 * 1000 * 1000, 0), -EFBIG);
    finish(handle);
    assert_false(is_listed(world, ATTACHED, "db.bak"));
    assert_true(shown_contains(world, FAILED, "db.bak", "half"));
    assert_true(shown_contains(world, FAILED, "db.bak.receipt.json", "\"kind\": \"attachment\""));
    assert_true(was_told(world, EVENT_FAILED, "failed/db.bak"));
    assert_int_equal(move(world, FAILED, "db.bak", ATTACHED, "db.bak"), 0);
    assert_int_equal(settle_uploads(world), 0);
    assert_true(is_listed(world, ATTACHED, "db.bak"));
}

WORLD_TEST(a_refused_upload_fails_with_its_messages)
{
    struct world *world = *state;
    fake_service_set(world->fake, FAKE_UPLOAD,
                     (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 413});
    fake_service_close_gate(world->fake, FAKE_UPLOAD);
    copy_in(world, ATTACHED, "a.txt", "text");
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    fake_service_open_gate(world->fake, FAKE_UPLOAD);
    assert_int_equal(settle(world), -EIO);
    assert_int_equal(settle_uploads(world), -EIO);
    assert_true(shown_contains(world, FAILED, "a.txt.receipt.json", "413"));
    assert_true(is_listed(world, FAILED, "m.eml"));
}

/* Queues a message that binds the current content of a.txt and cannot be sent yet. */
static void queue_bound(struct world *world)
{
    copy_in(world, ATTACHED, "a.txt", "version 1");
    assert_int_equal(settle_uploads(world), 0);
    fake_service_set(world->fake, FAKE_SEND,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    assert_int_equal(settle(world), -EAGAIN);
    await_next_attempt(world);
    await_paused(world, true);
    fake_service_set(world->fake, FAKE_SEND, (struct fake_outcome){0});
}

static void expect_bound_to_first_upload(struct world *world, const char *first_id)
{
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/m.eml");
    assert_true(sent_contains(world, sends(world) - 1, first_id));
}

static char *id_in_receipt(struct world *world)
{
    char *receipt = read_shown(world, ATTACHED, "a.txt.receipt.json");
    char *id = strstr(receipt, "\"id\": \"") + strlen("\"id\": \"");
    char *copy = strndup(id, strcspn(id, "\""));
    free(receipt);
    return copy;
}

WORLD_TEST(replacing_by_writing_leaves_queued_messages_as_they_are)
{
    struct world *world = *state;
    queue_bound(world);
    _cleanup_free_ char *id = id_in_receipt(world);
    struct outbox_handle *handle = NULL;
    assert_int_equal(open_attached(world, "a.txt", O_WRONLY | O_TRUNC, &handle), 0);
    append(handle, "version 2", 0);
    finish(handle);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/m.eml");
    assert_int_equal(settle_uploads(world), 0);
    assert_true(sent_contains(world, sends(world) - 1, id));
    assert_true(shown_contains(world, ATTACHED, "a.txt", "version 2"));
    _cleanup_free_ char *second = id_in_receipt(world);
    assert_string_not_equal(id, second);
}

WORLD_TEST(appending_leaves_queued_messages_as_they_are)
{
    struct world *world = *state;
    queue_bound(world);
    _cleanup_free_ char *id = id_in_receipt(world);
    struct outbox_handle *reader = NULL;
    struct outbox_handle *handle = NULL;
    uint64_t number = number_of(world, ATTACHED, "a.txt");
    char text[32] = "";
    assert_int_equal(outbox_open_item(world->outbox, number, O_RDONLY, 0, &reader), 0);
    assert_int_equal(open_attached(world, "a.txt", O_RDWR, &handle), 0);
    append(handle, ", and 2", 9);
    assert_int_equal(outbox_read(handle, text, sizeof(text), 0), 16);
    assert_memory_equal(text, "version 1, and 2", 16);
    assert_int_equal(outbox_read(reader, text, sizeof(text), 0), 9);
    finish(handle);
    outbox_release(reader);
    world_reopen(world);
    expect_bound_to_first_upload(world, id);
    assert_true(shown_contains(world, ATTACHED, "a.txt", "version 1, and 2"));
}

/* Writing to the file cancels its upload. */
WORLD_TEST(a_message_binds_attachments_written_before_it)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    fake_service_close_gate(world->fake, FAKE_UPLOAD);
    copy_in(world, ATTACHED, "a.txt", "old");
    fake_service_wait_at_gate(world->fake, FAKE_UPLOAD, 1);
    assert_int_equal(open_attached(world, "a.txt", O_WRONLY, &handle), 0);
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    append(handle, "new", 0);
    finish(handle);
    fake_service_open_gate(world->fake, FAKE_UPLOAD);
    assert_int_equal(settle(world), 0);
    assert_int_equal(settle_uploads(world), 0);
    _cleanup_free_ char *id = id_in_receipt(world);
    assert_true(sent_contains(world, 0, "\"attachment-"));
    assert_false(sent_contains(world, 0, id));
}

/* The kernel looks a name up before it opens the file. ESTALE makes it look the name up again. */
WORLD_TEST(a_replaced_attachment_is_looked_up_again)
{
    struct world *world = *state;
    struct outbox_handle *handle;
    copy_in(world, ATTACHED, "a.txt", "first");
    uint64_t replaced = number_of(world, ATTACHED, "a.txt");
    copy_in(world, ATTACHED, "b.txt", "second");
    assert_int_equal(outbox_rename(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "b.txt",
                                   OUTBOX_FOLDER_ATTACHMENTS, "a.txt", 0, getpid()),
                     0);
    uint64_t removed = number_of(world, ATTACHED, "a.txt");
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt"), 0);
    assert_int_equal(outbox_open_item(world->outbox, replaced, O_RDONLY, 0, &handle), -ESTALE);
    assert_int_equal(outbox_open_item(world->outbox, removed, O_RDWR, 0, &handle), -ESTALE);
}

WORLD_TEST(replacing_by_rename_leaves_queued_messages_as_they_are)
{
    struct world *world = *state;
    queue_bound(world);
    _cleanup_free_ char *id = id_in_receipt(world);
    put_draft(world, "a.txt", "version 2");
    assert_int_equal(move_in(world, "a.txt", ATTACHED, "a.txt"), 0);
    world_reopen(world);
    assert_true(shown_contains(world, ATTACHED, "a.txt", "version 2"));
    expect_bound_to_first_upload(world, id);
    assert_int_equal(settle_uploads(world), 0);
}

static size_t count_spool_files(struct world *world)
{
    char command[400];
    snprintf(command, sizeof(command), "ls %s/spool | grep -c 'data$'", world->dir.path);
    FILE *pipe = popen(command, "r");
    size_t count = 0;
    assert_int_equal(fscanf(pipe, "%zu", &count), 1);
    pclose(pipe);
    return count;
}

WORLD_TEST(an_attachment_that_got_no_id_fails_and_so_does_its_message)
{
    struct world *world = *state;
    fake_service_push(world->fake, FAKE_UPLOAD, (struct fake_outcome){.without_id = true});
    copy_in(world, ATTACHED, "a.txt", "version 1");
    assert_int_equal(settle_uploads(world), -EIO);
    assert_true(shown_contains(world, FAILED, "a.txt.receipt.json", "gave it no id"));
    assert_int_equal(mail(world, "m.eml", WITH_A), -ENODATA);
    assert_int_equal(sends(world), 0);
}

WORLD_TEST(a_file_whose_copy_cannot_be_created_stays_whole)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    char blocker[64];
    fake_service_set_reachable(world->fake, false);
    copy_in(world, ATTACHED, "a.txt", "version 1");
    assert_int_equal(settle_uploads(world), -EAGAIN);
    await_next_attempt(world);
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    uint64_t number = number_of(world, ATTACHED, "a.txt");

    /* The file for the copy cannot be created, as on a full disk. */
    snprintf(blocker, sizeof(blocker), "spool/%d.data.new", (int)number);
    assert_int_equal(mkdirat(world->dir.fd, blocker, 0700), 0);
    assert_int_equal(outbox_open_item(world->outbox, number, O_WRONLY | O_TRUNC, 0, &handle), -EISDIR);
    assert_int_equal(unlinkat(world->dir.fd, blocker, AT_REMOVEDIR), 0);
    assert_true(shown_contains(world, ATTACHED, "a.txt", "version 1"));
    assert_int_equal(count_spool_files(world), 3); /* one file has two links */

    fake_service_set_reachable(world->fake, true);
    outbox_wake(world->outbox);
    await_news(world, EVENT_SENT, "sent/m.eml");
    unsigned int uploads = fake_service_count(world->fake, FAKE_UPLOAD);
    assert_int_equal(fake_service_get(world->fake, FAKE_UPLOAD, uploads - 1).len, strlen("version 1"));

    assert_int_equal(open_attached(world, "a.txt", O_RDWR, &handle), 0);
    append(handle, " and 2", 9);
    finish(handle);
    assert_int_equal(settle_uploads(world), 0);
    assert_true(shown_contains(world, ATTACHED, "a.txt", "version 1 and 2"));
}

WORLD_TEST(a_removed_attachment_is_kept_for_its_messages)
{
    struct world *world = *state;
    queue_bound(world);
    _cleanup_free_ char *id = id_in_receipt(world);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt"), 0);
    assert_false(is_listed(world, ATTACHED, "a.txt"));
    world_reopen(world);
    assert_false(is_listed(world, ATTACHED, "a.txt"));
    assert_int_equal(mail(world, "other.eml", WITH_A), -ENODATA);
    expect_bound_to_first_upload(world, id);
    world_close(world);
    assert_int_equal(count_spool_files(world), 1);
    world_open(world);
}

WORLD_TEST(a_file_removed_before_its_upload_is_still_sent)
{
    struct world *world = *state;
    fake_service_set_reachable(world->fake, false);
    copy_in(world, ATTACHED, "a.txt", "text");
    assert_int_equal(settle_uploads(world), -EAGAIN);
    await_next_attempt(world);
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "a.txt"), 0);
    fake_service_set_reachable(world->fake, true);
    world_reopen(world);
    assert_int_equal(settle(world), 0);
    assert_true(is_listed(world, SENT, "m.eml"));
}

WORLD_TEST(a_renamed_file_is_uploaded_under_its_new_name)
{
    struct world *world = *state;
    queue_bound(world);
    _cleanup_free_ char *id = id_in_receipt(world);
    assert_int_equal(move(world, ATTACHED, "a.txt", ATTACHED, "b.txt"), 0);
    expect_bound_to_first_upload(world, id);
    assert_int_equal(settle_uploads(world), 0);
    assert_string_equal(fake_service_get(world->fake, FAKE_UPLOAD, 1).text, "b.txt");
    assert_true(is_listed(world, ATTACHED, "b.txt.receipt.json"));
    assert_false(is_listed(world, ATTACHED, "a.txt"));
}

/* ---------------------------------------------------------------- numbers of contents */

/* Queues a message that binds the attachment and waits. */
static void queue_binding(struct world *world, const char *name, const char *attachment)
{
    char content[200];
    snprintf(content, sizeof(content), "To: %s@x.example\nSubject: %s\nAttach: %s\n\nb\n", name, name,
             attachment);
    assert_int_equal(mail(world, name, content), 0);
}

/* The id identifies the upload, because the test pushes the ids in the order of the uploads. */
static void expect_sent_with(struct world *world, const char *name, const char *id)
{
    char subject[64];
    bool is_found = false;
    snprintf(subject, sizeof(subject), "\"%s\"", name);
    for (unsigned int i = 0; i < sends(world); i++) {
        if (!sent_contains(world, i, subject))
            continue;
        is_found = true;
        if (!sent_contains(world, i, id))
            fail_msg("not with %s: %s", id, fake_service_get(world->fake, FAKE_SEND, i).text);
    }
    assert_true(is_found);
}

static void upload_as(struct world *world, unsigned int number)
{
    char id[32];
    snprintf(id, sizeof(id), "pool-%u", number);
    fake_service_push(world->fake, FAKE_UPLOAD, (struct fake_outcome){.id = id});
}

static void rewrite(struct world *world, const char *name, const char *text)
{
    struct outbox_handle *handle = NULL;
    assert_int_equal(open_attached(world, name, O_WRONLY | O_TRUNC, &handle), 0);
    append(handle, text, 0);
    finish(handle);
}

static void send_after_restart(struct world *world)
{
    world_reopen(world);
    fake_service_set(world->fake, FAKE_SEND, (struct fake_outcome){0});
    outbox_wake(world->outbox);
    assert_int_equal(settle(world), 0);
}

/* After a restart only a message's envelope tells which contents it has bound. */
WORLD_TEST(after_a_restart_each_message_has_the_content_that_it_bound)
{
    struct world *world = *state;
    fake_service_set(world->fake, FAKE_SEND,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    for (unsigned int i = 0; i < 3; i++)
        upload_as(world, i);
    copy_in(world, ATTACHED, "a.txt", "one");
    assert_int_equal(settle_uploads(world), 0);
    queue_binding(world, "first", "a.txt");
    rewrite(world, "a.txt", "one, and two");
    assert_int_equal(settle_uploads(world), 0);
    queue_binding(world, "second", "a.txt");
    assert_int_equal(move(world, ATTACHED, "a.txt", ATTACHED, "b.txt"), 0);
    assert_int_equal(settle_uploads(world), 0);
    queue_binding(world, "third", "b.txt");
    await_paused(world, true);

    send_after_restart(world);
    assert_true(is_listed(world, ATTACHED, "b.txt"));
    expect_sent_with(world, "first", "pool-0");
    expect_sent_with(world, "second", "pool-1");
    expect_sent_with(world, "third", "pool-2");
}

/* The attachment was open for writing when the message was handed in, so the message bound a copy. */
WORLD_TEST(after_a_restart_a_message_has_the_attachments_of_its_hand_in)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    fake_service_set(world->fake, FAKE_SEND,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    for (unsigned int i = 0; i < 2; i++)
        upload_as(world, i);
    copy_in(world, ATTACHED, "a.txt", "one");
    assert_int_equal(settle_uploads(world), 0);
    assert_int_equal(open_attached(world, "a.txt", O_WRONLY, &handle), 0);
    queue_binding(world, "first", "a.txt");
    append(handle, "two", 0);
    finish(handle);
    assert_int_equal(settle_uploads(world), 0);
    await_paused(world, true);

    send_after_restart(world);
    expect_sent_with(world, "first", "pool-0");
}

/* Each content has only the number of its file: files in attachments/ have no position in the queue.
 */
WORLD_TEST(after_a_restart_moved_in_files_keep_their_order)
{
    static const char *const names[] = {"a.txt", "b.txt"};
    static const char *const ids[] = {"pool-0", "pool-1"};
    struct world *world = *state;
    fake_service_set(world->fake, FAKE_SEND,
                     (struct fake_outcome){.outcome = SERVICE_RETRY, .http_status = 503});
    for (unsigned int i = 0; i < ARRAY_LEN(names); i++) {
        upload_as(world, i);
        put_draft(world, names[i], names[i]);
        assert_int_equal(move_in(world, names[i], ATTACHED, names[i]), 0);
        assert_int_equal(settle_uploads(world), 0);
    }
    for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
        queue_binding(world, i == 0 ? "first" : "second", names[i]);
    await_paused(world, true);

    send_after_restart(world);
    for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
        expect_sent_with(world, i == 0 ? "first" : "second", ids[i]);
}

/* A handle opened before a message bound the file cannot write to the bound content, whatever happens to the
 * file's name. */
WORLD_TEST(an_old_handle_cannot_write_into_a_bound_attachment)
{
    struct world *world = *state;
    struct outbox_handle *handle = NULL;
    copy_in(world, ATTACHED, "a.txt", "bound");
    assert_int_equal(settle_uploads(world), 0);
    assert_int_equal(open_attached(world, "a.txt", O_RDWR, &handle), 0);
    fake_service_push(world->fake, FAKE_SEND,
                      (struct fake_outcome){
                          .outcome = SERVICE_REJECTED, .http_status = 422, .detail = "no such attachment"});
    fake_service_close_gate(world->fake, FAKE_SEND);
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    fake_service_wait_at_gate(world->fake, FAKE_SEND, 1);
    assert_int_equal(move(world, ATTACHED, "a.txt", ATTACHED, "b.txt"), 0);
    assert_int_equal(settle_uploads(world), 0);
    assert_int_equal(outbox_unlink(world->outbox, OUTBOX_FOLDER_ATTACHMENTS, "b.txt"), 0);
    assert_int_equal(outbox_write(handle, "TORN!", 5, 0, 0), -ESTALE);
    assert_int_equal(outbox_set_size(world->outbox, 0, handle, 0, 0), -ESTALE);
    outbox_release(handle);

    fake_service_open_gate(world->fake, FAKE_SEND); /* refused: its attachments are uploaded again */
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count(world->fake, FAKE_UPLOAD), 3);
    assert_memory_equal(fake_service_get(world->fake, FAKE_UPLOAD, 2).bytes, "bound", 5);
}

WORLD_TEST(held_files_are_no_attachments)
{
    struct world *world = *state;
    copy_in(world, ATTACHED, "a.txt", "");
    assert_int_equal(mail(world, "m.eml", WITH_A), -ENODATA);
    copy_in(world, ATTACHED, "b.tmp", "text");
    assert_int_equal(settle_uploads(world), 0);
    assert_int_equal(fake_service_count(world->fake, FAKE_UPLOAD), 0);
    assert_int_equal(move(world, ATTACHED, "b.tmp", ATTACHED, "a.txt"), 0);
    assert_int_equal(mail(world, "m.eml", WITH_A), 0);
    assert_int_equal(settle(world), 0);
}

WORLD_TEST(a_backup_can_be_attached)
{
    struct world *world = *state;
    copy_in(world, ATTACHED, "db.bak", "text");
    assert_int_equal(mail(world, "m.eml", "To: b@x.example\nSubject: s\nAttach: db.bak\n\nb\n"), 0);
    assert_int_equal(settle(world), 0);
    assert_int_equal(fake_service_count(world->fake, FAKE_UPLOAD), 1);
    assert_true(is_listed(world, SENT, "m.eml"));
}
