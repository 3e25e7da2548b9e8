/* SPDX-License-Identifier: MIT */
/*
 * Runs of plain characters: the quick way finds what looking at each byte finds.
 */
#include "base/plain_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static size_t run_by_bytes(const char *bytes, size_t len)
{
    size_t i = 0;
    while (i < len && is_plain_char(bytes[i]))
        i++;
    return i;
}

static void every_byte_at_every_place_is_seen(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        for (size_t at = 0; at < 20; at++) {
            char text[20] = "plain text, 20 bytes";
            text[at] = (char)byte;
            size_t expected = byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\' ? sizeof(text) : at;
            assert_int_equal(plain_run(text, sizeof(text)), expected);
            assert_int_equal(plain_run(text, at), at);
            char copy[20] = {0};
            assert_int_equal(plain_run_copy(copy, text, sizeof(text)), expected);
            assert_memory_equal(copy, text, expected);
        }
    }
}

static void random_bytes_are_judged_the_same(void **state)
{
    unsigned int seed = 7;
    (void)state;
    for (int round = 0; round < 100000; round++) {
        char text[33];
        size_t len = (size_t)(rand_r(&seed) % (int)sizeof(text));
        for (size_t i = 0; i < len; i++)
            text[i] = (char)(rand_r(&seed) % 8 == 0 ? rand_r(&seed) : 'a' + rand_r(&seed) % 26);
        assert_int_equal(plain_run(text, len), run_by_bytes(text, len));
        char copy[sizeof(text) + 1];
        copy[len] = '!';
        assert_int_equal(plain_run_copy(copy, text, len), run_by_bytes(text, len));
        assert_memory_equal(copy, text, run_by_bytes(text, len));
        assert_int_equal(copy[len], '!');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_at_every_place_is_seen),
        cmocka_unit_test(random_bytes_are_judged_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
