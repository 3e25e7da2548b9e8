/* SPDX-License-Identifier: MIT */
/*
 * What is kept of emails on the disk. The input says what goes into a file, and where it is damaged then:
 * read again it is what was written, or it is refused. The first byte chooses: the input is the file itself.
 */
#include "store/content_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

static bool is_same(const struct content_folder *one, const struct content_folder *other)
{
    if (one->len != other->len)
        return false;
    for (size_t i = 0; i < one->len; i++)
        if (one->entries[i].kind != other->entries[i].kind || one->entries[i].len != other->entries[i].len ||
            strcmp(one->entries[i].name, other->entries[i].name) != 0)
            return false;
    return true;
}

static void add_entry(struct content_folder *folder, const uint8_t *bytes, size_t len)
{
    struct content_entry *entry = content_folder_add(folder, CONTENT_TEXT, "body.txt", "");
    FUZZ_CHECK(entry != NULL);
    entry->bytes = fuzz_string(bytes, len);
    entry->len = len;
}

static void check_damaged(int fd, const uint8_t *bytes, size_t len)
{
    struct content_folder written = {.len = 0};
    struct content_folder read = {.len = 0};
    const struct content_temporary file = {.fd = fd};
    uint8_t byte = 0;
    for (size_t at = 2; at < len; at += 1 + bytes[at])
        add_entry(&written, bytes + at + 1, bytes[at] < len - at - 1 ? bytes[at] : len - at - 1);
    FUZZ_CHECK(content_cache_write(&file, &written) == 0);
    off_t size = lseek(fd, 0, SEEK_END);
    off_t damaged = size - 1 - (off_t)(bytes[0] * 256 + bytes[1]) % size;
    FUZZ_CHECK(pread(fd, &byte, 1, damaged) == 1);
    byte ^= 1;
    FUZZ_CHECK(pwrite(fd, &byte, 1, damaged) == 1);
    FUZZ_CHECK(content_cache_read(fd, CONTENT_CHECK_ALL, &read) != 0);
    byte ^= 1;
    FUZZ_CHECK(pwrite(fd, &byte, 1, damaged) == 1);
    FUZZ_CHECK(content_cache_read(fd, CONTENT_CHECK_ALL, &read) == 0 && is_same(&written, &read));
    content_folder_release(&written);
    content_folder_release(&read);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct content_folder folder = {.len = 0};
    if (len < 3)
        return 0;
    int fd = memfd_create("content", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    if (bytes[0] % 4 != 0)
        check_damaged(fd, bytes + 1, len - 1);
    else if (write(fd, bytes + 1, len - 1) > 0 && content_cache_read(fd, CONTENT_CHECK_ALL, &folder) == 0)
        content_folder_release(&folder);
    close(fd);
    return 0;
}
