/* SPDX-License-Identifier: MIT */
/*
 * The folder of an email, STEM/ beside STEM.json: the texts, attachments and raw message of the email, the
 * thread before it, and the reply files. The entries come from the email's content, so a lookup or listing in
 * the folder may wait for the service (store_content.h: errors, deadline). The folder itself is shown without
 * the content. An open file keeps its bytes even if the cache drops them.
 *
 * The content of an email never changes at the service, so all entries are lasting. The kernel is notified of
 * nothing here: a notification would wait for the folder's lock, which a waiting request holds. Content that
 * is fetched again, from another service or by another version of this program, may have other entries, so
 * each use of a node checks that its entry exists.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "store/store_content.h"
#include "tree/node.h"

enum {
    INDEX_BITS = 16,
    KIND_BITS = 3, /* enough for all of enum email_node_kind, and no more: it indexes node_kinds */
};

/* The number of a NODE_EMAIL_FOLDER inode consists of the email's number, one of these kinds, and the index
 * of an entry in the email's struct content_folder. */
enum email_node_kind {
    EMAIL_NODE_FOLDER,      /* STEM/ */
    EMAIL_NODE_MESSAGE,     /* message.eml */
    EMAIL_NODE_ATTACHMENTS, /* attachments/ */
    EMAIL_NODE_THREAD,      /* thread/ */
    EMAIL_NODE_TEXT,        /* body.txt and so on */
    EMAIL_NODE_ATTACHMENT,  /* a file in attachments/ */
    EMAIL_NODE_EARLIER,     /* in thread/: the text of an email that the mount lacks */
    EMAIL_NODE_LINK,        /* in thread/: a symbolic link to the text of an email in the mount */
};

struct email_node {
    uint32_t email;
    enum email_node_kind kind;
    uint16_t index; /* only for EMAIL_NODE_TEXT and the kinds after it */
};

static const struct {
    mode_t mode;
    enum content_kind content; /* kind of the content's entries; for a folder, of the entries in it */
    const char *name;          /* constant name in the email's folder, or NULL */
} node_kinds[] = {
    [EMAIL_NODE_FOLDER] = {S_IFDIR | 0700, CONTENT_TEXT, NULL},
    [EMAIL_NODE_MESSAGE] = {S_IFREG | 0444, 0, "message.eml"},
    [EMAIL_NODE_ATTACHMENTS] = {S_IFDIR | 0700, CONTENT_ATTACHMENT, "attachments"},
    [EMAIL_NODE_THREAD] = {S_IFDIR | 0700, CONTENT_PREVIOUS, "thread"},
    [EMAIL_NODE_TEXT] = {S_IFREG | 0444, CONTENT_TEXT, NULL},
    [EMAIL_NODE_ATTACHMENT] = {S_IFREG | 0444, CONTENT_ATTACHMENT, NULL},
    [EMAIL_NODE_EARLIER] = {S_IFREG | 0444, CONTENT_PREVIOUS, NULL},
    [EMAIL_NODE_LINK] = {S_IFLNK | 0777, CONTENT_PREVIOUS, NULL},
};

static uint64_t email_node_ino(const struct email_node *node)
{
    return node_ino(NODE_EMAIL_FOLDER,
                    ((uint64_t)node->email << KIND_BITS | node->kind) << INDEX_BITS | node->index);
}

/* `ino` must be of kind NODE_EMAIL_FOLDER. */
static struct email_node email_node_of(uint64_t ino)
{
    uint64_t number = node_number(ino);
    return (struct email_node){
        .email = (uint32_t)(number >> (KIND_BITS + INDEX_BITS)),
        .kind = (enum email_node_kind)(number >> INDEX_BITS & ((1U << KIND_BITS) - 1)),
        .index = (uint16_t)(number & ((1U << INDEX_BITS) - 1)),
    };
}

static bool is_folder(const struct email_node *node)
{
    return S_ISDIR(node_kinds[node->kind].mode);
}

static void fill(const struct tree *tree, const struct email_node *node, uint64_t size, int64_t date_ms,
                 struct tree_entry *ret)
{
    entry_fill(tree, email_node_ino(node), node_kinds[node->kind].mode, size, timespec_of_ms(date_ms),
               LASTING, ret);
}

void email_folder_fill(const struct tree *tree, const struct email_view *view, struct tree_entry *ret)
{
    const struct email_node node = {.email = view->number, .kind = EMAIL_NODE_FOLDER};
    fill(tree, &node, 0, view->date_ms, ret);
}

bool email_folder_find(struct tree *tree, uint32_t inbox, const char *name, struct tree_entry *ret)
{
    char record_name[NAME_MAX + 1];
    struct email_view view;
    if (!store_has_content(tree->store))
        return false;
    int len = snprintf(record_name, sizeof(record_name), "%s.json", name);
    if (len < 0 || (size_t)len >= sizeof(record_name) ||
        !store_find_email(tree->store, inbox, false, record_name, &view))
        return false;
    email_folder_fill(tree, &view, ret);
    return true;
}

/* ---------------------------------------------------------------- entries */

static void cleanup_content(struct store_content **content)
{
    store_content_unref(*content);
}

/* Finds the email of an entry in thread/. Returns false if the mount lacks it, or it is this email itself. */
static bool find_earlier(struct tree *tree, const struct store_content *content,
                         const struct content_entry *entry, struct email_view *ret)
{
    struct email_view self;
    return entry->id[0] != '\0' && store_get_email(tree->store, content->email, &self) &&
           store_find_email_by_id(tree->store, self.inbox, entry->id, ret) && ret->number != content->email;
}

/* Returns the name of the text to which a link in thread/ leads. A link to the folder of the email would lead
 * to another thread/, and a program that follows links would read an email once for each path to it: the
 * number of paths doubles with each email. */
static const char *linked_text(const struct content_entry *entry)
{
    const char *suffix = strrchr(entry->name, '.');
    return suffix != NULL && strcmp(suffix, ".md") == 0 ? "prompt.md" : "body.txt";
}

/* Return: 0; -ENOENT when the mount lacks the email; -ENAMETOOLONG. */
static int write_target(struct tree *tree, const struct store_content *content,
                        const struct content_entry *entry, char *ret_target, size_t size)
{
    char name[NAME_MAX + 1];
    struct email_view self;
    struct email_view other;
    struct inbox_view inbox;
    if (!find_earlier(tree, content, entry, &other) || !store_get_email(tree->store, content->email, &self) ||
        !store_get_inbox(tree->store, other.inbox, &inbox))
        return -ENOENT;
    node_email_folder_name(&other, name, sizeof(name));
    int len = self.inbox == other.inbox
                  ? snprintf(ret_target, size, "../../%s/%s", name, linked_text(entry))
                  : snprintf(ret_target, size, "../../../%s/%s/%s", inbox.name, name, linked_text(entry));
    return len >= 0 && (size_t)len < size ? 0 : -ENAMETOOLONG;
}

/* Returns the entry of the content that the node shows; NULL for the nodes of a kind before EMAIL_NODE_TEXT.
 */
static const struct content_entry *entry_of(const struct store_content *content,
                                            const struct email_node *node)
{
    return node->kind >= EMAIL_NODE_TEXT ? &content->folder.entries[node->index] : NULL;
}

static bool has_bytes(const struct email_node *node)
{
    return node->kind == EMAIL_NODE_MESSAGE || node->kind == EMAIL_NODE_ATTACHMENT;
}

/* Gets the content of the node's email; -ENOENT when the content lacks the node. The caller releases it. */
static int get_content(struct tree *tree, const struct tree_caller *caller, const struct email_node *node,
                       struct store_content **ret_content)
{
    _cleanup_(cleanup_content) struct store_content *content = NULL;
    int error = store_content_get(tree->store, node->email, caller->cancel, &content);
    if (error != 0)
        return error;
    if (node->kind >= EMAIL_NODE_TEXT && (node->index >= content->folder.len ||
                                          entry_of(content, node)->kind != node_kinds[node->kind].content))
        return -ENOENT;
    *ret_content = TAKE_PTR(content);
    return 0;
}

/* Fills the node's entry in. Fetches bytes whose size is not known yet; if `caller` is NULL, the entry gets
 * no inode number instead, so that the kernel looks the name up before it uses the size. */
static int fill_node(struct tree *tree, const struct tree_caller *caller, const struct store_content *content,
                     const struct email_node *node, struct tree_entry *ret)
{
    const struct content_entry *entry = entry_of(content, node);
    char target[PATH_MAX] = "";
    struct email_view view;
    int64_t date_ms = store_get_email(tree->store, node->email, &view) ? view.date_ms : 0;
    uint64_t size = entry != NULL ? entry->len : 0;
    int error = 0;
    if (entry != NULL && entry->date_ms != 0)
        date_ms = entry->date_ms;
    if (node->kind == EMAIL_NODE_LINK) {
        (void)write_target(tree, content, entry, target, sizeof(target));
        size = strlen(target);
    }
    if (has_bytes(node) && caller != NULL)
        error = store_content_get_len(tree->store, node->email, entry != NULL ? entry->id : NULL,
                                      caller->cancel, &size);
    fill(tree, node, size, date_ms, ret);
    if (has_bytes(node) && caller == NULL)
        ret->ino = 0;
    return error;
}

/* ---------------------------------------------------------------- names */

/* Returns true if the email's folder shows `kind`: message.eml, attachments/ or thread/. */
static bool shows_fixed(struct tree *tree, const struct store_content *content, enum email_node_kind kind)
{
    if (kind == EMAIL_NODE_MESSAGE)
        return store_has_raw(tree->store);
    for (size_t i = 0; i < content->folder.len; i++)
        if (content->folder.entries[i].kind == node_kinds[kind].content)
            return true;
    return false;
}

static size_t count_positions(const struct store_content *content)
{
    return content->folder.len + EMAIL_NODE_TEXT - EMAIL_NODE_MESSAGE;
}

/* Finds the node at a position of a folder: first those of the content's entries, then message.eml,
 * attachments/ and thread/. Returns false if the folder shows none there. The name is borrowed. */
static bool find_node_at(struct tree *tree, const struct store_content *content, enum email_node_kind folder,
                         size_t position, struct email_node *ret_node, const char **ret_name)
{
    struct email_view other;
    *ret_node = (struct email_node){.email = content->email};
    if (position >= content->folder.len) {
        ret_node->kind = (enum email_node_kind)(position - content->folder.len + EMAIL_NODE_MESSAGE);
        *ret_name = node_kinds[ret_node->kind].name;
        return folder == EMAIL_NODE_FOLDER && shows_fixed(tree, content, ret_node->kind);
    }
    const struct content_entry *entry = &content->folder.entries[position];
    if (entry->kind != node_kinds[folder].content)
        return false;
    ret_node->index = (uint16_t)position;
    ret_node->kind = folder == EMAIL_NODE_FOLDER                  ? EMAIL_NODE_TEXT
                     : folder == EMAIL_NODE_ATTACHMENTS           ? EMAIL_NODE_ATTACHMENT
                     : find_earlier(tree, content, entry, &other) ? EMAIL_NODE_LINK
                                                                  : EMAIL_NODE_EARLIER;
    *ret_name = entry->name;
    return true;
}

static bool find_node(struct tree *tree, const struct store_content *content, enum email_node_kind folder,
                      const char *name, struct email_node *ret)
{
    const char *node_name;
    for (size_t i = 0; i < count_positions(content); i++)
        if (find_node_at(tree, content, folder, i, ret, &node_name) && strcmp(node_name, name) == 0)
            return true;
    return false;
}

/* Returns the inode of a reply file; 0 if the name is no reply file's. */
static uint64_t find_reply_file(struct tree *tree, uint64_t parent, const char *name)
{
    const struct email_node folder = email_node_of(parent);
    bool has_reply_files = folder.kind == EMAIL_NODE_FOLDER && store_has_content(tree->store);
    return has_reply_files ? reply_file_ino(folder.email, name) : 0;
}

static int lookup_in_email_folder(struct tree *tree, const struct tree_caller *caller, uint64_t parent,
                                  const char *name, struct tree_entry *ret)
{
    const struct email_node folder = email_node_of(parent);
    struct email_node node;
    _cleanup_(cleanup_content) struct store_content *content = NULL;
    if (!is_folder(&folder))
        return -ENOTDIR;
    uint64_t reply = find_reply_file(tree, parent, name);
    if (reply != 0) /* waits for the outbox */
        return cancel_is_set(caller->cancel) ? -EINTR
                                             : reply_file_lookup(tree, caller, parent, name, reply, ret);
    int error = store_content_get(tree->store, folder.email, caller->cancel, &content);
    if (error != 0)
        return error;
    return find_node(tree, content, folder.kind, name, &node) ? fill_node(tree, caller, content, &node, ret)
                                                              : -ENOENT;
}

static int get_in_email_folder(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                               struct tree_entry *ret)
{
    const struct email_node node = email_node_of(ino);
    struct email_view view;
    _cleanup_(cleanup_content) struct store_content *content = NULL;
    if (!store_get_email(tree->store, node.email, &view))
        return -ENOENT;
    int error = is_folder(&node) ? 0 : get_content(tree, caller, &node, &content);
    return error != 0 ? error : fill_node(tree, caller, content, &node, ret);
}

static int read_email_link(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                           char *ret_target, size_t size)
{
    const struct email_node node = email_node_of(ino);
    _cleanup_(cleanup_content) struct store_content *content = NULL;
    if (node.kind != EMAIL_NODE_LINK)
        return -EINVAL;
    int error = get_content(tree, caller, &node, &content);
    return error != 0 ? error : write_target(tree, content, entry_of(content, &node), ret_target, size);
}

/* ---------------------------------------------------------------- listings */

static int open_email_folder(const struct tree_caller *caller, struct tree_dir *dir)
{
    const struct email_node node = email_node_of(dir->ino);
    struct store_content *content;
    if (!is_folder(&node))
        return -ENOTDIR;
    int error = store_content_get(dir->base.tree->store, node.email, caller->cancel, &content);
    if (error != 0)
        return error;
    dir->state = content;
    /* An entry of thread/ depends on whether its email is in the mount. */
    dir->base.caching = node.kind != EMAIL_NODE_THREAD ? TREE_CACHE_LASTING : TREE_CACHE_OPEN;
    return 0;
}

static void release_email_folder(struct tree_dir *dir)
{
    store_content_unref(dir->state);
}

static int read_email_folder(struct tree_dir *dir, uint64_t position)
{
    const struct email_node folder = email_node_of(dir->ino);
    const struct store_content *content = dir->state;
    const char *name;
    struct email_node node;
    struct tree_entry entry;
    for (; position < count_positions(content); position++) {
        if (!find_node_at(dir->base.tree, content, folder.kind, position, &node, &name))
            continue;
        (void)fill_node(dir->base.tree, NULL, content, &node, &entry);
        if (!dir_put(dir, name, &entry, position + 1))
            break;
    }
    return 0;
}

/* ---------------------------------------------------------------- open files */

struct content_handle {
    struct tree_handle base;
    struct store_content *content; /* counted reference */
    const char *bytes;             /* in `content`; NULL if the bytes are in content->bytes.fd */
    uint64_t len;                  /* number of bytes */
};

static int read_content(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    const struct content_handle *content = (struct content_handle *)handle;
    if (content->bytes != NULL)
        return handle_read_text(content->bytes, content->len, len, offset, ret);
    return handle_read_file(content->content->bytes.fd, len, offset, ret);
}

static void release_content(struct tree_handle *handle)
{
    store_content_unref(((struct content_handle *)handle)->content);
    free(handle);
}

void content_open(struct tree *tree, struct store_content *content, const struct content_entry *entry,
                  int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_LASTING, .read = read_content, .release = release_content};
    struct content_handle *handle = handle_new(tree, &ops, sizeof(*handle), flags);
    handle->content = content;
    handle->bytes = entry != NULL ? entry->bytes : content->bytes.bytes;
    handle->len = entry != NULL ? entry->len : content->bytes.len;
    *ret_handle = &handle->base;
}

static int open_in_email_folder(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                                struct tree_handle **ret_handle)
{
    const struct email_node node = email_node_of(ino);
    _cleanup_(cleanup_content) struct store_content *texts = NULL;
    struct store_content *content = NULL;
    if (!handle_is_for_reading(flags))
        return -EACCES;
    if (is_folder(&node) || node.kind == EMAIL_NODE_LINK)
        return is_folder(&node) ? -EISDIR : -ELOOP;
    int error = get_content(tree, caller, &node, &texts);
    if (error != 0)
        return error;
    const struct content_entry *entry = entry_of(texts, &node);
    if (!has_bytes(&node)) {
        content_open(tree, TAKE_PTR(texts), entry, flags, ret_handle);
        return 0;
    }
    error = store_content_get_bytes(tree->store, node.email, entry != NULL ? entry->id : NULL, caller->cancel,
                                    &content);
    if (error == 0)
        content_open(tree, content, NULL, flags, ret_handle);
    return error;
}

/* ---------------------------------------------------------------- reply files */

static int create_in_email_folder(struct tree *tree, const struct tree_caller *caller, uint64_t parent,
                                  const char *name, mode_t mode, int flags, struct tree_entry *ret_entry,
                                  struct tree_handle **ret_handle)
{
    uint64_t reply = find_reply_file(tree, parent, name);
    return reply != 0 ? reply_file_create(tree, caller, reply, flags, ret_entry, ret_handle) : -EPERM;
}

static int unlink_in_email_folder(struct tree *tree, const struct tree_caller *caller, uint64_t parent,
                                  const char *name)
{
    uint64_t reply = find_reply_file(tree, parent, name);
    return reply != 0 ? reply_file_unlink(tree, caller, parent, name, reply) : -EPERM;
}

static int rename_into_email_folder(struct tree *tree, const struct tree_caller *caller, uint64_t parent,
                                    const char *name, uint64_t new_parent, const char *new_name,
                                    unsigned int flags)
{
    uint64_t reply = find_reply_file(tree, new_parent, new_name);
    if (node_kind(parent) != NODE_DRAFT || reply == 0)
        return -EPERM;
    return reply_file_hand_in(tree, caller, parent, name, reply);
}

const struct node_ops email_folder_ops = {
    .answers_at_once = true,
    .get = get_in_email_folder,
    .open = open_in_email_folder,
    .read_link = read_email_link,
    .lookup = lookup_in_email_folder,
    .open_dir = open_email_folder,
    .read_dir = read_email_folder,
    .release_dir = release_email_folder,
    .create = create_in_email_folder,
    .unlink = unlink_in_email_folder,
    .rename = rename_into_email_folder,
};
