/* SPDX-License-Identifier: MIT */
/*
 * Every text of a sender becomes one safe path component.
 */
#include "mail/file_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <glib.h>

#include "base/cleanup.h"
#include "support/test.h"

static const char key[] = "3c90c3cc-0d44-4b50";
static const int64_t date_ms = INT64_C(1795169676123);

#define SIXTY "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij"

TEST(subjects_become_slugs)
{
    static const struct {
        const char *subject;
        const char *slug;
    } cases[] = {
        {"Welcome to your inbox", "welcome-to-your-inbox"},
        {"  Re: [List] Hello!!  ", "re-list-hello"},
        {NULL, "no-subject"},
        {"", "no-subject"},
        {"...", "no-subject"},
        {"\U0001f600\U0001f600 \u2764\ufe0f", "no-subject"},
        {"../../etc/passwd", "etc-passwd"},
        {"a/b\\c:d*e", "a-b-c-d-e"},
        {".hidden", "hidden"},
        {"\x1b[31mred\x1b[0m\x07", "31mred-0m"},
        {"a\r\nb\tc\x7f", "a-b-c"},
        {"c1\xc2\x9b"
         "31m",
         "c1-31m"},
        {"inv\u202ealid\u200f \u200emark", "invalid-mark"},
        {"zero\u200bwidth\ufeff", "zerowidth"},
        {"bad \xff\xfe utf8 \xe4\xb8", "bad-utf8"},
        {"\xc0\xaf\xed\xa0\x80x", "x"},
        {"\u00dcBER stra\u00dfe", "\u00fcber-stra\u00dfe"},
        {"u\u0308ber", "\u00fcber"},
        {"\u0308lonely mark", "lonely-mark"},
        {"\u65e5\u672c\u8a9e \u30e1\u30fc\u30eb", "\u65e5\u672c\u8a9e-\u30e1\u30fc\u30eb"},
        {"\u0645\u0631\u062d\u0628\u0627", "\u0645\u0631\u062d\u0628\u0627"},
        {"\u3164\u3164", "no-subject"},
        {"100% sure #1", "100-sure-1"},
        {"a--b__c", "a-b-c"},
        {SIXTY "xyz", SIXTY},
        {"abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghi next",
         "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghi"},
        {"abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghi\u00e9",
         "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghi"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char expected[200];
        snprintf(expected, sizeof(expected), "20261120T101436Z_%s_3c90c3cc", cases[i].slug);
        _cleanup_free_ char *stem = file_name_stem(true, date_ms, cases[i].subject, key);
        assert_string_equal(stem, expected);
    }
}

/* Makes a slug in a simpler way, for comparison. */
static void slug_by_characters(const char *subject, char *ret_slug)
{
    size_t len = 0;
    for (const char *c = subject; *c != '\0' && len < FILE_NAME_SLUG_MAX_BYTES; c++) {
        if (isalnum((unsigned char)*c))
            ret_slug[len++] = (char)tolower((unsigned char)*c);
        else if (len > 0 && ret_slug[len - 1] != '-')
            ret_slug[len++] = '-';
    }
    while (len > 0 && ret_slug[len - 1] == '-')
        len--;
    strcpy(ret_slug + len, len > 0 ? "" : "no-subject");
}

TEST(slugs_of_random_subjects_match_a_reference)
{
    unsigned int seed = 11;
    for (int round = 0; round < 50000; round++) {
        char subject[100];
        char expected[FILE_NAME_SLUG_MAX_BYTES + 12];
        size_t len = (size_t)(rand_r(&seed) % (int)sizeof(subject));
        int gaps = 1 + rand_r(&seed) % 20;
        for (size_t i = 0; i < len; i++)
            subject[i] =
                (char)(rand_r(&seed) % gaps == 0 ? 1 + rand_r(&seed) % 127 : 'A' + rand_r(&seed) % 26);
        subject[len] = '\0';
        slug_by_characters(subject, expected);
        _cleanup_free_ char *slug = file_name_slug(subject);
        assert_string_equal(slug, expected);
    }
}

TEST(a_stem_begins_with_the_date_and_ends_with_the_key)
{
    static const struct {
        bool has_date;
        int64_t date_ms;
        const char *key;
        const char *stem;
    } cases[] = {
        {false, 1, "abcdefghij", "nodate_s_abcdefgh"},
        {true, 0, "abcdefghij", "19700101T000000Z_s_abcdefgh"},
        {true, -1, "a-b-c-d-e-f-g-h-i", "19691231T235959Z_s_abcdefgh"},
        {true, INT64_MAX, "12345678", "99991231T235959Z_s_12345678"},
        {true, INT64_MIN, "12345678", "00010101T000000Z_s_12345678"},
        {false, 0, "~0123456789abcdef", "nodate_s_01234567"},
        /* keys with fewer than 8 letters and digits, whose digest is used */
        {false, 0, "7", "nodate_s_7902699b"},
        {false, 0, "../../../a", "nodate_s_1046ddc2"},
        {false, 0, "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", "nodate_s_322feef3"},
        {false, 0, "", "nodate_s_e3b0c442"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *stem = file_name_stem(cases[i].has_date, cases[i].date_ms, "s", cases[i].key);
        assert_string_equal(stem, cases[i].stem);
    }
}

/* The subject and the key are random bytes from a fixed seed, in many lengths. */
TEST(stems_of_random_subjects_are_safe_names)
{
    unsigned int seed = 12345;
    for (unsigned int round = 0; round < 5000; round++) {
        char subject[700];
        size_t len = round % (sizeof(subject) - 1);
        for (size_t i = 0; i < len; i++) {
            seed = seed * 1103515245 + 12345;
            subject[i] = (char)(1 + (seed >> 16) % 255);
        }
        subject[len] = '\0';
        _cleanup_free_ char *stem = file_name_stem(round % 2 == 0, (int64_t)seed * 100000, subject, subject);
        assert_true(file_name_is_valid(stem));
        assert_true(stem[0] != '.');
        assert_true(strlen(stem) <= 17 + 60 + 9);
        assert_true(g_utf8_validate(stem, -1, NULL));
        _cleanup_free_ char *again = file_name_stem(round % 2 == 0, (int64_t)seed * 100000, subject, subject);
        assert_string_equal(stem, again);
    }
}

TEST(a_huge_subject_makes_a_short_stem)
{
    _cleanup_free_ char *subject = malloc(10 * 1000 * 1000 + 1);
    assert_non_null(subject);
    memset(subject, 'a', 10 * 1000 * 1000);
    for (size_t i = 1; i + 1 < 10 * 1000 * 1000; i += 2) {
        subject[i] = (char)0xcc; /* combining marks, all for the first letter */
        subject[i + 1] = (char)(0x80 + i % 60);
    }
    subject[10 * 1000 * 1000] = '\0';
    _cleanup_free_ char *stem = file_name_stem(true, 0, subject, key);
    assert_true(file_name_is_valid(stem));
    assert_true(strlen(stem) <= 17 + 60 + 9);
}

TEST(each_attempt_and_each_key_makes_another_stem)
{
    char previous[300] = "stem";
    for (unsigned int attempt = 1; attempt < 20; attempt++) {
        _cleanup_free_ char *name = file_name_stem_unique("stem", key, attempt);
        _cleanup_free_ char *again = file_name_stem_unique("stem", key, attempt);
        _cleanup_free_ char *of_other = file_name_stem_unique("stem", "another key", attempt);
        assert_string_equal(name, again);
        assert_string_not_equal(name, of_other);
        assert_string_not_equal(name, previous);
        assert_true(file_name_is_valid(name));
        assert_true(strlen(name) + strlen(".receipt.json") <= FILE_NAME_MAX_BYTES);
        snprintf(previous, sizeof(previous), "%s", name);
    }
}

TEST(texts_become_harmless_names_of_folders)
{
    static const struct {
        const char *text;
        const char *name;
    } cases[] = {
        {"alice@inbox.example", "alice@inbox.example"},
        {"3c90c3cc-0d44", "3c90c3cc-0d44"},
        {"\u00fc@x", "\u00fc@x"},
        {"", "e3b0c442"},
        {".", "__cdb4ee2a"},
        {"..", "_._5ec1f7e7"},
        {".hidden", "_hidden_16924190"},
        {"-rf@x", "_rf@x_0bd196ab"},
        {"a/b", "a_b_c14cddc0"},
        {"a\nb", "a_b_7e18f737"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *name = file_name_from_text(cases[i].text);
        assert_true(file_name_is_harmless(name));
        if (strcmp(name, cases[i].name) != 0)
            fail_msg("\"%s\" became \"%s\"", cases[i].text, name);
    }

    char long_text[400];
    memset(long_text, 'x', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    _cleanup_free_ char *one = file_name_from_text(long_text);
    long_text[sizeof(long_text) - 2] = 'y';
    _cleanup_free_ char *other = file_name_from_text(long_text);
    assert_true(file_name_is_valid(one));
    assert_string_not_equal(one, other);
    _cleanup_free_ char *invalid = file_name_from_text("\xff\xfe/\xe4");
    assert_true(file_name_is_valid(invalid));
}

TEST(names_of_temporary_files_and_backups_are_recognised)
{
    static const char *const temporary[] = {".", ".hidden", ".x.swp", ".#a",   "a~",
                                            "~", "a.tmp",   "a.part", "a.swp", "4913"};
    static const char *const backups[] = {"a.bak",  "a.old",    "a.orig",    "a.rej", "a.sav",
                                          "a.save", "a.save.1", "a.save.12", "#a#",   "##"};
    static const char *const others[] = {"a",       "a.eml",     "tmp",  "part",   "a.tmp.eml", "~a",
                                         "49130",   "a.TMPX",    "swp",  "#",      "#1",        "a#",
                                         "bak",     "a.bak.eml", "save", "save.1", "a.save.",   "a.save.x",
                                         "a.save1", "a.saves",   "1"};
    for (size_t i = 0; i < ARRAY_LEN(temporary); i++)
        assert_true(file_name_is_temporary(temporary[i]) && !file_name_is_backup(temporary[i]));
    for (size_t i = 0; i < ARRAY_LEN(backups); i++)
        assert_true(file_name_is_backup(backups[i]) && !file_name_is_temporary(backups[i]));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(file_name_is_temporary(others[i]) || file_name_is_backup(others[i]));
}

TEST(a_number_is_put_before_the_extension)
{
    static const struct {
        const char *name;
        unsigned int number;
        const char *expected;
    } cases[] = {
        {"report.pdf", 2, "report-2.pdf"},
        {"report", 3, "report-3"},
        {".bashrc", 2, ".bashrc-2"},
        {"a.tar.gz", 10, "a.tar-10.gz"},
        {"a.", 2, "a-2."},
        {".a.b", 2, ".a-2.b"},
        {"r.pdf", 4294967295U, "r-4294967295.pdf"},
        {"a.b c d e f g h i j k l m n o p q r s t", 2, "a.b c d e f g h i j k l m n o p q r s t-2"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *name = file_name_numbered(cases[i].name, cases[i].number);
        assert_string_equal(name, cases[i].expected);
    }
}

TEST(a_number_is_removed_from_a_numbered_name)
{
    static const struct {
        const char *name;
        const char *expected; /* NULL if the name is refused */
    } cases[] = {
        {"report-2.pdf", "report.pdf"},
        {"report-3", "report"},
        {"a.tar-10.gz", "a.tar.gz"},
        {"report.pdf", NULL},
        {"report-.pdf", NULL},
        {"report-0", NULL},
        {"report-02", NULL},
        {"report-1", NULL},
        {"-2.pdf", NULL},
        {"2.pdf", NULL},
        {"x-2-3.eml", "x-2.eml"},
        {"", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *name = file_name_unnumbered(cases[i].name);
        assert_int_equal(name == NULL, cases[i].expected == NULL);
        if (name != NULL)
            assert_string_equal(name, cases[i].expected);
    }
}

TEST(a_long_name_is_cut_before_its_number)
{
    for (size_t len = 240; len <= 255; len++) {
        char name[300];
        for (size_t i = 0; i < len; i++)
            name[i] = (char)(i % 2 == 0 ? 0xc3 : 0xa9);
        memcpy(name + (len - 4) / 2 * 2, ".txt", 5);
        _cleanup_free_ char *numbered = file_name_numbered(name, 17);
        assert_true(file_name_is_valid(numbered));
        assert_string_equal(numbered + strlen(numbered) - 7, "-17.txt");
    }
}

TEST(shortened_names_keep_their_extension)
{
    static const struct {
        const char *name;
        const char *expected;
    } cases[] = {
        {"short.txt", "short.txt"},
        {"1234567890123456789012345678901234567890123456789012345678901234",
         "1234567890123456789012345678901234567890123456789012345678901234"},
        {"12345678901234567890123456789012345678901234567890123456789012345",
         "1234567890123456789012345678901234567890123456789012345678901234"},
        {"12345678901234567890123456789012345678901234567890123456789012345.pdf",
         "123456789012345678901234567890123456789012345678901234567890.pdf"},
        {"12345678901234567890123456789012345678901234567890123456789\u00e9\u00e9.pdf",
         "12345678901234567890123456789012345678901234567890123456789.pdf"},
        {"a.b12345678901234567890123456789012345678901234567890123456789012345",
         "a.b1234567890123456789012345678901234567890123456789012345678901"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *name = file_name_shortened(cases[i].name, 64);
        assert_string_equal(name, cases[i].expected);
    }
}

TEST(a_valid_name_is_text_without_controls_or_slashes)
{
    static const char *const good[] = {"a", "...", ".a", "a b", "r\u00e9sum\u00e9.pdf", "a\\b", "\"", "-rf"};
    static const char *const bad[] = {"",      ".",     "..",        "a/b",  "/",    "a\nb",
                                      "a\x1b", "a\x7f", "a\xc2\x9b", "\xff", "a\xc3"};
    char name[300];
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(file_name_is_valid(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(file_name_is_valid(bad[i]));
    memset(name, 'x', sizeof(name));
    name[255] = '\0';
    assert_true(file_name_is_valid(name));
    name[255] = 'x';
    name[256] = '\0';
    assert_false(file_name_is_valid(name));
}

TEST(names_that_differ_only_in_case_or_normalisation_have_equal_folds)
{
    static const char *const same[][2] = {
        {"A.txt", "a.TXT"},         {"\u00dcber", "u\u0308BER"},
        {"stra\u00dfe", "STRASSE"}, {"\u212a", "k"},
        {"\u03c3", "\u03c2"},       {"\u1fb3", "\u0391\u0345"},
        {"\uab80", "\u13b0"},       {"a\u0323\u0307", "a\u0307\u0323"},
    };
    static const char *const different[][2] = {{"a", "b"}, {"u", "\u00fc"}, {"a", "a "}, {"i", "\u0131"}};
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        _cleanup_free_ char *one = file_name_fold(same[i][0]);
        _cleanup_free_ char *other = file_name_fold(same[i][1]);
        assert_string_equal(one, other);
    }
    for (size_t i = 0; i < ARRAY_LEN(different); i++) {
        _cleanup_free_ char *one = file_name_fold(different[i][0]);
        _cleanup_free_ char *other = file_name_fold(different[i][1]);
        assert_string_not_equal(one, other);
    }
    assert_null(file_name_fold("\xff"));
}
