/* SPDX-License-Identifier: MIT */
/*
 * The table of drafts. draft_table.h has the model and the locks.
 */
#include "tree/draft_table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"

enum {
    NUMBER_SHIFT = 6, /* NODE_KIND_BITS in node.h: a node's address ends with this many zero bits */
    NODE_ALIGNMENT = 1 << NUMBER_SHIFT,
};

void draft_root_init(struct draft_node *root, int fd)
{
    *root = (struct draft_node){.is_root = true, .fd = fd, .holders = 1};
}

static guint hash_node(gconstpointer node)
{
    return (guint)((const struct draft_node *)node)->ino;
}

static gboolean are_same_draft(gconstpointer one, gconstpointer other)
{
    const struct draft_node *a = one;
    const struct draft_node *b = other;
    return a == b || (a->ino == b->ino && a->state != DRAFT_LEFT && b->state != DRAFT_LEFT);
}

int draft_table_init(struct draft_table *table, struct clock *clock, int root_fd)
{
    pthread_rwlockattr_t attributes;
    struct stat stat;
    *table = (struct draft_table){.clock = clock, .nodes = g_hash_table_new(hash_node, are_same_draft)};
    draft_root_init(&table->root, root_fd);
    /* With the default kind of lock, lookups in parallel could keep a rename waiting for ever. */
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&table->names_lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
    pthread_mutex_init(&table->lock, NULL);
    clock_condition_init(&table->writer_left);
    if (fstat(root_fd, &stat) != 0)
        return -errno;
    table->device = stat.st_dev;
    return 0;
}

static void free_node(struct draft_node *node)
{
    if (node->fd >= 0)
        close(node->fd);
    free(node->name);
    g_aligned_free(node);
}

void draft_table_release(struct draft_table *table)
{
    GHashTableIter position;
    void *node;
    g_hash_table_iter_init(&position, table->nodes);
    while (g_hash_table_iter_next(&position, NULL, &node))
        free_node(node);
    g_hash_table_unref(table->nodes);
    close(table->root.fd);
    pthread_cond_destroy(&table->writer_left);
    pthread_mutex_destroy(&table->lock);
    pthread_rwlock_destroy(&table->names_lock);
}

struct draft_node *draft_table_node(struct draft_table *table, uint64_t number)
{
    return number == 0 ? &table->root : (struct draft_node *)(uintptr_t)(number << NUMBER_SHIFT);
}

uint64_t draft_node_number(const struct draft_node *node)
{
    return node->is_root ? 0 : (uint64_t)(uintptr_t)node >> NUMBER_SHIFT;
}

void draft_fd_path(int fd, char ret_path[DRAFT_FD_PATH_SIZE])
{
    snprintf(ret_path, DRAFT_FD_PATH_SIZE, "/proc/self/fd/%d", fd);
}

static struct draft_node *find_ino_locked(const struct draft_table *table, ino_t ino)
{
    const struct draft_node wanted = {.ino = ino};
    return g_hash_table_lookup(table->nodes, &wanted);
}

/* ---------------------------------------------------------------- references and names */

void draft_node_unref(struct draft_table *table, struct draft_node *node, uint64_t count)
{
    while (node != NULL && !node->is_root) {
        {
            LOCK_GUARD(&table->lock);
            node->references -= count < node->references ? count : node->references;
            if (node->references > 0)
                return;
            g_hash_table_remove(table->nodes, node);
        }
        /* The node may have had the last reference to its parent. */
        struct draft_node *parent = node->parent;
        free_node(node);
        node = parent;
        count = 1;
    }
}

static bool has_name_locked(const struct draft_node *node, const struct draft_node *parent, const char *name)
{
    return node->parent == parent && strcmp(node->name, name) == 0;
}

/* Sets parent and name, or with NULL removes both. Returns the former parent, whose reference the caller
 * drops, or NULL. */
static struct draft_node *set_name_locked(struct draft_node *node, struct draft_node *parent,
                                          const char *name)
{
    struct draft_node *old_parent = node->parent;
    char *copy = g_strdup(name);
    free(node->name);
    node->name = copy;
    node->parent = parent;
    if (parent != NULL)
        parent->references++;
    return old_parent;
}

static void set_name(struct draft_table *table, struct draft_node *node, struct draft_node *parent,
                     const char *name)
{
    pthread_mutex_lock(&table->lock);
    struct draft_node *old_parent = set_name_locked(node, parent, name);
    pthread_mutex_unlock(&table->lock);
    draft_node_unref(table, old_parent, 1);
}

/* ---------------------------------------------------------------- descriptors */

/* Takes ownership of `*fd`, a descriptor of the file, if the node has none. */
static void hold_locked(struct draft_table *table, struct draft_node *node, int *fd, struct draft_hold *ret)
{
    if (node->holders == 0)
        node->fd = TAKE_FD(*fd);
    node->holders++;
    node->references++;
    *ret = (struct draft_hold){.table = table, .node = node, .fd = node->fd};
}

void draft_hold_release(struct draft_hold *hold)
{
    struct draft_table *table = hold->table;
    struct draft_node *node = hold->node;
    int fd = -1;
    if (table == NULL)
        return;
    hold->table = NULL;
    pthread_mutex_lock(&table->lock);
    if (--node->holders == 0)
        fd = TAKE_FD(node->fd);
    pthread_mutex_unlock(&table->lock);
    cleanup_close(&fd);
    draft_node_unref(table, node, 1);
}

/* Writes the path to the node, from a root or, with `from_held`, from the nearest held node: the node itself
 * or one above it. Return: 0, -ESTALE or -ENAMETOOLONG. */
static int write_path_locked(struct draft_node *node, bool from_held, char ret_path[PATH_MAX],
                             struct draft_node **ret_start)
{
    char *begin = ret_path + PATH_MAX - 1;
    *begin = '\0';
    for (; !node->is_root && !(from_held && node->holders > 0); node = node->parent) {
        if (node->parent == NULL)
            return -ESTALE;
        size_t len = strlen(node->name);
        if (len + 1 > (size_t)(begin - ret_path))
            return -ENAMETOOLONG;
        if (*begin != '\0')
            *--begin = '/';
        begin -= len;
        memcpy(begin, node->name, len);
    }
    memmove(ret_path, begin, strlen(begin) + 1);
    *ret_start = node;
    return 0;
}

int draft_node_path(struct draft_table *table, struct draft_node *node, char ret_path[PATH_MAX])
{
    struct draft_node *root;
    LOCK_GUARD(&table->lock);
    return write_path_locked(node, false, ret_path, &root);
}

/* The caller holds `names_lock`. */
static int hold_by_name(struct draft_table *table, struct draft_node *node, struct draft_hold *ret)
{
    _cleanup_draft_hold_ struct draft_hold start = {.table = NULL};
    struct draft_node *start_node;
    char path[PATH_MAX];
    struct stat stat;
    int none = -1;
    {
        LOCK_GUARD(&table->lock);
        int error = write_path_locked(node, true, path, &start_node);
        if (error != 0)
            return error;
        hold_locked(table, start_node, &none, &start);
    }
    if (start_node == node) {
        *ret = start;
        start.table = NULL;
        return 0;
    }
    _cleanup_close_ int fd = openat(start.fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? -ESTALE : -errno;
    if (fstat(fd, &stat) != 0)
        return -errno;
    /* A path that a program changed past the mount may lead to any file, also through symbolic links. */
    if (stat.st_dev != table->device || stat.st_ino != node->ino)
        return -ESTALE;
    LOCK_GUARD(&table->lock);
    hold_locked(table, node, &fd, ret);
    return 0;
}

int draft_hold(struct draft_table *table, struct draft_node *node, struct draft_hold *ret)
{
    READ_GUARD(&table->names_lock);
    return hold_by_name(table, node, ret);
}

/* Opening "." would need the permission to search the folder, which a listing does not need. */
int draft_node_open_folder(struct draft_table *table, struct draft_node *node)
{
    _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
    char path[DRAFT_FD_PATH_SIZE];
    int error = draft_hold(table, node, &hold);
    if (error != 0)
        return error;
    draft_fd_path(hold.fd, path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* ---------------------------------------------------------------- lookups */

/* Returns the file's node, with one more reference and this name. The node of a file that was removed through
 * the mount has a descriptor, so no other file gets its inode number. If the file was removed past the mount,
 * another file may get its node. */
static struct draft_node *get_node(struct draft_table *table, struct draft_node *parent, const char *name,
                                   ino_t ino)
{
    struct draft_node *old_parent = NULL;
    pthread_mutex_lock(&table->lock);
    struct draft_node *node = find_ino_locked(table, ino);
    if (node == NULL) {
        node = g_aligned_alloc(1, sizeof(*node), NODE_ALIGNMENT);
        *node = (struct draft_node){.ino = ino, .fd = -1};
        g_hash_table_add(table->nodes, node);
    }
    node->references++;
    if (!has_name_locked(node, parent, name))
        old_parent = set_name_locked(node, parent, name);
    pthread_mutex_unlock(&table->lock);
    draft_node_unref(table, old_parent, 1);
    return node;
}

int draft_table_find(struct draft_table *table, struct draft_node *parent, const char *name,
                     struct draft_node **ret_node, struct stat *ret_stat)
{
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    READ_GUARD(&table->names_lock);
    int error = hold_by_name(table, parent, &folder);
    if (error != 0)
        return error;
    if (fstatat(folder.fd, name, ret_stat, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    if (ret_stat->st_dev != table->device)
        return -EXDEV;
    *ret_node = get_node(table, parent, name, ret_stat->st_ino);
    return 0;
}

/* ---------------------------------------------------------------- changing names */

static int hold_known_node(struct draft_table *table, int folder_fd, const char *name, struct draft_hold *ret)
{
    struct stat stat;
    _cleanup_close_ int fd = openat(folder_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(fd, &stat) != 0)
        return -errno;
    if (stat.st_dev != table->device)
        return -EXDEV;
    LOCK_GUARD(&table->lock);
    struct draft_node *node = find_ino_locked(table, stat.st_ino);
    if (node != NULL)
        hold_locked(table, node, &fd, ret);
    return 0;
}

int draft_hold_name(struct draft_table *table, struct draft_node *parent, const char *name,
                    struct draft_hold *ret)
{
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    int error = draft_hold(table, parent, &folder);
    return error != 0 ? error : hold_known_node(table, folder.fd, name, ret);
}

void draft_hold_lose_name(struct draft_hold *hold, const struct draft_node *parent, const char *name)
{
    struct draft_table *table = hold->table;
    struct draft_node *old_parent = NULL;
    struct stat stat;
    if (hold->node == NULL)
        return;
    pthread_mutex_lock(&table->lock);
    if (has_name_locked(hold->node, parent, name))
        old_parent = set_name_locked(hold->node, NULL, NULL);
    pthread_mutex_unlock(&table->lock);
    draft_node_unref(table, old_parent, 1);
    /* The file was removed: the hold lasts as long as the node, and has no reference of its own. */
    if (fstat(hold->fd, &stat) == 0 && stat.st_nlink == 0) {
        draft_node_unref(table, hold->node, 1);
        hold->table = NULL;
    }
}

int draft_table_remove(struct draft_table *table, struct draft_node *parent, const char *name, int flags)
{
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    _cleanup_draft_hold_ struct draft_hold removed = {.table = NULL};
    WRITE_GUARD(&table->names_lock);
    int error = hold_by_name(table, parent, &folder);
    if (error == 0)
        error = hold_known_node(table, folder.fd, name, &removed);
    if (error != 0)
        return error;
    if (unlinkat(folder.fd, name, flags) != 0)
        return -errno;
    draft_hold_lose_name(&removed, parent, name);
    return 0;
}

int draft_table_rename(struct draft_table *table, struct draft_node *parent, const char *name,
                       struct draft_node *new_parent, const char *new_name, unsigned int flags)
{
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    _cleanup_draft_hold_ struct draft_hold new_folder = {.table = NULL};
    _cleanup_draft_hold_ struct draft_hold from = {.table = NULL};
    _cleanup_draft_hold_ struct draft_hold to = {.table = NULL};
    WRITE_GUARD(&table->names_lock);
    int error = hold_by_name(table, parent, &folder);
    error = error != 0 ? error : hold_by_name(table, new_parent, &new_folder);
    error = error != 0 ? error : hold_known_node(table, folder.fd, name, &from);
    error = error != 0 ? error : hold_known_node(table, new_folder.fd, new_name, &to);
    if (error != 0)
        return error;
    if (renameat2(folder.fd, name, new_folder.fd, new_name, flags) != 0)
        return -errno;
    /* rename(2) between two names of one file does nothing. */
    if (from.node != NULL && from.node == to.node)
        return 0;
    if (from.node != NULL)
        set_name(table, from.node, new_parent, new_name);
    if (to.node != NULL && (flags & RENAME_EXCHANGE) != 0)
        set_name(table, to.node, parent, name);
    else
        draft_hold_lose_name(&to, new_parent, new_name);
    return 0;
}

/* ---------------------------------------------------------------- writers and moves */

enum {
    WRITERS_WAIT_MS = 2000
};

int draft_node_begin_write(struct draft_table *table, struct draft_node *node)
{
    LOCK_GUARD(&table->lock);
    if (node->state != DRAFT_HERE)
        return -EBUSY;
    node->writers++;
    return 0;
}

void draft_node_end_write(struct draft_table *table, struct draft_node *node)
{
    LOCK_GUARD(&table->lock);
    node->writers--;
    pthread_cond_broadcast(&table->writer_left);
}

int draft_node_begin_move(struct draft_table *table, struct draft_node *node, struct cancel *cancel)
{
    int64_t until_ms = clock_monotonic_ms(table->clock) + WRITERS_WAIT_MS;
    int error = 0;
    LOCK_GUARD(&table->lock);
    if (node->state != DRAFT_HERE)
        return -EBUSY;
    node->state = DRAFT_MOVING;
    while (node->writers > 0 && error == 0)
        error = wait_until(table->clock, &table->writer_left, &table->lock, until_ms, cancel);
    if (node->writers == 0)
        return 0;
    node->state = DRAFT_HERE;
    return error == -ETIMEDOUT ? -EBUSY : error;
}

void draft_node_end_move(struct draft_table *table, struct draft_node *node, bool has_left)
{
    LOCK_GUARD(&table->lock);
    node->state = has_left ? DRAFT_LEFT : DRAFT_HERE;
}
