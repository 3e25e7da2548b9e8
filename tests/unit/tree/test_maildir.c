/* SPDX-License-Identifier: MIT */
/*
 * Maildirs: messages and their sizes, marks, mail that is added and removed, announcements, local files.
 */
#include "tree_fixture.h"

#include <sched.h>

#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "mail/maildir_name.h"
#include "store/index_changes.h"
#include "store/store_content.h"
#include "support/test.h"

#define BOX "maildir/alice@inbox.example"

static void add_message(struct tree_fixture *fixture, const char *id, const char *raw)
{
    char json[128];
    snprintf(json, sizeof(json), "{\"id\":\"%s\",\"plain_text\":\"Hello.\\n\"}", id);
    fake_service_set_content(fixture->fake, id, json);
    fake_service_set_bytes(fixture->fake, id, NULL, raw, strlen(raw));
}

/* The inbox has three emails; the service has no raw message of the third. */
static int set_up(void **state)
{
    fixture_content_bytes = UINT64_C(1) << 20;
    fixture_set_up(state);
    struct tree_fixture *fixture = *state;
    fake_service_add_simple_email(fixture->fake, "i1", "4d81d4dd-0d44", "second");
    add_message(fixture, "3c90c3cc-0d44", "first, raw");
    add_message(fixture, "4d81d4dd-0d44", "the second one");
    fixture_await(fixture, store_has_raw);
    fake_service_add_simple_email(fixture->fake, "i1", "5e92e5ee-0d44", "third");
    fixture_sync(fixture);
    return 0;
}

static int set_up_with_fake_clock(void **state)
{
    fixture_use_fake_clock();
    return set_up(state);
}

struct found {
    char name[MAILDIR_NAME_SIZE + 64];
    uint64_t ino;
};

/* The messages of a folder. */
struct listing {
    struct found by_uid[16]; /* by U number, from 1 */
    size_t count;            /* without "." and ".." */
    size_t at_most;
    size_t taken;
    uint64_t next;
};

static bool take(void *context, const char *name, const struct tree_entry *entry, uint64_t next)
{
    struct listing *listing = context;
    struct maildir_name parsed;
    if (listing->at_most > 0 && listing->taken == listing->at_most)
        return false;
    listing->taken++;
    listing->next = next;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    listing->count++;
    assert_true(maildir_name_parse(name, &parsed) && parsed.uid < ARRAY_LEN(listing->by_uid));
    struct found *found = &listing->by_uid[parsed.uid];
    assert_string_equal(found->name, "");
    snprintf(found->name, sizeof(found->name), "%s", name);
    found->ino = entry->ino;
    return true;
}

static struct listing list(struct tree_fixture *fixture, const char *folder, size_t at_most)
{
    struct listing listing = {.at_most = at_most};
    struct tree_handle *dir = NULL;
    assert_int_equal(tree_open_dir(fixture->tree, &any_caller, fixture_ino(fixture, folder), &dir), 0);
    do {
        listing.taken = 0;
        assert_int_equal(tree_read_dir(dir, listing.next, take, &listing), 0);
    } while (listing.taken > 0);
    tree_release(dir);
    return listing;
}

static char *path_of(const char *folder, const char *name)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
    return path;
}

static int rename_at(struct tree_fixture *fixture, const char *folder, const char *name,
                     const char *new_folder, const char *new_name)
{
    return tree_rename(fixture->tree, &any_caller, fixture_ino(fixture, folder), name,
                       fixture_ino(fixture, new_folder), new_name, 0);
}

static struct timespec mtime_of(struct tree_fixture *fixture, const char *folder)
{
    struct tree_attributes attributes;
    uint64_t ino = fixture_ino(fixture, folder);
    assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, ino, &attributes), 0);
    return attributes.stat.st_mtim;
}

static bool is_later(struct timespec one, struct timespec other)
{
    return one.tv_sec > other.tv_sec || (one.tv_sec == other.tv_sec && one.tv_nsec > other.tv_nsec);
}

/* ---------------------------------------------------------------- lookups and listings */

TEST_WITH(a_maildir_has_cur_new_and_tmp, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    static const char *const folders[] = {"maildir", BOX, BOX "/cur", BOX "/new", BOX "/tmp"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        assert_int_equal(fixture_find(fixture, folders[i], &entry), 0);
        assert_int_equal(entry.attributes.stat.st_mode, S_IFDIR | 0700);
    }
    assert_int_equal(fixture_find(fixture, BOX "/other", &entry), -ENOENT);
    assert_int_equal(fixture_find(fixture, BOX "/.lock", &entry), -ENOENT);
    assert_int_equal(fixture_find(fixture, "maildir/any_caller@inbox.example", &entry), -ENOENT);
    assert_int_equal(fixture_find(fixture, BOX "/.uidvalidity/below", &entry), -ENOTDIR);
}

TEST_WITH(messages_are_listed_before_their_size_is_known, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    for (size_t at_most = 0; at_most < 5; at_most++) {
        struct listing listing = list(fixture, BOX "/new", at_most);
        assert_int_equal(listing.count, 3);
        for (uint32_t uid = 1; uid <= 3; uid++)
            assert_string_not_equal(listing.by_uid[uid].name, "");
        assert_int_equal(listing.by_uid[3].ino, 0);
    }
    assert_int_equal(list(fixture, BOX "/cur", 0).count, 0);
    assert_int_equal(list(fixture, BOX "/tmp", 0).count, 0);
}

static bool count_message(void *context, const char *name, const struct tree_entry *entry, uint64_t next)
{
    size_t *count = context;
    *count += name[0] != '.' ? 1 : 0;
    return true;
}

/* The store returns the messages of an inbox in several pieces. */
TEST_WITH(all_messages_of_a_large_inbox_are_listed, set_up, fixture_tear_down)
{
    enum {
        MORE = 130
    };
    struct tree_fixture *fixture = *state;
    struct tree_handle *dir = NULL;
    size_t count = 0;
    for (unsigned int i = 0; i < MORE; i++) {
        char id[32];
        snprintf(id, sizeof(id), "%08x-0d44", i);
        fake_service_add_simple_email(fixture->fake, "i1", id, "one of many");
    }
    fixture_sync(fixture);
    assert_int_equal(tree_open_dir(fixture->tree, &any_caller, fixture_ino(fixture, BOX "/new"), &dir), 0);
    assert_int_equal(tree_read_dir(dir, 0, count_message, &count), 0);
    tree_release(dir);
    assert_int_equal(count, 3 + MORE);
}

TEST_WITH(a_listing_has_the_size_that_a_lookup_fetched, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct listing listing = list(fixture, BOX "/new", 0);
    uint64_t folder = fixture_ino(fixture, BOX "/new");
    struct tree_entry entry;
    const char *name = listing.by_uid[1].name;
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, folder, name, &entry), 0);
    assert_int_equal(entry.attributes.stat.st_size, 10);
    assert_int_equal(entry.attributes.stat.st_mode, S_IFREG | 0444);
    assert_true(entry.attributes.is_lasting && entry.is_name_lasting);
    assert_int_equal(list(fixture, BOX "/new", 0).by_uid[1].ino, entry.ino);

    _cleanup_free_ char *path = path_of(BOX "/new", name);
    _cleanup_free_ char *text = fixture_read(fixture, path);
    assert_string_equal(text, "first, raw");
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, folder, listing.by_uid[3].name, &entry),
                     -ENOENT);
}

TEST_WITH(reads_end_at_the_end_of_the_message, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct listing listing = list(fixture, BOX "/new", 0);
    _cleanup_free_ char *path = path_of(BOX "/new", listing.by_uid[2].name);
    struct tree_handle *handle = NULL;
    struct tree_data data;
    uint64_t ino = fixture_ino(fixture, path);
    assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_RDWR, &handle), -EACCES);
    assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_RDONLY | O_TRUNC, &handle), -EACCES);
    assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_RDONLY, &handle), 0);
    assert_int_equal(tree_read(handle, 4096, 4, &data), 0);
    assert_int_equal(data.len, 10);
    assert_int_equal(tree_read(handle, 4096, 14, &data), 0);
    assert_int_equal(data.len, 0);
    assert_int_equal(tree_read(handle, 4096, 1 << 20, &data), 0);
    assert_int_equal(data.len, 0);
    assert_int_equal(tree_read(handle, 4096, -1, &data), -EINVAL);
    tree_release(handle);
}

/* ---------------------------------------------------------------- marking */

TEST_WITH(marking_a_message_replaces_its_name, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct listing listing = list(fixture, BOX "/new", 0);
    struct tree_entry entry;
    const char *name = listing.by_uid[1].name;
    char marked[sizeof(listing.by_uid[1].name) + 8];
    char other[sizeof(marked)];
    snprintf(marked, sizeof(marked), "%s:2,RS", name);
    snprintf(other, sizeof(other), "%s:2,SR", name);

    struct timespec new_time = mtime_of(fixture, BOX "/new");
    struct timespec cur_time = mtime_of(fixture, BOX "/cur");
    assert_int_equal(rename_at(fixture, BOX "/new", name, BOX "/cur", other), 0);
    assert_true(is_later(mtime_of(fixture, BOX "/new"), new_time));
    assert_true(is_later(mtime_of(fixture, BOX "/cur"), cur_time));
    assert_string_equal(list(fixture, BOX "/cur", 0).by_uid[1].name, marked);

    uint64_t cur = fixture_ino(fixture, BOX "/cur");
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, cur, marked, &entry), 0);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, cur, other, &entry), 0); /* the same message */
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, cur, name, &entry), -ENOENT);
    uint64_t new = fixture_ino(fixture, BOX "/new");
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, new, name, &entry), -ENOENT);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, new, marked, &entry), -ENOENT);
    uint64_t tmp = fixture_ino(fixture, BOX "/tmp");
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, tmp, name, &entry), -ENOENT);
}

TEST_WITH(only_renames_that_mark_a_message_are_allowed, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct listing listing = list(fixture, BOX "/new", 0);
    const char *one = listing.by_uid[1].name;
    const char *two = listing.by_uid[2].name;
    struct tree_entry entry;
    struct tree_handle *handle = NULL;
    uint64_t new = fixture_ino(fixture, BOX "/new");
    uint64_t drafts = fixture_ino(fixture, "drafts");
    struct tree *tree = fixture->tree;
    assert_int_equal(rename_at(fixture, BOX "/new", one, BOX "/cur", two), -EPERM);
    assert_int_equal(rename_at(fixture, BOX "/new", one, BOX "/tmp", one), -EPERM);
    assert_int_equal(rename_at(fixture, BOX "/new", one, BOX, one), -EPERM);
    assert_int_equal(rename_at(fixture, BOX "/new", one, "drafts", one), -EPERM);
    assert_int_equal(rename_at(fixture, "drafts", "draft", BOX "/new", "draft"), -EPERM);
    assert_int_equal(rename_at(fixture, BOX "/cur", one, BOX "/cur", one), -ENOENT);
    assert_int_equal(tree_create(tree, &any_caller, new, "1.x", 0600, O_WRONLY, &entry, &handle), -EPERM);
    uint64_t tmp = fixture_ino(fixture, BOX "/tmp");
    assert_int_equal(tree_create(tree, &any_caller, tmp, "1.x", 0600, O_WRONLY, &entry, &handle), -EDQUOT);
    assert_int_equal(tree_create(tree, &any_caller, tmp, ".x", 0600, O_WRONLY, &entry, &handle), -EDQUOT);
    assert_int_equal(
        tree_make(tree, &any_caller, new, "x", &(struct tree_new_entry){.mode = S_IFDIR | 0700}, &entry),
        -EPERM);
    assert_int_equal(
        tree_make(tree, &any_caller, new, "x", &(struct tree_new_entry){.mode = S_IFREG | 0600}, &entry),
        -EPERM);
    assert_int_equal(tree_make(tree, &any_caller, new, "x",
                               &(struct tree_new_entry){.mode = S_IFLNK | 0777, .target = "x"}, &entry),
                     -EPERM);
    uint64_t draft = fixture_ino(fixture, "drafts/draft");
    assert_int_equal(tree_make(tree, &any_caller, new, "x", &(struct tree_new_entry){.ino = draft}, &entry),
                     -EPERM);
    tree_forget(tree, draft, 1);
    assert_int_equal(tree_lookup(tree, &any_caller, new, one, &entry), 0);
    assert_int_equal(
        tree_make(tree, &any_caller, drafts, "x", &(struct tree_new_entry){.ino = entry.ino}, &entry),
        -EPERM);
    assert_int_equal(tree_remove_dir(tree, fixture_ino(fixture, BOX), "cur"), -EPERM);
    assert_int_equal(list(fixture, BOX "/new", 0).count, 3);
}

TEST_WITH(rm_marks_a_message_as_trashed_and_a_second_rm_removes_it, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct listing listing = list(fixture, BOX "/new", 0);
    char trashed[sizeof(listing.by_uid[1].name) + 8];
    snprintf(trashed, sizeof(trashed), "%s:2,T", listing.by_uid[1].name);
    uint64_t new = fixture_ino(fixture, BOX "/new");
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, new, listing.by_uid[1].name), 0);
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, new, listing.by_uid[1].name), -ENOENT);
    assert_string_equal(list(fixture, BOX "/new", 0).by_uid[1].name, trashed);
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, new, trashed), 0);
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, new, trashed), -ENOENT);
    assert_int_equal(rename_at(fixture, BOX "/new", trashed, BOX "/cur", trashed), -ENOENT);
    assert_int_equal(list(fixture, BOX "/new", 0).count, 2);
    /* The first rm adds T to the marks. */
    const char *read_one = listing.by_uid[2].name;
    uint64_t cur = fixture_ino(fixture, BOX "/cur");
    char marked[sizeof(listing.by_uid[2].name) + 8];
    snprintf(marked, sizeof(marked), "%s:2,RS", read_one);
    assert_int_equal(rename_at(fixture, BOX "/new", read_one, BOX "/cur", marked), 0);
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, cur, marked), 0);
    snprintf(marked, sizeof(marked), "%s:2,RST", read_one);
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, cur, marked), 0);
    assert_int_equal(list(fixture, BOX "/cur", 0).count, 0);
    /* New mail does not get the number of a removed message. */
    fake_service_add_simple_email(fixture->fake, "i1", "6fa3f6ff-0d44", "fourth");
    fixture_sync(fixture);
    listing = list(fixture, BOX "/new", 0);
    assert_int_equal(listing.count, 2);
    assert_string_equal(listing.by_uid[1].name, "");
    assert_string_equal(listing.by_uid[2].name, "");
    assert_string_not_equal(listing.by_uid[4].name, "");
}

TEST_WITH(an_open_message_stays_readable_after_its_removal, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    char trashed[MAILDIR_NAME_SIZE + 80];
    struct tree_handle *handle = NULL;
    struct tree_attributes attributes;
    struct tree_data data;
    struct listing listing = list(fixture, BOX "/new", 0);
    const char *name = listing.by_uid[1].name;
    _cleanup_free_ char *path = path_of(BOX "/new", name);
    uint64_t ino = fixture_ino(fixture, path);
    uint64_t new = fixture_ino(fixture, BOX "/new");
    assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_RDONLY, &handle), 0);
    snprintf(trashed, sizeof(trashed), "%s:2,T", name);
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, new, name), 0);
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, new, trashed), 0);
    assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, ino, &attributes), 0);
    assert_int_equal(tree_read(handle, 4096, 0, &data), 0);
    assert_int_equal(data.len, 10);
    tree_release(handle);
}

/* ---------------------------------------------------------------- mail that is added and removed */

TEST_WITH(new_mail_changes_the_time_of_new_before_a_listing, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    assert_int_equal(list(fixture, BOX "/new", 0).count, 3);
    struct timespec new_time = mtime_of(fixture, BOX "/new");
    struct timespec cur_time = mtime_of(fixture, BOX "/cur");
    uint64_t new = fixture_ino(fixture, BOX "/new");
    struct tree_attributes attributes;
    fake_service_add_simple_email(fixture->fake, "i1", "6fa3f6ff-0d44", "fourth");
    fixture_sync(fixture);
    assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, new, &attributes), 0);
    assert_true(is_later(attributes.stat.st_mtim, new_time));
    assert_int_equal(list(fixture, BOX "/new", 0).count, 4);
    /* A listing does not change the time. */
    struct timespec after = mtime_of(fixture, BOX "/new");
    assert_memory_equal(&after, &attributes.stat.st_mtim, sizeof(after));
    after = mtime_of(fixture, BOX "/cur");
    assert_memory_equal(&after, &cur_time, sizeof(after));
}

/* A mail program reads a folder again only if the time of the folder differs. No time passes here. */
TEST_WITH(each_change_moves_the_time_of_new_forward, set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct tree_attributes attributes;
    uint64_t new = fixture_ino(fixture, BOX "/new");
    char id[32];
    struct timespec before = mtime_of(fixture, BOX "/new");
    for (int i = 0; i < 2; i++) {
        char target[MAILDIR_NAME_SIZE + 80];
        struct listing listing = list(fixture, BOX "/new", 0);
        const char *name = listing.by_uid[i + 1].name;
        snprintf(target, sizeof(target), "%s:2,S", name);
        assert_int_equal(rename_at(fixture, BOX "/new", name, BOX "/cur", target), 0);
        struct timespec marked = mtime_of(fixture, BOX "/new");
        assert_true(is_later(marked, before));
        snprintf(id, sizeof(id), "a%07d-0d44", i);
        fake_service_add_simple_email(fixture->fake, "i1", id, "Hello");
        fixture_sync(fixture);
        /* The time is correct both before and after a lookup of the folder. */
        assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, new, &attributes), 0);
        assert_true(is_later(attributes.stat.st_mtim, marked));
        before = mtime_of(fixture, BOX "/new");
        assert_true(is_later(before, marked));
    }
}

TEST_WITH(a_new_inbox_changes_the_time_of_the_folder_maildir, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct timespec before = mtime_of(fixture, "maildir");
    assert_true(before.tv_sec > 0);
    int64_t now_ms = clock_realtime_ms(clock_system());
    while (clock_realtime_ms(clock_system()) == now_ms)
        sched_yield();
    fake_service_add_inbox(fixture->fake,
                           "{\"id\":\"i9\",\"name\":\"zoe\",\"email_address\":\"zoe@inbox.example\"}");
    fixture_sync(fixture);
    assert_int_equal(list(fixture, "maildir/zoe@inbox.example/new", 0).count, 0);
    assert_true(is_later(mtime_of(fixture, "maildir"), before));
}

TEST_WITH(returned_mail_has_its_former_name, set_up_with_fake_clock, fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    struct tree_attributes attributes;
    struct listing listing = list(fixture, BOX "/new", 0);
    uint64_t new = fixture_ino(fixture, BOX "/new");
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, new, listing.by_uid[2].name, &entry), 0);
    struct timespec before = mtime_of(fixture, BOX "/new");
    fake_service_remove_email(fixture->fake, "4d81d4dd-0d44");
    fixture_sync(fixture);
    fake_clock_advance(&fixture_fake_clock, INDEX_CONFIRM_MS);
    fixture_sync(fixture);
    struct tree_handle *handle = NULL;
    struct tree_entry again;
    assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, entry.ino, &attributes), -ENOENT);
    assert_int_equal(tree_open(fixture->tree, &any_caller, entry.ino, O_RDONLY, &handle), -ENOENT);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, new, listing.by_uid[2].name, &again), -ENOENT);
    assert_true(is_later(mtime_of(fixture, BOX "/new"), before));
    assert_int_equal(list(fixture, BOX "/new", 0).count, 2);

    fake_service_add_simple_email(fixture->fake, "i1", "4d81d4dd-0d44", "second");
    fixture_sync(fixture);
    assert_string_equal(list(fixture, BOX "/new", 0).by_uid[2].name, listing.by_uid[2].name);
}

TEST_WITH(messages_leave_with_their_inbox, set_up_with_fake_clock, fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    struct tree_entry again;
    struct tree_attributes attributes;
    struct tree_handle *handle = NULL;
    struct listing listing = list(fixture, BOX "/new", 0);
    uint64_t new = fixture_ino(fixture, BOX "/new");
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, new, listing.by_uid[2].name, &entry), 0);
    fake_service_remove_inbox(fixture->fake, "i1");
    fixture_sync(fixture);
    fake_clock_advance(&fixture_fake_clock, INDEX_CONFIRM_MS);
    fixture_sync(fixture);
    assert_int_equal(fixture_find(fixture, BOX, &again), -ENOENT);
    assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, entry.ino, &attributes), -ENOENT);
    assert_int_equal(tree_open(fixture->tree, &any_caller, entry.ino, O_RDONLY, &handle), -ENOENT);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, new, listing.by_uid[2].name, &again), -ENOENT);
}

/* The service may hold back an email that the Maildir has shown. */
TEST_WITH(mail_that_is_held_back_leaves_the_maildir, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    struct tree_attributes attributes;
    struct tree_handle *handle = NULL;
    struct service_capabilities capabilities;
    struct mail_service *service = fake_service_as_service(fixture->fake);
    service->ops->get_capabilities(service, &capabilities);
    capabilities.inbox_list = CAPABILITY_PRESENT; /* such a service holds mail back */
    fake_service_set_capabilities(fixture->fake, &capabilities);
    struct listing listing = list(fixture, BOX "/new", 0);
    uint64_t new = fixture_ino(fixture, BOX "/new");
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, new, listing.by_uid[2].name, &entry), 0);
    fake_service_replace_email(fixture->fake, "4d81d4dd-0d44",
                               "{\"id\":\"4d81d4dd-0d44\",\"inbox_id\":\"i1\",\"subject\":\"second\","
                               "\"date\":\"2026-11-20T10:00:00Z\",\"status\":\"spf_fail\","
                               "\"user_mark_status\":false}");
    fixture_sync(fixture);
    assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, entry.ino, &attributes), -ENOENT);
    assert_int_equal(tree_open(fixture->tree, &any_caller, entry.ino, O_RDONLY, &handle), -ENOENT);
    assert_int_equal(list(fixture, BOX "/new", 0).count, 2);
}

/* ---------------------------------------------------------------- announced mail */

struct appeared {
    uint64_t inos[8];
    size_t count;
};

static void note_appeared(void *context, uint64_t ino)
{
    struct appeared *appeared = context;
    assert_true(appeared->count < ARRAY_LEN(appeared->inos));
    appeared->inos[appeared->count++] = ino;
}

TEST_WITH(the_path_of_announced_mail_can_be_created, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct appeared appeared = {.count = 0};
    const struct tree_listener listener = {.message_appeared = note_appeared, .context = &appeared};
    struct tree_handle *handle = NULL;
    struct tree_entry entry;
    char path[256];
    tree_set_listener(fixture->tree, &listener);
    fake_service_add_simple_email(fixture->fake, "i1", "6fa3f6ff-0d44", "fourth");
    fixture_sync(fixture);
    assert_int_equal(appeared.count, 0); /* no program has listed the Maildir */
    assert_int_equal(list(fixture, BOX "/new", 0).count, 4);
    fake_service_add_simple_email(fixture->fake, "i1", "70b407aa-0d44", "fifth");
    fixture_sync(fixture);
    tree_set_listener(fixture->tree, NULL);
    assert_int_equal(appeared.count, 1);
    assert_int_equal(tree_find_announced(fixture->tree, appeared.inos[0], path, sizeof(path)), 0);
    assert_int_equal(strncmp(path, BOX "/new/", strlen(BOX "/new/")), 0);
    const char *name = path + strlen(BOX "/new/");
    uint64_t new = fixture_ino(fixture, BOX "/new");
    /* Creating does not fetch the size, so the attributes are not lasting. */
    assert_int_equal(tree_create_announced(fixture->tree, new, name, &entry, &handle), 0);
    tree_release(handle);
    assert_int_equal(entry.ino, appeared.inos[0]);
    assert_false(entry.is_name_lasting);
    assert_false(entry.attributes.is_lasting);
    assert_string_equal(list(fixture, BOX "/new", 0).by_uid[5].name, name);
    assert_int_equal(tree_find_announced(fixture->tree, appeared.inos[0], path, 20), -ENAMETOOLONG);
    assert_int_equal(tree_find_announced(fixture->tree, fixture_ino(fixture, "drafts"), path, sizeof(path)),
                     -ENOENT);
}

struct invalidated {
    uint64_t folder;
    size_t count;
};

static void note_invalidated(void *context, uint64_t folder, const char *gone_name)
{
    struct invalidated *invalidated = context;
    invalidated->count += gone_name == NULL && folder == invalidated->folder;
}

TEST_WITH(added_and_removed_mail_invalidates_the_listing_of_new, set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    assert_int_equal(fixture_find(fixture, BOX "/new", &entry), 0);
    assert_true(entry.attributes.is_lasting);
    struct invalidated invalidated = {.folder = entry.ino};
    const struct tree_listener listener = {.changed = note_invalidated, .context = &invalidated};
    assert_int_equal(list(fixture, BOX "/new", 0).count, 3);
    tree_set_listener(fixture->tree, &listener);
    assert_int_equal(list(fixture, BOX "/new", 0).count, 3);
    assert_int_equal(invalidated.count, 0);
    fake_service_add_simple_email(fixture->fake, "i1", "6fa3f6ff-0d44", "fourth");
    fixture_sync(fixture);
    size_t of_new_mail = invalidated.count;
    fake_service_remove_email(fixture->fake, "4d81d4dd-0d44");
    fixture_sync(fixture);
    fake_clock_advance(&fixture_fake_clock, INDEX_CONFIRM_MS);
    fixture_sync(fixture);
    tree_set_listener(fixture->tree, NULL);
    assert_true(of_new_mail > 0);
    assert_true(invalidated.count > of_new_mail);
}

TEST_WITH(marked_and_removed_mail_is_not_announced, set_up_with_fake_clock, fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    char path[256];
    char marked[MAILDIR_NAME_SIZE + 80];
    struct tree_entry entry;
    struct tree_handle *handle = NULL;
    struct listing listing = list(fixture, BOX "/new", 0);
    uint64_t new = fixture_ino(fixture, BOX "/new");
    uint64_t inos[3];
    for (size_t i = 1; i < ARRAY_LEN(inos); i++) {
        _cleanup_free_ char *of = path_of(BOX "/new", listing.by_uid[i].name);
        inos[i] = fixture_ino(fixture, of);
        assert_int_equal(tree_find_announced(fixture->tree, inos[i], path, sizeof(path)), 0);
        assert_string_equal(path, of);
    }
    snprintf(marked, sizeof(marked), "%s:2,S", listing.by_uid[1].name);
    assert_int_equal(rename_at(fixture, BOX "/new", listing.by_uid[1].name, BOX "/cur", marked), 0);
    assert_int_equal(tree_find_announced(fixture->tree, inos[1], path, sizeof(path)), -ENOENT);
    assert_int_equal(tree_create_announced(fixture->tree, new, listing.by_uid[1].name, &entry, &handle),
                     -ENOENT);
    fake_service_remove_email(fixture->fake, "4d81d4dd-0d44");
    fixture_sync(fixture);
    fake_clock_advance(&fixture_fake_clock, INDEX_CONFIRM_MS);
    fixture_sync(fixture);
    assert_int_equal(tree_find_announced(fixture->tree, inos[2], path, sizeof(path)), -ENOENT);
    assert_int_equal(tree_create_announced(fixture->tree, new, listing.by_uid[2].name, &entry, &handle),
                     -ENOENT);
}

TEST_WITH(mail_is_announced_only_in_new, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    static const char *const folders[] = {"maildir", BOX, BOX "/cur", BOX "/tmp"};
    struct tree_entry entry;
    struct tree_handle *handle = NULL;
    assert_int_equal(tree_lookup_announced(fixture->tree, fixture_ino(fixture, BOX "/new"), "new", &entry),
                     -ENOENT);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        uint64_t folder = fixture_ino(fixture, folders[i]);
        assert_int_equal(tree_create_announced(fixture->tree, folder, "new", &entry, &handle), -EPERM);
    }
}

/* ---------------------------------------------------------------- local files */

TEST_WITH(programs_can_make_rename_and_remove_hidden_files, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree *tree = fixture->tree;
    struct tree_entry entry;
    struct tree_handle *handle = NULL;
    uint64_t box = fixture_ino(fixture, BOX);
    assert_int_equal(tree_create(tree, &any_caller, box, ".lock", 0600, O_WRONLY, &entry, &handle), 0);
    assert_int_equal(tree_write(handle, &any_caller, "mine", 4, 0), 4);
    tree_release(handle);
    tree_forget(tree, entry.ino, 1);
    assert_int_equal(rename_at(fixture, BOX, ".lock", BOX, ".state"), 0);
    _cleanup_free_ char *text = fixture_read(fixture, BOX "/.state");
    assert_string_equal(text, "mine");
    assert_int_equal(rename_at(fixture, BOX, ".state", BOX, "state"), -EPERM);
    assert_int_equal(rename_at(fixture, BOX, ".state", BOX "/cur", ".state"), -EPERM);
    assert_int_equal(rename_at(fixture, BOX, ".state", "outbox", "state"), -EPERM);
    assert_int_equal(tree_create(tree, &any_caller, box, "lock", 0600, O_WRONLY, &entry, &handle), -EPERM);
    assert_int_equal(
        tree_make(tree, &any_caller, box, ".Sent", &(struct tree_new_entry){.mode = S_IFDIR | 0700}, &entry),
        -EPERM);
    assert_int_equal(tree_unlink(tree, &any_caller, box, ".uidvalidity"), -EPERM);
    assert_int_equal(tree_unlink(tree, &any_caller, box, ".state"), 0);
    assert_int_equal(tree_unlink(tree, &any_caller, box, ".state"), -ENOENT);
}

static void make_own_file(struct tree_fixture *fixture, const char *folder, const char *name)
{
    struct tree_entry entry;
    struct tree_handle *handle = NULL;
    assert_int_equal(tree_create(fixture->tree, &any_caller, fixture_ino(fixture, folder), name, 0600,
                                 O_WRONLY, &entry, &handle),
                     0);
    tree_release(handle);
    tree_forget(fixture->tree, entry.ino, 1);
}

TEST_WITH(a_folder_has_at_most_64_local_files, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    char name[32];
    for (int i = 0; i < 64; i++) {
        snprintf(name, sizeof(name), ".file-%d", i);
        make_own_file(fixture, BOX, name);
    }
    make_own_file(fixture, "maildir", ".beside");
    assert_int_equal(rename_at(fixture, "maildir", ".beside", BOX, ".beside"), -ENOSPC);
    assert_int_equal(tree_make(fixture->tree, &any_caller, fixture_ino(fixture, BOX), ".notmuch",
                               &(struct tree_new_entry){.mode = S_IFDIR | 0700}, &entry),
                     -ENOSPC);
    /* Renames within the full folder, or out of it, succeed. */
    assert_int_equal(rename_at(fixture, BOX, ".file-1", BOX, ".renamed"), 0);
    assert_int_equal(rename_at(fixture, BOX, ".file-3", "maildir", ".file-3"), 0);
}

TEST_WITH(the_size_of_uidvalidity_is_the_length_of_its_text, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    _cleanup_free_ char *text = fixture_read(fixture, BOX "/.uidvalidity");
    assert_int_equal(fixture_find(fixture, BOX "/.uidvalidity", &entry), 0);
    assert_int_equal(entry.attributes.stat.st_size, strlen(text));
}

TEST_WITH(uidvalidity_of_an_empty_maildir_reserves_a_thousand_numbers, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    unsigned int taken = 0;
    fake_service_add_inbox(fixture->fake,
                           "{\"id\": \"i9\", \"name\": \"new\", \"email_address\": \"new@inbox.example\"}");
    fixture_sync(fixture);
    _cleanup_free_ char *text = fixture_read(fixture, "maildir/new@inbox.example/.uidvalidity");
    assert_int_equal(sscanf(text, "%*u\n%u\n", &taken), 1);
    assert_int_equal(taken, 1000);
}

TEST_WITH(only_the_text_of_uidvalidity_can_be_written, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    unsigned int uidvalidity = 0;
    unsigned int taken = 0;
    _cleanup_free_ char *text = fixture_read(fixture, BOX "/.uidvalidity");
    assert_int_equal(sscanf(text, "%u\n%u\n", &uidvalidity, &taken), 2);
    assert_true(uidvalidity > 1700000000);
    assert_int_equal(taken, 1000);
    struct tree_handle *handle = NULL;
    uint64_t ino = fixture_ino(fixture, BOX "/.uidvalidity");
    assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_RDWR | O_TRUNC, &handle), -EPERM);
    assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_RDWR, &handle), 0);
    assert_int_equal(tree_write(handle, &any_caller, text, strlen(text), 0), strlen(text));
    assert_int_equal(tree_write(handle, &any_caller, "2", 1, 0), -EPERM);
    assert_int_equal(tree_write(handle, &any_caller, "x", 1, (off_t)strlen(text)), -EPERM);
    assert_int_equal(tree_write(handle, &any_caller, "x", 1, -1), -EPERM);
    tree_release(handle);
}

TEST_WITH(a_folder_whose_local_files_cannot_be_read_is_not_listed, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *dir = NULL;
    struct tree_entry entry;
    struct tree_handle *handle = NULL;
    uint64_t folder = fixture_ino(fixture, "maildir");
    _cleanup_close_ int files = file_open_dir(fixture->dir.fd, "maildir/files");
    assert_int_equal(tree_open_dir(fixture->tree, &any_caller, folder, &dir), 0);
    tree_release(dir);
    assert_int_equal(file_replace_at(files, "all", "no folder", 9, 0600), 0);
    assert_int_equal(tree_open_dir(fixture->tree, &any_caller, folder, &dir), -ENOTDIR);
    assert_int_equal(
        tree_create(fixture->tree, &any_caller, folder, ".lock", 0600, O_WRONLY | O_CREAT, &entry, &handle),
        -ENOTDIR);
}

static int set_up_without(void **state);

TEST_WITH(a_service_without_raw_messages_has_no_maildirs, set_up_without, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    struct fixture_names names;
    assert_int_equal(fixture_find(fixture, "maildir", &entry), -ENOENT);
    fixture_list(fixture, "", 0, &names);
    assert_null(strstr(names.text, "maildir"));
}

static int set_up_without(void **state)
{
    fixture_content_bytes = 0;
    return fixture_set_up(state);
}
