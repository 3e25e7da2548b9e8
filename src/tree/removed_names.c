/* SPDX-License-Identifier: MIT */
/*
 * A ring of removed names: a search compares them all, because they are few.
 */
#include "tree/removed_names.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"

void removed_names_init(struct removed_names *names, struct clock *clock)
{
    *names = (struct removed_names){.clock = clock};
    pthread_mutex_init(&names->lock, NULL);
}

void removed_names_release(struct removed_names *names)
{
    pthread_mutex_destroy(&names->lock);
}

void removed_names_add(struct removed_names *names, pid_t pid, uint64_t folder_ino, const char *name,
                       const struct tree_entry *entry)
{
    if (pid <= 0 || strlen(name) > NAME_MAX)
        return;
    LOCK_GUARD(&names->lock);
    struct removed_name *removed = &names->ring[names->next];
    names->next = (names->next + 1) % REMOVED_NAMES_MAX;
    *removed = (struct removed_name){.folder_ino = folder_ino,
                                     .pid = pid,
                                     .until_ms = clock_monotonic_ms(names->clock) + REMOVED_NAMES_MS,
                                     .entry = *entry};
    snprintf(removed->name, sizeof(removed->name), "%s", name);
}

bool removed_names_find(struct removed_names *names, pid_t pid, uint64_t folder_ino, const char *name,
                        struct tree_entry *ret_entry)
{
    int64_t now_ms = clock_monotonic_ms(names->clock);
    LOCK_GUARD(&names->lock);
    for (size_t i = 0; i < REMOVED_NAMES_MAX; i++) {
        const struct removed_name *removed = &names->ring[i];
        if (removed->folder_ino == folder_ino && removed->pid == pid && removed->until_ms > now_ms &&
            strcmp(removed->name, name) == 0) {
            *ret_entry = removed->entry;
            return true;
        }
    }
    return false;
}

void removed_names_forget(struct removed_names *names, pid_t pid, uint64_t ino)
{
    LOCK_GUARD(&names->lock);
    for (size_t i = 0; i < REMOVED_NAMES_MAX; i++)
        if (names->ring[i].pid == pid && names->ring[i].entry.ino == ino)
            names->ring[i].folder_ino = 0;
}
