/* SPDX-License-Identifier: MIT */
/*
 * The texts of an email in the cache. The first byte chooses one of two tests. Texts of the input are packed,
 * and must be the same after unpacking; or the input is unpacked: if accepted, its texts can be packed again.
 */
#include "store/content_cache.h"

#include "fuzz/fuzz.h"

static void add_entry(struct content_folder *folder, const uint8_t *bytes, size_t len)
{
    struct content_entry *entry = content_folder_add(folder, CONTENT_TEXT, "body.txt", "id");
    FUZZ_CHECK(entry != NULL);
    entry->bytes = fuzz_string(bytes, len);
    entry->len = len;
}

static void check_same(const struct content_folder *one)
{
    struct content_folder other = {.len = 0};
    struct content_bytes packed;
    FUZZ_CHECK(content_cache_pack(one, &packed) == 0);
    FUZZ_CHECK(content_cache_unpack(&packed, &other) == 0 && other.len == one->len);
    for (size_t i = 0; i < one->len; i++)
        FUZZ_CHECK(one->entries[i].kind == other.entries[i].kind &&
                   one->entries[i].len == other.entries[i].len &&
                   strcmp(one->entries[i].name, other.entries[i].name) == 0 &&
                   memcmp(one->entries[i].bytes, other.entries[i].bytes, one->entries[i].len) == 0);
    content_folder_release(&other);
    content_bytes_release(&packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct content_folder folder = {.len = 0};
    if (len < 3)
        return 0;
    if (bytes[0] % 4 != 0) {
        for (size_t at = 1; at < len; at += 1 + bytes[at])
            add_entry(&folder, bytes + at + 1, bytes[at] < len - at - 1 ? bytes[at] : len - at - 1);
        check_same(&folder);
    } else {
        _cleanup_free_ char *copy = fuzz_string(bytes + 1, len - 1);
        const struct content_bytes packed = {.bytes = copy, .fd = -1, .len = len - 1};
        if (content_cache_unpack(&packed, &folder) == 0)
            check_same(&folder);
    }
    content_folder_release(&folder);
    return 0;
}
