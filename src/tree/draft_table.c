/* SPDX-License-Identifier: MIT */
/*
 * The table of drafts. One lock, never held over a system call that could wait.
 */
#include "tree/draft_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tree/fixed.h"
#include "tree/inode.h"
#include "tree/proc_path.h"

enum {
    RELEASE_PATIENCE_MS = 2000
};

int draft_table_init(struct draft_table *table, struct clock *clock, int root_fd)
{
    struct stat stat;
    *table = (struct draft_table){.clock = clock, .root = {.fd = root_fd, .references = 1}};
    pthread_mutex_init(&table->lock, NULL);
    clock_condition_init(&table->writer_left);
    if (fstat(root_fd, &stat) != 0)
        return -errno;
    table->device = stat.st_dev;
    return 0;
}

static void free_node(struct draft_node *node)
{
    close(node->fd);
    free(node);
}

void draft_table_release(struct draft_table *table)
{
    size_t position = 0;
    struct draft_node *node;
    while ((node = map_next(&table->nodes, &position)) != NULL)
        free_node(node);
    map_release(&table->nodes);
    close(table->root.fd);
    pthread_cond_destroy(&table->writer_left);
    pthread_mutex_destroy(&table->lock);
}

uint64_t draft_node_ino(const struct draft_table *table, const struct draft_node *node)
{
    if (node == &table->root)
        return inode_make(INODE_FIXED, FIXED_DRAFTS);
    return inode_make(INODE_DRAFT, (uint64_t)(uintptr_t)node >> INODE_KIND_BITS);
}

struct draft_node *draft_table_get(struct draft_table *table, uint64_t ino)
{
    if (ino == inode_make(INODE_FIXED, FIXED_DRAFTS))
        return &table->root;
    if (inode_kind(ino) != INODE_DRAFT)
        return NULL;
    return (struct draft_node *)(uintptr_t)(inode_number(ino) << INODE_KIND_BITS);
}

static struct draft_node *new_node(int fd, const char *key)
{
    const size_t alignment = (size_t)1 << INODE_KIND_BITS; /* so that its number loses nothing */
    struct draft_node *node =
        aligned_alloc(alignment, (sizeof(*node) + alignment - 1) / alignment * alignment);
    if (node == NULL)
        return NULL;
    *node = (struct draft_node){.fd = fd, .references = 1};
    snprintf(node->key, sizeof(node->key), "%s", key);
    return node;
}

/* Whether the name leads to this file now. */
static bool is_named(int dir_fd, const char *name, const struct stat *stat)
{
    struct stat now;
    return fstatat(dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_dev == stat->st_dev &&
           now.st_ino == stat->st_ino;
}

/* Consumes `fd` when there is no such node yet. While a node holds the file open its inode number cannot be
 * given to another file, so the key tells files apart. */
static struct draft_node *intern_locked(struct draft_table *table, int *fd, const struct stat *stat)
{
    char key[sizeof(table->root.key)];
    snprintf(key, sizeof(key), "%llx:%llx", (unsigned long long)stat->st_dev,
             (unsigned long long)stat->st_ino);
    struct draft_node *node = map_find(&table->nodes, key);
    if (node != NULL) {
        node->references++;
        return node;
    }
    node = new_node(*fd, key);
    if (node == NULL)
        return NULL;
    if (map_set(&table->nodes, node->key, node) != 0) {
        free(node);
        return NULL;
    }
    *fd = -1;
    return node;
}

int draft_table_find(struct draft_table *table, const struct draft_node *parent, const char *name,
                     struct draft_node **ret_node, struct stat *ret_stat)
{
    struct stat stat;
    _cleanup_close_ int fd = openat(parent->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &stat) != 0)
        return -errno;
    if (stat.st_dev != table->device)
        return -EXDEV;

    pthread_mutex_lock(&table->lock);
    struct draft_node *node = intern_locked(table, &fd, &stat);
    /* Looked at again, for the file may have been handed in since it was opened above. */
    if (node != NULL && node->state == DRAFT_LEFT && is_named(parent->fd, name, &stat))
        node->state = DRAFT_HERE;
    pthread_mutex_unlock(&table->lock);
    if (node == NULL)
        return -ENOMEM;
    *ret_node = node;
    *ret_stat = stat;
    return 0;
}

/* Not by ".": that takes the permission to search it, which listing does not. */
int draft_node_open_folder(const struct draft_node *node)
{
    char path[PROC_PATH_MAX_BYTES];
    proc_path(node->fd, path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void draft_node_ref(struct draft_table *table, struct draft_node *node)
{
    pthread_mutex_lock(&table->lock);
    node->references++;
    pthread_mutex_unlock(&table->lock);
}

void draft_node_unref(struct draft_table *table, struct draft_node *node, uint64_t count)
{
    if (node == &table->root)
        return;
    pthread_mutex_lock(&table->lock);
    node->references -= count < node->references ? count : node->references;
    bool is_unused = node->references == 0;
    if (is_unused)
        map_remove(&table->nodes, node->key);
    pthread_mutex_unlock(&table->lock);
    if (is_unused)
        free_node(node);
}

int draft_node_begin_write(struct draft_table *table, struct draft_node *node)
{
    int error = 0;
    pthread_mutex_lock(&table->lock);
    if (node->state == DRAFT_HERE)
        node->writers++;
    else
        error = -EBUSY;
    pthread_mutex_unlock(&table->lock);
    return error;
}

void draft_node_set_flushed(struct draft_table *table, struct draft_node *node, bool is_flushed)
{
    pthread_mutex_lock(&table->lock);
    if (is_flushed)
        node->flushed_writers++;
    else
        node->flushed_writers--;
    pthread_mutex_unlock(&table->lock);
}

void draft_node_end_write(struct draft_table *table, struct draft_node *node, bool was_flushed)
{
    pthread_mutex_lock(&table->lock);
    node->writers--;
    if (was_flushed)
        node->flushed_writers--;
    pthread_cond_broadcast(&table->writer_left);
    pthread_mutex_unlock(&table->lock);
}

static int wait_for_writers_locked(struct draft_table *table, const struct draft_node *node,
                                   struct cancel *cancel)
{
    int64_t until_ms = clock_monotonic_ms(table->clock) + RELEASE_PATIENCE_MS;
    while (node->writers > 0) {
        if (cancel_is_set(cancel))
            return -EINTR;
        if (node->flushed_writers < node->writers || clock_monotonic_ms(table->clock) >= until_ms)
            return -EBUSY;
        clock_wait(table->clock, &table->writer_left, &table->lock, until_ms);
    }
    return 0;
}

int draft_node_begin_move(struct draft_table *table, struct draft_node *node, struct cancel *cancel)
{
    int error = -EBUSY;
    cancel_bind(cancel, &table->writer_left, &table->lock);
    pthread_mutex_lock(&table->lock);
    if (node->state == DRAFT_HERE) {
        node->state = DRAFT_MOVING;
        error = wait_for_writers_locked(table, node, cancel);
        if (error != 0)
            node->state = DRAFT_HERE;
    }
    pthread_mutex_unlock(&table->lock);
    cancel_unbind(cancel);
    return error;
}

void draft_node_end_move(struct draft_table *table, struct draft_node *node, bool has_left)
{
    pthread_mutex_lock(&table->lock);
    node->state = has_left ? DRAFT_LEFT : DRAFT_HERE;
    pthread_mutex_unlock(&table->lock);
}
