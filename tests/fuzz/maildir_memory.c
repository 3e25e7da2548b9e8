/* SPDX-License-Identifier: MIT */
/*
 * What is remembered of Maildirs, as anybody may have left it: it opens, an inbox can be added and mail in it
 * gets a number that nothing else has, also when it is opened again.
 */
#include "store/maildir_memory.h"

#include "base/clock.h"
#include "base/hash.h"
#include "fuzz/state_folder.h"

static uint32_t open_memory(int dir_fd)
{
    struct maildir_memory *memory = NULL;
    struct maildir_state state = {.uid_max = 0};
    FUZZ_CHECK(maildir_memory_open(dir_fd, clock_system(), &memory) == 0);
    FUZZ_CHECK(maildir_memory_add_inbox(memory, 0, "in-1") == 0);
    FUZZ_CHECK(maildir_memory_get_state(memory, 0, &state) && state.uidvalidity != 0);
    for (uint32_t uid = 0; uid <= 10; uid++) {
        struct maildir_mail mail;
        (void)maildir_memory_find_uid(memory, 0, uid, &mail);
    }
    maildir_memory_free(memory);
    return state.uidvalidity;
}

/* A million boxes, and 16 million numbers in a box, take seconds and a gigabyte: here 65,536 of each are
 * enough. A record of version 0.1 begins with the one and the other. */
static void tame(char *payload, size_t len)
{
    if (len >= 4)
        payload[2] = payload[3] = 0;
    if (len >= 8)
        payload[6] = payload[7] = 0;
}

/* What version 0.1 left: a log that is intact and holds what these bytes say, a kind and a length before each
 * record. */
static void put_old_log(int dir_fd, const uint8_t *bytes, size_t len)
{
    static const struct {
        char magic[8];
        uint32_t numbers[2];
    } header = {"inboxfs", {3, 0x01020304}};
    GByteArray *log = g_byte_array_new();
    g_byte_array_append(log, (const guint8 *)&header, sizeof(header));
    for (size_t at = 0; at + 2 <= len;) {
        size_t left = len - at - 2;
        uint32_t part = bytes[at + 1] < left ? bytes[at + 1] : (uint32_t)left;
        size_t padded = (part + 7) & ~(size_t)7;
        uint16_t kind = bytes[at] % 4;
        uint16_t check = (uint16_t)(hash_bytes(kind, &part, sizeof(part)) >> 48);
        _cleanup_free_ char *payload = calloc(1, padded + 1);
        memcpy(payload, bytes + at + 2, part);
        tame(payload, part);
        uint64_t checksum = hash_bytes((uint64_t)part << 32 | (uint64_t)kind << 16 | check, payload, padded);
        g_byte_array_append(log, (const guint8 *)&part, sizeof(part));
        g_byte_array_append(log, (const guint8 *)&kind, sizeof(kind));
        g_byte_array_append(log, (const guint8 *)&check, sizeof(check));
        g_byte_array_append(log, (const guint8 *)&checksum, sizeof(checksum));
        g_byte_array_append(log, (const guint8 *)payload, (guint)padded);
        at += 2 + part;
    }
    state_folder_put(dir_fd, "maildir", log->data, log->len);
    g_byte_array_free(log, TRUE);
}

/* The first byte chooses: any bytes as what 0.1 left, or records; then damage of what became of them. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    int dir_fd = state_folder();
    if (len > 0 && bytes[0] % 4 == 0)
        state_folder_put(dir_fd, "maildir", bytes + 1, len - 1);
    else if (len > 0)
        put_old_log(dir_fd, bytes + 1, len - 1);
    uint32_t uidvalidity = open_memory(dir_fd);
    FUZZ_CHECK(open_memory(dir_fd) == uidvalidity);
    if (len > 0 && bytes[0] % 4 == 1)
        state_folder_damage(dir_fd, "maildir.sqlite3", bytes + 1, len - 1);
    uidvalidity = open_memory(dir_fd);
    FUZZ_CHECK(open_memory(dir_fd) == uidvalidity);
    return 0;
}
