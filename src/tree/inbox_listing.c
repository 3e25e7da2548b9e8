/* SPDX-License-Identifier: MIT */
/*
 * The inbox's own files come first. The position behind an email is twice the store's, less one where its
 * folder is still to come: a listing may stop between the two.
 */
#include "tree/inbox_listing.h"

#include <limits.h>

#include "tree/content_node.h"
#include "tree/entry.h"
#include "tree/held_folder.h"
#include "tree/tree_state.h"

enum {
    POSITION_RECORD, /* inbox.json */
    POSITION_INDEX,  /* index.jsonl */
    POSITION_HELD,   /* .invalid */
    POSITION_EMAILS,
    EMAILS_AT_ONCE = 64,
};

struct listing {
    struct tree *tree;
    uint32_t inbox;
    uint64_t base;
    tree_dir_sink sink;
    void *context;
};

/* False: no room. */
static bool put(const struct listing *listing, const char *name, const struct tree_entry *entry,
                uint64_t next)
{
    return listing->sink(listing->context, name, entry, listing->base + next);
}

/* An entry of an email, by its name alone where the listing has given away attributes enough. */
static bool put_of_email(const struct listing *listing, const char *name, struct tree_entry *entry,
                         uint64_t next)
{
    if (next > POSITION_EMAILS + 2 * LISTED_WITH_ATTRIBUTES &&
        !attribute_demand_is_seen(&listing->tree->demand, listing->inbox))
        entry->ino = 0;
    return put(listing, name, entry, next);
}

static bool put_record(const struct listing *listing, const struct email_view *view, uint64_t next)
{
    struct tree_entry entry;
    entry_of_email(listing->tree, view, &entry);
    return put_of_email(listing, view->name, &entry, next);
}

static bool put_folder(const struct listing *listing, const struct email_view *view, uint64_t next)
{
    struct tree_entry entry;
    char name[NAME_MAX + 1];
    content_folder_name(view, name, sizeof(name));
    content_entry_of_folder(listing->tree, view, &entry);
    return put_of_email(listing, name, &entry, next);
}

/* The folder of the email before this position of the store, which may have gone meanwhile. */
static bool put_folder_before(const struct listing *listing, uint64_t position)
{
    struct email_view view;
    uint64_t next;
    if (store_list_emails(listing->tree->store, listing->inbox, position - 1, &view, &next, 1) == 0 ||
        next != position)
        return true;
    return put_folder(listing, &view, POSITION_EMAILS + 2 * position);
}

static void put_emails(const struct listing *listing, uint64_t position)
{
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    struct store *store = listing->tree->store;
    bool has_folders = store_has_content(store);
    size_t count;
    if (position % 2 == 1 && !put_folder_before(listing, (position + 1) / 2))
        return;
    position = (position + 1) / 2;
    while ((count = store_list_emails(store, listing->inbox, position, views, next, EMAILS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count; i++) {
            uint64_t behind = POSITION_EMAILS + 2 * next[i];
            if (!put_record(listing, &views[i], has_folders ? behind - 1 : behind) ||
                (has_folders && !put_folder(listing, &views[i], behind)))
                return;
        }
        position = next[count - 1];
    }
}

/* The entry at a position before POSITION_EMAILS. NULL: there is none. */
static const char *own_file(struct tree *tree, const struct inbox_view *view, uint64_t position,
                            struct tree_entry *ret)
{
    switch (position) {
    case POSITION_RECORD:
        entry_of_inbox_record(tree, view, ret);
        return inbox_record_name;
    case POSITION_INDEX:
        entry_of_inbox_index(tree, view, ret);
        return inbox_index_name;
    default:
        return held_folder_get(tree, view->number, ret) ? held_folder_name : NULL;
    }
}

void inbox_list(struct tree *tree, uint32_t inbox, uint64_t position, uint64_t base, tree_dir_sink sink,
                void *context)
{
    const struct listing listing = {tree, inbox, base, sink, context};
    struct inbox_view view;
    struct tree_entry entry;
    if (position < POSITION_EMAILS && !store_get_inbox(tree->store, inbox, &view))
        return;
    for (; position < POSITION_EMAILS; position++) {
        const char *name = own_file(tree, &view, position, &entry);
        if (name != NULL && !put(&listing, name, &entry, position + 1))
            return;
    }
    put_emails(&listing, position - POSITION_EMAILS);
}

void inbox_list_held(struct tree *tree, uint32_t inbox, uint64_t position, uint64_t base, tree_dir_sink sink,
                     void *context)
{
    const struct listing listing = {tree, inbox, base, sink, context};
    struct tree_entry entry;
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    size_t count;
    while ((count = store_list_held(tree->store, inbox, position, views, next, EMAILS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count; i++) {
            entry_of_email(tree, &views[i], &entry);
            if (!put(&listing, views[i].name, &entry, next[i]))
                return;
        }
        position = next[count - 1];
    }
}
