/* SPDX-License-Identifier: MIT */
/*
 * The folder of an email: its names, attributes and bytes, and its position in the listing of the inbox.
 */
#include "tree_fixture.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/store_content.h"
#include "support/test.h"
#include "tree/node.h"

#define BOX "inboxes/alice@inbox.example"
#define STEM "20261120T100000Z_hello_3c90c3cc"
#define REPLY "20261120T100000Z_re-hello_4d81d4dd"

static void put_content(struct tree_fixture *fixture)
{
    fake_service_add_simple_email(fixture->fake, "i1", "4d81d4dd-0d44", "Re: hello");
    fake_service_set_content(
        fixture->fake, "3c90c3cc-0d44",
        "{\"id\":\"3c90c3cc-0d44\",\"plain_text\":\"Hello.\\n\",\"html\":\"<p>Hello.</p>\","
        "\"attachments\":[{\"id\":\"a1\",\"filename\":\"r.pdf\"}]}");
    fake_service_set_content(fixture->fake, "4d81d4dd-0d44",
                             "{\"id\":\"4d81d4dd-0d44\",\"plain_text\":\"Hi.\\n\",\"previous_emails\":["
                             "{\"id\":\"3c90c3cc-0d44\",\"subject\":\"Hello\",\"prompt\":\"# Hello\","
                             "\"date\":\"2026-11-20T10:00:00Z\"},"
                             "{\"id\":\"gone\",\"subject\":\"Gone\",\"prompt\":\"# Gone\"}]}");
    fake_service_set_bytes(fixture->fake, "3c90c3cc-0d44", NULL, "raw", 3);
    fake_service_set_bytes(fixture->fake, "4d81d4dd-0d44", NULL, "raw reply", 9);
    fake_service_set_bytes(fixture->fake, "3c90c3cc-0d44", "a1", "PDF!", 4);
}

static int set_up(void **state)
{
    fixture_content_bytes = UINT64_C(1) << 20;
    fixture_set_up(state);
    struct tree_fixture *fixture = *state;
    put_content(fixture);
    fixture_await(fixture, store_has_raw);
    assert_true(store_has_content(fixture->store));
    return 0;
}

TEST_WITH(each_email_is_a_file_and_a_folder_in_listings_of_any_size, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct fixture_names names;
    for (size_t at_most = 0; at_most < 7; at_most++) {
        fixture_list(fixture, BOX, at_most, &names);
        assert_string_equal(names.text,
                            ". .. inbox.json index.jsonl " STEM ".json " REPLY ".json " STEM " " REPLY " ");
    }
}

TEST_WITH(folders_show_only_existing_content, set_up, fixture_tear_down)
{
    static const struct {
        const char *path;
        const char *names;
    } cases[] = {
        {BOX "/" STEM, ". .. body.txt new.txt body.html message.eml attachments "},
        {BOX "/" STEM "/attachments", ". .. r.pdf "},
        {BOX "/" REPLY, ". .. body.txt new.txt message.eml thread "},
        {BOX "/" REPLY "/thread", ". .. " STEM ".md nodate_gone_"},
    };
    struct tree_fixture *fixture = *state;
    struct fixture_names names;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t at_most = 0; at_most < 3; at_most++) {
            fixture_list(fixture, cases[i].path, at_most, &names);
            if (strstr(cases[i].names, "nodate") == NULL)
                assert_string_equal(names.text, cases[i].names);
            else
                assert_memory_equal(names.text, cases[i].names, strlen(cases[i].names));
        }
    }
}

TEST_WITH(attributes_of_content_files_are_exact, set_up, fixture_tear_down)
{
    static const struct {
        const char *path;
        mode_t mode;
        off_t size;
    } cases[] = {
        {STEM, S_IFDIR | 0700, 0},
        {STEM "/body.txt", S_IFREG | 0444, 7},
        {STEM "/body.html", S_IFREG | 0444, 13},
        {STEM "/message.eml", S_IFREG | 0444, 3},
        {STEM "/attachments", S_IFDIR | 0700, 0},
        {STEM "/attachments/r.pdf", S_IFREG | 0444, 4},
        {REPLY "/thread/" STEM ".md", S_IFLNK | 0777, sizeof("../../" STEM "/prompt.md") - 1},
    };
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    struct tree_attributes attributes;
    char path[256];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        snprintf(path, sizeof(path), BOX "/%s", cases[i].path);
        assert_int_equal(fixture_find(fixture, path, &entry), 0);
        assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, entry.ino, &attributes), 0);
        assert_int_equal(entry.attributes.stat.st_mode, cases[i].mode);
        assert_int_equal(entry.attributes.stat.st_size, cases[i].size);
        assert_memory_equal(&attributes.stat, &entry.attributes.stat, sizeof(attributes.stat));
        assert_int_equal(attributes.stat.st_mtime, 1795168800);
    }
}

TEST_WITH(a_lookup_fails_if_the_bytes_cannot_be_fetched, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    uint64_t folder = fixture_ino(fixture, BOX "/" STEM "/attachments");
    fake_service_push(fixture->fake, FAKE_GET_ATTACHMENT,
                      (struct fake_outcome){.outcome = SERVICE_REJECTED, .http_status = 400});
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, folder, "r.pdf", &entry), -EIO);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, folder, "r.pdf", &entry), 0);
    assert_int_equal(entry.attributes.stat.st_size, 4);
}

TEST_WITH(content_files_can_be_read_and_links_lead_to_texts, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    char target[256];
    _cleanup_free_ char *body = fixture_read(fixture, BOX "/" STEM "/body.txt");
    _cleanup_free_ char *html = fixture_read(fixture, BOX "/" STEM "/body.html");
    _cleanup_free_ char *raw = fixture_read(fixture, BOX "/" STEM "/message.eml");
    _cleanup_free_ char *attachment = fixture_read(fixture, BOX "/" STEM "/attachments/r.pdf");
    assert_string_equal(body, "Hello.\n");
    assert_string_equal(html, "<p>Hello.</p>");
    assert_string_equal(raw, "raw");
    assert_string_equal(attachment, "PDF!");
    uint64_t link = fixture_ino(fixture, BOX "/" REPLY "/thread/" STEM ".md");
    assert_int_equal(tree_read_link(fixture->tree, &any_caller, link, target, sizeof(target)), 0);
    assert_string_equal(target, "../../" STEM "/prompt.md");
    assert_int_equal(
        tree_read_link(fixture->tree, &any_caller, fixture_ino(fixture, BOX "/" STEM), target, 9), -EINVAL);
}

TEST_WITH(opening_a_text_in_memory_needs_no_descriptor, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_handle *handle = NULL;
    struct rlimit before;
    uint64_t ino = fixture_ino(fixture, BOX "/" STEM "/body.txt");
    _cleanup_free_ char *first = fixture_read(fixture, BOX "/" STEM "/body.txt");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int lowest = dup(STDIN_FILENO);
    assert_true(lowest >= 0);
    close(lowest);
    const struct rlimit none = {(rlim_t)lowest, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int error = tree_open(fixture->tree, &any_caller, ino, O_RDONLY, &handle);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(error, 0);
    tree_release(handle);
    _cleanup_free_ char *later = fixture_read(fixture, BOX "/" STEM "/body.txt");
    assert_string_equal(later, first);
}

TEST_WITH(missing_names_and_refused_opens_have_their_errno, set_up, fixture_tear_down)
{
    static const char *const missing[] = {
        STEM "/body.md", STEM "/thread",       STEM "/attachments/x", STEM ".txt",
        "no_such",       REPLY "/attachments", REPLY "/body.html",    STEM ".json.json",
    };
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    struct tree_handle *handle;
    char path[256];
    for (size_t i = 0; i < ARRAY_LEN(missing); i++) {
        snprintf(path, sizeof(path), BOX "/%s", missing[i]);
        assert_int_equal(fixture_find(fixture, path, &entry), -ENOENT);
    }
    assert_int_equal(fixture_find(fixture, BOX "/" STEM "/body.txt/x", &entry), -ENOTDIR);
    uint64_t ino = fixture_ino(fixture, BOX "/" STEM "/body.txt");
    assert_int_equal(tree_open(fixture->tree, &any_caller, ino, O_WRONLY, &handle), -EACCES);
    assert_int_equal(
        tree_open(fixture->tree, &any_caller, fixture_ino(fixture, BOX "/" STEM), O_RDONLY, &handle),
        -EISDIR);
}

/* In an inode number the 16 bits above the kind are the index of an entry in the content. */
TEST_WITH(an_outdated_inode_number_is_not_found, set_up, fixture_tear_down)
{
    const uint64_t index_bits = UINT64_C(0xffff) << NODE_KIND_BITS;
    struct tree_fixture *fixture = *state;
    uint64_t body = fixture_ino(fixture, BOX "/" STEM "/body.txt");
    uint64_t file = fixture_ino(fixture, BOX "/" STEM "/attachments/r.pdf");
    const uint64_t numbers[] = {(body & ~index_bits) | (file & index_bits),
                                (file & ~index_bits) | (body & index_bits), body | index_bits};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        struct tree_attributes attributes;
        struct tree_handle *handle;
        assert_int_equal(tree_get_attributes(fixture->tree, &any_caller, numbers[i], &attributes), -ENOENT);
        assert_int_equal(tree_open(fixture->tree, &any_caller, numbers[i], O_RDONLY, &handle), -ENOENT);
    }
}

TEST_WITH(lookups_in_an_inbox_fetch_no_content, set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct fixture_names names;
    unsigned int before = fake_service_count(fixture->fake, FAKE_GET_CONTENT);
    fixture_list(fixture, BOX, 0, &names);
    fixture_ino(fixture, BOX "/" STEM);
    fixture_ino(fixture, BOX "/" REPLY);
    assert_int_equal(fake_service_count(fixture->fake, FAKE_GET_CONTENT), before);
}
