/* SPDX-License-Identifier: MIT */
/*
 * Addresses: what is a list of them, and what only looks like one.
 */
#include "mail/address.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/strbuf.h"

static void valid_addresses(void **state)
{
    static const char *const cases[] = {
        "a@b",
        "alice@inbox.example",
        "first.last+tag@sub.domain.example",
        "o_o-1!#$%&*=?^{|}~@x.example",
        "\u00fcser@m\u00fcnchen.example",
        "a@localhost",
        "patrick.o'brien@x.example",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (!address_is_valid(cases[i]))
            fail_msg("refused: %s", cases[i]);
}

static void invalid_addresses(void **state)
{
    static const char *const cases[] = {
        "",         "a",       "@",           "a@",        "@b",          "a@b@c",     "a b@c",
        "a@b c",    " a@b",    "a@b ",        "a@b\n",     "a\r\n@b",     "a@b\t",     "a\x7f@b",
        "a\x1b@b",  "<a@b>",   "\"a\"@b",     "a@b'c",     "'a@b'",       "a/b@c",     "../../x@y",
        "a@b/c",    ".a@b",    "a.@b",        "a..b@c",    "a@.b",        "a@b.",      "a@b..c",
        "a@-b",     "a,b@c",   "a;b@c",       "a:b@c",     "a@[1.2.3.4]", "(x)a@b",    "a\\b@c",
        "a`b@c",    "a\xff@b", "a\xc2\x9b@b", "a\u00a0@b", "a\u200e@b",   "a\u202e@b", "a\u2028@b",
        "a@\u3000",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (address_is_valid(cases[i]))
            fail_msg("accepted: %s", cases[i]);
}

static void an_address_is_at_most_254_bytes(void **state)
{
    char text[300];
    (void)state;
    memset(text, 'x', sizeof(text));
    text[1] = '@';
    text[254] = '\0';
    assert_true(address_is_valid(text));
    text[254] = 'x';
    text[255] = '\0';
    assert_false(address_is_valid(text));
}

/* The list as "name <address>; <address>; " */
static void print_list(const struct address_list *list, struct strbuf *out)
{
    for (size_t i = 0; i < list->len; i++)
        strbuf_appendf(out, "%s<%s>; ", list->items[i].name == NULL ? "" : list->items[i].name,
                       list->items[i].address);
}

static void lists_are_read(void **state)
{
    static const struct {
        const char *text;
        const char *expected;
    } cases[] = {
        {"", ""},
        {"  \r\n ", ""},
        {"a@b", "<a@b>; "},
        {" a@b , c@d ", "<a@b>; <c@d>; "},
        {"a@b,,c@d,", "<a@b>; <c@d>; "},
        {"Bob <bob@x.example>", "Bob<bob@x.example>; "},
        {"\"Smith, J\" <j@x>", "Smith, J<j@x>; "},
        {"\"a \\\" b\" <j@x>", "a \" b<j@x>; "},
        {"=?utf-8?q?B=C3=B6b?= <b@x>", "B\u00f6b<b@x>; "},
        {"=?iso-8859-1?q?B=F6b?= <b@x>", "B\u00f6b<b@x>; "},
        {"=?utf-8?b?QsO2Yg==?= =?utf-8?q?_X?= <b@x>", "B\u00f6b X<b@x>; "},
        {"B\u00f6b <b@x>", "B\u00f6b<b@x>; "},
        {"B\xf6"
         "b <b@x>",
         "B\u00f6b<b@x>; "},
        {"o'hara@x, O'Brien <o'brien@x>", "<o'hara@x>; O'Brien<o'brien@x>; "},
        {"b@x (Bob)", "Bob<b@x>; "},
        {"team: a@b, C <c@d>; , e@f", "<a@b>; C<c@d>; <e@f>; "},
        {"undisclosed-recipients:;", ""},
        {"Bob\r\n <bob@x>", "Bob<bob@x>; "},
        {"\u00fc@m\u00fcnchen.example", "<\u00fc@m\u00fcnchen.example>; "},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct address_list list = {0};
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1000);
        int error = address_list_parse(&list, cases[i].text);
        print_list(&list, &out);
        address_list_release(&list);
        if (error != 0 || strcmp(strbuf_str(&out), cases[i].expected) != 0)
            fail_msg("%s: %d %s", cases[i].text, error, strbuf_str(&out));
    }
}

static void no_part_of_a_list_is_dropped(void **state)
{
    static const char *const cases[] = {
        "garbage",
        "a@b, garbage",
        "garbage, a@b",
        "a@b c@d",
        "a@b; c@d e",
        "<a@b",
        "c@d, <a@b",
        "a@b>",
        "c@d, a@",
        "c@d, @",
        "c@d, Bob <>",
        "c@d, Bob <b>",
        "Bob bob@x",
        "a@b, x@.@",
        "\vx",
        "\"B\", Bob <b@x>",
        "\"a@\"b, c\"@x\"d",
        "Bob <bob@x> trailing",
        "Smith, John <j@x>",
        "\"Bob <b@x>",
        "b@x (never closed",
        "a@@b",
        "a@[1.2.3.4]",
        "\"a b\"@x",
        "a@b, ../../etc@x",
        "team: a@b, nobody;",
        "x: y: z@a;;",
        "=?utf-8?q?a=0D=0ABcc:_x@y?= <b@x>",
        "=?utf-8?q?esc=1B?= <b@x>",
        "a@b\x01",
        "a@b<c@d>",
        "a@b \"x\"",
        "<a@b> x",
        "<a@b, c@d>",
        "<a@b",
        "Bob <a@b> <c@d>",
        "<@route:a@b>",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct address_list list = {0};
        int error = address_list_parse(&list, cases[i]);
        address_list_release(&list);
        if (error != -EBADMSG)
            fail_msg("%s: %d", cases[i], error);
    }
}

/* Any prefix of a list is refused, or gives the first addresses of the whole list. */
static void a_cut_list_never_gives_other_addresses(void **state)
{
    static const char text[] = "\"Smith, J\" <j@x.example>, team: a@b, C (c) <c@d.example>;, e@f.example";
    (void)state;
    for (size_t len = 0; len < sizeof(text); len++) {
        char cut[sizeof(text)];
        memcpy(cut, text, len);
        cut[len] = '\0';
        struct address_list list = {0};
        if (address_list_parse(&list, cut) == 0)
            for (size_t i = 0; i < list.len; i++)
                assert_non_null(strstr(text, list.items[i].address));
        address_list_release(&list);
    }
}

static void a_long_list_is_read_whole_and_a_longer_one_not_at_all(void **state)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1000 * 1000);
    struct address_list list = {0};
    (void)state;
    for (unsigned int i = 0; i < ADDRESS_LIST_MAX; i++)
        strbuf_appendf(&text, "N%u <user%u@x.example>, ", i, i);
    assert_int_equal(address_list_parse(&list, strbuf_str(&text)), 0);
    assert_int_equal(list.len, ADDRESS_LIST_MAX);
    assert_string_equal(list.items[ADDRESS_LIST_MAX - 1].address, "user999@x.example");
    strbuf_append_str(&text, "a@b");
    assert_int_equal(address_list_parse(&list, strbuf_str(&text)), -EMSGSIZE);
    assert_int_equal(list.len, ADDRESS_LIST_MAX);
    address_list_release(&list);
}

static void case_does_not_tell_addresses_apart(void **state)
{
    (void)state;
    assert_true(address_equals("Alice@Inbox.Example", "alice@inbox.example"));
    assert_false(address_equals("alice@inbox.example", "alicia@inbox.example"));
    assert_false(address_equals("alice@inbox.example", "alice@inbox.example.org"));
}

static void *parse_many(void *ret_errors)
{
    for (int i = 0; i < 200; i++) {
        struct address_list list = {0};
        if (address_list_parse(&list, "=?koi8-r?q?=C2?= <a@b>, c@d") != 0 || list.len != 2)
            (*(int *)ret_errors)++;
        address_list_release(&list);
    }
    return NULL;
}

static void several_threads_may_parse(void **state)
{
    pthread_t threads[4];
    int errors[4] = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, parse_many, &errors[i]), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(errors[i], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_threads_may_parse),
        cmocka_unit_test(valid_addresses),
        cmocka_unit_test(invalid_addresses),
        cmocka_unit_test(an_address_is_at_most_254_bytes),
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(no_part_of_a_list_is_dropped),
        cmocka_unit_test(a_cut_list_never_gives_other_addresses),
        cmocka_unit_test(a_long_list_is_read_whole_and_a_longer_one_not_at_all),
        cmocka_unit_test(case_does_not_tell_addresses_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
