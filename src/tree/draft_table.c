/* SPDX-License-Identifier: MIT */
/*
 * The table of drafts. draft_table.h has the model.
 */
#include "tree/draft_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/lock.h"

enum {
    NUMBER_SHIFT = 6, /* NODE_KIND_BITS in node.h: a node's address ends with this many zero bits */
    NODE_ALIGNMENT = 1 << NUMBER_SHIFT,
    WRITERS_WAIT_MS = 2000,
};

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
    struct stat stat;
    *table = (struct draft_table){
        .clock = clock,
        .root = {.is_root = true, .fd = root_fd},
        .nodes = g_hash_table_new(hash_node, are_same_draft),
    };
    pthread_mutex_init(&table->lock, NULL);
    clock_condition_init(&table->writer_left);
    if (fstat(root_fd, &stat) != 0)
        return -errno;
    table->device = stat.st_dev;
    return 0;
}

static void free_node(struct draft_node *node)
{
    cleanup_close(&node->fd);
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
}

/* ---------------------------------------------------------------- lookups */

struct draft_node *draft_table_node(struct draft_table *table, uint64_t number)
{
    return number == 0 ? &table->root : (struct draft_node *)(uintptr_t)(number << NUMBER_SHIFT);
}

uint64_t draft_node_number(const struct draft_node *node)
{
    return node->is_root ? 0 : (uint64_t)(uintptr_t)node >> NUMBER_SHIFT;
}

/* The kernel gives a new descriptor the lowest free number. */
static bool has_too_high_number(int fd)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd >= limit.rlim_cur / 4 * 3;
}

/* Gets the file's node, with one more reference. A new node takes ownership of `*fd`. */
static int get_node(struct draft_table *table, ino_t ino, int *fd, struct draft_node **ret)
{
    const struct draft_node wanted = {.ino = ino};
    bool has_room = !has_too_high_number(*fd);
    LOCK_GUARD(&table->lock);
    struct draft_node *node = g_hash_table_lookup(table->nodes, &wanted);
    if (node == NULL) {
        if (!has_room)
            return -EMFILE;
        node = g_aligned_alloc(1, sizeof(*node), NODE_ALIGNMENT);
        *node = (struct draft_node){.ino = ino, .fd = TAKE_FD(*fd)};
        g_hash_table_add(table->nodes, node);
    }
    node->references++;
    *ret = node;
    return 0;
}

int draft_table_find(struct draft_table *table, int folder_fd, const char *name, struct draft_node **ret_node,
                     struct stat *ret_stat)
{
    _cleanup_close_ int fd = openat(folder_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, ret_stat) != 0)
        return -errno;
    if (ret_stat->st_dev != table->device)
        return -EXDEV;
    return get_node(table, ret_stat->st_ino, &fd, ret_node);
}

void draft_node_unref(struct draft_table *table, struct draft_node *node, uint64_t count)
{
    if (node->is_root)
        return;
    {
        LOCK_GUARD(&table->lock);
        node->references -= MIN(count, node->references);
        if (node->references > 0)
            return;
        g_hash_table_remove(table->nodes, node);
    }
    free_node(node);
}

/* ---------------------------------------------------------------- uses */

int draft_node_begin_use(struct draft_table *table, struct draft_node *node, bool may_write)
{
    LOCK_GUARD(&table->lock);
    if (node->fd < 0)
        return -ESTALE;
    if (may_write && node->state != DRAFT_HERE)
        return -EBUSY;
    node->references++;
    node->users++;
    node->writers += may_write ? 1 : 0;
    return 0;
}

/* Returns a descriptor that is to be closed, or -1. */
static int take_unused_fd_locked(struct draft_node *node)
{
    return node->state == DRAFT_LEFT && node->users == 0 ? TAKE_FD(node->fd) : -1;
}

void draft_node_end_use(struct draft_table *table, struct draft_node *node, bool may_write)
{
    pthread_mutex_lock(&table->lock);
    node->users--;
    node->writers -= may_write ? 1 : 0;
    pthread_cond_broadcast(&table->writer_left);
    int fd = take_unused_fd_locked(node);
    pthread_mutex_unlock(&table->lock);
    cleanup_close(&fd);
    draft_node_unref(table, node, 1);
}

void draft_fd_path(int fd, char ret_path[DRAFT_FD_PATH_SIZE])
{
    snprintf(ret_path, DRAFT_FD_PATH_SIZE, "/proc/self/fd/%d", fd);
}

/* Opening "." would need the permission to search the folder, which a listing does not need. */
int draft_open_folder(int fd)
{
    char path[DRAFT_FD_PATH_SIZE];
    draft_fd_path(fd, path);
    int opened_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return opened_fd < 0 ? -errno : opened_fd;
}

/* ---------------------------------------------------------------- moves into the outbox */

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
    pthread_mutex_lock(&table->lock);
    node->state = has_left ? DRAFT_LEFT : DRAFT_HERE;
    int fd = take_unused_fd_locked(node);
    pthread_mutex_unlock(&table->lock);
    cleanup_close(&fd);
}
