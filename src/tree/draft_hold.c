/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of drafts: opened by name when they are needed, from the nearest folder above that has one.
 * What the name leads to is compared with what it should be, so that nothing found on the way can lead
 * elsewhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tree/draft_table.h"
#include "tree/proc_path.h"

enum {
    WAY_MAX_BYTES = 1024 * 1024
};

/* The n-th way to a draft. */
struct way {
    struct draft_hold start;
    char *path;
};

static void way_release(struct way *way)
{
    free(way->path);
    draft_hold_release(&way->start);
}

static void hold_locked(struct draft_table *table, struct draft_node *node, struct draft_hold *ret)
{
    node->holders++;
    node->references++;
    *ret = (struct draft_hold){.table = table, .node = node, .fd = node->fd};
}

/* Folders have one name, so from the first name on there is one way. -ENOENT: there is no such name; -ESTALE:
 * a folder on the way has none. */
static int find_way_locked(struct draft_table *table, const struct draft_node *node, size_t n,
                           struct way *ret)
{
    const struct draft_name *first = node->names;
    while (first != NULL && n-- > 0)
        first = first->next;
    if (first == NULL)
        return -ENOENT;
    size_t size = 0;
    const struct draft_name *name = first;
    for (; name != NULL && name->parent->holders == 0 && size < WAY_MAX_BYTES; name = name->parent->names)
        size += strlen(name->name) + 1;
    if (name == NULL)
        return -ESTALE;
    size += strlen(name->name) + 1;
    if (size > WAY_MAX_BYTES)
        return -ENAMETOOLONG;
    ret->path = malloc(size);
    if (ret->path == NULL)
        return -ENOMEM;
    hold_locked(table, name->parent, &ret->start);

    char *end = ret->path + size;
    const struct draft_name *last = name;
    for (name = first;; name = name->parent->names) {
        size_t len = strlen(name->name);
        end -= len + 1;
        memcpy(end, name->name, len);
        end[len] = name == first ? '\0' : '/';
        if (name == last)
            return 0;
    }
}

/* In pieces, for a path may be longer than what a system call takes. */
static int open_way(const struct way *way)
{
    _cleanup_close_ int folder = -1;
    char *path = way->path;
    while (strlen(path) >= PATH_MAX) {
        char *end = path + PATH_MAX - 1;
        while (*end != '/')
            end--;
        *end = '\0';
        int next =
            openat(folder >= 0 ? folder : way->start.fd, path, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
        if (next < 0)
            return -errno;
        cleanup_close(&folder);
        folder = next;
        path = end + 1;
    }
    int fd = openat(folder >= 0 ? folder : way->start.fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static bool is_file_of(int fd, const struct draft_node *node)
{
    char key[sizeof(node->key)];
    struct stat stat;
    if (fstat(fd, &stat) != 0)
        return false;
    draft_node_key(&stat, key);
    return strcmp(key, node->key) == 0;
}

/* -ESTALE: this way does not lead there any more. */
static int try_way(const struct way *way, const struct draft_node *node)
{
    _cleanup_close_ int fd = open_way(way);
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return -ESTALE;
    if (fd >= 0 && !is_file_of(fd, node))
        return -ESTALE;
    return fd < 0 ? fd : TAKE_FD(fd);
}

/* The first of its names that leads there. */
static int open_by_names(struct draft_table *table, const struct draft_node *node)
{
    int fd = -ESTALE;
    for (size_t n = 0; fd == -ESTALE; n++) {
        _cleanup_(way_release) struct way way = {.path = NULL};
        pthread_mutex_lock(&table->lock);
        int error = find_way_locked(table, node, n, &way);
        pthread_mutex_unlock(&table->lock);
        fd = error == 0 ? try_way(&way, node) : error;
    }
    return fd == -ENOENT ? -ESTALE : fd;
}

int draft_hold(struct draft_table *table, struct draft_node *node, struct draft_hold *ret)
{
    int fd = -1;
    pthread_mutex_lock(&table->lock);
    while (node->holders == 0 && fd < 0) {
        uint64_t changes = table->changes;
        pthread_mutex_unlock(&table->lock);
        fd = open_by_names(table, node);
        pthread_mutex_lock(&table->lock);
        /* What a name leads to may have changed meanwhile, and then it is known by now. */
        if (fd < 0 && (fd != -ESTALE || changes == table->changes))
            break;
    }
    bool can_be_held = node->holders > 0 || fd >= 0;
    if (can_be_held && node->holders == 0)
        node->fd = TAKE_FD(fd);
    if (can_be_held)
        hold_locked(table, node, ret);
    pthread_mutex_unlock(&table->lock);
    if (can_be_held && fd >= 0)
        close(fd); /* somebody else was faster */
    return can_be_held ? 0 : fd;
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
    if (fd >= 0)
        close(fd);
    draft_node_unref(table, node, 1);
}

/* Not by ".": that takes the permission to search it, which listing does not. */
int draft_node_open_folder(struct draft_table *table, struct draft_node *node)
{
    _cleanup_draft_hold_ struct draft_hold hold = {.table = NULL};
    char path[PROC_PATH_MAX_BYTES];
    int error = draft_hold(table, node, &hold);
    if (error != 0)
        return error;
    proc_path(hold.fd, path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}
