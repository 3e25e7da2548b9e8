/* SPDX-License-Identifier: MIT */
/*
 * What is remembered of Maildirs, as anybody may have left it: it opens, an inbox can be added and mail in it
 * gets a number that nothing else has, also when it is opened again.
 */
#include "store/maildir_memory.h"

#include "base/clock.h"
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

/* A box may have 16 million numbers, which take a gigabyte: here 65,536 are enough. Its own number and this
 * one are the two that a record begins with. */
static void tame(char *payload, size_t len)
{
    if (len >= 8)
        payload[6] = payload[7] = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    int dir_fd = state_folder();
    state_folder_put(dir_fd, "maildir", bytes, len, tame);
    uint32_t uidvalidity = open_memory(dir_fd);
    FUZZ_CHECK(open_memory(dir_fd) == uidvalidity);
    return 0;
}
