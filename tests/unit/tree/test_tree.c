/* SPDX-License-Identifier: MIT */
/*
 * The tree as the kernel uses it: names, attributes, listings and contents; permissions and renames; calls
 * of the listener; the queue after an outage; open files when the filesystem ends.
 */
#include "tree_fixture.h"

#include <dirent.h>
#include <glib.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "store/index_changes.h"
#include "support/test.h"
#include "tree/node.h"
#include "tree/tree.h"

static const char inbox[] = "inboxes/alice@inbox.example";

static const struct {
    const char *path;
    mode_t mode;
    bool is_lasting;
    bool is_name_lasting;
} nodes[] = {
    {"README", S_IFREG | 0444, true, true},
    {"status.json", S_IFREG | 0444, false, true},
    {"events.jsonl", S_IFREG | 0444, false, false},
    {"events", S_IFREG | 0400, false, true},
    {"ctl", S_IFREG | 0200, false, true},
    {"inboxes", S_IFDIR | 0700, true, true},
    {"inboxes/alice@inbox.example", S_IFDIR | 0700, true, true},
    {"inboxes/alice@inbox.example/inbox.json", S_IFREG | 0600, false, true},
    {"inboxes/alice@inbox.example/index.jsonl", S_IFREG | 0444, true, true},
    {"search", S_IFDIR | 0700, false, true},
    {"drafts", S_IFDIR | 0700, false, true},
    {"drafts/draft", S_IFREG | 0600, false, false},
    {"outbox", S_IFDIR | 0700, false, true},
    {"attachments", S_IFDIR | 0700, false, true},
    {"sent", S_IFDIR | 0700, false, true},
    {"failed", S_IFDIR | 0700, false, true},
};

TEST_WITH(every_node_has_its_mode_and_caching, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    struct tree_attributes attributes;
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        print_message("# %s\n", nodes[i].path);
        assert_int_equal(fixture_find(fixture, nodes[i].path, &entry), 0);
        assert_int_equal(entry.attributes.stat.st_mode, nodes[i].mode);
        assert_int_equal(entry.attributes.is_lasting, nodes[i].is_lasting);
        assert_int_equal(entry.is_name_lasting, nodes[i].is_name_lasting);
        assert_int_equal(entry.attributes.stat.st_uid, getuid());
        assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, entry.ino, &attributes), 0);
        assert_int_equal(attributes.stat.st_mode, nodes[i].mode);
        assert_int_equal(attributes.stat.st_ino, entry.attributes.stat.st_ino);
    }
}

TEST_WITH(lookups_of_unknown_paths_return_their_errno, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *path;
        int error;
    } cases[] = {
        {"nothing", -ENOENT},
        {"inboxes/bob@inbox.example", -ENOENT},
        {"drafts/nothing", -ENOENT},
        {"inboxes/alice@inbox.example/x.json", -ENOENT},
        {"outbox/nothing", -ENOENT},
        {"sent/nothing.receipt.json", -ENOENT},
        {"README/below", -ENOTDIR},
        {"inboxes/alice@inbox.example/inbox.json/x", -ENOTDIR},
        {"drafts/draft/below", -ENOTDIR},
    };
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        print_message("# %s\n", cases[i].path);
        assert_int_equal(fixture_find(fixture, cases[i].path, &entry), cases[i].error);
    }
}

TEST_WITH(folders_list_their_entries, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct fixture_names names;
    fixture_list(fixture, "", 0, &names);
    assert_string_equal(names.text,
                        ". .. README status.json events.jsonl inboxes search drafts outbox sent failed "
                        "attachments ");
    fixture_list(fixture, "inboxes", 0, &names);
    assert_string_equal(names.text, ". .. alice@inbox.example ");
    fixture_list(fixture, inbox, 0, &names);
    assert_memory_equal(names.text, ". .. inbox.json index.jsonl 2026", 32);
    assert_non_null(strstr(names.text, "_hello_3c90c3cc.json "));
    fixture_list(fixture, "outbox", 0, &names);
    assert_string_equal(names.text, ". .. ");
    fixture_list(fixture, "drafts", 0, &names);
    assert_non_null(strstr(names.text, "draft "));
}

TEST_WITH(a_listing_in_small_parts_has_the_same_names, fixture_set_up, fixture_tear_down)
{
    static const char *const folders[] = {"", "inboxes", "inboxes/alice@inbox.example", "sent", "drafts"};
    struct tree_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        struct fixture_names whole;
        struct fixture_names parts;
        fixture_list(fixture, folders[i], 0, &whole);
        fixture_list(fixture, folders[i], 1, &parts);
        assert_string_equal(parts.text, whole.text);
    }
}

/* A buffer like the kernel's: a short name may fit after a longer name did not. */
struct buffer {
    GHashTable *names;
    size_t room;
    uint64_t next;
};

enum {
    BUFFER_BYTES = 300
};

static bool fill_buffer(void *context, const char *name, const struct tree_entry *entry, uint64_t next)
{
    struct buffer *buffer = context;
    if (strlen(name) > buffer->room)
        return false;
    buffer->room -= strlen(name);
    buffer->next = next;
    if (!g_hash_table_add(buffer->names, strdup(name)))
        fail_msg("listed twice: %s", name);
    return true;
}

/* Lists the folder with buffers of this size. Returns the number of names. */
static size_t count_names(struct tree_fixture *fixture, const char *path, size_t buffer_bytes)
{
    struct buffer buffer = {.names = g_hash_table_new_full(g_str_hash, g_str_equal, free, NULL)};
    struct tree_handle *dir = NULL;
    size_t before;
    assert_int_equal(tree_open_dir(fixture->tree, &any_caller, fixture_ino(fixture, path), &dir), 0);
    do {
        before = g_hash_table_size(buffer.names);
        buffer.room = buffer_bytes;
        assert_int_equal(tree_read_dir(dir, buffer.next, fill_buffer, &buffer), 0);
    } while (g_hash_table_size(buffer.names) > before);
    tree_release(dir);
    size_t count = g_hash_table_size(buffer.names);
    g_hash_table_unref(buffer.names);
    return count;
}

static int set_up_names_of_all_lengths(void **state)
{
    char subject[128];
    char id[32];
    struct tree_fixture *fixture = calloc(1, sizeof(*fixture));
    temp_dir_init(&fixture->dir);
    fixture->fake = fake_service_new();
    fake_service_add_inbox(fixture->fake,
                           "{\"id\":\"i1\",\"name\":\"alice\",\"email_address\":\"alice@inbox.example\"}");
    for (int i = 0; i < 150; i++) {
        snprintf(id, sizeof(id), "%08x", i);
        snprintf(subject, sizeof(subject), "%.*s", 1 + i * 37 % 60,
                 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
        fake_service_add_simple_email(fixture->fake, "i1", id, subject);
    }
    fixture_content_bytes = 1000000;
    fixture_open_layers(fixture);
    *state = fixture;
    return 0;
}

static int tear_down_names(void **state)
{
    fixture_content_bytes = 0;
    return fixture_tear_down(state);
}

TEST_WITH(a_listing_in_full_buffers_loses_no_name, set_up_names_of_all_lengths, tear_down_names)
{
    struct tree_fixture *fixture = *state;
    size_t whole = count_names(fixture, inbox, 1000000);
    assert_true(whole >= 2 + 2 + 150);
    assert_int_equal(count_names(fixture, inbox, BUFFER_BYTES), whole);
}

TEST_WITH(the_size_of_a_file_is_the_length_of_its_content, fixture_set_up, fixture_tear_down)
{
    static const char *const paths[] = {"README",
                                        "status.json",
                                        "events.jsonl",
                                        "drafts/draft",
                                        "inboxes/alice@inbox.example/inbox.json",
                                        "inboxes/alice@inbox.example/index.jsonl"};
    struct tree_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct tree_attributes attributes;
        _cleanup_free_ char *text = fixture_read(fixture, paths[i]);
        print_message("# %s\n", paths[i]);
        assert_int_equal(
            tree_get_attributes(fixture->tree, &any_caller, fixture_ino(fixture, paths[i]), &attributes), 0);
        assert_int_equal(attributes.stat.st_size, strlen(text));
    }
}

TEST_WITH(the_readme_names_surprises_and_fits_on_a_screen, fixture_set_up, fixture_tear_down)
{
    static const char *const words[] = {"*_*.json", "fetches nothing", "events.jsonl", "inboxfs status"};
    _cleanup_free_ char *text = fixture_read(*state, "README");
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        assert_non_null(strstr(text, words[i]));
    size_t lines = 0;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1, lines++)
        assert_true(strcspn(line, "\n") <= 110);
    assert_true(lines <= 50);
}

static void report(struct tree *tree, enum event_kind kind, const char *path, const char *words)
{
    const struct event event = {.time_ms = 1000, .kind = kind, .path = path, .error = words};
    struct event_listener listener = tree_event_listener(tree);
    listener.notify(listener.context, &event);
}

static void assert_text(const json_t *object, const char *key, const char *wanted)
{
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(json_object_get(object, key));
    assert_string_equal(wanted != NULL ? wanted : "null", text != NULL ? text : "null");
}

/* Checks `refused` or `failed` of status.json. */
static void assert_tally(const json_t *status, const char *name, int count, const char *path,
                         const char *words)
{
    const json_t *tally = json_object_get(status, name);
    assert_int_equal(count, json_integer_value(json_object_get(tally, "count")));
    assert_text(tally, "path", path);
    assert_text(tally, "error", words);
    assert_text(tally, "time", count > 0 ? "1970-01-01T00:00:01.000Z" : NULL);
}

TEST_WITH(status_json_counts_refusals_and_failures, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    char huge[100 * 1000];
    memset(huge, '\x01', sizeof(huge) - 1); /* each takes six characters in JSON */
    huge[sizeof(huge) - 1] = '\0';
    report(fixture->tree, EVENT_REFUSED, "drafts/first", "no recipient");
    report(fixture->tree, EVENT_REFUSED, "drafts/second", "no sender");
    report(fixture->tree, EVENT_INBOX, "inboxes/any_caller", "not an email address");
    report(fixture->tree, EVENT_INBOX, "inboxes/made", NULL);
    report(fixture->tree, EVENT_SENT, "sent/fine", NULL);
    _cleanup_free_ char *text = fixture_read(fixture, "status.json");
    json_t *status = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_tally(status, "refused", 3, "inboxes/any_caller", "not an email address");
    assert_tally(status, "failed", 0, NULL, NULL);
    json_decref(status);
    report(fixture->tree, EVENT_REFUSED, huge, huge);
    report(fixture->tree, EVENT_FAILED, huge, huge);
    report(fixture->tree, EVENT_FAILED, "failed/first", NULL);
    _cleanup_free_ char *longer = fixture_read(fixture, "status.json");
    status = json_loads(longer, JSON_REJECT_DUPLICATES, NULL);
    assert_tally(status, "failed", 2, "failed/first", NULL);
    json_decref(status);
}

TEST_WITH(status_json_has_all_its_members, fixture_set_up, fixture_tear_down)
{
    static const char *const members[] = {"version", "service", "started",      "online",   "error",
                                          "sync",    "queue",   "capabilities", "counters", "quota"};
    struct tree_fixture *fixture = *state;
    _cleanup_free_ char *text = fixture_read(fixture, "status.json");
    json_t *status = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(status);
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        assert_non_null(json_object_get(status, members[i]));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(status, "sync"), "emails")), 1);
    assert_string_equal(json_string_value(json_object_get(status, "service")), "https://inbox.example");
    json_decref(status);
}

struct notified {
    uint64_t folder;
    size_t count; /* calls for `folder`, but not for a name in it */
    char gone[256];
};

static void changed(void *context, uint64_t ino, const char *gone_name)
{
    struct notified *notified = context;
    if (gone_name != NULL)
        snprintf(notified->gone, sizeof(notified->gone), "%s", gone_name);
    else
        notified->count += ino == notified->folder;
}

static void sync_removal(struct tree_fixture *fixture)
{
    fixture_sync(fixture);
    fake_clock_advance(&fixture_fake_clock, INDEX_CONFIRM_MS);
    fixture_sync(fixture);
}

TEST_WITH(added_and_removed_mail_notifies_the_listener, fixture_set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct notified notified = {.folder = fixture_ino(fixture, inbox)};
    const struct tree_listener listener = {.changed = changed, .context = &notified};
    tree_set_listener(fixture->tree, &listener);

    fake_service_add_simple_email(fixture->fake, "i1", "ffffffff-1", "Second");
    fixture_sync(fixture);
    tree_set_listener(fixture->tree, NULL);
    assert_true(notified.count > 0);
    assert_string_equal(notified.gone, "");

    tree_set_listener(fixture->tree, &listener);
    fake_service_remove_email(fixture->fake, "ffffffff-1");
    sync_removal(fixture);
    tree_set_listener(fixture->tree, NULL);
    assert_non_null(strstr(notified.gone, "_second_ffffffff"));
}

/* ---------------------------------------------------------------- the operations that each folder allows */

static const struct {
    const char *folder;
    int create;
    int make_dir;
    int symlink;
    int link; /* result for a link to the draft */
    int unlink_missing;
    int remove_dir;
    int rename_draft_here; /* an empty draft, which outbox/ and attachments/ refuse */
} folders[] = {
    {"", -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM},
    {"inboxes", -EPERM, -EINVAL, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM},
    {"inboxes/alice@inbox.example", -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM, -EPERM},
    {"outbox", 0, -EPERM, -EPERM, -EPERM, -ENOENT, -EPERM, -EBADMSG},
    {"attachments", 0, -EPERM, -EPERM, -EPERM, -ENOENT, -EPERM, -EBADMSG},
    {"sent", -EPERM, -EPERM, -EPERM, -EPERM, -ENOENT, -EPERM, -EPERM},
    {"failed", -EPERM, -EPERM, -EPERM, -EPERM, -ENOENT, -EPERM, -EPERM},
    {"drafts", 0, 0, 0, 0, -ENOENT, -ENOENT, 0},
};

TEST_WITH(each_folder_allows_only_its_operations, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree *tree = fixture->tree;
    struct tree_entry entry;
    _cleanup_close_ int drafts = file_open_dir(fixture->dir.fd, "drafts");
    assert_int_equal(file_replace_at(drafts, "draft", "", 0, 0600), 0);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        struct tree_handle *handle = NULL;
        uint64_t folder = fixture_ino(fixture, folders[i].folder);
        print_message("# in /%s\n", folders[i].folder);
        assert_int_equal(tree_create(tree, &any_caller, folder, ".new", 0600, O_WRONLY, &entry, &handle),
                         folders[i].create);
        if (folders[i].create == 0)
            tree_release(handle);
        assert_int_equal(tree_make(tree, &any_caller, folder, "folder",
                                   &(struct tree_new_entry){.mode = S_IFDIR | 0700}, &entry),
                         folders[i].make_dir);
        assert_int_equal(tree_make(tree, &any_caller, folder, "symlink",
                                   &(struct tree_new_entry){.mode = S_IFLNK | 0777, .target = "x"}, &entry),
                         folders[i].symlink);
        assert_int_equal(tree_make(tree, &any_caller, folder, "link",
                                   &(struct tree_new_entry){.ino = fixture_ino(fixture, "drafts/draft")},
                                   &entry),
                         folders[i].link);
        if (folders[i].link == 0)
            assert_int_equal(tree_unlink(tree, &any_caller, folder, "link"), 0);
        assert_int_equal(tree_unlink(tree, &any_caller, folder, "missing"), folders[i].unlink_missing);
        assert_int_equal(tree_remove_dir(tree, folder, "missing"), folders[i].remove_dir);
        assert_int_equal(
            tree_rename(tree, &any_caller, fixture_ino(fixture, "drafts"), "draft", folder, "renamed", 0),
            folders[i].rename_draft_here);
        if (folders[i].rename_draft_here == 0)
            assert_int_equal(
                tree_rename(tree, &any_caller, folder, "renamed", fixture_ino(fixture, "drafts"), "draft", 0),
                0);
    }
}

static void find_email(struct tree_fixture *fixture, char *name, size_t size)
{
    struct fixture_names names;
    fixture_list(fixture, inbox, 0, &names);
    const char *email = strstr(names.text, "20");
    assert_non_null(email);
    snprintf(name, size, "%.*s", (int)strcspn(email, " "), email);
    assert_non_null(strstr(name, "_hello_"));
}

static const struct {
    const char *path;
    int flags;
    int error;
} opens[] = {
    {"README", O_RDONLY, 0},
    {"README", O_WRONLY, -EACCES},
    {"README", O_RDONLY | O_TRUNC, -EACCES},
    {"status.json", O_RDWR, -EACCES},
    {"events.jsonl", O_WRONLY | O_APPEND, -EACCES},
    {"events", O_WRONLY, -EACCES},
    {"events", O_RDONLY, 0},
    {"ctl", O_WRONLY, 0},
    {"ctl", O_RDONLY, -EACCES},
    {"ctl", O_RDWR, -EACCES},
    {"inboxes", O_RDONLY, -EISDIR},
    {"inboxes/alice@inbox.example", O_RDONLY, -EISDIR},
    {"inboxes/alice@inbox.example/inbox.json", O_RDWR, 0},
    {"drafts/draft", O_RDWR, 0},
    {"drafts/draft", O_WRONLY | O_APPEND, 0},
};

TEST_WITH(files_open_only_in_their_modes, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(opens); i++) {
        struct tree_handle *handle = NULL;
        print_message("# %s %o\n", opens[i].path, (unsigned int)opens[i].flags);
        assert_int_equal(tree_open(fixture->tree, &any_caller, fixture_ino(fixture, opens[i].path),
                                   opens[i].flags, &handle),
                         opens[i].error);
        if (opens[i].error == 0)
            tree_release(handle);
    }
    static const int writing[] = {O_WRONLY, O_RDWR, O_WRONLY | O_APPEND, O_RDONLY | O_TRUNC};
    char email[256];
    char path[512];
    find_email(fixture, email, sizeof(email));
    snprintf(path, sizeof(path), "%s/%s", inbox, email);
    uint64_t ino = fixture_ino(fixture, path);
    struct tree_handle *handle = NULL;
    for (size_t i = 0; i < ARRAY_LEN(writing); i++)
        assert_int_equal(tree_open(fixture->tree, &any_caller, ino, writing[i], &handle), -EACCES);
    assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_RDONLY, &handle), 0);
    tree_release(handle);
}

TEST_WITH(attributes_of_service_files_cannot_change, fixture_set_up, fixture_tear_down)
{
    static const char *const paths[] = {"", "README", "inboxes", "inboxes/alice@inbox.example",
                                        "inboxes/alice@inbox.example/index.jsonl"};
    const struct tree_change mode = {.fields = TREE_SET_MODE, .mode = 0777};
    const struct tree_change nothing = {.fields = 0};
    struct tree_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        uint64_t ino = fixture_ino(fixture, paths[i]);
        assert_int_equal(tree_set_attributes(fixture->tree, &any_caller, ino, NULL, &mode), -EPERM);
        assert_int_equal(tree_set_attributes(fixture->tree, &any_caller, ino, NULL, &nothing), 0);
    }
    const struct tree_change size = {.fields = TREE_SET_SIZE};
    assert_int_equal(
        tree_set_attributes(fixture->tree, &any_caller, fixture_ino(fixture, "README"), NULL, &size),
        -EACCES);
}

TEST_WITH(targets_of_copies_accept_mode_owner_and_times, fixture_set_up, fixture_tear_down)
{
    static const char *const paths[] = {"outbox", "attachments", "drafts",
                                        "inboxes/alice@inbox.example/inbox.json"};
    const struct tree_change change = {
        .fields = TREE_SET_MODE | TREE_SET_UID | TREE_SET_GID | TREE_SET_TIMES,
        .mode = 0777,
        .uid = 12345,
        .gid = 12345,
        .times = {{.tv_sec = 1}, {.tv_sec = 1}},
    };
    const struct tree_change size = {.fields = TREE_SET_SIZE};
    struct tree_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct tree_attributes before;
        struct tree_attributes after;
        uint64_t ino = fixture_ino(fixture, paths[i]);
        assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, ino, &before), 0);
        assert_int_equal(tree_set_attributes(fixture->tree, &any_caller, ino, NULL, &change), 0);
        assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, ino, &after), 0);
        assert_int_equal(after.stat.st_mode, before.stat.st_mode);
        assert_int_equal(after.stat.st_uid, getuid());
        assert_int_equal(after.stat.st_mtime == 1, i == 2);
    }
    assert_int_equal(
        tree_set_attributes(fixture->tree, &any_caller, fixture_ino(fixture, paths[3]), NULL, &size), -EPERM);
}

/* ---------------------------------------------------------------- renames */

static int rename_path(struct tree_fixture *fixture, const char *folder, const char *name,
                       const char *new_folder, const char *new_name, unsigned int flags)
{
    return tree_rename(fixture->tree, &any_caller, fixture_ino(fixture, folder), name,
                       fixture_ino(fixture, new_folder), new_name, flags);
}

TEST_WITH(mail_cannot_be_renamed_or_removed, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    char email[256];
    find_email(fixture, email, sizeof(email));

    static const char *const targets[] = {
        "", "inboxes", "inboxes/alice@inbox.example", "drafts", "outbox", "attachments", "sent", "failed"};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++)
        assert_int_equal(rename_path(fixture, inbox, email, targets[i], "new", 0), -EPERM);
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, fixture_ino(fixture, inbox), email), -EPERM);
    assert_int_equal(rename_path(fixture, "inboxes", "alice@inbox.example", "inboxes", "b@inbox.example", 0),
                     -EPERM);
    assert_int_equal(rename_path(fixture, "", "README", "drafts", "README", 0), -EPERM);
}

TEST_WITH(renaming_a_draft_into_outbox_sends_the_draft, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    assert_int_equal(rename_path(fixture, "drafts", "draft", "outbox", "hello", 0), 0);
    assert_int_equal(tree_sync_folder(fixture->tree, &any_caller, fixture_ino(fixture, "outbox")), 0);
    assert_int_equal(fake_service_count_sent(fixture->fake, true), 1);
    assert_int_equal(fixture_find(fixture, "drafts/draft", &entry), -ENOENT);
    _cleanup_free_ char *sent = fixture_read(fixture, "sent/hello");
    assert_string_equal(sent, message);
    _cleanup_free_ char *receipt = fixture_read(fixture, "sent/hello.receipt.json");
    assert_non_null(strstr(receipt, "\"sent\""));
    assert_int_equal(rename_path(fixture, "sent", "hello.receipt.json", "drafts", "r", 0), -EPERM);
    assert_int_equal(rename_path(fixture, "sent", "hello.receipt.json", "outbox", "r", 0), -EPERM);
    /* The sender may hold the message for a moment after it is shown in sent/. */
    int error;
    while ((error = rename_path(fixture, "sent", "hello", "drafts", "again", 0)) == -EBUSY)
        sched_yield();
    assert_int_equal(error, 0);
    _cleanup_free_ char *again = fixture_read(fixture, "drafts/again");
    assert_string_equal(again, message);
}

static void send_as(struct tree_fixture *fixture, const char *name)
{
    int drafts = file_open_dir(fixture->dir.fd, "drafts");
    assert_int_equal(file_replace_at(drafts, "draft", message, strlen(message), 0600), 0);
    close(drafts);
    assert_int_equal(rename_path(fixture, "drafts", "draft", "outbox", name, 0), 0);
    assert_int_equal(tree_sync_folder(fixture->tree, &any_caller, fixture_ino(fixture, "outbox")), 0);
}

/* Makes the service list an email with this id, as if another client had sent it. */
static void send_elsewhere(struct tree_fixture *fixture, const char *id)
{
    static const struct service_capabilities extended = {.inbox_list = CAPABILITY_PRESENT};
    char json[128];
    snprintf(json, sizeof(json), "{\"id\": \"%s\", \"date\": \"2026-11-20T10:00:00Z\"}", id);
    fake_service_set_capabilities(fixture->fake, &extended);
    fake_service_add_outbound(fixture->fake, "i1", json);
    fixture_sync(fixture);
}

static void remove_sent(struct tree_fixture *fixture, const char *name)
{
    int error; /* -EBUSY while the sender still holds the message */
    while ((error = tree_unlink(fixture->tree, &any_caller, fixture_ino(fixture, "sent"), name)) == -EBUSY)
        sched_yield();
    assert_int_equal(error, 0);
}

/* `at_most`: number of names; 0 for all. */
static struct fixture_names list_sent(struct tree_fixture *fixture, uint64_t position, size_t at_most)
{
    struct fixture_names names = {.at_most = at_most};
    struct tree_handle *dir = NULL;
    assert_int_equal(tree_open_dir(fixture->tree, &any_caller, fixture_ino(fixture, "sent"), &dir), 0);
    assert_int_equal(tree_read_dir(dir, position, fixture_take_name, &names), 0);
    tree_release(dir);
    return names;
}

/* A removal drops the kernel's cached listing, so the kernel may read on from the middle. */
TEST_WITH(a_listing_of_sent_continues_after_removals, fixture_set_up, fixture_tear_down)
{
    static const char listed[] = ". .. a a.receipt.json b b.receipt.json c c.receipt.json ";
    struct tree_fixture *fixture = *state;
    send_as(fixture, "a");
    send_as(fixture, "b");
    send_as(fixture, "c");
    send_elsewhere(fixture, "00000001");
    send_elsewhere(fixture, "00000002");
    struct fixture_names whole = list_sent(fixture, 0, 0);
    assert_memory_equal(whole.text, listed, strlen(listed));
    struct fixture_names to_b = list_sent(fixture, 0, 5);
    struct fixture_names to_first_elsewhere = list_sent(fixture, 0, 9);

    remove_sent(fixture, "a");
    struct fixture_names rest = list_sent(fixture, to_b.next, 0);
    assert_string_equal(rest.text, strstr(whole.text, "b.receipt.json"));
    remove_sent(fixture, "b");
    send_as(fixture, "d");
    rest = list_sent(fixture, to_b.next, 0);
    assert_memory_equal(rest.text, "c c.receipt.json d d.receipt.json 2026", 38);
    rest = list_sent(fixture, to_first_elsewhere.next, 0);
    assert_non_null(strstr(rest.text, "_00000002.json "));
    assert_ptr_equal(strchr(rest.text, ' '), rest.text + strlen(rest.text) - 1);
}

TEST_WITH(a_refused_hand_in_leaves_the_draft, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    uint64_t drafts = fixture_ino(fixture, "drafts");
    assert_int_equal(tree_make(fixture->tree, &any_caller, drafts, "folder",
                               &(struct tree_new_entry){.mode = S_IFDIR | 0700}, &entry),
                     0);
    assert_int_equal(tree_make(fixture->tree, &any_caller, drafts, "symlink",
                               &(struct tree_new_entry){.mode = S_IFLNK | 0777, .target = "draft"}, &entry),
                     0);
    assert_int_equal(tree_make(fixture->tree, &any_caller, drafts, "symlink",
                               &(struct tree_new_entry){.mode = S_IFLNK | 0777, .target = "draft"}, &entry),
                     -EEXIST);
    assert_int_equal(tree_make(fixture->tree, &any_caller, drafts, "fifo",
                               &(struct tree_new_entry){.mode = S_IFIFO | 0600}, &entry),
                     0);
    assert_int_equal(rename_path(fixture, "drafts", "folder", "outbox", "x", 0), -EISDIR);
    assert_int_equal(rename_path(fixture, "drafts", "symlink", "outbox", "x", 0), -ELOOP);
    assert_int_equal(rename_path(fixture, "drafts", "fifo", "outbox", "x", 0), -EBADMSG);
    assert_int_equal(rename_path(fixture, "drafts", "none", "outbox", "x", 0), -ENOENT);
    assert_int_equal(tree_make(fixture->tree, &any_caller, drafts, "second",
                               &(struct tree_new_entry){.ino = fixture_ino(fixture, "drafts/draft")}, &entry),
                     0);
    assert_int_equal(rename_path(fixture, "drafts", "draft", "outbox", "x", 0), -EMLINK);
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, drafts, "second"), 0);
    assert_int_equal(rename_path(fixture, "drafts", "draft", "outbox", "x", RENAME_EXCHANGE), -EINVAL);
    assert_int_equal(fixture_find(fixture, "drafts/draft", &entry), 0);
}

TEST_WITH(a_folder_whose_removal_failed_stays_usable, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry folder;
    struct tree_entry entry;
    struct tree_attributes attributes;
    uint64_t drafts = fixture_ino(fixture, "drafts");
    assert_int_equal(tree_make(fixture->tree, &any_caller, drafts, "folder",
                               &(struct tree_new_entry){.mode = S_IFDIR | 0700}, &folder),
                     0);
    assert_int_equal(tree_make(fixture->tree, &any_caller, folder.ino, "fifo",
                               &(struct tree_new_entry){.mode = S_IFIFO | 0600}, &entry),
                     0);
    assert_int_equal(tree_remove_dir(fixture->tree, drafts, "folder"), -ENOTEMPTY);
    /* The kernel uses its inode without another lookup. */
    assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, folder.ino, &attributes), 0);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, folder.ino, "fifo", &entry), 0);
    assert_int_equal(tree_make(fixture->tree, &any_caller, folder.ino, "socket",
                               &(struct tree_new_entry){.mode = S_IFSOCK | 0600}, &entry),
                     0);
    assert_true(S_ISSOCK(entry.attributes.stat.st_mode));
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, folder.ino, "fifo"), 0);
    assert_int_equal(tree_unlink(fixture->tree, &any_caller, folder.ino, "socket"), 0);
    assert_int_equal(tree_remove_dir(fixture->tree, drafts, "folder"), 0);
}

TEST_WITH(a_draft_that_is_open_for_writing_cannot_be_handed_in, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = NULL;
    uint64_t ino = fixture_ino(fixture, "drafts/draft");
    assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_WRONLY, &handle), 0);
    assert_int_equal(rename_path(fixture, "drafts", "draft", "outbox", "x", 0), -EBUSY);
    tree_release(handle);
    assert_int_equal(rename_path(fixture, "drafts", "draft", "outbox", "x", 0), 0);
    /* After ESTALE the kernel looks the name up again. */
    assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_WRONLY, &handle), -ESTALE);
    const struct tree_change size = {.fields = TREE_SET_SIZE};
    assert_int_equal(tree_set_attributes(fixture->tree, &any_caller, ino, NULL, &size), -ESTALE);
}

TEST_WITH(renames_of_drafts_obey_their_flags, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    struct tree_handle *handle = NULL;
    uint64_t drafts = fixture_ino(fixture, "drafts");
    assert_int_equal(tree_create(fixture->tree, &any_caller, drafts, "b", 0640, O_RDWR, &entry, &handle), 0);
    tree_release(handle);
    assert_int_equal(entry.attributes.stat.st_mode & 07777, 0640);
    assert_int_equal(rename_path(fixture, "drafts", "b", "drafts", "draft", RENAME_NOREPLACE), -EEXIST);
    assert_int_equal(rename_path(fixture, "drafts", "b", "drafts", "draft", RENAME_EXCHANGE), 0);
    _cleanup_free_ char *text = fixture_read(fixture, "drafts/b");
    assert_string_equal(text, message);
}

static bool find_listed_number(void *context, const char *name, const struct tree_entry *entry, uint64_t next)
{
    uint64_t *number = context;
    if (strcmp(name, "draft") == 0)
        *number = entry->attributes.stat.st_ino;
    return true;
}

TEST_WITH(stat_and_listings_show_the_same_inode_number_of_a_draft, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_attributes attributes;
    struct tree_handle *dir = NULL;
    uint64_t listed = 0;
    assert_int_equal(tree_open_dir(fixture->tree, &any_caller, fixture_ino(fixture, "drafts"), &dir), 0);
    assert_int_equal(tree_read_dir(dir, 0, find_listed_number, &listed), 0);
    tree_release(dir);
    uint64_t ino = fixture_ino(fixture, "drafts/draft");
    assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, ino, &attributes), 0);
    assert_int_equal(attributes.stat.st_ino, listed);
}

/* The umask of this process must not remove bits. */
TEST_WITH(new_drafts_have_the_requested_modes, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    struct tree_handle *handle = NULL;
    uint64_t drafts = fixture_ino(fixture, "drafts");
    mode_t before = umask(0077);
    assert_int_equal(tree_create(fixture->tree, &any_caller, drafts, "file", 0664, O_WRONLY, &entry, &handle),
                     0);
    tree_release(handle);
    assert_int_equal(entry.attributes.stat.st_mode, S_IFREG | 0664);
    assert_int_equal(tree_make(fixture->tree, &any_caller, drafts, "dir",
                               &(struct tree_new_entry){.mode = S_IFDIR | 0775}, &entry),
                     0);
    assert_int_equal(entry.attributes.stat.st_mode, S_IFDIR | 0775);
    assert_int_equal(tree_make(fixture->tree, &any_caller, drafts, "fifo",
                               &(struct tree_new_entry){.mode = S_IFIFO | 0666}, &entry),
                     0);
    assert_int_equal(entry.attributes.stat.st_mode, S_IFIFO | 0666);
    umask(before);
}

/* `rm sent/<all>` also removes the receipts of files that it removed. */
TEST_WITH(only_the_program_that_removed_a_file_can_remove_its_receipt, fixture_set_up, fixture_tear_down)
{
    const struct tree_caller rm = {.pid = 7};
    const struct tree_caller other = {.pid = 8};
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    assert_int_equal(rename_path(fixture, "drafts", "draft", "outbox", "hello", 0), 0);
    assert_int_equal(tree_sync_folder(fixture->tree, &any_caller, fixture_ino(fixture, "outbox")), 0);
    uint64_t sent = fixture_ino(fixture, "sent");
    int error;
    while ((error = tree_unlink(fixture->tree, &rm, sent, "hello")) == -EBUSY)
        sched_yield();
    assert_int_equal(error, 0);
    assert_int_equal(fixture_find(fixture, "sent/hello", &entry), -ENOENT);
    assert_int_equal(fixture_find(fixture, "sent/hello.receipt.json", &entry), -ENOENT);
    assert_int_equal(tree_unlink(fixture->tree, &other, sent, "hello.receipt.json"), -ENOENT);
    assert_int_equal(tree_unlink(fixture->tree, &rm, sent, "hello.receipt.json"), 0);
    assert_int_equal(tree_unlink(fixture->tree, &rm, sent, "hello.receipt.json"), -ENOENT);
}

/* ---------------------------------------------------------------- open files in drafts/ and sent/ at the end
 */

static size_t count_descriptors(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

TEST(the_end_of_a_mount_closes_open_drafts_and_listings)
{
    size_t before = count_descriptors();
    void *own_state = NULL;
    fixture_set_up(&own_state);
    struct tree_fixture *fixture = own_state;
    struct tree_handle *handle = NULL;
    struct tree_handle *dir = NULL;
    assert_int_equal(
        tree_open(fixture->tree, &any_caller, fixture_ino(fixture, "drafts/draft"), O_RDONLY, &handle), 0);
    assert_int_equal(tree_open_dir(fixture->tree, &any_caller, fixture_ino(fixture, "drafts"), &dir), 0);
    assert_int_equal(tree_open_dir(fixture->tree, &any_caller, fixture_ino(fixture, "sent"), &dir), 0);
    fixture_tear_down(&own_state);
    assert_int_equal(count_descriptors(), before);
}

/* ---------------------------------------------------------------- calls of the listener */

struct appeared_path {
    unsigned int count;
    char path[512];
};

static void appeared(void *context, const char *path)
{
    struct appeared_path *last = context;
    last->count++;
    snprintf(last->path, sizeof(last->path), "%s", path);
}

TEST_WITH(new_mail_is_announced_once_with_its_path, fixture_set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct appeared_path last = {.count = 0};
    struct tree_entry entry;
    const struct tree_listener listener = {.appeared = appeared, .context = &last};
    tree_set_listener(fixture->tree, &listener);
    fake_service_add_simple_email(fixture->fake, "i1", "ffffffff-1", "Second");
    fixture_sync(fixture);
    fixture_sync(fixture);
    fake_service_remove_email(fixture->fake, "ffffffff-1");
    sync_removal(fixture);
    fake_service_add_simple_email(fixture->fake, "i1", "ffffffff-1",
                                  "Second"); /* a returned email is not announced */
    fixture_sync(fixture);
    assert_int_equal(fixture_find(fixture, last.path, &entry), 0);
    fake_service_remove_email(fixture->fake, "ffffffff-1");
    sync_removal(fixture);
    tree_set_listener(fixture->tree, NULL);

    assert_int_equal(last.count, 1);
    assert_int_equal(strncmp(last.path, "inboxes/alice@inbox.example/", 28), 0);
    assert_non_null(strstr(last.path, "_second_ffffffff"));
    assert_int_equal(fixture_find(fixture, last.path, &entry), -ENOENT); /* the email was removed */
}

TEST_WITH(creating_an_announced_file_opens_the_file_for_reading, fixture_set_up, fixture_tear_down)
{
    static const char record[] = "inboxes/alice@inbox.example/inbox.json";
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = NULL;
    struct tree_entry entry;
    uint64_t folder = fixture_ino(fixture, "inboxes/alice@inbox.example");
    assert_int_equal(tree_create_announced(fixture->tree, folder, "inbox.json", &entry, &handle), 0);
    assert_int_equal(entry.ino, fixture_ino(fixture, record));
    assert_int_equal(handle->flags & O_ACCMODE, O_RDONLY);
    assert_int_equal(tree_write(handle, &any_caller, "x", 1, 0), -EBADF);
    assert_int_equal(tree_flush(handle, &any_caller), 0);
    tree_release(handle);
    assert_int_equal(tree_create_announced(fixture->tree, folder, "missing", &entry, &handle), -ENOENT);
}

TEST_WITH(files_are_announced_only_in_inboxes_sent_and_failed, fixture_set_up, fixture_tear_down)
{
    static const struct {
        const char *folder;
        bool is_announced;
    } cases[] = {
        {"inboxes/alice@inbox.example", true},
        {"sent", true},
        {"failed", true},
        {"outbox", false},
        {"inboxes", false},
        {"attachments", false},
        {"drafts", false},
        {"", false},
    };
    struct tree_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tree_handle *handle = NULL;
        struct tree_entry entry;
        uint64_t folder = fixture_ino(fixture, cases[i].folder);
        print_message("# %s\n", cases[i].folder);
        assert_int_equal(tree_create_announced(fixture->tree, folder, "missing", &entry, &handle),
                         cases[i].is_announced ? -ENOENT : -EPERM);
    }
}

/* ---------------------------------------------------------------- with a fake clock */

static int64_t status_changed_ms(struct tree_fixture *fixture)
{
    struct tree_attributes attributes;
    assert_int_equal(
        tree_get_attributes(fixture->tree, &any_caller, fixture_ino(fixture, "status.json"), &attributes), 0);
    return (int64_t)attributes.stat.st_mtim.tv_sec * 1000 + attributes.stat.st_mtim.tv_nsec / 1000000;
}

TEST_WITH(stat_of_status_json_is_at_most_a_second_old, fixture_set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    int64_t before = status_changed_ms(fixture);
    fake_service_add_simple_email(fixture->fake, "i1", "4d81d4dd-0d44", "second");
    fake_clock_advance(&fixture_fake_clock, 10);
    fixture_sync(fixture);
    assert_int_equal(status_changed_ms(fixture), before);
    fake_clock_advance(&fixture_fake_clock, 1000);
    assert_int_equal(status_changed_ms(fixture), before + 1010);
}

static void await_pause(struct tree_fixture *fixture)
{
    struct outbox_status status = {.is_paused = false};
    for (int i = 0; i < 20000 && !status.is_paused; i++) {
        outbox_get_status(fixture->outbox, &status);
        usleep(1000);
    }
    assert_true(status.is_paused);
}

/* No time passes, so the sender makes no other attempt by itself. */
TEST_WITH(an_online_event_sends_the_queue_at_once, fixture_set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    char *reason = NULL;
    fake_service_set_reachable(fixture->fake, false);
    assert_int_not_equal(store_sync(fixture->store, NULL, NULL, &reason), 0);
    free(reason);
    assert_int_equal(rename_path(fixture, "drafts", "draft", "outbox", "letter", 0), 0);
    await_pause(fixture);
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 0);
    unsigned int before = fake_service_count(fixture->fake, FAKE_SEND);
    fake_service_set_reachable(fixture->fake, true);
    fixture_sync(fixture);
    fake_service_wait_count(fixture->fake, FAKE_SEND, before + 1);
    assert_int_equal(fake_service_count_sent(fixture->fake, false), 1);
}

/* ---------------------------------------------------------------- open files at the end of the filesystem */

static struct tree_handle *begin(struct tree_fixture *fixture, const char *name, const char *text)
{
    struct tree_handle *handle = NULL;
    struct tree_entry entry;
    uint64_t outbox = fixture_ino(fixture, "outbox");
    assert_int_equal(
        tree_create(fixture->tree, &any_caller, outbox, name, 0600, O_WRONLY | O_CREAT, &entry, &handle), 0);
    assert_int_equal(tree_write(handle, &any_caller, text, strlen(text), 0), strlen(text));
    return handle;
}

/* Waits until each message in the outbox is sent, refused or failed. */
static void settle(struct tree_fixture *fixture)
{
    assert_int_equal(tree_sync_folder(fixture->tree, &any_caller, fixture_ino(fixture, "outbox")), 0);
}

static bool exists(struct tree_fixture *fixture, const char *path)
{
    struct tree_entry entry;
    return fixture_find(fixture, path, &entry) == 0;
}

TEST_WITH(a_closed_message_is_sent_when_the_filesystem_ends, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = NULL;
    assert_int_equal(tree_flush(begin(fixture, "closed", message), &any_caller), 0);
    assert_int_equal(tree_open(fixture->tree, &any_caller, fixture_ino(fixture, "README"), O_RDONLY, &handle),
                     0);
    tree_close_handles(fixture->tree);
    settle(fixture);
    assert_true(exists(fixture, "sent/closed"));
    assert_int_equal(fixture->tree->open_handles.length, 0);
}

TEST_WITH(an_unclosed_message_is_not_sent_when_the_filesystem_ends, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = begin(fixture, "half", message);
    assert_int_equal(tree_flush(handle, &any_caller), 0);
    assert_int_equal(tree_write(handle, &any_caller, "more", 4, (off_t)strlen(message)), 4);
    begin(fixture, "open", message);
    tree_close_handles(fixture->tree);
    assert_true(exists(fixture, "outbox/half"));
    assert_true(exists(fixture, "outbox/open"));
    assert_int_equal(fake_service_count(fixture->fake, FAKE_SEND), 0);
}
