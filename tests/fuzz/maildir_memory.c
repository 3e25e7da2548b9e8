/* SPDX-License-Identifier: MIT */
/*
 * The Maildir memory over a database of any origin: the database is refused, or an inbox can be added, and
 * has the same uidvalidity when the database is opened again.
 */
#include "store/maildir_memory.h"

#include "base/clock.h"
#include "fuzz/state_folder.h"

/* Returns the uidvalidity of an inbox, or 0 if the database is refused. */
static uint32_t open_memory(int dir_fd)
{
    struct maildir_memory *memory = maildir_memory_open(dir_fd, clock_system());
    struct maildir_state state = {.uid_max = 0};
    if (maildir_memory_add_inbox(memory, 0, "in-1") == 0)
        FUZZ_CHECK(maildir_memory_get_state(memory, 0, &state) && state.uidvalidity != 0);
    for (uint32_t uid = 0; uid <= 10; uid++) {
        struct maildir_mail mail;
        (void)maildir_memory_find_uid(memory, 0, uid, &mail);
    }
    maildir_memory_free(memory);
    return state.uidvalidity;
}

/* The first byte chooses whether the rest is a whole database or the damage to a valid one. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    int dir_fd = state_folder();
    if (len > 0 && bytes[0] % 2 == 0) {
        state_folder_put(dir_fd, "maildir.sqlite3", bytes + 1, len - 1);
    } else if (len > 0) {
        FUZZ_CHECK(open_memory(dir_fd) != 0);
        state_folder_damage(dir_fd, "maildir.sqlite3", bytes + 1, len - 1);
    }
    uint32_t uidvalidity = open_memory(dir_fd);
    FUZZ_CHECK(open_memory(dir_fd) == uidvalidity);
    return 0;
}
