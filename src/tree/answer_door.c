/* SPDX-License-Identifier: MIT */
/*
 * Doors, and what an answer through one is made of.
 */
#include "tree/answer_door.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/store_content.h"
#include "tree/content_node.h"
#include "tree/entry.h"
#include "tree/inode.h"
#include "tree/tree_state.h"

enum {
    KIND_BITS = 2,
    INBOXES_AT_ONCE = 64,
};

static const char *const names[] = {
    [REPLY_SENDER] = "reply",
    [REPLY_ALL] = "reply-all",
    [REPLY_FORWARD] = "forward",
};

/* ---------------------------------------------------------------- doors */

struct answer_door answer_door_of(uint64_t ino)
{
    uint64_t number = inode_number(ino);
    return (struct answer_door){
        .email = (uint32_t)(number >> KIND_BITS),
        .kind = (enum reply_kind)(number & ((1U << KIND_BITS) - 1)),
    };
}

bool answer_door_find(struct tree *tree, uint64_t parent, const char *name, struct answer_door *ret)
{
    if (inode_kind(parent) != INODE_CONTENT)
        return false;
    struct content_node folder = content_node_of(parent);
    if (folder.kind != CONTENT_NODE_FOLDER || !store_has_content(tree->store))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0) {
            *ret = (struct answer_door){.email = folder.email, .kind = (enum reply_kind)i};
            return true;
        }
    return false;
}

bool answer_door_get(struct tree *tree, const struct answer_door *door, struct tree_entry *ret)
{
    struct email_view view;
    if (!store_get_email(tree->store, door->email, &view))
        return false;
    uint64_t ino = inode_make(INODE_ANSWER, (uint64_t)door->email << KIND_BITS | door->kind);
    entry_of_content(tree, ino, S_IFREG | 0200, 0, view.date_ms, ret);
    ret->is_name_lasting = false; /* a rename onto it leaves the name with another inode in the kernel */
    ret->attributes.is_lasting = false;
    return true;
}

int answer_door_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name,
                       struct tree_entry *ret)
{
    struct answer_door door;
    if (!answer_door_find(tree, parent, name, &door))
        return -ENOENT;
    if (caller != NULL &&
        removed_names_find(&tree->removed, parent, name, caller->pid, clock_monotonic_ms(tree->clock), ret))
        return -ENOENT;
    return answer_door_get(tree, &door, ret) ? 0 : -ENOENT;
}

int answer_door_unlink(struct tree *tree, const struct tree_caller *caller, uint64_t parent, const char *name)
{
    struct tree_entry entry;
    int error = answer_door_lookup(tree, caller, parent, name, &entry);
    if (error == 0)
        removed_names_add(&tree->removed, parent, name, caller->pid, clock_monotonic_ms(tree->clock), &entry);
    return error;
}

/* ---------------------------------------------------------------- what an answer is made of */

struct addresses {
    char **items;
    size_t len;
};

static void addresses_release(struct addresses *addresses)
{
    for (size_t i = 0; i < addresses->len; i++)
        free(addresses->items[i]);
    free(addresses->items);
}

static int add_address(struct addresses *addresses, const char *address)
{
    if (address == NULL)
        return 0;
    char **items = realloc(addresses->items, (addresses->len + 1) * sizeof(*items));
    if (items == NULL)
        return -ENOMEM;
    addresses->items = items;
    items[addresses->len] = strdup(address);
    return items[addresses->len] != NULL ? (addresses->len++, 0) : -ENOMEM;
}

static int collect_own(struct tree *tree, struct addresses *addresses)
{
    struct inbox_view views[INBOXES_AT_ONCE];
    uint64_t positions[INBOXES_AT_ONCE];
    uint64_t position = 0;
    int error = 0;
    size_t count;
    do {
        count = store_list_inboxes(tree->store, position, views, positions, INBOXES_AT_ONCE);
        for (size_t i = 0; i < count && error == 0; i++)
            error = add_address(addresses, views[i].address);
        if (count > 0)
            position = positions[count - 1];
    } while (count > 0 && error == 0);
    return error;
}

static int read_head(struct tree *tree, const struct tree_caller *caller, uint32_t email,
                     struct email_content *ret_head)
{
    struct store_content *content;
    int error = store_content_get(tree->store, email, caller->cancel, &content);
    if (error != 0)
        return error;
    error = store_content_read_head(content, ret_head);
    store_content_unref(tree->store, content);
    return error;
}

int answer_door_prepare(struct tree *tree, const struct tree_caller *caller, const struct answer_door *door,
                        char **ret_answers, char **ret_name)
{
    _cleanup_(addresses_release) struct addresses own = {0};
    _cleanup_email_content_ struct email_content head = {0};
    struct email_view view;
    struct inbox_view inbox;
    const char *id = store_get_email_id(tree->store, door->email);
    if (id == NULL || !store_get_email(tree->store, door->email, &view) ||
        !store_get_inbox(tree->store, view.inbox, &inbox))
        return -ENOENT;
    int error = read_head(tree, caller, door->email, &head);
    error = error != 0 ? error : collect_own(tree, &own);
    if (error != 0)
        return error;

    const struct reply_original original = {
        .email_id = id,
        .inbox_address = inbox.address,
        .head = &head,
        .own_addresses = (const char *const *)own.items,
        .own_addresses_len = own.len,
    };
    _cleanup_free_ char *answers = NULL;
    error = reply_make(door->kind, &original, &answers);
    if (error != 0)
        return error;
    *ret_name = reply_file_name(answers);
    if (*ret_name == NULL)
        return -ENOMEM;
    *ret_answers = TAKE_PTR(answers);
    return 0;
}
