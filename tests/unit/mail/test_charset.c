/* SPDX-License-Identifier: MIT */
/*
 * Covers the labels of charsets in mail, and bytes that do not fit their charset.
 */
#include "mail/charset.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "support/test.h"

static void check(const char *label, const char *bytes, const char *text)
{
    static const enum charset_damage both[] = {CHARSET_REFUSE, CHARSET_REPLACE};
    for (size_t i = 0; i < ARRAY_LEN(both); i++) {
        g_autoptr(GString) got = g_string_new("> ");
        if (!charset_append_utf8(got, label, strlen(label), bytes, strlen(bytes), both[i]))
            fail_msg("%s: refused", label);
        if (strcmp(got->str + 2, text) != 0)
            fail_msg("%s: read as \"%s\", not \"%s\"", label, got->str + 2, text);
    }
}

TEST(labels_are_read_as_browsers_read_them)
{
    check("utf-8", "\xc3\xa4", "\xc3\xa4");
    check("UTF8", "\xc3\xa4", "\xc3\xa4");
    check("iso-8859-1", "\x93\xe4\x94 \x80", "\u201c\u00e4\u201d \u20ac");
    check("ISO_8859-1:1987", "\x85", "\u2026");
    check("latin1", "\xe4", "\u00e4");
    check("windows-1252", "\xe4", "\u00e4");
    check("iso-8859-9", "\x93\xfe", "\u201c\u015f");
    check("ks_c_5601-1987", "\xb0\xa1\x8c\x63", "\uac00\ub620");
    check("euc-kr", "\x8c\x63", "\ub620");
    check("gb2312", "\xd6\xd0\x81\x40", "\u4e2d\u4e02");
    check("GBK", "\x81\x40", "\u4e02");
    check("shift_jis", "\x87\x40\x93\xfa", "\u2460\u65e5");
    check("x-sjis", "\x87\x40", "\u2460");
    check("euc-jp", "\xad\xa1\xc6\xfc", "\u2460\u65e5");
    check("big5", "\xa4\xa4", "\u4e2d");
    check("tis-620", "\xa1\x85", "\u0e01\u2026");
    check("iso-8859-8-i", "\xe0", "\u05d0");
    check("'iso-8859-1'", "\xe4", "\u00e4");
    check("koi8-u", "\xd0\xa4", "\u043f\u0454");
}

TEST(labels_outside_the_table_are_read_by_iconv)
{
    check("iso-8859-2", "\xb1", "\u0105");
    check("iso-2022-jp", "\x1b$B$3\x1b(B!", "\u3053!");
    check("iso-2022-kr", "\x1b$)C\016\060!\017!", "\uac00!");
    check("csISO2022KR", "\x1b$)C\016\060!\017!", "\uac00!");
    check("iso-2022-cn", "\x1b$)A\x0eVP\x0f!", "\u4e2d!");
    check("iso-2022-cn-ext", "\x1b$)A\x0eVP\x0f!", "\u4e2d!");
    check("cp850", "\x84", "\u00e4");
    check("utf-7", "+AOQ-", "\u00e4");
}

TEST(bytes_undefined_in_windows_1252_become_control_characters)
{
    check("iso-8859-1", "a\x81\xe4", "a\xc2\x81\u00e4");
    check("", "a\x81\xe4", "a\xc2\x81\u00e4");
}

TEST(text_without_a_charset_is_read_as_utf8_or_windows_1252)
{
    static const char *const labels[] = {"", "us-ascii", "ASCII", "csASCII", "ANSI_X3.4-1968", "ISO646-US"};
    for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
        check(labels[i],
              "Gr\xc3\xbc\xc3\x9f"
              "e \xe2\x82\xac",
              "Gr\u00fc\u00dfe \u20ac");
        check(labels[i],
              "Gr\xfc\xdf"
              "e \x80",
              "Gr\u00fc\u00dfe \u20ac");
        check(labels[i], "", "");
    }
}

TEST(utf8_under_a_wrong_label_is_unchanged)
{
    check("iso-2022-jp", "\xc3\xa4", "\u00e4");
    check("no-such-charset-1", "\xc3\xa4", "\u00e4");
    check("hz-gb-2312", "\xc3\xa4 ~!", "\u00e4 ~!");
    check("UTF-8//IGNORE", "\xc3\xa4", "\u00e4");
    check("a-label-that-is-longer-than-any-charset-has-one-1", "\xc3\xa4", "\u00e4");
}

TEST(bytes_that_do_not_fit_their_charset_are_refused_or_replaced)
{
    static const struct {
        const char *label;
        const char *bytes;
        const char *text;
    } cases[] = {
        {"utf-8",
         "a\xff"
         "b",
         "a\ufffd"
         "b"},
        {"utf-8", "a\xe2\x82", "a\ufffd\ufffd"},
        {"utf-8", "\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},
        {"utf-32be", "\x7f\xff\xff\xff", "\ufffd\ufffd\ufffd\ufffd"},
        {"gb2312", "\xd6\xd0\xff!", "\u4e2d\ufffd!"},
        {"shift_jis", "\x93\xfa\x93", "\u65e5\ufffd"},
        {"no-such-charset-1", "\xe4", "\u00e4"},
        {"hz-gb-2312", "~{VPND~}", "~{VPND~}"},
        {"iso-2022-jp", "\x1b$B$3\x1b$", "\x1b$B$3\x1b$"},
        {"csiso2022kr-none", "\x0e=i", "\x0e=i"},
        {"internal",
         "a\xe4"
         "bc",
         "a\u00e4"
         "bc"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *label = cases[i].label;
        g_autoptr(GString) text = g_string_new("> ");
        assert_false(charset_append_utf8(text, label, strlen(label), cases[i].bytes, strlen(cases[i].bytes),
                                         CHARSET_REFUSE));
        assert_string_equal(text->str, "> ");
        assert_true(charset_append_utf8(text, label, strlen(label), cases[i].bytes, strlen(cases[i].bytes),
                                        CHARSET_REPLACE));
        assert_string_equal(text->str + 2, cases[i].text);
    }
}

TEST(long_text_is_converted_whole)
{
    enum {
        LEN = 10 * 1000
    };
    char bytes[LEN];
    g_autoptr(GString) text = g_string_new(NULL);
    memset(bytes, '\xe4', LEN);
    assert_true(charset_append_utf8(text, "latin1", 6, bytes, LEN, CHARSET_REFUSE));
    assert_int_equal(text->len, 2 * LEN);
    assert_memory_equal(text->str + text->len - 4, "\u00e4\u00e4", 4);
}

static void *convert_often(void *is_wrong)
{
    static const char *const labels[] = {"gb2312", "big5", "shift_jis", "euc-kr"};
    for (size_t i = 0; i < 200; i++) {
        const char *label = labels[i % ARRAY_LEN(labels)];
        g_autoptr(GString) text = g_string_new(NULL);
        if (!charset_append_utf8(text, label, strlen(label), "\xb0\xa1", 2, CHARSET_REFUSE) || text->len < 2)
            *(bool *)is_wrong = true;
    }
    return NULL;
}

static bool is_mapped(const char *library)
{
    char line[4096];
    bool is_found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (!is_found && fgets(line, sizeof(line), maps) != NULL)
        is_found = strstr(line, library) != NULL;
    fclose(maps);
    return is_found;
}

/* A header of 45 MB that names these charsets in turn once took 166 s. */
TEST(the_library_of_a_charset_stays_loaded)
{
    static const char *const labels[] = {"koi8-r",     "windows-1251", "euc-jp",  "iso-8859-3",
                                         "iso-8859-4", "windows-1253", "ibm-037", "ibm-500"};
    check("big5", "\xa4\xa4", "\u4e2d");
    if (!is_mapped("BIG5HKSCS"))
        skip(); /* this libc has the charset built in */
    for (size_t i = 0; i < 5 * ARRAY_LEN(labels); i++) {
        g_autoptr(GString) got = g_string_new(NULL);
        const char *label = labels[i % ARRAY_LEN(labels)];
        charset_append_utf8(got, label, strlen(label), "a", 1, CHARSET_REPLACE);
    }
    assert_true(is_mapped("BIG5HKSCS"));
}

TEST(threads_convert_at_the_same_time)
{
    pthread_t threads[4];
    bool is_wrong[ARRAY_LEN(threads)] = {false};
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, convert_often, &is_wrong[i]), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_false(is_wrong[i]);
    }
}
