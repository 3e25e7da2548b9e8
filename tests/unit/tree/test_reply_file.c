/* SPDX-License-Identifier: MIT */
/*
 * The reply files in the folder of an email: a lookup fetches nothing, and each open file writes its own
 * message.
 */
#include "tree_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/store_content.h"
#include "support/test.h"

#define STEM "inboxes/alice@inbox.example/20261120T100000Z_hello_3c90c3cc"
#define OTHER "inboxes/alice@inbox.example/20261120T100000Z_other_4d81d4dd"

static const struct tree_caller mover = {.pid = 4711};
static const struct tree_caller somebody = {.pid = 4712};

static int set_up(void **state)
{
    fixture_content_bytes = UINT64_C(1) << 20;
    fixture_set_up(state);
    struct tree_fixture *fixture = *state;
    fake_service_add_simple_email(fixture->fake, "i1", "4d81d4dd-0d44", "Other");
    fake_service_set_content(fixture->fake, "3c90c3cc-0d44",
                             "{\"id\":\"3c90c3cc-0d44\",\"subject\":\"Hello\",\"plain_text\":\"Hello.\\n\","
                             "\"from_address\":{\"address\":\"bob@x.example\",\"name\":null}}");
    fake_service_set_content(fixture->fake, "4d81d4dd-0d44",
                             "{\"id\":\"4d81d4dd-0d44\",\"plain_text\":\"x\"}");
    fixture_await(fixture, store_has_content);
    return 0;
}

static struct tree_handle *open_reply(struct tree_fixture *fixture, const char *name, int flags)
{
    char path[200];
    struct tree_handle *handle = NULL;
    snprintf(path, sizeof(path), STEM "/%s", name);
    assert_int_equal(tree_open(fixture->tree, &any_caller, fixture_ino(fixture, path), flags, &handle), 0);
    return handle;
}

static void write_text(struct tree_handle *handle, const char *text, off_t offset)
{
    assert_int_equal(tree_write(handle, &any_caller, text, strlen(text), offset), strlen(text));
}

static void finish(struct tree_handle *handle)
{
    assert_int_equal(tree_flush(handle, &any_caller), 0);
    tree_release(handle);
}

static void settle(struct tree_fixture *fixture)
{
    assert_int_equal(outbox_wait_settled(fixture->outbox, OUTBOX_FOLDER_OUTBOX, 0, NULL), 0);
}

static void assert_sent(struct tree_fixture *fixture, unsigned int index, const char *part)
{
    struct fake_record record = fake_service_get(fixture->fake, FAKE_SEND, index);
    if (strstr(record.text, part) == NULL)
        fail_msg("%s is not in %s", part, record.text);
}

TEST_WITH(lookups_of_reply_files_fetch_no_content, set_up, fixture_tear_down)
{
    static const char *const names[] = {"reply", "reply-all", "forward"};
    struct tree_fixture *fixture = *state;
    uint64_t folder = fixture_ino(fixture, STEM);
    unsigned int before = fake_service_count(fixture->fake, FAKE_GET_CONTENT);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct tree_entry entry;
        assert_int_equal(tree_lookup(fixture->tree, &any_caller, folder, names[i], &entry), 0);
        assert_int_equal(entry.attributes.stat.st_mode, S_IFREG | 0200);
        assert_int_equal(entry.attributes.stat.st_size, 0);
        assert_false(entry.is_name_lasting || entry.attributes.is_lasting);
    }
    assert_int_equal(fake_service_count(fixture->fake, FAKE_GET_CONTENT), before);
}

TEST_WITH(reply_files_open_only_for_writing, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = NULL;
    uint64_t reply = fixture_ino(fixture, STEM "/reply");
    assert_int_equal(tree_open(fixture->tree, &any_caller, reply, O_RDONLY, &handle), -EACCES);
    assert_int_equal(tree_open(fixture->tree, &any_caller, reply, O_RDWR, &handle), -EACCES);
    finish(open_reply(fixture, "reply", O_WRONLY | O_TRUNC));
    settle(fixture);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_SEND), 0);
}

/* posix_fadvise(2) makes the kernel read the file. */
TEST_WITH(a_read_of_a_reply_that_is_open_for_writing_is_refused, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_reply(fixture, "reply", O_WRONLY);
    struct tree_data data = {0};
    assert_int_equal(tree_read(handle, 16, 0, &data), -EBADF);
    assert_int_equal(tree_write(handle, &any_caller, "Thanks.\n", 8, 0), 8);
    assert_int_equal(tree_read(handle, 16, 0, &data), -EBADF);
    finish(handle);
}

TEST_WITH(truncating_a_reply_file_makes_no_message, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_reply(fixture, "reply", O_WRONLY);
    const struct tree_change size = {.fields = TREE_SET_SIZE, .size = 0};
    assert_int_equal(
        tree_set_attributes(fixture->tree, &any_caller, fixture_ino(fixture, STEM "/reply"), handle, &size),
        0);
    finish(handle);
    struct tree_entry entry;
    assert_int_equal(fixture_find(fixture, "outbox/re-hello.eml", &entry), -ENOENT);
}

TEST_WITH(opening_a_reply_file_fails_if_the_content_cannot_be_fetched, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = NULL;
    fake_service_add_simple_email(fixture->fake, "i1", "6fa3f6ff-0d44", "Unread");
    fixture_sync(fixture);
    uint64_t reply =
        fixture_ino(fixture, "inboxes/alice@inbox.example/20261120T100000Z_unread_6fa3f6ff/reply");
    finish(open_reply(fixture, "reply", O_WRONLY));
    fake_service_set_reachable(fixture->fake, false);
    assert_int_equal(tree_open(fixture->tree, &any_caller, reply, O_WRONLY, &handle), -EHOSTUNREACH);
    finish(open_reply(fixture, "reply", O_WRONLY)); /* the first email's content is cached */
}

TEST_WITH(several_writes_make_one_answer, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = open_reply(fixture, "reply", O_WRONLY);
    assert_int_equal(handle->caching, TREE_CACHE_NONE);
    write_text(handle, "Hi", 0);
    write_text(handle, " Bob.\n", 2);
    finish(handle);
    settle(fixture);
    assert_sent(fixture, 0, "\"plain_text\":\"Hi Bob.\\n\"");
    assert_sent(fixture, 0, "\"from_address\":\"alice@inbox.example\"");
    assert_sent(fixture, 0, "\"address\":\"bob@x.example\"");
}

TEST_WITH(each_appending_writer_continues_its_own_text, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *one = open_reply(fixture, "reply", O_WRONLY | O_APPEND);
    struct tree_handle *two = open_reply(fixture, "reply", O_WRONLY | O_APPEND);
    write_text(one, "one ", 0);
    write_text(two, "two ", 4); /* the kernel has one size of the file, to which both writers add */
    write_text(one, "more", 0);
    finish(one);
    finish(two);
    settle(fixture);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_SEND), 2);
    const char *first = fake_service_get(fixture->fake, FAKE_SEND, 0).text;
    unsigned int index_of_one = strstr(first, "one more") != NULL ? 0 : 1;
    assert_sent(fixture, index_of_one, "\"plain_text\":\"one more\"");
    assert_sent(fixture, 1 - index_of_one, "\"plain_text\":\"two \"");
}

TEST_WITH(a_reply_without_a_recipient_fails_with_a_reason, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    fake_service_add_simple_email(fixture->fake, "i1", "6fa3f6ff-0d44", "Odd");
    fake_service_set_content(fixture->fake, "6fa3f6ff-0d44",
                             "{\"id\":\"6fa3f6ff-0d44\",\"plain_text\":\"x\","
                             "\"from_address\":{\"address\":\"bob@x.example\",\"name\":null},"
                             "\"reply_to_addresses\":[{\"address\":\"who?\",\"name\":null}]}");
    fixture_sync(fixture);
    static const char path[] = "inboxes/alice@inbox.example/20261120T100000Z_odd_6fa3f6ff/reply";
    struct tree_handle *handle = NULL;
    assert_int_equal(tree_open(fixture->tree, &any_caller, fixture_ino(fixture, path), O_WRONLY, &handle), 0);
    assert_int_equal(tree_write(handle, &any_caller, "Yes.\n", 5, 0), -EDESTADDRREQ);
    finish(handle);
    _cleanup_free_ char *events = fixture_read(fixture, "events.jsonl");
    assert_non_null(strstr(events, path));
    assert_non_null(strstr(events, "who?"));
    settle(fixture);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_SEND), 0);

    handle = NULL;
    assert_int_equal(tree_open(fixture->tree, &any_caller, fixture_ino(fixture, path), O_WRONLY, &handle), 0);
    write_text(handle, "To: dan@x.example\n\nYes.\n", 0);
    finish(handle);
    settle(fixture);
    assert_sent(fixture, 0, "\"address\":\"dan@x.example\"");
}

TEST_WITH(a_process_can_remove_and_create_a_reply_file, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    struct tree_handle *handle = NULL;
    uint64_t folder = fixture_ino(fixture, STEM);
    assert_int_equal(tree_unlink(fixture->tree, &mover, folder, "reply"), 0);
    assert_int_equal(tree_lookup(fixture->tree, &mover, folder, "reply", &entry), -ENOENT);
    assert_int_equal(tree_lookup(fixture->tree, &mover, folder, "forward", &entry), 0);
    assert_int_equal(tree_lookup(fixture->tree, &somebody, folder, "reply", &entry), 0);
    assert_int_equal(tree_lookup(fixture->tree, &mover, fixture_ino(fixture, OTHER), "reply", &entry), 0);
    assert_int_equal(
        tree_create(fixture->tree, &mover, folder, "reply", 0600, O_WRONLY | O_EXCL, &entry, &handle), 0);
    write_text(handle, "Hi.\n", 0);
    finish(handle);
    assert_int_equal(tree_lookup(fixture->tree, &mover, folder, "reply", &entry), 0);
    settle(fixture);
    assert_sent(fixture, 0, "\"existing_email_id\":\"3c90c3cc-0d44\",\"message_type\":\"reply\"");
    assert_int_equal(tree_create(fixture->tree, &mover, folder, "reply", 0600, O_RDWR, &entry, &handle),
                     -EACCES);
    assert_int_equal(tree_unlink(fixture->tree, &mover, folder, "body.txt"), -EPERM);
    assert_int_equal(tree_create(fixture->tree, &mover, folder, "other", 0600, O_WRONLY, &entry, &handle),
                     -EPERM);
}

TEST_WITH(moving_a_draft_onto_a_reply_file_sends_an_answer, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    uint64_t folder = fixture_ino(fixture, STEM);
    uint64_t drafts = fixture_ino(fixture, "drafts");
    assert_int_equal(tree_rename(fixture->tree, &any_caller, drafts, "draft", folder, "answer", 0), -EPERM);
    assert_int_equal(tree_rename(fixture->tree, &any_caller, folder, "reply", drafts, "reply", 0), -EPERM);
    assert_int_equal(tree_rename(fixture->tree, &any_caller, drafts, "draft", folder, "forward", 0), 0);
    assert_int_equal(fixture_find(fixture, "drafts/draft", &entry), -ENOENT);
    settle(fixture);
    assert_sent(fixture, 0, "\"address\":\"bob@inbox.example\"");
    assert_sent(fixture, 0, "\"message_type\":\"forward\"");
}
