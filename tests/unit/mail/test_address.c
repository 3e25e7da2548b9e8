/* SPDX-License-Identifier: MIT */
/*
 * Addresses: valid lists of them, and texts that only resemble such lists.
 */
#include "mail/address.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "support/test.h"

TEST(valid_addresses_are_accepted)
{
    static const char *const cases[] = {
        "a@b",
        "alice@inbox.example",
        "first.last+tag@sub.domain.example",
        "o_o-1!#$%&*=?^{|}~@x.example",
        "\u00fcser@m\u00fcnchen.example",
        "a@localhost",
        "patrick.o'brien@x.example",
        "'a'@b",
        "a..b@mobile.example",
        ".a@b",
        "a.@b",
        "...a@b",
        "-a@b",
        "a/b@c",
        "c=us/g=ann/s=ex@gateway.example",
        "../../x@y",
        "a`b@c",
        "\"a\"@b",
        "\"a b\"@x",
        "\"a@b\"@x",
        "\"a\\\"b\"@x",
        "\"(,;:<>[]\"@x",
        "\"\"@x",
        "a.\"b c\".d@x",
        "a@[192.0.2.1]",
        "a@[IPv6:2001:db8::1]",
        "a@xn--mnchen-3ya.example",
        "a@_x.example",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (!address_is_valid(cases[i]))
            fail_msg("refused: %s", cases[i]);
}

TEST(invalid_addresses_are_refused)
{
    static const char *const cases[] = {
        "",
        "a",
        "@",
        "a@",
        "@b",
        "a@b@c",
        "a b@c",
        "a@b c",
        " a@b",
        "a@b ",
        "a@b\n",
        "a\r\n@b",
        "a@b\t",
        "a\x7f@b",
        "a\x1b@b",
        "<a@b>",
        "a@b'c",
        "'a@b'",
        "a@b/c",
        "a@.b",
        "a@b.",
        "a@b..c",
        "a@-b",
        "a,b@c",
        "a;b@c",
        "a:b@c",
        "(x)a@b",
        "a@b(x)",
        "a\\b@c",
        "a\xff@b",
        "a\xc2\x9b@b",
        "a\u00a0@b",
        "a\u200e@b",
        "a\u202e@b",
        "a\u2028@b",
        "a@\u3000",
        "a@b\uFFFD",
        ".@b",
        "...@b",
        "\"a\"b@c",
        "a\"b\"@c",
        "\"a@b",
        "\"a\tb\"@c",
        "\"\u202e\"@c",
        "\"a\x01\"@c",
        "a@\"b\"",
        "a@[",
        "a@[1.2.3.4",
        "a@[1@2]",
        "a@[1.2.3.4]x",
        "a@[1 2]",
        "a@x[1.2]",
        "a @b",
        "a@ b",
        "a . b@c",
        "a\"@b",
        "a@b\"",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (address_is_valid(cases[i]))
            fail_msg("accepted: %s", cases[i]);
}

TEST(only_an_address_that_is_a_harmless_file_name_can_name_a_folder)
{
    static const char *const names[] = {"alice@inbox.example", "o'brien@x.example", "a..b@mobile.example",
                                        "a@xn--mnchen-3ya.example", "\u00fc@m\u00fcnchen.example"};
    static const char *const others[] = {"a/b@c", "\"a b\"@x", "a@[192.0.2.1]", ".a@b", "-a@b", "a`b@c",
                                         "a",     ""};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!address_is_folder_name(names[i]))
            fail_msg("refused: %s", names[i]);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (address_is_folder_name(others[i]))
            fail_msg("accepted: %s", others[i]);
}

TEST(an_address_over_254_bytes_is_refused)
{
    char text[300];
    memset(text, 'x', sizeof(text));
    text[1] = '@';
    text[254] = '\0';
    assert_true(address_is_valid(text));
    text[254] = 'x';
    text[255] = '\0';
    assert_false(address_is_valid(text));
}

/* Prints the list as "name<address>; <address>; ". */
static void print_list(const struct address_list *list, struct strbuf *out)
{
    for (size_t i = 0; i < list->len; i++)
        strbuf_appendf(out, "%s<%s>; ", list->items[i].name == NULL ? "" : list->items[i].name,
                       list->items[i].address);
}

TEST(a_list_gives_its_addresses_and_names)
{
    static const struct {
        const char *text;
        const char *expected;
    } cases[] = {
        {"", ""},
        {"  \r\n ", ""},
        {" , (nobody) ;, ", ""},
        {"a@b", "<a@b>; "},
        {" a@b , c@d ", "<a@b>; <c@d>; "},
        {"a@b,,c@d,", "<a@b>; <c@d>; "},
        {"a@b; c@d;", "<a@b>; <c@d>; "},
        {"Bob <bob@x.example>", "Bob<bob@x.example>; "},
        {"Bob<bob@x.example>", "Bob<bob@x.example>; "},
        {"\"Smith, J\" <j@x>", "Smith, J<j@x>; "},
        {"\"a \\\" b\" <j@x>", "a \" b<j@x>; "},
        {"Dr. \"J. Smith\" Jr. <j@x>", "Dr. J. Smith Jr.<j@x>; "},
        {"[List] Bob <bob@x>", "[List] Bob<bob@x>; "},
        {"\"Bob\r\n  Smith\"\r\n\t<bob@x>", "Bob  Smith<bob@x>; "},
        {"\"\" <a@b>", "<a@b>; "},
        {"=?utf-8?q?B=C3=B6b?= <b@x>", "B\u00f6b<b@x>; "},
        {"=?iso-8859-1?q?B=F6b?= <b@x>", "B\u00f6b<b@x>; "},
        {"=?utf-8?b?QsO2Yg==?= =?utf-8?q?_X?= <b@x>", "B\u00f6b X<b@x>; "},
        {"\"=?utf-8?q?B=C3=B6b?=\" <b@x>", "B\u00f6b<b@x>; "},
        {"=?utf-8?q?Smith,_(B=C3=B6b)?= <b@x>, a@b", "Smith, (B\u00f6b)<b@x>; <a@b>; "},
        {"=?utf-8?q?a@b,c@d?= <b@x>", "a@b,c@d<b@x>; "},
        {"b@x (=?utf-8?q?B=C3=B6b?=)", "B\u00f6b<b@x>; "},
        {"B\u00f6b <b@x>", "B\u00f6b<b@x>; "},
        {"B\xf6"
         "b <b@x>",
         "B\u00f6b<b@x>; "},
        {"o'hara@x, O'Brien <o'brien@x>", "<o'hara@x>; O'Brien<o'brien@x>; "},
        {"b@x (Bob)", "Bob<b@x>; "},
        {"b@x (Bob (at work) \\) x), (c) d@e", "Bob (at work) ) x<b@x>; <d@e>; "},
        {"<b@x> (Bob)", "Bob<b@x>; "},
        {"B (not this) <b@x> (nor this)", "B<b@x>; "},
        {"team: a@b, C <c@d>; , e@f", "<a@b>; C<c@d>; <e@f>; "},
        {"\"a@b\": c@d;", "<c@d>; "},
        {"one: a@b; two: c@d;", "<a@b>; <c@d>; "},
        {"undisclosed-recipients:;", ""},
        {"Bob\r\n <bob@x>", "Bob<bob@x>; "},
        {"\u00fc@m\u00fcnchen.example", "<\u00fc@m\u00fcnchen.example>; "},
        /* unusual addresses, which stay unchanged */
        {"a..b@x, .c@x, /@x, \"a b\"@x, e@[192.0.2.1]",
         "<a..b@x>; <.c@x>; </@x>; <\"a b\"@x>; <e@[192.0.2.1]>; "},
        {"M <a@xn--mnchen-3ya.example>", "M<a@xn--mnchen-3ya.example>; "},
        {"<\"john\"@x>", "<\"john\"@x>; "},
        {"I <a@[IPv6:2001:db8::1]>, b@[IPv6:2001:db8::2]",
         "I<a@[IPv6:2001:db8::1]>; <b@[IPv6:2001:db8::2]>; "},
        /* names as mail programs write them */
        {"alice@example.com <bob@example.com>", "alice@example.com<bob@example.com>; "},
        {"\"alice@example.com via List\" <bob@example.com>", "alice@example.com via List<bob@example.com>; "},
        {"a@b<c@d>", "a@b<c@d>; "},
        {"'a@b' <a@b>", "'a@b'<a@b>; "},
        /* RFC 5322, appendix A */
        {"Mary Smith <mary@x.test>, jdoe@example.org, Who? <one@y.test>",
         "Mary Smith<mary@x.test>; <jdoe@example.org>; Who?<one@y.test>; "},
        {"<boss@nil.test>, \"Giant; \\\"Big\\\" Box\" <sysservices@example.net>",
         "<boss@nil.test>; Giant; \"Big\" Box<sysservices@example.net>; "},
        {"A Group:Ed Jones <c@a.test>,joe@where.test,John <jdoe@one.test>;",
         "Ed Jones<c@a.test>; <joe@where.test>; John<jdoe@one.test>; "},
        {"Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>", "Pete<pete@silly.test>; "},
        {"A Group(Some people)\r\n     :Chris Jones <c@(Chris's host.)public.example>,\r\n"
         "         joe@example.org,\r\n  John <jdoe@one.test> (my dear friend); (the end of the group)",
         "Chris Jones<c@public.example>; <joe@example.org>; John<jdoe@one.test>; "},
        {"(Empty list)(start)Hidden recipients  :(nobody(that I know))  ;", ""},
        {"Joe Q. Public <john.q.public@example.com>", "Joe Q. Public<john.q.public@example.com>; "},
        {"Mary Smith <@node.test:mary@example.net>, , jdoe@test  . example",
         "Mary Smith<mary@example.net>; <jdoe@test.example>; "},
        {"<@a.test,@b.test : mary@example.net>", "<mary@example.net>; "},
        {"j (x) . \"d\" @ (y) test . (z) example (Jane)", "Jane<j.\"d\"@test.example>; "},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct address_list list = {0};
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1000);
        int error = address_list_parse(&list, cases[i].text, NULL, NULL);
        print_list(&list, &out);
        address_list_release(&list);
        if (error != 0 || strcmp(strbuf_str(&out), cases[i].expected) != 0)
            fail_msg("%s: %d %s", cases[i].text, error, strbuf_str(&out));
    }
}

TEST(a_malformed_list_is_refused_with_its_malformed_part)
{
    static const char *const cases[][2] = {
        {"garbage", "garbage"},
        {"a@b, garbage", "garbage"},
        {"garbage, a@b", "garbage"},
        {"a@b c@d", "a@b c@d"},
        {"a@b; c@d e, f@g", "c@d e"},
        {"<a@b", "<a@b"},
        {"c@d, <a@b", "<a@b"},
        {"Bob <b@x, Ann <a@x>", "Bob <b@x"},
        {"a@b>", "a@b>"},
        {"a@b)", "a@b)"},
        {"c@d, a@", "a@"},
        {"c@d, @", "@"},
        {"c@d, Bob <>", "Bob <>"},
        {"<>", "<>"},
        {"c@d, Bob <b>", "Bob <b>"},
        {"Bob bob@x", "Bob bob@x"},
        {"a@b, x@.@", "x@.@"},
        {"\vx", "\vx"},
        {"\"B\", Bob <b@x>", "\"B\""},
        {"\"a@\"b, c\"@x\"d", "\"a@\"b"},
        {"Bob <bob@x> trailing", "Bob <bob@x> trailing"},
        {"Smith, John <j@x>", "Smith"},
        {"\"Bob <b@x>", "\"Bob <b@x>"},
        {"b@x (never closed", "b@x (never closed"},
        {"a@@b", "a@@b"},
        {"team: a@b, nobody;", "nobody"},
        {"x: y: z@a;;", "y: z@a"},
        {"team: a@b", "team: a@b"},
        {"a@b: c@d;", "a@b: c@d"},
        {"<a@b>: c@d;", "<a@b>: c@d"},
        {"c@d, :", ":"},
        {"mailto:a@b", "mailto:a@b"},
        {"a@b Bob <c@d>", "a@b Bob <c@d>"},
        {"=?utf-8?q?a=0D=0ABcc:_x@y?= <b@x>", "=?utf-8?q?a=0D=0ABcc:_x@y?= <b@x>"},
        {"=?utf-8?q?esc=1B?= <b@x>", "=?utf-8?q?esc=1B?= <b@x>"},
        {"B\x1bob <b@x>", "B\x1bob <b@x>"},
        {"a@b\x01", "a@b\x01"},
        {"a@b\r\nBcc: c@d", "a@bBcc: c@d"},
        {"a@b \"x\"", "a@b \"x\""},
        {"<a@b> x", "<a@b> x"},
        {"<a@b, c@d>", "<a@b, c@d>"},
        {"<a@b; c@d>", "<a@b; c@d>"},
        {"Bob <a@b> <c@d>", "Bob <a@b> <c@d>"},
        {"<@route a@b>", "<@route a@b>"},
        {"x@[1.2.3.4, a@b", "x@[1.2.3.4"},
        {"\xff@b", "\xff@b"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct address_list list = {0};
        _cleanup_free_ char *refused = NULL;
        int error = address_list_parse(&list, cases[i][0], NULL, &refused);
        size_t len = list.len;
        address_list_release(&list);
        if (error != -EBADMSG || len != 0 || refused == NULL || strcmp(refused, cases[i][1]) != 0)
            fail_msg("%s: %d, %zu addresses, %s", cases[i][0], error, len, refused);
    }
}

TEST(a_failed_parse_leaves_the_list_unchanged)
{
    struct address_list list = {0};
    assert_int_equal(address_list_parse(&list, "a@b", NULL, NULL), 0);
    assert_int_equal(address_list_parse(&list, "c@d, e@f, g", NULL, NULL), -EBADMSG);
    assert_int_equal(list.len, 1);
    assert_int_equal(address_list_parse(&list, "c@d", NULL, NULL), 0);
    assert_string_equal(list.items[1].address, "c@d");
    address_list_release(&list);
}

/* Parses the text, and describes the items that are not addresses. */
static void parse_each(struct address_list *list, const char *text, struct strbuf *ret_others)
{
    g_autoptr(GPtrArray) others = g_ptr_array_new_with_free_func(g_free);
    address_list_parse_each(list, text, others);
    for (unsigned int i = 0; i < others->len; i++)
        strbuf_appendf(ret_others, "%s[%s]", i > 0 ? " " : "", (const char *)others->pdata[i]);
}

/* On these texts a parser of quadratic time would hang, and a recursive parser would overflow its stack. */
TEST(nested_and_unclosed_tokens_are_read_in_linear_time)
{
    static const char *const pieces[] = {"(",  ")(",  "((",    "<",  "\"",    "=?x?q?,", "=?",    "[",
                                         "[a", "\\",  "a:",    ":;", "a@",    "@",       ".",     "<@",
                                         ",",  "<a ", "\\\",", "a)", "\"\" ", "()",      "=?x?q?"};
    enum {
        BYTES = 4 * 1000 * 1000
    };
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * BYTES);
        while (text.len < BYTES)
            strbuf_append_str(&text, pieces[i]);
        struct address_list list = {0};
        int error = address_list_parse(&list, strbuf_str(&text), NULL, NULL);
        assert_true(error == -EBADMSG || (error == 0 && list.len == 0));
        _cleanup_strbuf_ struct strbuf others = STRBUF_INIT(2 * BYTES);
        parse_each(&list, strbuf_str(&text), &others);
        assert_int_equal(list.len, 0);
        address_list_release(&list);
    }
}

TEST(a_cut_list_gives_no_address_that_the_whole_list_lacks)
{
    static const char text[] = "\"Smith, J\" <j@x.example>, team: a@b, C (c) <c@d.example>;, e@f.example";
    for (size_t len = 0; len < sizeof(text); len++) {
        char cut[sizeof(text)];
        memcpy(cut, text, len);
        cut[len] = '\0';
        struct address_list list = {0};
        if (address_list_parse(&list, cut, NULL, NULL) == 0)
            for (size_t i = 0; i < list.len; i++)
                assert_non_null(strstr(text, list.items[i].address));
        address_list_release(&list);
    }
}

TEST(a_list_of_more_than_a_thousand_addresses_is_refused)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1000 * 1000);
    struct address_list list = {0};
    for (unsigned int i = 0; i < ADDRESS_LIST_MAX; i++)
        strbuf_appendf(&text, "N%u <user%u@x.example>, ", i, i);
    assert_int_equal(address_list_parse(&list, strbuf_str(&text), NULL, NULL), 0);
    assert_int_equal(list.len, ADDRESS_LIST_MAX);
    assert_string_equal(list.items[ADDRESS_LIST_MAX - 1].address, "user999@x.example");
    strbuf_append_str(&text, "a@b");
    assert_int_equal(address_list_parse(&list, strbuf_str(&text), NULL, NULL), -EMSGSIZE);
    assert_int_equal(list.len, ADDRESS_LIST_MAX);
    address_list_release(&list);
}

TEST(items_that_are_not_addresses_are_kept_apart)
{
    static const char *const cases[][3] = {
        {"a@b, garbage, c@d", "<a@b>; <c@d>; ", "[ garbage]"},
        {"a@b>, c@d", "<c@d>; ", "[a@b>]"},
        {"<<a@b>>, c@d", "<c@d>; ", "[<<a@b>>]"},
        {"<a@b, c@d", "<c@d>; ", "[<a@b]"},
        {"a@b, \"x <c@d>, e@f", "<a@b>; ", "[ \"x <c@d>, e@f]"},
        {"a@b, x (y, c@d", "<a@b>; ", "[ x (y, c@d]"},
        {"note: a@b, c@d", "<c@d>; ", "[note: a@b]"},
        {"team: a@b, x y, c@d; e@f", "<a@b>; <c@d>; <e@f>; ", "[ x y]"},
        {"team: more: a@b, c@d; e@f", "<c@d>; <e@f>; ", "[ more: a@b]"},
        {"x y; a@b; \"q; r\" s", "<a@b>; ", "[x y;] [ \"q; r\" s]"},
        {"=?utf-8?q?x=07=0Ay?= <a@b>, \"\033[31m\" <c@d>", "x  y<a@b>;  [31m<c@d>; ", ""},
        {"", "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct address_list list = {0};
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1000);
        _cleanup_strbuf_ struct strbuf others = STRBUF_INIT(1000);
        parse_each(&list, cases[i][0], &others);
        print_list(&list, &out);
        address_list_release(&list);
        if (strcmp(strbuf_str(&out), cases[i][1]) != 0 || strcmp(strbuf_str(&others), cases[i][2]) != 0)
            fail_msg("%s: %s %s", cases[i][0], strbuf_str(&out), strbuf_str(&others));
    }
}

TEST(parse_each_stops_at_a_thousand_addresses_and_other_items)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1000 * 1000);
    _cleanup_strbuf_ struct strbuf others = STRBUF_INIT(2000);
    struct address_list list = {0};
    for (unsigned int i = 0; i <= ADDRESS_LIST_MAX; i++)
        strbuf_appendf(&text, "user%u@x.example; ", i);
    strbuf_append_str(&text, "this is none");
    parse_each(&list, strbuf_str(&text), &others);
    assert_int_equal(list.len, ADDRESS_LIST_MAX);
    assert_string_equal(list.items[ADDRESS_LIST_MAX - 1].address, "user999@x.example");
    assert_int_equal(others.len, 0);
    address_list_release(&list);
    strbuf_truncate(&text, 0);
    strbuf_append_str(&text, "none,");
    for (unsigned int i = 0; i < ADDRESS_LIST_MAX; i++)
        strbuf_appendf(&text, "user%u@x.example; ", i);
    strbuf_append_str(&text, "this is none");
    parse_each(&list, strbuf_str(&text), &others);
    assert_int_equal(list.len, ADDRESS_LIST_MAX - 1);
    assert_string_equal(strbuf_str(&others), "[none]");
    address_list_release(&list);
}

TEST(a_local_part_alone_gets_the_callers_domain)
{
    static const char *const cases[][2] = {
        {"root", "<root@here>; "},
        {"a@b, root, Charlie Root <root>", "<a@b>; <root@here>; Charlie Root<root@here>; "},
        {"root (Charlie)", "Charlie<root@here>; "},
        {"<root>, team: x.y, z;", "<root@here>; <x.y@here>; <z@here>; "},
        {"\"a b\"", "<\"a b\"@here>; "},
        {"root@", NULL},
        {"root x", NULL},
        {"root (x) a@b", NULL},
        {"a@b bob <root>", NULL},
        {"admin <root> <root>", NULL},
        {"root, ()x y", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct address_list list = {0};
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(1000);
        int error = address_list_parse(&list, cases[i][0], "here", NULL);
        print_list(&list, &out);
        address_list_release(&list);
        if (error != (cases[i][1] != NULL ? 0 : -EBADMSG) ||
            strcmp(strbuf_str(&out), cases[i][1] != NULL ? cases[i][1] : "") != 0)
            fail_msg("%s: %d %s", cases[i][0], error, strbuf_str(&out));
    }
}

TEST(addresses_are_equal_regardless_of_case)
{
    assert_true(address_equals("Alice@Inbox.Example", "alice@inbox.example"));
    assert_false(address_equals("alice@inbox.example", "alicia@inbox.example"));
    assert_false(address_equals("alice@inbox.example", "alice@inbox.example.org"));
}

static void *parse_many(void *ret_errors)
{
    for (int i = 0; i < 200; i++) {
        struct address_list list = {0};
        if (address_list_parse(&list, "=?koi8-r?q?=C2?= <a@b>, c@d", NULL, NULL) != 0 || list.len != 2)
            (*(int *)ret_errors)++;
        address_list_release(&list);
    }
    return NULL;
}

TEST(several_threads_can_parse_lists_at_once)
{
    pthread_t threads[4];
    int errors[4] = {0};
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, parse_many, &errors[i]), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(errors[i], 0);
    }
}
