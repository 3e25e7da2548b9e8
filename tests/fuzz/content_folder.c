/* SPDX-License-Identifier: MIT */
/*
 * The packed folder of an email, as the cache has it. Bytes of any kind are refused, or make a folder whose
 * entries are in these bytes.
 */
#include "mail/content_folder.h"
#include "fuzz/fuzz.h"

static void check_inside(const struct content_folder *folder, const char *text, size_t len)
{
    const char *end = folder->packed + folder->packed_len;
    FUZZ_CHECK(text >= folder->packed && text + len < end && text[len] == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct content_folder folder;
    if (content_folder_unpack(fuzz_string(bytes, len), len, &folder) != 0)
        return 0;
    for (size_t i = 0; i < folder.len; i++) {
        const struct content_entry *entry = &folder.entries[i];
        check_inside(&folder, entry->name, strlen(entry->name));
        check_inside(&folder, entry->id, strlen(entry->id));
        check_inside(&folder, entry->bytes, entry->len);
    }
    content_folder_release(&folder);
    return 0;
}
