/* SPDX-License-Identifier: MIT */
/*
 * The reader accepts all characters of Unicode and nothing else, and separates the characters that a terminal
 * obeys from those that it shows.
 */
#include "base/character.h"

#include <string.h>

#include "support/test.h"

static size_t encode(uint32_t code, char ret_text[5])
{
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char firsts[] = {0, 0, 0xc0, 0xe0, 0xf0};
    memset(ret_text, 0, 5);
    for (size_t i = len - 1; i > 0; i--, code >>= 6)
        ret_text[i] = (char)(0x80 | (code & 0x3f));
    ret_text[0] = (char)(firsts[len] | code);
    return len;
}

static enum character_kind expected_kind(uint32_t code)
{
    static const struct {
        uint32_t from, to;
        enum character_kind kind;
    } ranges[] = {
        {0x00, 0x1f, CHARACTER_CONTROL},           {0x7f, 0x9f, CHARACTER_CONTROL},
        {0x061c, 0x061c, CHARACTER_MARK},          {0x200e, 0x200f, CHARACTER_MARK},
        {0x2028, 0x2029, CHARACTER_LINE_END},      {0x202a, 0x202e, CHARACTER_DIRECTION},
        {0x2066, 0x2069, CHARACTER_DIRECTION},     {0xd800, 0xdfff, CHARACTER_INVALID},
        {0x110000, UINT32_MAX, CHARACTER_INVALID},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (code >= ranges[i].from && code <= ranges[i].to)
            return ranges[i].kind;
    return CHARACTER_PLAIN;
}

TEST(every_code_point_is_classified)
{
    char text[5];
    for (uint32_t code = 0; code < 0x130000; code++) {
        size_t len = encode(code, text);
        const struct character character = character_at(text, len);
        assert_int_equal(character.kind, expected_kind(code));
        bool is_valid = character.kind != CHARACTER_INVALID;
        assert_int_equal(character.len, is_valid ? len : 1);
        assert_int_equal(character.code, is_valid ? code : 0);
        for (size_t cut = 1; cut < len; cut++)
            assert_int_equal(character_at(text, cut).kind, CHARACTER_INVALID);
    }
}

TEST(invalid_characters_are_recognised)
{
    static const char *const texts[] = {"\x80",
                                        "\x9b",
                                        "\xbf",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xc3(",
                                        "\xe0\x80\x80",
                                        "\xe0\x9f\xbf",
                                        "\xe2\x80",
                                        "\xe2(\xa8",
                                        "\xe2\x80(",
                                        "\xed\xa0\x80",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xff"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const struct character character = character_at(texts[i], strlen(texts[i]));
        assert_int_equal(character.kind, CHARACTER_INVALID);
        assert_int_equal(character.len, 1);
        assert_true(character_has(texts[i], CHARACTER_INVALID));
    }
}

TEST(characters_of_a_kind_are_found)
{
    assert_false(character_has("", CHARACTER_NOT_PLAIN));
    assert_false(character_has("plain h\u00e9llo \u4e16 \U0001f4a5", CHARACTER_NOT_PLAIN));
    assert_true(character_has("behind the last \u00e9\u2028", CHARACTER_LINE_END));
    assert_false(character_has("\u2028", CHARACTER_CONTROL | CHARACTER_MARK));
    assert_true(character_has("a\u200e", CHARACTER_CONTROL | CHARACTER_MARK));
}

TEST(characters_of_a_kind_are_replaced)
{
    char text[] = "a\nb\xc2\x9b"
                  "c\u2028d\u202ee\u200ff\xff\xe2\x80";
    character_replace(text, CHARACTER_DIRECTION, '.');
    assert_string_equal(text, "a\nb\xc2\x9b"
                              "c\u2028d...e\u200ff\xff\xe2\x80");
    character_replace(text, CHARACTER_CONTROL | CHARACTER_LINE_END, ' ');
    assert_string_equal(text, "a b  c   d...e\u200ff\xff\xe2\x80");
    character_replace(text, CHARACTER_NOT_PLAIN, '?');
    assert_string_equal(text, "a b  c   d...e???f???");
}

__attribute__((format(printf, 3, 4))) static void format_plain(char *line, size_t size, const char *format,
                                                               ...)
{
    va_list arguments;
    va_start(arguments, format);
    character_format_plain(line, size, format, arguments);
    va_end(arguments);
}

TEST(a_formatted_line_is_plain_and_fits_its_buffer)
{
    char line[8];
    format_plain(line, sizeof(line), "%s%d", "a\033\n", 7);
    assert_string_equal(line, "a??7");
    format_plain(line, sizeof(line), "%s", "123456\xc3\xa9");
    assert_string_equal(line, "123456?");
}
