/* SPDX-License-Identifier: MIT */
/*
 * What is held back, and marks.
 */
#include "tree/held_folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "tree/entry.h"
#include "tree/inode.h"
#include "tree/tree_state.h"

const char held_folder_name[] = ".invalid";

bool held_folder_get(struct tree *tree, uint32_t inbox, struct tree_entry *ret)
{
    struct inbox_view view;
    if (!store_shows_held(tree->store) || !store_get_inbox(tree->store, inbox, &view))
        return false;
    entry_of_inbox(tree, &view, ret);
    ret->ino = inode_make(INODE_HELD, inbox);
    ret->attributes.stat.st_ino = ret->ino;
    return true;
}

int held_folder_lookup(struct tree *tree, uint32_t inbox, const char *name, struct tree_entry *ret)
{
    struct email_view view;
    if (!store_find_held(tree->store, inbox, name, &view))
        return -ENOENT;
    entry_of_email(tree, &view, ret);
    return 0;
}

bool held_folder_is_move(uint64_t parent, uint64_t new_parent)
{
    bool out = inode_kind(parent) == INODE_HELD && inode_kind(new_parent) == INODE_INBOX;
    bool in = inode_kind(parent) == INODE_INBOX && inode_kind(new_parent) == INODE_HELD;
    return (in || out) && inode_number(parent) == inode_number(new_parent);
}

int held_folder_move(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                     uint64_t new_parent, const char *new_name, unsigned int flags)
{
    _cleanup_free_ char *reason = NULL;
    struct email_view view;
    uint32_t inbox = (uint32_t)inode_number(parent);
    bool is_valid = inode_kind(new_parent) == INODE_INBOX;
    if ((flags & ~(unsigned int)RENAME_NOREPLACE) != 0)
        return -EINVAL;
    /* The names of an inbox's own files are nobody's mail. */
    bool is_there = is_valid ? store_find_held(tree->store, inbox, name, &view)
                             : store_find_email(tree->store, inbox, name, &view);
    if (!is_there || strcmp(name, new_name) != 0)
        return -EPERM;
    return store_mark_email(tree->store, view.number, is_valid, caller->cancel, &reason);
}
