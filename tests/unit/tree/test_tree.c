/* SPDX-License-Identifier: MIT */
/*
 * What is seen: names, attributes, listings and contents.
 */
#include "tree_fixture.h"

#include <sys/stat.h>

#include <glib.h>
#include <jansson.h>

#include "base/cleanup.h"

static const char inbox[] = "inboxes/alice@inbox.example";

static void list(struct tree_fixture *fixture, const char *path, size_t at_most, struct fixture_names *ret)
{
    struct tree_dir *dir = NULL;
    *ret = (struct fixture_names){.at_most = at_most};
    assert_int_equal(tree_open_dir(fixture->tree, NULL, fixture_ino(fixture, path), &dir), 0);
    size_t before;
    do {
        before = ret->taken;
        ret->taken = 0;
        assert_int_equal(tree_read_dir(dir, ret->next, fixture_take_name, ret), 0);
        ret->taken += before;
        assert_true(ret->taken < 100); /* a listing that goes back never ends */
        if (at_most > 0)
            ret->at_most = at_most;
    } while (at_most > 0 && ret->taken > before);
    tree_release_dir(dir);
}

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

static void every_node_is_what_it_should_be(void **state)
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
        assert_int_equal(tree_get_attributes(fixture->tree, NULL, entry.ino, &attributes), 0);
        assert_int_equal(attributes.stat.st_mode, nodes[i].mode);
        assert_int_equal(attributes.stat.st_ino, entry.attributes.stat.st_ino);
    }
}

static void names_that_are_not_there(void **state)
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

static void folders_list_what_is_in_them(void **state)
{
    struct tree_fixture *fixture = *state;
    struct fixture_names names;
    list(fixture, "", 0, &names);
    assert_string_equal(names.text,
                        ". .. README status.json events.jsonl inboxes search drafts outbox sent failed "
                        "attachments ");
    list(fixture, "inboxes", 0, &names);
    assert_string_equal(names.text, ". .. alice@inbox.example ");
    list(fixture, inbox, 0, &names);
    assert_memory_equal(names.text, ". .. inbox.json index.jsonl 2026", 32);
    assert_non_null(strstr(names.text, "_hello_3c90c3cc.json "));
    list(fixture, "outbox", 0, &names);
    assert_string_equal(names.text, ". .. ");
    list(fixture, "drafts", 0, &names);
    assert_non_null(strstr(names.text, "draft "));
}

static void a_listing_in_small_parts_is_the_same(void **state)
{
    static const char *const folders[] = {"", "inboxes", "inboxes/alice@inbox.example", "sent", "drafts"};
    struct tree_fixture *fixture = *state;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        struct fixture_names whole;
        struct fixture_names parts;
        list(fixture, folders[i], 0, &whole);
        list(fixture, folders[i], 1, &parts);
        assert_string_equal(parts.text, whole.text);
    }
}

/* As the kernel's buffer: a name has room or has not, whatever became of the one before it. */
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
    (void)entry;
    if (strlen(name) > buffer->room)
        return false;
    buffer->room -= strlen(name);
    buffer->next = next;
    if (!g_hash_table_add(buffer->names, strdup(name)))
        fail_msg("listed twice: %s", name);
    return true;
}

/* How many names there are, read with buffers of that size. */
static size_t count_names(struct tree_fixture *fixture, const char *path, size_t buffer_bytes)
{
    struct buffer buffer = {.names = g_hash_table_new_full(g_str_hash, g_str_equal, free, NULL)};
    struct tree_dir *dir = NULL;
    size_t before;
    assert_int_equal(tree_open_dir(fixture->tree, NULL, fixture_ino(fixture, path), &dir), 0);
    do {
        before = g_hash_table_size(buffer.names);
        buffer.room = buffer_bytes;
        assert_int_equal(tree_read_dir(dir, buffer.next, fill_buffer, &buffer), 0);
    } while (g_hash_table_size(buffer.names) > before);
    tree_release_dir(dir);
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

static void a_buffer_that_is_full_loses_no_name(void **state)
{
    struct tree_fixture *fixture = *state;
    size_t whole = count_names(fixture, inbox, 1000000);
    assert_true(whole >= 2 + 2 + 150);
    assert_int_equal(count_names(fixture, inbox, BUFFER_BYTES), whole);
}

static void sizes_are_those_of_the_contents(void **state)
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
            tree_get_attributes(fixture->tree, NULL, fixture_ino(fixture, paths[i]), &attributes), 0);
        assert_int_equal(attributes.stat.st_size, strlen(text));
    }
}

static void status_is_json_with_its_parts(void **state)
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

struct told {
    uint64_t folder;
    uint64_t content;
    char gone[256];
};

static void folder_changed(void *context, uint64_t folder_ino)
{
    ((struct told *)context)->folder = folder_ino;
}

static void entry_gone(void *context, uint64_t folder_ino, const char *name)
{
    struct told *told = context;
    told->folder = folder_ino;
    snprintf(told->gone, sizeof(told->gone), "%s", name);
}

static void file_changed(void *context, uint64_t ino)
{
    ((struct told *)context)->content = ino;
}

static void the_listener_is_told_of_mail(void **state)
{
    struct tree_fixture *fixture = *state;
    struct told told = {.folder = 0};
    const struct tree_listener listener = {.folder_changed = folder_changed,
                                           .entry_gone = entry_gone,
                                           .file_changed = file_changed,
                                           .context = &told};
    char *reason = NULL;
    uint64_t folder = fixture_ino(fixture, inbox);
    tree_set_listener(fixture->tree, &listener);

    fake_service_add_simple_email(fixture->fake, "i1", "ffffffff-1", "Second");
    assert_int_equal(store_sync(fixture->store, NULL, NULL, &reason), 0);
    tree_set_listener(fixture->tree, NULL);
    assert_int_equal(told.folder, folder);
    assert_string_equal(told.gone, "");

    tree_set_listener(fixture->tree, &listener);
    fake_service_remove_email(fixture->fake, "ffffffff-1");
    assert_int_equal(store_sync(fixture->store, NULL, NULL, &reason), 0);
    tree_set_listener(fixture->tree, NULL);
    assert_non_null(strstr(told.gone, "_second_ffffffff"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_node_is_what_it_should_be, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(names_that_are_not_there, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(folders_list_what_is_in_them, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_listing_in_small_parts_is_the_same, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_buffer_that_is_full_loses_no_name, set_up_names_of_all_lengths,
                                        tear_down_names),
        cmocka_unit_test_setup_teardown(sizes_are_those_of_the_contents, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(status_is_json_with_its_parts, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(the_listener_is_told_of_mail, fixture_set_up, fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
