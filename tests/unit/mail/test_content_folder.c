/* SPDX-License-Identifier: MIT */
/*
 * Covers the files in the folder of an email, and the names of these files.
 */
#include "mail/content_folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "mail/file_name.h"
#include "support/test.h"

static struct content_folder folder_of(const char *json)
{
    struct content_folder folder;
    assert_int_equal(content_folder_read(json, strlen(json), &folder), 0);
    return folder;
}

static const char *text_of(const struct content_folder *folder, const char *name)
{
    const struct content_entry *entry = content_folder_find(folder, CONTENT_TEXT, name);
    if (entry == NULL)
        return NULL;
    assert_int_equal(strlen(entry->bytes), entry->len);
    return entry->bytes;
}

TEST(bodies_become_files_of_the_folder)
{
    static const struct {
        const char *json;
        const char *body;  /* contents of body.txt; NULL if the file is missing */
        const char *fresh; /* contents of new.txt, or NULL */
        const char *html;  /* contents of body.html, or NULL */
    } cases[] = {
        {"{\"plain_text\":\"Hello\"}", "Hello\n", "Hello\n", NULL},
        {"{\"plain_text\":\"Hello\\n\",\"html\":\"<p>other</p>\"}", "Hello\n", "Hello\n", "<p>other</p>"},
        {"{\"plain_text\":null,\"html\":\"<p>Only <i>this</i></p>\"}", "Only this\n", "Only this\n",
         "<p>Only <i>this</i></p>"},
        {"{\"plain_text\":\" \\r\\n\",\"html\":\"<p>this</p>\"}", "this\n", "this\n", "<p>this</p>"},
        {"{\"plain_text\":\"Hello\",\"html\":\"<p>other</p>\",\"alternative_content\":false}",
         "Hello\nother\n", "Hello\nother\n", "<p>other</p>"},
        {"{\"plain_text\":\"\"}", "", "", NULL},
        {"{\"prompt\":\"p\"}", NULL, NULL, NULL},
        {"{\"plain_text\":\"Yes.\\n\\nOn Mon, Alice wrote:\\n> Lunch?\\n\"}",
         "Yes.\n\nOn Mon, Alice wrote:\n> Lunch?\n", "Yes.\n", NULL},
        {"{\"subject\":\"Setup\",\"plain_text\":\"Run:\\n\\n> npm i\\n\"}", "Run:\n\n> npm i\n",
         "Run:\n\n> npm i\n", NULL},
        {"{\"subject\":\"RE: Setup\",\"plain_text\":\"Run:\\n\\n> npm i\\n\"}", "Run:\n\n> npm i\n", "Run:\n",
         NULL},
        {"{\"in_reply_to_id\":\"<1@x>\",\"plain_text\":\"Run:\\n\\n> npm i\\n\"}", "Run:\n\n> npm i\n",
         "Run:\n", NULL},
        {"{\"references\":[\"<1@x>\"],\"plain_text\":\"Run:\\n\\n> npm i\\n\"}", "Run:\n\n> npm i\n",
         "Run:\n", NULL},
        {"{\"subject\":\"WG: Setup\",\"references\":[\"<1@x>\"],\"plain_text\":\"Run:\\n\\n> npm i\\n\"}",
         "Run:\n\n> npm i\n", "Run:\n\n> npm i\n", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct content_folder folder = folder_of(cases[i].json);
        const char *const expected[] = {cases[i].body, cases[i].fresh, cases[i].html};
        static const char *const names[] = {"body.txt", "new.txt", "body.html"};
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            const char *text = text_of(&folder, names[k]);
            bool is_same =
                text == NULL || expected[k] == NULL ? text == expected[k] : strcmp(text, expected[k]) == 0;
            if (!is_same)
                fail_msg("case %zu: %s is \"%s\"", i, names[k], text != NULL ? text : "(none)");
        }
        content_folder_release(&folder);
    }
}

/* Plain text and HTML with characters that a terminal obeys, and with various line ends. */
TEST(characters_that_a_terminal_obeys_are_replaced)
{
#define SHOWN "\xef\xbf\xbd"
    static const struct {
        const char *json; /* the text in JSON */
        const char *text;
    } cases[] = {
        {"a\\u001b[2Jb\\u0000c\\u009dd\\ufffe\\t.", "a" SHOWN "[2Jb" SHOWN "c" SHOWN "d\xef\xbf\xbe\t."},
        {"a\\r\\nb\\r\\n\\r\\nc\\nd", "a\nb\n\nc\nd"},
        {"visible\\rhidden", "visible\nhidden"},
        {"a\\r\\r\\nb\\r", "a\nb\n"},
        {"a\\r\\n", "a\n"},
        {"a\\r\\r\\n", "a\n"},
        {"a\\r\\rb", "a\n\nb"},
        {"a\\fb\\u000bc\\u0085d\\be\\u007f", "a" SHOWN "b" SHOWN "c" SHOWN "d" SHOWN "e" SHOWN},
        {"a\\u2028b\\u2029c", "a\nb\nc"},
        {"\\u202atxt.exe\\u202e \\u2066a\\u2069", SHOWN "txt.exe" SHOWN " " SHOWN "a" SHOWN},
        /* Characters with neighbouring codes are kept. */
        {"\\u2027\\u202f\\u2065\\u206a\\u200f\\u00a0\\u00e9", "\u2027\u202f\u2065\u206a\u200f\u00a0\u00e9"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_strbuf_ struct strbuf json = STRBUF_INIT(1 << 16);
        strbuf_appendf(&json, "{\"plain_text\":\"%s\",\"prompt\":\"%s\",", cases[i].json, cases[i].json);
        strbuf_appendf(&json, "\"thread_prompt\":\"%s\",\"previous_emails\":[{\"prompt\":\"%s\"}]}",
                       cases[i].json, cases[i].json);
        struct content_folder folder = folder_of(json.data);
        size_t texts = 0;
        for (size_t k = 0; k < folder.len; k++) {
            const struct content_entry *entry = &folder.entries[k];
            size_t len = strlen(cases[i].text);
            bool has_end = cases[i].text[len - 1] != '\n' && entry->len == len + 1; /* one added line feed */
            bool is_same = entry->kind == CONTENT_HEAD ||
                           (strncmp(entry->bytes, cases[i].text, len) == 0 &&
                            (entry->len == len || (has_end && entry->bytes[len] == '\n')));
            if (!is_same)
                fail_msg("case %zu: %s is \"%s\"", i, entry->name, entry->bytes);
            texts += entry->kind != CONTENT_HEAD;
        }
        assert_int_equal(texts, 5); /* body, new, prompt, thread, the previous email */
        content_folder_release(&folder);
    }

    struct content_folder folder =
        folder_of("{\"html\":\"<p>one&#13;two&#8238;owt&#27;[2J</p><a href='http://x/&#8238;y'>z</a>\"}");
    assert_null(strpbrk(text_of(&folder, "body.txt"), "\r\x1b"));
    assert_null(strstr(text_of(&folder, "body.txt"), "\u202e"));
    assert_non_null(strstr(text_of(&folder, "body.txt"), "two" SHOWN "owt"));
    content_folder_release(&folder);
}

TEST(an_email_of_pictures_alone_has_a_body)
{
    struct content_folder folder = folder_of("{\"html\":\"<img src='cid:1'>\"}");
    assert_true(strlen(text_of(&folder, "body.txt")) > 0);
    content_folder_release(&folder);
}

TEST(names_of_attachments_become_safe_and_unique)
{
    static const struct {
        const char *filename; /* in JSON */
        const char *name;
    } cases[] = {
        {"\"report.pdf\"", "report.pdf"},
        {"\"report.pdf\"", "report-2.pdf"},
        {"\"../../etc/passwd\"", "_.._etc_passwd"},
        {"\"..\"", "attachment"},
        {"\"...\"", "attachment-2"},
        {"\" .x\"", "x"},
        {"\"\"", "attachment-3"},
        {"null", "attachment-4"},
        {"\"a\\nb\\u0007\"", "a_b_"},
        {"\"photo\\u202egpj.exe\"", "photo_gpj.exe"},
        {"\"\\u2028\"", "_"},
        {"\"na\\u00efve \\u2602.txt\"", "na\xc3\xafve \xe2\x98\x82.txt"},
        {"\"a\\\\b\"", "a\\b"},
        {"\"-rf\"", "rf"},
        {"\"--checkpoint-action=exec=sh x.sh\"", "checkpoint-action=exec=sh x.sh"},
        {"\" -.- \"", "attachment-5"},
        {"\"/-x\"", "_-x"},
        {"\"REPORT.pdf\"", "REPORT-3.pdf"},
        {"\"nai\\u0308ve \\u2602.txt\"", "nai\xcc\x88ve \xe2\x98\x82-2.txt"},
        {"\"Stra\\u00dfe\"", "Stra\xc3\x9f"
                             "e"},
        {"\"STRASSE\"", "STRASSE-2"},
        {"\"strasse-2\"", "strasse-2-2"},
    };
    _cleanup_strbuf_ struct strbuf json = STRBUF_INIT(1 << 16);
    strbuf_append_str(&json, "{\"attachments\":[");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        strbuf_appendf(&json, "%s{\"id\":%zu,\"filename\":%s}", i > 0 ? "," : "", i + 1, cases[i].filename);
    strbuf_append_str(&json, "]}");
    struct content_folder folder = folder_of(json.data);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char id[16];
        snprintf(id, sizeof(id), "%zu", i + 1);
        const struct content_entry *entry = content_folder_find(&folder, CONTENT_ATTACHMENT, cases[i].name);
        if (entry == NULL || strcmp(entry->id, id) != 0)
            fail_msg("%s is not called %s", cases[i].filename, cases[i].name);
        assert_true(file_name_is_harmless(entry->name));
    }
    content_folder_release(&folder);
}

TEST(a_long_attachment_name_keeps_its_extension)
{
    _cleanup_strbuf_ struct strbuf json = STRBUF_INIT(1 << 16);
    strbuf_append_str(&json, "{\"attachments\":[{\"id\":\"a\",\"filename\":\"");
    for (int i = 0; i < 2000; i++)
        strbuf_append_str(&json, "\xc3\xa9");
    strbuf_append_str(&json, ".pdf\"}]}");
    struct content_folder folder = folder_of(json.data);
    const char *name = folder.entries[folder.len - 1].name;
    assert_true(file_name_is_valid(name));
    assert_string_equal(name + strlen(name) - 4, ".pdf");
    content_folder_release(&folder);
}

TEST(a_thousand_files_of_one_name_get_unique_names)
{
    _cleanup_strbuf_ struct strbuf json = STRBUF_INIT(1 << 20);
    strbuf_append_str(&json, "{\"attachments\":[{\"id\":\"a\",\"filename\":\"x.txt\"}");
    for (int i = 1; i < 1000; i++)
        strbuf_append_str(&json, ",{\"id\":\"a\",\"filename\":\"x.txt\"}");
    strbuf_append_str(&json, "]}");
    struct content_folder folder = folder_of(json.data);
    size_t attachments = 0;
    for (size_t i = 0; i < folder.len; i++) {
        const struct content_entry *entry = &folder.entries[i];
        attachments += entry->kind == CONTENT_ATTACHMENT;
        assert_ptr_equal(content_folder_find(&folder, entry->kind, entry->name), entry);
    }
    assert_int_equal(attachments, 1000);
    content_folder_release(&folder);
}

TEST(each_earlier_email_of_the_thread_has_a_file)
{
    struct content_folder folder = folder_of(
        "{\"plain_text\":\"x\",\"previous_emails\":["
        "{\"id\":\"e-1\",\"subject\":\"Lunch\",\"date\":\"2026-11-20T10:00:00Z\",\"prompt\":\"# Lunch\"},"
        "{\"id\":null,\"subject\":\"Lunch\",\"plain_text\":\"plain\"},{\"id\":\"e-3\"}]}");
    size_t earlier = 0;
    for (size_t i = 0; i < folder.len; i++)
        earlier += folder.entries[i].kind == CONTENT_PREVIOUS;
    assert_int_equal(earlier, 3);
    const struct content_entry *entry = &folder.entries[folder.len - 3];
    assert_memory_equal(entry->name, "20261120T100000Z_lunch_", 23);
    assert_string_equal(entry->name + strlen(entry->name) - 3, ".md");
    assert_string_equal(entry[1].name + strlen(entry[1].name) - 4, ".txt");
    assert_string_equal(entry->id, "e-1");
    assert_string_equal(entry->bytes, "# Lunch");
    assert_int_equal(entry->date_ms, 1795168800000);
    content_folder_release(&folder);
}

TEST(values_of_other_types_are_no_files)
{
    struct content_folder folder =
        folder_of("{\"id\":7,\"plain_text\":null,\"html\":[1],\"prompt\":{},\"subject\":5,\"message_id\":{},"
                  "\"attachments\":[{\"filename\":\"without an id\"},5,{\"id\":\"a\",\"filename\":"
                  "\"x\\u0000y\"}],\"previous_emails\":[null,{\"id\":\"p\",\"date\":\"soon\","
                  "\"previous_emails\":[{\"id\":\"q\"}]}]}");
    assert_string_equal(folder.email_id, "7");
    assert_null(folder.message_id);
    assert_int_equal(folder.len, 3);
    assert_non_null(content_folder_find(&folder, CONTENT_HEAD, ""));
    assert_string_equal(content_folder_find(&folder, CONTENT_ATTACHMENT, "attachment")->id, "a");
    assert_int_equal(folder.entries[2].kind, CONTENT_PREVIOUS);
    assert_string_equal(folder.entries[2].id, "p");
    assert_int_equal(folder.entries[2].date_ms, 0);
    content_folder_release(&folder);
}

TEST(html_may_hold_nul_characters_or_be_empty)
{
    struct content_folder folder = folder_of("{\"html\":\"a\\u0000b\"}");
    assert_int_equal(content_folder_find(&folder, CONTENT_TEXT, "body.html")->len, 3);
    assert_memory_equal(content_folder_find(&folder, CONTENT_TEXT, "body.html")->bytes, "a\0b", 4);
    content_folder_release(&folder);
    folder = folder_of("{\"html\":\"\"}");
    assert_string_equal(text_of(&folder, "body.html"), "");
    content_folder_release(&folder);
}

TEST(half_a_surrogate_pair_becomes_a_replacement_character)
{
    struct content_folder folder = folder_of("{\"plain_text\":\"x\\ud83d\",\"html\":\"a\\u0000b\"}");
    assert_string_equal(text_of(&folder, "body.txt"), "x\xef\xbf\xbd\n");
    assert_int_equal(content_folder_find(&folder, CONTENT_TEXT, "body.html")->len, 3);
    content_folder_release(&folder);
}

TEST(a_value_that_is_not_content_is_refused)
{
    static const struct {
        const char *text;
        int error;
    } cases[] = {
        {"", -EBADMSG},
        {"[]", -EBADMSG},
        {"null", -EBADMSG},
        {"<html></html>", -EBADMSG},
        {"{\"id\":\"e-1\",\"subject\":\"only a record\"}", -EBADMSG},
        {"{\"plain_text\":\"a\"", -EBADMSG},
        {"{\"plain_text\":\"a\"} x", -EBADMSG},
        {"{\"plain_text\":\"\xff\"}", -EILSEQ},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct content_folder folder;
        int error = content_folder_read(cases[i].text, strlen(cases[i].text), &folder);
        if (error != cases[i].error)
            fail_msg("%s: %d", cases[i].text, error);
    }
}

TEST(the_number_of_attachments_is_bounded)
{
    _cleanup_strbuf_ struct strbuf json = STRBUF_INIT(4 << 20);
    strbuf_append_str(&json, "{\"attachments\":[{\"id\":\"a\"}");
    for (int i = 0; i < CONTENT_ATTACHMENTS_MAX; i++)
        strbuf_append_str(&json, ",{\"id\":\"b\"}");
    strbuf_append_str(&json, "]}");
    struct content_folder folder = folder_of(json.data);
    assert_int_equal(folder.len, 1 + CONTENT_ATTACHMENTS_MAX); /* and the head */
    content_folder_release(&folder);
}
