/* SPDX-License-Identifier: MIT */
/*
 * Names that were removed a moment ago. They are few, so a search compares each of them.
 */
#include "tree/removed_names.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"

void removed_names_init(struct removed_names *names)
{
    *names = (struct removed_names){.next = 0};
    pthread_mutex_init(&names->lock, NULL);
}

void removed_names_release(struct removed_names *names)
{
    pthread_mutex_destroy(&names->lock);
}

void removed_names_add(struct removed_names *names, uint64_t folder_ino, const char *name, pid_t pid,
                       int64_t now_ms, const struct tree_entry *entry)
{
    if (pid <= 0 || strlen(name) > NAME_MAX)
        return;
    LOCK_GUARD(&names->lock);
    struct removed_name *removed = &names->ring[names->next];
    names->next = (names->next + 1) % REMOVED_NAMES_MAX;
    *removed = (struct removed_name){
        .folder_ino = folder_ino, .pid = pid, .until_ms = now_ms + REMOVED_NAMES_MS, .entry = *entry};
    snprintf(removed->name, sizeof(removed->name), "%s", name);
}

static struct removed_name *find_locked(struct removed_names *names, uint64_t folder_ino, const char *name,
                                        pid_t pid, int64_t now_ms)
{
    for (size_t i = 0; i < REMOVED_NAMES_MAX; i++) {
        struct removed_name *removed = &names->ring[i];
        if (removed->folder_ino == folder_ino && removed->pid == pid && removed->until_ms > now_ms &&
            strcmp(removed->name, name) == 0)
            return removed;
    }
    return NULL;
}

bool removed_names_find(struct removed_names *names, uint64_t folder_ino, const char *name, pid_t pid,
                        int64_t now_ms, struct tree_entry *ret_entry)
{
    LOCK_GUARD(&names->lock);
    const struct removed_name *removed = find_locked(names, folder_ino, name, pid, now_ms);
    if (removed != NULL)
        *ret_entry = removed->entry;
    return removed != NULL;
}

bool removed_names_take(struct removed_names *names, uint64_t folder_ino, const char *name, pid_t pid,
                        int64_t now_ms)
{
    LOCK_GUARD(&names->lock);
    struct removed_name *removed = find_locked(names, folder_ino, name, pid, now_ms);
    if (removed != NULL)
        removed->folder_ino = 0;
    return removed != NULL;
}

void removed_names_forget(struct removed_names *names, uint64_t ino)
{
    LOCK_GUARD(&names->lock);
    for (size_t i = 0; i < REMOVED_NAMES_MAX; i++)
        if (names->ring[i].entry.ino == ino)
            names->ring[i].folder_ino = 0;
}
