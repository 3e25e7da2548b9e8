/* SPDX-License-Identifier: MIT */
/*
 * The content of an email is read, also from services that send other types than the published ones.
 */
#include "mail/email_content.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "support/test.h"

static int read_content(const char *text, struct email_content *ret)
{
    return email_content_from_text(text, strlen(text), ret);
}

TEST(content_of_the_published_form_is_read_whole)
{
    static const char text[] =
        "{\"id\":\"e-2\",\"inbox_id\":\"i-1\",\"subject\":\"Re: lunch\",\"date\":\"2026-11-20T10:00:00Z\","
        "\"from_address\":{\"address\":\"bob@x.example\",\"name\":\"Bob\"},"
        "\"to_addresses\":[{\"address\":\"alice@x.example\",\"name\":null}],\"cc_addresses\":[],"
        "\"bcc_addresses\":[],\"reply_to_addresses\":[{\"address\":\"list@x.example\",\"name\":\"L\"}],"
        "\"message_id\":\"<2@x>\",\"in_reply_to_id\":\"<1@x>\",\"references\":[\"<0@x>\",\"<1@x>\"],"
        "\"prompt\":\"# Re\",\"thread_prompt\":\"# "
        "Thread\",\"plain_text\":\"yes\\n\",\"html\":\"<p>yes</p>\","
        "\"alternative_content\":true,\"attachments\":[{\"id\":\"a-1\",\"filename\":\"m\\u00e9nu.pdf\","
        "\"content_type\":\"application/pdf\",\"content_encoding\":null,\"content_id\":\"c1\"}],"
        "\"previous_emails\":[{\"id\":\"e-1\",\"plain_text\":\"lunch?\",\"previous_emails\":[{\"id\":\"e-0\"}"
        "]}]}";
    _cleanup_email_content_ struct email_content content = {0};
    assert_int_equal(read_content(text, &content), 0);
    assert_string_equal(content.id, "e-2");
    assert_string_equal(content.subject, "Re: lunch");
    assert_true(content.has_date);
    assert_int_equal(content.date_ms, 1795168800000);
    assert_string_equal(content.from.items[0].name, "Bob");
    assert_string_equal(content.to.items[0].address, "alice@x.example");
    assert_int_equal(content.cc.len, 0);
    assert_string_equal(content.reply_to.items[0].address, "list@x.example");
    assert_string_equal(content.message_id, "<2@x>");
    assert_true(content.is_in_thread);
    assert_string_equal(content.prompt.bytes, "# Re");
    assert_string_equal(content.thread_prompt.bytes, "# Thread");
    assert_string_equal(content.plain_text.bytes, "yes\n");
    assert_int_equal(content.plain_text.len, 4);
    assert_string_equal(content.html.bytes, "<p>yes</p>");
    assert_true(content.alternative_content);
    assert_int_equal(content.attachments_len, 1);
    assert_string_equal(content.attachments[0].filename, "m\xc3\xa9nu.pdf");
    assert_int_equal(content.previous_emails_len, 1);
    assert_string_equal(content.previous_emails[0].plain_text.bytes, "lunch?");
    assert_int_equal(content.previous_emails[0].previous_emails_len, 0);
}

TEST(values_of_other_types_are_ignored)
{
    static const char text[] =
        "{\"id\":7,\"plain_text\":null,\"html\":[1],\"prompt\":{},\"subject\":5,\"date\":\"soon\","
        "\"from_address\":\"bob@x.example\",\"to_addresses\":[1,{\"address\":\"no address\"},"
        "{\"address\":\"a@b.example\",\"name\":\"two\\nlines\"}],\"references\":[null,\"<1@x>\",{}],"
        "\"attachments\":[{\"filename\":\"without an id\"},5,{\"id\":\"a\",\"filename\":\"x\\u0000y\"}],"
        "\"previous_emails\":[null,{\"id\":\"p\"}]}";
    _cleanup_email_content_ struct email_content content = {0};
    assert_int_equal(read_content(text, &content), 0);
    assert_string_equal(content.id, "7");
    assert_null(content.plain_text.bytes);
    assert_null(content.html.bytes);
    assert_null(content.prompt.bytes);
    assert_null(content.subject);
    assert_false(content.has_date);
    assert_string_equal(content.from.items[0].address, "bob@x.example");
    assert_int_equal(content.to.len, 1);
    assert_null(content.to.items[0].name);
    assert_true(content.is_in_thread);
    assert_int_equal(content.attachments_len, 1);
    assert_null(content.attachments[0].filename);
    assert_int_equal(content.previous_emails_len, 1);
}

TEST(the_first_text_that_is_not_an_address_is_kept)
{
    static const struct {
        const char *to; /* the recipients, in JSON */
        const char *addresses, *unusable;
    } cases[] = {
        {"[{\"address\":\"a@b\"},{\"address\":\"who?\"},{\"address\":\"c\"}]", "a@b ", "who?"},
        {"[{\"address\":\"o'brien@b\"},{\"address\":\"a..b@c\"}]", "o'brien@b a..b@c ", NULL},
        {"[{\"address\":\"a@b\\u0000c\"}]", "", "a@b\uFFFD"},
        {"[\"Ann <a@b>\",\"c@d, e@f\"]", "a@b c@d e@f ", NULL},
        {"[{\"address\":\"undisclosed-recipients:;\"},{\"address\":\"\"}]", "", NULL},
        {"[{\"address\":\"a@b, c\"}]", "", "a@b, c"},
        {"[{\"address\":null},7,null]", "", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[500];
        char addresses[500] = "";
        _cleanup_email_content_ struct email_content content = {0};
        snprintf(text, sizeof(text), "{\"plain_text\":\"\",\"to_addresses\":%s}", cases[i].to);
        assert_int_equal(read_content(text, &content), 0);
        for (size_t j = 0; j < content.to.len; j++)
            strcat(strcat(addresses, content.to.items[j].address), " ");
        assert_string_equal(addresses, cases[i].addresses);
        if (cases[i].unusable == NULL)
            assert_null(content.to.unusable);
        else
            assert_string_equal(content.to.unusable, cases[i].unusable);
    }
}

/* A long text is cut. What is left must not be read as an address, which could be another person's. */
TEST(a_cut_text_never_becomes_an_address)
{
    char text[3000];
    for (int blanks = 0; blanks <= 2000; blanks += 2000) {
        _cleanup_email_content_ struct email_content content = {0};
        snprintf(text, sizeof(text), "{\"plain_text\":\"\",\"to_addresses\":\"a@b%*s, c\"}", blanks, "");
        assert_int_equal(read_content(text, &content), 0);
        assert_int_equal(content.to.len, 0);
        struct address_list list = {0};
        assert_int_equal(address_list_parse(&list, content.to.unusable, NULL, NULL), -EBADMSG);
    }
}

TEST(a_text_with_too_many_addresses_is_kept_as_text)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 16);
    _cleanup_email_content_ struct email_content content = {0};
    strbuf_append_str(&text, "{\"plain_text\":\"\",\"to_addresses\":\"a@b");
    for (int i = 0; i < ADDRESS_LIST_MAX; i++)
        strbuf_append_str(&text, ", a@b");
    strbuf_append_str(&text, "\"}");
    assert_int_equal(read_content(strbuf_str(&text), &content), 0);
    assert_int_equal(content.to.len, 0);
    assert_non_null(content.to.unusable);
}

TEST(texts_may_hold_nul_characters_or_be_empty)
{
    _cleanup_email_content_ struct email_content content = {0};
    assert_int_equal(read_content("{\"plain_text\":\"a\\u0000b\",\"html\":\"\"}", &content), 0);
    assert_int_equal(content.plain_text.len, 3);
    assert_memory_equal(content.plain_text.bytes, "a\0b", 4);
    assert_non_null(content.html.bytes);
    assert_int_equal(content.html.len, 0);
}

TEST(half_a_surrogate_pair_becomes_a_replacement_character)
{
    _cleanup_email_content_ struct email_content content = {0};
    assert_int_equal(read_content("{\"subject\":\"x\\ud83d\",\"plain_text\":\"kept\"}", &content), 0);
    assert_string_equal(content.subject, "x\xef\xbf\xbd");
    assert_string_equal(content.plain_text.bytes, "kept");
    email_content_release(&content);

    assert_int_equal(read_content("{\"subject\":\"x\\ud83d\",\"plain_text\":\"a\\u0000b\"}", &content), 0);
    assert_int_equal(content.plain_text.len, 3);
    assert_memory_equal(content.plain_text.bytes, "a\0b", 4);
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
        struct email_content content = {0};
        int error = read_content(cases[i].text, &content);
        if (error != cases[i].error)
            fail_msg("%s: %d", cases[i].text, error);
    }
}

TEST(the_number_of_attachments_is_bounded)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(4 << 20);
    strbuf_append_str(&text, "{\"attachments\":[{\"id\":\"a\"}");
    for (int i = 0; i < EMAIL_CONTENT_ATTACHMENTS_MAX; i++)
        strbuf_append_str(&text, ",{\"id\":\"b\"}");
    strbuf_append_str(&text, "]}");
    _cleanup_email_content_ struct email_content content = {0};
    assert_int_equal(email_content_from_text(text.data, text.len, &content), 0);
    assert_int_equal(content.attachments_len, EMAIL_CONTENT_ATTACHMENTS_MAX);
}
