/* SPDX-License-Identifier: MIT */
/*
 * The table of what is always there.
 */
#include "tree/fixed.h"

#include <string.h>

static const struct fixed_entry entries[FIXED_NODES] = {
    [FIXED_ROOT] = {"", S_IFDIR | 0700, .is_lasting = true},
    [FIXED_README] = {"README", S_IFREG | 0444, .is_lasting = true},
    [FIXED_STATUS] = {"status.json", S_IFREG | 0444},
    [FIXED_EVENT_LOG] = {"events.jsonl", S_IFREG | 0444},
    [FIXED_INBOXES] = {"inboxes", S_IFDIR | 0700, .is_lasting = true},
    [FIXED_DRAFTS] = {"drafts", S_IFDIR | 0700},
    [FIXED_OUTBOX] = {"outbox", S_IFDIR | 0700},
    [FIXED_SENT] = {"sent", S_IFDIR | 0700},
    [FIXED_FAILED] = {"failed", S_IFDIR | 0700},
    [FIXED_ATTACHMENTS] = {"attachments", S_IFDIR | 0700},
    [FIXED_EVENTS] = {"events", S_IFREG | 0400, .is_hidden = true},
    [FIXED_CTL] = {"ctl", S_IFREG | 0200, .is_hidden = true},
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
