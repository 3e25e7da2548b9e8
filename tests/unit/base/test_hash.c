/* SPDX-License-Identifier: MIT */
/*
 * The hash: every bit, the length and the seed count.
 */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_flipped_bit_changes_it(void **state)
{
    (void)state;
    unsigned char bytes[] = "a record of a good hundred bytes, so that it takes whole strides, "
                            "words beyond them, and a rest of less";
    for (size_t len = 1; len <= sizeof(bytes); len++) {
        uint64_t intact = hash_bytes(7, bytes, len);
        for (size_t bit = 0; bit < len * 8; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1U << bit % 8);
            assert_true(hash_bytes(7, bytes, len) != intact);
            bytes[bit / 8] ^= (unsigned char)(1U << bit % 8);
        }
        assert_true(hash_bytes(7, bytes, len) == intact);
    }
}

static void the_length_counts(void **state)
{
    (void)state;
    static const char zeros[200];
    for (size_t len = 1; len <= sizeof(zeros); len++)
        assert_true(hash_bytes(0, zeros, len) != hash_bytes(0, zeros, len - 1));
}

static void the_seed_counts(void **state)
{
    (void)state;
    assert_true(hash_bytes(1, "key", 3) != hash_bytes(2, "key", 3));
    assert_true(hash_bytes(1, "key", 3) == hash_bytes(1, "key", 3));
}

static void digests_are_sha_256(void **state)
{
    char digest[65];
    (void)state;
    hash_sha256("", 0, digest);
    assert_string_equal(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash_sha256("abc", 3, digest);
    assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_sha256("a\0b", 3, digest);
    assert_string_equal(digest, "59b271ae1bbcb1d31d41929817f4b16fb439eb4f31520b5ad1d5ce98920a7138");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flipped_bit_changes_it),
        cmocka_unit_test(the_length_counts),
        cmocka_unit_test(the_seed_counts),
        cmocka_unit_test(digests_are_sha_256),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
