/* SPDX-License-Identifier: MIT */
/*
 * The subject and the addresses of an email are read, also from services that send other types than the
 * published ones.
 */
#include "mail/email_head.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "support/test.h"

static int read_head(const char *text, struct email_head *ret)
{
    return email_head_read(text, strlen(text), ret);
}

TEST(a_head_of_the_published_form_is_read_whole)
{
    static const char text[] =
        "{\"subject\":\"Re: lunch\",\"from_address\":{\"address\":\"bob@x.example\",\"name\":\"Bob\"},"
        "\"to_addresses\":[{\"address\":\"alice@x.example\",\"name\":null}],\"cc_addresses\":[],"
        "\"reply_to_addresses\":[{\"address\":\"list@x.example\",\"name\":\"L\"}]}";
    _cleanup_email_head_ struct email_head head = {0};
    assert_int_equal(read_head(text, &head), 0);
    assert_string_equal(head.subject, "Re: lunch");
    assert_string_equal(head.from.items[0].name, "Bob");
    assert_string_equal(head.to.items[0].address, "alice@x.example");
    assert_int_equal(head.cc.len, 0);
    assert_string_equal(head.reply_to.items[0].address, "list@x.example");
}

TEST(values_of_other_types_are_ignored)
{
    static const char text[] =
        "{\"subject\":5,\"from_address\":\"bob@x.example\",\"to_addresses\":[1,{\"address\":\"no address\"},"
        "{\"address\":\"a@b.example\",\"name\":\"two\\nlines\"}],\"cc_addresses\":7}";
    _cleanup_email_head_ struct email_head head = {0};
    assert_int_equal(read_head(text, &head), 0);
    assert_null(head.subject);
    assert_string_equal(head.from.items[0].address, "bob@x.example");
    assert_int_equal(head.to.len, 1);
    assert_null(head.to.items[0].name);
    assert_int_equal(head.cc.len, 0);
    assert_int_equal(read_head("[]", &head), -EBADMSG);
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
        _cleanup_email_head_ struct email_head head = {0};
        snprintf(text, sizeof(text), "{\"to_addresses\":%s}", cases[i].to);
        assert_int_equal(read_head(text, &head), 0);
        for (size_t j = 0; j < head.to.len; j++)
            strcat(strcat(addresses, head.to.items[j].address), " ");
        assert_string_equal(addresses, cases[i].addresses);
        if (cases[i].unusable == NULL)
            assert_null(head.to.unusable);
        else
            assert_string_equal(head.to.unusable, cases[i].unusable);
    }
}

/* A long text is cut. What is left must not be read as an address, which could be another person's. */
TEST(a_cut_text_never_becomes_an_address)
{
    char text[3000];
    for (int blanks = 0; blanks <= 2000; blanks += 2000) {
        _cleanup_email_head_ struct email_head head = {0};
        snprintf(text, sizeof(text), "{\"to_addresses\":\"a@b%*s, c\"}", blanks, "");
        assert_int_equal(read_head(text, &head), 0);
        assert_int_equal(head.to.len, 0);
        struct address_list list = {0};
        assert_int_equal(address_list_parse(&list, head.to.unusable, NULL, NULL), -EBADMSG);
    }
}

TEST(a_text_with_too_many_addresses_is_kept_as_text)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 16);
    _cleanup_email_head_ struct email_head head = {0};
    strbuf_append_str(&text, "{\"to_addresses\":\"a@b");
    for (int i = 0; i < ADDRESS_LIST_MAX; i++)
        strbuf_append_str(&text, ", a@b");
    strbuf_append_str(&text, "\"}");
    assert_int_equal(read_head(strbuf_str(&text), &head), 0);
    assert_int_equal(head.to.len, 0);
    assert_non_null(head.to.unusable);
}
