/* SPDX-License-Identifier: MIT */
/*
 * Listings. Positions 0 and 1 are "." and ".."; what follows depends on the folder: an index, a position of
 * the store, or, in drafts/, what the filesystem there uses.
 */
#include "tree/tree.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tree/email_folder.h"
#include "tree/entry.h"
#include "tree/inboxes.h"
#include "tree/inode.h"
#include "tree/items.h"
#include "tree/maildir.h"
#include "tree/search.h"
#include "tree/tree_state.h"

enum {
    POSITION_SELF,
    POSITION_PARENT,
    POSITION_FIRST,
};

/* Where entries go, and whether more fit. */
struct output {
    tree_dir_sink sink;
    void *context;
};

typedef int (*dir_reader)(struct tree_dir *dir, uint64_t position, const struct output *out);

struct tree_dir {
    struct tree *tree;
    uint64_t ino;
    dir_reader read;
    struct outbox_listing listing; /* of an outbox folder, since it was read from the start */
    struct map listed_ids;         /* of sent/: keys are the listing's */
    DIR *draft;                    /* of a folder in drafts/ */
    struct maildir_names local;    /* of a folder in maildir/ */
    struct store_content *content; /* of the folder of an email */
    struct search_names *found;    /* of search/ or a folder in it */
    struct tree_link link;         /* in the tree's list of open listings */
};

static bool put(const struct output *out, const char *name, const struct tree_entry *entry, uint64_t next)
{
    return out->sink(out->context, name, entry, next);
}

/* An entry of which the kernel is told name, number and type alone. */
static bool put_name(const struct output *out, const char *name, uint64_t shown_ino, mode_t mode,
                     uint64_t next)
{
    const struct tree_entry entry = {.attributes.stat = {.st_ino = shown_ino, .st_mode = mode}};
    return put(out, name, &entry, next);
}

static uint64_t parent_ino(const struct tree_dir *dir)
{
    uint64_t ino = dir->ino;
    if (inode_kind(ino) == INODE_MAILDIR && maildir_node(ino) != MAILDIR_NODE_BOX)
        return maildir_ino(maildir_inbox(ino), MAILDIR_NODE_BOX);
    if (inode_kind(ino) == INODE_MAILDIR)
        return inode_make(INODE_FIXED, FIXED_MAILDIR);
    if (inode_kind(ino) == INODE_CONTENT)
        return content_parent_ino(dir->tree, ino);
    if (inode_kind(ino) == INODE_SEARCH)
        return inode_make(INODE_FIXED, FIXED_SEARCH);
    if (inode_kind(ino) == INODE_HELD)
        return inode_make(INODE_INBOX, inode_number(ino));
    if (inode_kind(ino) == INODE_DELAYED)
        return inode_make(INODE_FIXED, fixed_of_outbox_folder((enum outbox_folder)inode_number(ino)));
    return inode_kind(ino) == INODE_INBOX ? inode_make(INODE_FIXED, FIXED_INBOXES) : TREE_ROOT_INO;
}

/* False: no room. */
static bool put_dots(const struct tree_dir *dir, uint64_t *position, const struct output *out)
{
    if (*position == POSITION_SELF) {
        if (!put_name(out, ".", dir->ino, S_IFDIR, POSITION_PARENT))
            return false;
        *position = POSITION_PARENT;
    }
    if (*position == POSITION_PARENT) {
        if (!put_name(out, "..", parent_ino(dir), S_IFDIR, POSITION_FIRST))
            return false;
        *position = POSITION_FIRST;
    }
    return true;
}

static int read_root(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    struct tree_entry entry;
    if (!put_dots(dir, &position, out))
        return 0;
    for (uint64_t i = position - POSITION_FIRST + FIXED_ROOT + 1; i < FIXED_NODES; i++) {
        const struct fixed_entry *fixed = fixed_get((enum fixed_node)i);
        if (fixed->is_hidden || (i == FIXED_MAILDIR && !maildir_is_shown(dir->tree)))
            continue;
        entry_of_fixed(dir->tree, (enum fixed_node)i, &entry);
        if (!put(out, fixed->name, &entry, i - FIXED_ROOT + POSITION_FIRST))
            break;
    }
    return 0;
}

static int read_inboxes(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    struct inbox_view view;
    struct tree_entry entry;
    uint64_t next;
    if (!put_dots(dir, &position, out))
        return 0;
    position -= POSITION_FIRST;
    while (store_list_inboxes(dir->tree->store, position, &view, &next, 1) == 1) {
        entry_of_inbox(dir->tree, &view, &entry);
        if (!put(out, view.name, &entry, next + POSITION_FIRST))
            break;
        position = next;
    }
    return 0;
}

static int read_inbox(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    if (put_dots(dir, &position, out))
        inbox_list(dir->tree, (uint32_t)inode_number(dir->ino), position - POSITION_FIRST, POSITION_FIRST,
                   out->sink, out->context);
    return 0;
}

static int read_held(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    if (put_dots(dir, &position, out))
        inbox_list_held(dir->tree, (uint32_t)inode_number(dir->ino), position - POSITION_FIRST,
                        POSITION_FIRST, out->sink, out->context);
    return 0;
}

static int read_nothing(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    put_dots(dir, &position, out);
    return 0;
}

/* Behind what went out from here. */
static void put_sent_elsewhere(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    struct tree_entry entry;
    const char *name;
    uint64_t first = POSITION_FIRST + dir->listing.len;
    uint64_t at = position > first ? position - first : 0;
    while (sent_folder_next(dir->tree, &dir->listed_ids, &at, &name, &entry))
        if (!put_name(out, name, entry.ino, S_IFREG, at + first))
            return;
}

/* Names alone: the kernel asks for each anyway, since nothing of these folders is cached. */
static int read_items(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    struct tree_entry entry;
    /* The kernel may come in the middle first: when what it had cached of the listing is gone. */
    if (position == POSITION_SELF || dir->listing.entries == NULL) {
        enum outbox_folder folder = OUTBOX_FOLDER_OUTBOX;
        fixed_is_outbox_folder((enum fixed_node)inode_number(dir->ino), &folder);
        map_release(&dir->listed_ids);
        outbox_listing_release(&dir->listing);
        dir->listing = (struct outbox_listing){.len = 0};
        int error = outbox_list(dir->tree->outbox, folder, &dir->listing);
        if (error == 0 && folder == OUTBOX_FOLDER_SENT)
            error = sent_folder_map_ids(&dir->listing, &dir->listed_ids);
        if (error != 0)
            return error;
    }
    if (!put_dots(dir, &position, out))
        return 0;
    for (uint64_t i = position - POSITION_FIRST; i < dir->listing.len; i++) {
        const struct outbox_entry *item = &dir->listing.entries[i];
        entry_of_item(dir->tree, &item->stat, item->stat.folder, &entry);
        if (!put_name(out, item->name, entry.ino, S_IFREG, i + 1 + POSITION_FIRST))
            return 0;
    }
    if (dir->ino == inode_make(INODE_FIXED, FIXED_SENT))
        put_sent_elsewhere(dir, position, out);
    return 0;
}

static int read_maildir(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    if (!put_dots(dir, &position, out))
        return 0;
    return maildir_read_dir(dir->tree, dir->ino, &dir->local, position - POSITION_FIRST, out->sink,
                            out->context, POSITION_FIRST);
}

static int read_content(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    if (put_dots(dir, &position, out))
        content_list(dir->tree, dir->ino, dir->content, position - POSITION_FIRST, POSITION_FIRST, out->sink,
                     out->context);
    return 0;
}

/* Names alone: nothing of these folders is cached, either. */
static int read_found(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    bool is_query = inode_kind(dir->ino) == INODE_SEARCH;
    mode_t mode = is_query ? S_IFLNK : S_IFDIR;
    uint64_t first = POSITION_FIRST;
    if (!put_dots(dir, &position, out))
        return 0;
    if (is_query && position == first++) {
        uint64_t ino = inode_make(INODE_SEARCH_NOTE, inode_number(dir->ino));
        if (!put_name(out, search_note_name, ino, S_IFREG, ++position))
            return 0;
    }
    for (uint64_t i = position - first; i < search_names_len(dir->found); i++) {
        const struct search_name *item = search_names_get(dir->found, i);
        if (!put_name(out, item->name, item->ino, mode, i + 1 + first))
            break;
    }
    return 0;
}

static uint64_t shown_ino(const struct tree_dir *dir, const struct dirent *item)
{
    bool is_root = dir->ino == inode_make(INODE_FIXED, FIXED_DRAFTS);
    if (is_root && strcmp(item->d_name, ".") == 0)
        return dir->ino;
    if (is_root && strcmp(item->d_name, "..") == 0)
        return TREE_ROOT_INO;
    return entry_shown_draft_ino(item->d_ino);
}

static int read_drafts(struct tree_dir *dir, uint64_t position, const struct output *out)
{
    const struct dirent *item;
    if (position == 0)
        rewinddir(dir->draft);
    else
        seekdir(dir->draft, (long)position);
    errno = 0;
    while ((item = readdir(dir->draft)) != NULL)
        if (!put_name(out, item->d_name, shown_ino(dir, item), DTTOIF(item->d_type), (uint64_t)item->d_off))
            return 0;
    return -errno;
}

static int open_draft_folder(struct tree *tree, struct draft_node *node, DIR **ret_dir)
{
    int fd = draft_node_open_folder(&tree->drafts, node);
    if (fd < 0)
        return fd;
    *ret_dir = fdopendir(fd);
    if (*ret_dir != NULL)
        return 0;
    close(fd);
    return -ENOMEM;
}

/* For every folder outside drafts/; NULL: it is none. */
static dir_reader find_reader(uint64_t ino)
{
    enum fixed_node node = (enum fixed_node)inode_number(ino);
    if (maildir_is_folder(ino))
        return read_maildir;
    if (inode_kind(ino) == INODE_INBOX)
        return read_inbox;
    if (inode_kind(ino) == INODE_CONTENT)
        return read_content;
    if (inode_kind(ino) == INODE_HELD)
        return read_held;
    if (inode_kind(ino) == INODE_SEARCH)
        return read_found;
    if (inode_kind(ino) == INODE_DELAYED)
        return read_nothing;
    if (inode_kind(ino) != INODE_FIXED)
        return NULL;
    if (node == FIXED_SEARCH)
        return read_found;
    if (node == FIXED_ROOT)
        return read_root;
    if (node == FIXED_INBOXES)
        return read_inboxes;
    return fixed_is_outbox_folder(node, NULL) ? read_items : NULL;
}

static bool is_search(uint64_t ino)
{
    return inode_kind(ino) == INODE_SEARCH || ino == inode_make(INODE_FIXED, FIXED_SEARCH);
}

int tree_open_dir(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                  struct tree_dir **ret_dir)
{
    struct draft_node *draft = draft_table_get(&tree->drafts, ino);
    struct tree_dir opened = {
        .tree = tree, .ino = ino, .read = draft != NULL ? read_drafts : find_reader(ino)};
    if (opened.read == NULL)
        return -ENOTDIR;

    _cleanup_free_ struct tree_dir *dir = malloc(sizeof(*dir));
    if (dir == NULL)
        return -ENOMEM;
    int error = 0;
    if (draft != NULL)
        error = open_draft_folder(tree, draft, &opened.draft);
    else if (maildir_is_folder(ino))
        error = maildir_open_dir(tree, ino, &opened.local);
    else if (opened.read == read_content)
        error = content_open_dir(tree, caller, ino, &opened.content);
    else if (is_search(ino))
        error = search_folder_list(tree, caller, ino, &opened.found);
    if (error != 0)
        return error;
    *dir = opened;
    tree_link_add(tree, &tree->open_dirs, &dir->link);
    *ret_dir = TAKE_PTR(dir);
    return 0;
}

bool tree_open_dir_may_wait(struct tree *tree, uint64_t ino)
{
    if (inode_kind(ino) == INODE_CONTENT || inode_kind(ino) == INODE_MAILDIR)
        return true;
    return inode_kind(ino) == INODE_SEARCH && !search_query_is_fresh(tree, ino);
}

void tree_release_dir(struct tree_dir *dir)
{
    tree_link_remove(dir->tree, &dir->link);
    if (dir->draft != NULL)
        closedir(dir->draft);
    map_release(&dir->listed_ids);
    outbox_listing_release(&dir->listing);
    maildir_names_release(&dir->local);
    store_content_unref(dir->tree->store, dir->content);
    search_names_unref(dir->found);
    free(dir);
}

void directory_abandon_all(struct tree *tree)
{
    while (tree->open_dirs.next != &tree->open_dirs) {
        char *link = (char *)tree->open_dirs.next;
        tree_release_dir((struct tree_dir *)(void *)(link - offsetof(struct tree_dir, link)));
    }
}

bool tree_dir_is_lasting(const struct tree_dir *dir)
{
    enum outbox_folder folder;
    if (inode_kind(dir->ino) == INODE_INBOX || inode_kind(dir->ino) == INODE_HELD)
        return true;
    /* Which emails of the thread are in the mount may change. */
    if (inode_kind(dir->ino) == INODE_CONTENT)
        return content_node_of(dir->ino).kind != CONTENT_NODE_THREAD;
    if (inode_kind(dir->ino) != INODE_FIXED || dir->draft != NULL || maildir_is_folder(dir->ino))
        return false;
    if (fixed_is_outbox_folder((enum fixed_node)inode_number(dir->ino), &folder))
        return folder == OUTBOX_FOLDER_SENT || folder == OUTBOX_FOLDER_FAILED;
    if (is_search(dir->ino))
        return false;
    return true;
}

int tree_read_dir(struct tree_dir *dir, uint64_t position, tree_dir_sink sink, void *context)
{
    const struct output out = {.sink = sink, .context = context};
    return dir->read(dir, position, &out);
}
