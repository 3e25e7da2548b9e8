/* SPDX-License-Identifier: MIT */
/*
 * Listings below maildir/, from memory: a message whose size is not known is given by its name alone.
 */
#include "store/store_content.h"
#include "tree/entry.h"
#include "tree/maildir.h"
#include "tree/tree_state.h"

enum {
    EMAILS_AT_ONCE = 64,
    FETCHED_FIRST = 32,
};

/* Nothing to be looked for, in a box that may be long: `new` usually is so. */
static bool is_empty(struct tree *tree, uint32_t inbox, enum maildir_folder folder)
{
    struct maildir_state state;
    return !maildir_memory_get_state(tree->maildir.memory, inbox, &state) || state.present[folder] == 0;
}

/* Who lists a folder is going to look at what is in it: the first ones are on their way then, and the store
 * goes on ahead of whoever reads one after the other. */
static void fetch_first(struct tree *tree, uint32_t inbox, enum maildir_folder folder)
{
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    uint32_t wanted[FETCHED_FIRST];
    struct maildir_mail mail;
    size_t len = 0;
    uint64_t position = 0;
    size_t count;
    if (is_empty(tree, inbox, folder))
        return;
    while (len < FETCHED_FIRST &&
           (count = store_list_emails(tree->store, inbox, position, views, next, EMAILS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count && len < FETCHED_FIRST; i++)
            if (maildir_memory_find_email(tree->maildir.memory, inbox, views[i].number, &mail) &&
                mail.folder == folder && mail.size < 0)
                wanted[len++] = views[i].number;
        position = next[count - 1];
    }
    store_prefetch_raw(tree->store, wanted, len);
}

int maildir_open_dir(struct tree *tree, uint64_t folder, struct maildir_names *ret_local)
{
    uint32_t inbox = maildir_inbox(folder);
    int error = inode_kind(folder) == INODE_MAILDIR ? maildir_refresh(tree, inbox) : 0;
    if (error == 0 && maildir_holds_messages(folder))
        fetch_first(tree, inbox, maildir_node(folder) == MAILDIR_NODE_CUR ? MAILDIR_CUR : MAILDIR_NEW);
    return error != 0 ? error : maildir_list_local(tree, folder, ret_local);
}

/* Where entries go. Positions count from 0, with `base` added for the outside. */
struct output {
    tree_dir_sink sink;
    void *context;
    uint64_t base;
};

static bool put(const struct output *out, const char *name, const struct tree_entry *entry, uint64_t next)
{
    return out->sink(out->context, name, entry, out->base + next);
}

static bool put_name(const struct output *out, const char *name, uint64_t shown_ino, mode_t mode,
                     uint64_t next)
{
    const struct tree_entry entry = {.attributes.stat = {.st_ino = shown_ino, .st_mode = mode}};
    return put(out, name, &entry, next);
}

static bool put_local(const struct maildir_names *local, uint64_t *position, const struct output *out)
{
    for (; *position < local->len; ++*position) {
        const struct maildir_local *item = &local->items[*position];
        if (!put_name(out, item->name, item->shown_ino, item->type, *position + 1))
            return false;
    }
    return true;
}

/* Programs' own files first: how many there are does not change while this is listed. */
static void read_root(struct tree *tree, const struct maildir_names *local, uint64_t position,
                      const struct output *out)
{
    struct inbox_view view;
    struct tree_entry entry;
    uint64_t next;
    if (!put_local(local, &position, out))
        return;
    position -= local->len;
    while (store_list_inboxes(tree->store, position, &view, &next, 1) == 1) {
        if (!maildir_get_entry(tree, maildir_ino(view.number, MAILDIR_NODE_BOX), &entry) ||
            put(out, view.name, &entry, local->len + next))
            position = next;
        else
            return;
    }
}

/* The folders by name alone: looking them up brings what is remembered of them up to date. .uidvalidity is
 * for those who know of it: notmuch(1) would take it for mail. */
static void read_box(uint32_t inbox, const struct maildir_names *local, uint64_t position,
                     const struct output *out)
{
    static const char *const names[] = {
        [MAILDIR_NODE_CUR] = "cur", [MAILDIR_NODE_NEW] = "new", [MAILDIR_NODE_TMP] = "tmp"};
    if (!put_local(local, &position, out))
        return;
    for (uint64_t i = position - local->len + MAILDIR_NODE_CUR; i <= MAILDIR_NODE_TMP; i++)
        if (!put_name(out, names[i], maildir_ino(inbox, (enum maildir_node)i), S_IFDIR,
                      i + 1 - MAILDIR_NODE_CUR + local->len))
            return;
}

static void read_messages(struct tree *tree, uint32_t inbox, enum maildir_folder folder, uint64_t position,
                          const struct output *out)
{
    struct email_view views[EMAILS_AT_ONCE];
    uint64_t next[EMAILS_AT_ONCE];
    char name[MAILDIR_NAME_SIZE];
    struct tree_entry entry;
    size_t count;
    if (is_empty(tree, inbox, folder))
        return;
    while ((count = store_list_emails(tree->store, inbox, position, views, next, EMAILS_AT_ONCE)) > 0) {
        for (size_t i = 0; i < count; i++)
            if (maildir_get_message(tree, &views[i], folder, name, &entry) &&
                !put(out, name, &entry, next[i]))
                return;
        position = next[count - 1];
    }
}

int maildir_read_dir(struct tree *tree, uint64_t folder, const struct maildir_names *local, uint64_t position,
                     tree_dir_sink sink, void *context, uint64_t base)
{
    const struct output out = {.sink = sink, .context = context, .base = base};
    if (inode_kind(folder) != INODE_MAILDIR) {
        read_root(tree, local, position, &out);
        return 0;
    }
    uint32_t inbox = maildir_inbox(folder);
    switch (maildir_node(folder)) {
    case MAILDIR_NODE_BOX:
        read_box(inbox, local, position, &out);
        break;
    case MAILDIR_NODE_CUR:
        read_messages(tree, inbox, MAILDIR_CUR, position, &out);
        break;
    case MAILDIR_NODE_NEW:
        read_messages(tree, inbox, MAILDIR_NEW, position, &out);
        break;
    default:
        break;
    }
    return 0;
}
