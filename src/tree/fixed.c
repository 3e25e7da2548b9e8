/* SPDX-License-Identifier: MIT */
/*
 * The table of what is always there.
 */
#include "tree/fixed.h"

#include <string.h>

static const struct fixed_entry entries[FIXED_NODES] = {
    [FIXED_ROOT] = {.name = "", .mode = S_IFDIR | 0700, .is_lasting = true},
    [FIXED_README] = {.name = "README", .mode = S_IFREG | 0444, .is_lasting = true},
    [FIXED_STATUS] = {.name = "status.json", .mode = S_IFREG | 0444},
    [FIXED_EVENT_LOG] = {.name = "events.jsonl", .mode = S_IFREG | 0444},
    [FIXED_INBOXES] = {.name = "inboxes", .mode = S_IFDIR | 0700, .is_lasting = true},
    [FIXED_SEARCH] = {.name = "search", .mode = S_IFDIR | 0700},
    [FIXED_DRAFTS] = {.name = "drafts", .mode = S_IFDIR | 0700},
    [FIXED_OUTBOX] = {.name = "outbox", .mode = S_IFDIR | 0700},
    [FIXED_SENT] = {.name = "sent", .mode = S_IFDIR | 0700},
    [FIXED_FAILED] = {.name = "failed", .mode = S_IFDIR | 0700},
    [FIXED_ATTACHMENTS] = {.name = "attachments", .mode = S_IFDIR | 0700},
    [FIXED_MAILDIR] = {.name = "maildir", .mode = S_IFDIR | 0700, .is_lasting = true},
    [FIXED_EVENTS] = {.name = "events", .mode = S_IFREG | 0400, .is_hidden = true},
    [FIXED_CTL] = {.name = "ctl", .mode = S_IFREG | 0200, .is_hidden = true},
};

static const enum fixed_node folder_nodes[OUTBOX_FOLDERS] = {
    [OUTBOX_FOLDER_OUTBOX] = FIXED_OUTBOX,
    [OUTBOX_FOLDER_SENT] = FIXED_SENT,
    [OUTBOX_FOLDER_FAILED] = FIXED_FAILED,
    [OUTBOX_FOLDER_ATTACHMENTS] = FIXED_ATTACHMENTS,
};

const struct fixed_entry *fixed_get(enum fixed_node node)
{
    return &entries[node];
}

enum fixed_node fixed_find(const char *name)
{
    for (int i = FIXED_ROOT + 1; i < FIXED_NODES; i++)
        if (strcmp(entries[i].name, name) == 0)
            return (enum fixed_node)i;
    return FIXED_ROOT;
}

bool fixed_is_outbox_folder(enum fixed_node node, enum outbox_folder *ret)
{
    for (int i = 0; i < OUTBOX_FOLDERS; i++)
        if (folder_nodes[i] == node) {
            if (ret != NULL)
                *ret = (enum outbox_folder)i;
            return true;
        }
    return false;
}

enum fixed_node fixed_of_outbox_folder(enum outbox_folder folder)
{
    return folder_nodes[folder];
}
