/* SPDX-License-Identifier: MIT */
/*
 * Every bit, the length and the seed change the hash.
 */
#include "base/hash.h"

#include <string.h>

#include "support/test.h"

TEST(every_flipped_bit_changes_the_hash)
{
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

TEST(the_length_changes_the_hash)
{
    static const char zeros[200];
    for (size_t len = 1; len <= sizeof(zeros); len++)
        assert_true(hash_bytes(0, zeros, len) != hash_bytes(0, zeros, len - 1));
}

TEST(the_seed_changes_the_hash)
{
    assert_true(hash_bytes(1, "key", 3) != hash_bytes(2, "key", 3));
    assert_true(hash_bytes(1, "key", 3) == hash_bytes(1, "key", 3));
}

TEST(digests_are_sha_256)
{
    char digest[65];
    hash_sha256("", 0, digest);
    assert_string_equal(digest, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash_sha256("abc", 3, digest);
    assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_sha256("a\0b", 3, digest);
    assert_string_equal(digest, "59b271ae1bbcb1d31d41929817f4b16fb439eb4f31520b5ad1d5ce98920a7138");
}

/* RFC 4231, test cases 1, 2 and 6. */
TEST(digests_with_a_key_are_hmac_sha_256)
{
    char digest[65];
    char key[131];
    memset(key, 0x0b, sizeof(key));
    hash_hmac_sha256(key, 20, "Hi There", 8, digest);
    assert_string_equal(digest, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hash_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, digest);
    assert_string_equal(digest, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    hash_hmac_sha256(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First", 54, digest);
    assert_string_equal(digest, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}
