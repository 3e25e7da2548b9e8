/* SPDX-License-Identifier: MIT */
/*
 * Covers encoded words as mail programs write them, and bytes without a declared charset.
 */
#include "mail/header_text.h"

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/test.h"

struct reading {
    const char *value;
    const char *text;
};

static void check(char *(*decode)(const char *, size_t), const struct reading *readings, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        _cleanup_free_ char *text = decode(readings[i].value, strlen(readings[i].value));
        if (strcmp(text, readings[i].text) != 0)
            fail_msg("%s: read as \"%s\", not \"%s\"", readings[i].value, text, readings[i].text);
    }
}

TEST(text_without_encoded_words_is_unchanged)
{
    static const struct reading readings[] = {
        {"", ""},
        {"Dinner on Friday?", "Dinner on Friday?"},
        {"  a  b\tc \r\n", "a  b c"},
        {"folded\r\n here", "folded here"},
        {"folded\r\n\there", "folded here"},
        {"Gr\xc3\xbc\xc3\x9f"
         "e",
         "Gr\xc3\xbc\xc3\x9f"
         "e"},
        {"1 + 1 = 2?= =? ?=", "1 + 1 = 2?= =? ?="},
    };
    check(header_text_decode, readings, ARRAY_LEN(readings));
}

TEST(encoded_words_are_decoded_anywhere)
{
    static const struct reading readings[] = {
        {"=?utf-8?q?caf=C3=A9_=26_bar?=", "caf\xc3\xa9 & bar"},
        {"=?UTF-8?B?Y2Fmw6k=?=", "caf\xc3\xa9"},
        {"Re: =?UTF-8?B?Y2Fmw6k=?= tonight", "Re: caf\xc3\xa9 tonight"},
        {"the=?UTF-8?B?Y2Fmw6k=?=,now", "thecaf\xc3\xa9,now"},
        {"(=?utf-8?q?=C3=A4?=)", "(\xc3\xa4)"},
        {"=?utf-8*de?q?=C3=A4?=", "\xc3\xa4"},
        {"=?utf-8?q?what?_really?=", "what? really"},
        {"=?utf-8?q?a b?=", "a b"},
        {"=?utf-8?q?=3D=?=", "=="},
        {"=?utf-8?q?\?=", ""},
        {"=?utf-8?q?=3D=3Futf-8=3Fq=3Fx=3F=3D?=", "=?utf-8?q?x?="},
        {"=?utf-8?b?YQ?=", "a"},
        {"=?utf-8?b?YQ=?=", "a"},
        {"=?utf-8?b?YWJj ZGU?=", "abcde"},
        {"=?utf-8?b?YWJjZ?=", "abc"},
        {"=?utf-8?b?YQ==Yg==?=", "ab"},
        {"=?utf-8?q?a=00b=09c?=", "a b c"},
    };
    check(header_text_decode, readings, ARRAY_LEN(readings));
}

TEST(neighbouring_encoded_words_are_joined)
{
    static const struct reading readings[] = {
        {"=?UTF-8?B?w6Q=?= =?UTF-8?B?w7Y=?= =?UTF-8?B?w7w=?=", "\xc3\xa4\xc3\xb6\xc3\xbc"},
        {"=?UTF-8?B?w6Q=?=\r\n =?utf-8?Q?=C3=B6?=", "\xc3\xa4\xc3\xb6"},
        {"=?UTF-8?B?w6Q=?==?UTF-8?B?w7Y=?=", "\xc3\xa4\xc3\xb6"},
        {"=?UTF-8?B?w6Q=?= and =?UTF-8?B?w7Y=?=", "\xc3\xa4 and \xc3\xb6"},
        {"=?UTF-8?Q?=C3=A4_?= =?UTF-8?Q?=C3=B6?=", "\xc3\xa4 \xc3\xb6"},
        {"=?iso-8859-1?q?=E4?= =?koi8-r?q?=C4?= =?UTF-8?B?w7w=?=", "\xc3\xa4\xd0\xb4\xc3\xbc"},
    };
    check(header_text_decode, readings, ARRAY_LEN(readings));
}

TEST(a_character_may_begin_in_one_word_and_end_in_the_next)
{
    static const struct reading readings[] = {
        {"=?UTF-8?B?0J/RgA==?= =?UTF-8?B?0LjQstC1?= =?UTF-8?Q?=D1?= =?UTF-8?Q?=82?=",
         "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82"},
        {"=?utf-8?b?8J8=?= =?UTF-8?b?mIA=?=", "\xf0\x9f\x98\x80"},
        {"=?gb2312?Q?=D6?= =?gb2312?Q?=D0?=", "\xe4\xb8\xad"},
    };
    check(header_text_decode, readings, ARRAY_LEN(readings));
}

TEST(text_that_is_not_an_encoded_word_is_unchanged)
{
    static const struct reading readings[] = {
        {"=?utf-8?x?abc?=", "=?utf-8?x?abc?="},
        {"=?utf-8?q?abc", "=?utf-8?q?abc"},
        {"=?utf-8?q", "=?utf-8?q"},
        {"=??q?abc?=", "=??q?abc?="},
        {"=?utf 8?q?abc?=", "=?utf 8?q?abc?="},
        {"=?", "=?"},
    };
    check(header_text_decode, readings, ARRAY_LEN(readings));
}

TEST(only_undecodable_bytes_are_replaced)
{
    static const struct reading readings[] = {
        {"Gr\xfc\xdf"
         "e",
         "Gr\xc3\xbc\xc3\x9f"
         "e"},
        {"\x93quoted\x94", "\xe2\x80\x9cquoted\xe2\x80\x9d"},
        {"=?utf-8?q?a=FFb?=", "a\xef\xbf\xbd"
                              "b"},
        {"=?no-charset?q?Gr=FC=DFe?=", "Gr\xc3\xbc\xc3\x9f"
                                       "e"},
        {"=?no-charset?q?=C3=A4?=", "\xc3\xa4"},
        {"=?iso-2022-jp?q?=C3=A4?=", "\xc3\xa4"},
        {"\xff =?utf-8?q?=C3=A4?= \xc3\xb6", "\xc3\xbf \xc3\xa4 \xc3\xb6"},
    };
    check(header_text_decode, readings, ARRAY_LEN(readings));
}

TEST(a_phrase_loses_its_quotes)
{
    static const struct reading readings[] = {
        {"Bob", "Bob"},
        {"  Bob \r\n  B. Builder ", "Bob B. Builder"},
        {"\"Builder, Bob\"", "Builder, Bob"},
        {"\"a  \\\"b\\\" \\\\\"", "a  \"b\" \\"},
        {"\"Bob\" the Builder", "Bob the Builder"},
        {"=?UTF-8?B?0JjQstCw0L0=?= =?UTF-8?B?0J/QtdGC0YDQvtCy?=",
         "\xd0\x98\xd0\xb2\xd0\xb0\xd0\xbd\xd0\x9f\xd0\xb5\xd1\x82\xd1\x80\xd0\xbe\xd0\xb2"},
        {"\"=?UTF-8?B?w6Q=?= =?UTF-8?B?w7Y=?=\"", "\xc3\xa4\xc3\xb6"},
        {"=?utf-8?q?a\"b?=", "a\"b"},
        {"\"J\xf6rg\" M\xfcller", "J\xc3\xb6rg M\xc3\xbcller"},
        {"\"not closed", "not closed"},
        {"\"\"", ""},
    };
    check(header_text_decode_phrase, readings, ARRAY_LEN(readings));
}

static void check_name(const char *value, const char *name)
{
    _cleanup_free_ char *text = header_text_decode_parameter(value, strlen(value), "filename");
    if (g_strcmp0(text, name) != 0)
        fail_msg("%s: read as \"%s\", not \"%s\"", value, text == NULL ? "" : text, name == NULL ? "" : name);
}

TEST(a_parameter_is_found_among_others)
{
    check_name("attachment; filename=report.pdf", "report.pdf");
    check_name("attachment;filename=\"report.pdf\";size=12", "report.pdf");
    check_name("attachment; size=12;\r\n\tFileName = my report (1).pdf ; x=y", "my report (1).pdf");
    check_name("attachment; x=\"; filename=a\"; filename=b", "b");
    check_name("attachment; filename=\"a;b.txt\"", "a;b.txt");
    check_name("attachment; filename=\"a \\\"b\\\" \\\\ c.txt\"", "a \"b\" \\ c.txt");
    check_name("attachment; filename=\"C:\\temp\\new.txt\"", "C:\\temp\\new.txt");
    check_name("attachment; filename=first; filename=second", "first");
    check_name("attachment; filename=\" a b \"", " a b ");
    check_name("attachment; filename=", "");
    check_name("attachment; filename=\"\"", "");
    check_name("attachment; filename=\"not closed", "not closed");
    check_name("attachment", NULL);
    check_name("", NULL);
    check_name("filename=x", NULL);
    check_name("attachment; filename", NULL);
    check_name("attachment; filenames=x; xfilename=y; filename*x=z", NULL);
}

TEST(a_parameter_may_have_a_charset_and_pieces)
{
    check_name("attachment; filename*=utf-8''r%C3%A9sum%C3%A9.pdf", "r\xc3\xa9sum\xc3\xa9.pdf");
    check_name("attachment; filename*=iso-8859-1'fr'r%E9sum%E9.pdf", "r\xc3\xa9sum\xc3\xa9.pdf");
    check_name("attachment; filename=resume.pdf; filename*=utf-8''r%C3%A9sum%C3%A9.pdf",
               "r\xc3\xa9sum\xc3\xa9.pdf");
    check_name("attachment; filename*0=\"a long \"; filename*1=\"name.pdf\"", "a long name.pdf");
    check_name("attachment; filename*1=\"name.pdf\"; filename*0=\"a long \"", "a long name.pdf");
    check_name("attachment; filename*0*=utf-8''%D0%BE%D1; filename*1*=%82%D1%87; filename*2=\"%41.pdf\"",
               "\xd0\xbe\xd1\x82\xd1\x87%41.pdf");
    check_name("attachment; filename*0=a; filename*2=c", "a");
    check_name("attachment; filename*0=C:\\\\temp; filename*1=\"\\\\new\"", "C:\\\\temp\\new");
    check_name("attachment; filename*0*=\"utf-8''%C3%A4\"; filename*1*=%2", "\xc3\xa4%2");
    check_name("attachment; filename*=%C3%A4.pdf", "\xc3\xa4.pdf");
    check_name("attachment; filename*1000000000000000000000=a; filename*100=b", NULL);
}

TEST(a_parameter_may_have_encoded_words_or_undeclared_bytes)
{
    check_name("attachment; filename=\"=?UTF-8?B?0L7RgtGH0ZHRgi5wZGY=?=\"",
               "\xd0\xbe\xd1\x82\xd1\x87\xd1\x91\xd1\x82.pdf");
    check_name("attachment; filename==?UTF-8?B?0L7RgtGH?=", "\xd0\xbe\xd1\x82\xd1\x87");
    check_name("attachment; filename=\"=?UTF-8?B?0L7RgtGH0ZE=?=\r\n =?UTF-8?B?0YIucGRm?=\"",
               "\xd0\xbe\xd1\x82\xd1\x87\xd1\x91\xd1\x82.pdf");
    check_name("attachment; filename*0=\"=?UTF-8?B?0L7RgtGH\"; filename*1=\"0ZHRgi5wZGY=?=\"",
               "\xd0\xbe\xd1\x82\xd1\x87\xd1\x91\xd1\x82.pdf");
    check_name("attachment; filename=\"\xd0\xbe\xd1\x82.pdf\"", "\xd0\xbe\xd1\x82.pdf");
    check_name("attachment; filename=\"r\xe9sum\xe9.pdf\"", "r\xc3\xa9sum\xc3\xa9.pdf");
    check_name("attachment; filename=\"100%41.pdf\"", "100%41.pdf");
    check_name("attachment; filename*=utf-8''%FF%FE.pdf", "\xef\xbf\xbd\xef\xbf\xbd.pdf");
    check_name("attachment; filename*=utf-8''a%00b.pdf", "a b.pdf");
}

/* A search for the end of each of the words would take minutes. */
TEST(many_words_without_an_end_are_read_in_linear_time)
{
    enum {
        WORDS = 200 * 1000
    };
    static const char word[] = "=?a?q?x";
    _cleanup_free_ char *value = malloc(WORDS * (sizeof(word) - 1) + 1);
    assert_non_null(value);
    for (size_t i = 0; i < WORDS; i++)
        memcpy(value + i * (sizeof(word) - 1), word, sizeof(word));
    _cleanup_free_ char *text = header_text_decode(value, strlen(value));
    assert_string_equal(text, value);
}

/* If the names had one hash, as "Ez" and "FY" have, a table of them would take minutes. */
TEST(many_parameters_with_one_hash_are_read_in_linear_time)
{
    enum {
        PARAMETERS = 1 << 16
    };
    g_autoptr(GString) value = g_string_new("attachment");
    for (size_t i = 0; i < PARAMETERS; i++) {
        g_string_append(value, "; filename");
        for (size_t bit = 1; bit < PARAMETERS; bit *= 2)
            g_string_append(value, (i & bit) != 0 ? "Ez" : "FY");
        g_string_append(value, "=a");
    }
    g_string_append(value, "; filename*99*=c; filename=b");
    check_name(value->str, "b");
}
