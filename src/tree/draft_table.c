/* SPDX-License-Identifier: MIT */
/*
 * The table of drafts: the names in it, descriptors of drafts, and who writes to one. One lock, never held
 * over a system call that could wait; closing the last descriptor of a file that was removed is one.
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

enum {
    INDEX_BITS = 32,
    GENERATION_BITS = 26, /* a number has 58 bits, and an inode number the kind beside it */
    NO_SLOT = INT32_MAX,
    NAMES_MAX = 8, /* of one file; beyond, the oldest is forgotten until it is looked up again */
};

void draft_root_init(struct draft_node *root, int fd)
{
    *root = (struct draft_node){.fd = fd, .holders = 1};
}

int draft_table_init(struct draft_table *table, struct clock *clock, int root_fd)
{
    struct stat stat;
    *table = (struct draft_table){.clock = clock, .first_free = NO_SLOT};
    draft_root_init(&table->root, root_fd);
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
    while (node->names != NULL) {
        struct draft_name *name = node->names;
        node->names = name->next;
        free(name);
    }
    free(node);
}

void draft_table_release(struct draft_table *table)
{
    for (uint32_t i = 0; i < table->slots_len; i++)
        if (table->slots[i].node != NULL)
            free_node(table->slots[i].node);
    free(table->slots);
    map_release(&table->nodes);
    close(table->root.fd);
    pthread_cond_destroy(&table->writer_left);
    pthread_mutex_destroy(&table->lock);
}

/* Its path in /proc, and only there, is a name for what an O_PATH descriptor stands for: by that it can be
 * opened, truncated or linked. */
void draft_fd_path(int fd, char ret_path[DRAFT_FD_PATH_SIZE])
{
    snprintf(ret_path, DRAFT_FD_PATH_SIZE, "/proc/self/fd/%d", fd);
}

/* ---------------------------------------------------------------- numbers */

static struct draft_node *node_of_number_locked(const struct draft_table *table, uint64_t number)
{
    uint32_t index = (uint32_t)number;
    if (index >= table->slots_len || table->slots[index].generation != number >> INDEX_BITS)
        return NULL;
    return table->slots[index].node;
}

struct draft_node *draft_table_find_number(struct draft_table *table, uint64_t number)
{
    if (number == 0)
        return &table->root;
    pthread_mutex_lock(&table->lock);
    struct draft_node *node = node_of_number_locked(table, number);
    pthread_mutex_unlock(&table->lock);
    return node;
}

static int add_slots_locked(struct draft_table *table)
{
    uint32_t len = table->slots_len == 0 ? 64 : table->slots_len * 2;
    struct draft_slot *slots = len < NO_SLOT / 2 ? reallocarray(table->slots, len, sizeof(*slots)) : NULL;
    if (slots == NULL)
        return -ENOMEM;
    for (uint32_t i = table->slots_len; i < len; i++)
        slots[i] = (struct draft_slot){.next_free = i + 1 < len ? i + 1 : NO_SLOT};
    table->first_free = table->slots_len;
    table->slots = slots;
    table->slots_len = len;
    return 0;
}

/* Generations begin at 1, so that no number is 0. */
static int take_slot_locked(struct draft_table *table, struct draft_node *node)
{
    const uint32_t generations = (uint32_t)1 << GENERATION_BITS;
    if (table->first_free == NO_SLOT && add_slots_locked(table) != 0)
        return -ENOMEM;
    uint32_t index = table->first_free;
    struct draft_slot *slot = &table->slots[index];
    table->first_free = slot->next_free;
    slot->generation = slot->generation + 1 == generations ? 1 : slot->generation + 1;
    slot->node = node;
    node->number = (uint64_t)slot->generation << INDEX_BITS | index;
    return 0;
}

static void free_slot_locked(struct draft_table *table, uint64_t number)
{
    uint32_t index = (uint32_t)number;
    table->slots[index].node = NULL;
    table->slots[index].next_free = table->first_free;
    table->first_free = index;
}

/* What tells files apart while they exist. */
static void write_key(const struct stat *stat, char ret_key[DRAFT_KEY_SIZE])
{
    snprintf(ret_key, DRAFT_KEY_SIZE, "%llx:%llx", (unsigned long long)stat->st_dev,
             (unsigned long long)stat->st_ino);
}

/* ---------------------------------------------------------------- references and names */

/* The node if nobody needs it any more: the caller frees it, without the lock. Its names are gone with it,
 * and with them perhaps the last reason to know the folders that they are in: those come along in `names`. */
static void unref_locked(struct draft_table *table, struct draft_node *node, uint64_t count,
                         struct draft_node **dead)
{
    while (node->number != 0) {
        node->references -= count < node->references ? count : node->references;
        if (node->references > 0)
            return;
        if (map_find(&table->nodes, node->key) == node)
            map_remove(&table->nodes, node->key);
        free_slot_locked(table, node->number);
        node->next_dead = *dead;
        *dead = node;
        /* A file with several names leaves all but one of their folders here, the last by the loop. */
        struct draft_name *name = node->names;
        if (name == NULL)
            return;
        for (; name->next != NULL; name = name->next)
            unref_locked(table, name->parent, 1, dead);
        node = name->parent;
        count = 1;
    }
}

static void free_dead(struct draft_node *dead)
{
    while (dead != NULL) {
        struct draft_node *next = dead->next_dead;
        free_node(dead);
        dead = next;
    }
}

void draft_node_unref(struct draft_table *table, struct draft_node *node, uint64_t count)
{
    struct draft_node *dead = NULL;
    pthread_mutex_lock(&table->lock);
    unref_locked(table, node, count, &dead);
    pthread_mutex_unlock(&table->lock);
    free_dead(dead);
}

static void drop_name_locked(struct draft_table *table, struct draft_name **link, struct draft_node **dead)
{
    struct draft_name *name = *link;
    *link = name->next;
    unref_locked(table, name->parent, 1, dead);
    free(name);
}

static struct draft_name **find_name(struct draft_node *node, const struct draft_node *parent,
                                     const char *name)
{
    struct draft_name **link = &node->names;
    while (*link != NULL && ((*link)->parent != parent || strcmp((*link)->name, name) != 0))
        link = &(*link)->next;
    return link;
}

/* Without memory the node is known by its other names alone, until it is looked up again. */
static void learn_name_locked(struct draft_table *table, struct draft_node *node, struct draft_node *parent,
                              const char *text, bool is_folder, struct draft_node **dead)
{
    if (*find_name(node, parent, text) != NULL)
        return;
    size_t size = strlen(text) + 1;
    struct draft_name *name = malloc(sizeof(*name) + size);
    if (name == NULL)
        return;
    parent->references++;
    name->parent = parent;
    memcpy(name->name, text, size);
    name->next = node->names;
    node->names = name;

    size_t max = is_folder ? 1 : NAMES_MAX;
    struct draft_name **link = &node->names;
    while (*link != NULL && max-- > 0)
        link = &(*link)->next;
    while (*link != NULL)
        drop_name_locked(table, link, dead);
}

static void forget_name_locked(struct draft_table *table, struct draft_node *node,
                               const struct draft_node *parent, const char *name, struct draft_node **dead)
{
    struct draft_name **link = find_name(node, parent, name);
    if (*link != NULL)
        drop_name_locked(table, link, dead);
}

/* ---------------------------------------------------------------- descriptors */

/* Descriptors are opened by name when they are needed, from the nearest folder above that has one. What the
 * name leads to is compared with what it should be, so that nothing found on the way can lead elsewhere. */

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
    write_key(&stat, key);
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
    char path[DRAFT_FD_PATH_SIZE];
    int error = draft_hold(table, node, &hold);
    if (error != 0)
        return error;
    draft_fd_path(hold.fd, path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* ---------------------------------------------------------------- looking up */

static struct draft_node *new_node_locked(struct draft_table *table, const char *key)
{
    struct draft_node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    node->fd = -1;
    snprintf(node->key, sizeof(node->key), "%s", key);
    if (take_slot_locked(table, node) != 0) {
        free(node);
        return NULL;
    }
    if (map_set(&table->nodes, node->key, node) != 0) {
        free_slot_locked(table, node->number);
        free(node);
        return NULL;
    }
    return node;
}

/* What has no name left keeps its descriptor, so that its inode number is not given to another file, and the
 * key tells files apart; but for what is removed behind the mount's back. */
static struct draft_node *intern_locked(struct draft_table *table, struct draft_node *parent,
                                        const char *name, const struct stat *stat, struct draft_node **dead)
{
    char key[DRAFT_KEY_SIZE];
    write_key(stat, key);
    struct draft_node *node = map_find(&table->nodes, key);
    if (node == NULL)
        node = new_node_locked(table, key);
    if (node == NULL)
        return NULL;
    node->references++;
    learn_name_locked(table, node, parent, name, S_ISDIR(stat->st_mode), dead);
    return node;
}

static int stat_name(struct draft_table *table, struct draft_node *parent, const char *name,
                     struct stat *ret_stat)
{
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    int error = draft_hold(table, parent, &folder);
    if (error != 0)
        return error;
    if (fstatat(folder.fd, name, ret_stat, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    return ret_stat->st_dev == table->device ? 0 : -EXDEV;
}

int draft_table_find(struct draft_table *table, struct draft_node *parent, const char *name,
                     struct draft_node **ret_node, struct stat *ret_stat)
{
    for (;;) {
        struct draft_node *dead = NULL;
        struct draft_node *node = NULL;
        pthread_mutex_lock(&table->lock);
        uint64_t changes = table->changes;
        pthread_mutex_unlock(&table->lock);
        int error = stat_name(table, parent, name, ret_stat);
        if (error != 0)
            return error;
        pthread_mutex_lock(&table->lock);
        /* Else the name may lead elsewhere by now, and whoever changed that did not find this node. */
        bool is_current = changes == table->changes;
        if (is_current)
            node = intern_locked(table, parent, name, ret_stat, &dead);
        pthread_mutex_unlock(&table->lock);
        free_dead(dead);
        if (is_current) {
            *ret_node = node;
            return node == NULL ? -ENOMEM : 0;
        }
    }
}

/* ---------------------------------------------------------------- changing names */

int draft_leave_begin(struct draft_table *table, struct draft_node *parent, const char *name,
                      struct draft_leaving *ret)
{
    struct draft_node *node;
    struct stat stat;
    *ret = (struct draft_leaving){.parent = parent, .name = name};
    int error = draft_table_find(table, parent, name, &node, &stat);
    if (error != 0)
        return error == -ENOENT ? 0 : error;
    error = draft_hold(table, node, &ret->hold);
    draft_node_unref(table, node, 1);
    if (error != 0)
        return error;
    /* From here on whoever looks for a way through it meets the descriptor. */
    pthread_mutex_lock(&table->lock);
    table->changes++;
    pthread_mutex_unlock(&table->lock);
    return 0;
}

/* The descriptor of a file that is gone stays open for as long as the kernel knows it, which is no longer
 * than somebody needs it: it has no name by which it could be found again. */
static void end_hold(struct draft_hold *hold)
{
    struct stat stat;
    if (fstat(hold->fd, &stat) == 0 && stat.st_nlink == 0) {
        draft_node_unref(hold->table, hold->node, 1);
        hold->table = NULL;
    }
    draft_hold_release(hold);
}

/* `now`: the name that it has instead; NULL: none. */
static void leave_for_locked(struct draft_table *table, const struct draft_leaving *leaving,
                             const struct draft_leaving *now, struct draft_node **dead)
{
    struct draft_node *node = leaving->hold.node;
    struct stat stat;
    forget_name_locked(table, node, leaving->parent, leaving->name, dead);
    if (now != NULL && fstat(leaving->hold.fd, &stat) == 0)
        learn_name_locked(table, node, now->parent, now->name, S_ISDIR(stat.st_mode), dead);
}

void draft_leave_end(struct draft_leaving *leaving, bool has_left)
{
    struct draft_table *table = leaving->hold.table;
    struct draft_node *dead = NULL;
    if (table == NULL)
        return;
    pthread_mutex_lock(&table->lock);
    if (has_left)
        leave_for_locked(table, leaving, NULL, &dead);
    table->changes++;
    pthread_mutex_unlock(&table->lock);
    free_dead(dead);
    end_hold(&leaving->hold);
}

int draft_table_remove(struct draft_table *table, struct draft_node *parent, const char *name, int flags)
{
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    struct draft_leaving leaving;
    int error = draft_hold(table, parent, &folder);
    if (error == 0)
        error = draft_leave_begin(table, parent, name, &leaving);
    if (error != 0)
        return error;
    error = unlinkat(folder.fd, name, flags) == 0 ? 0 : -errno;
    draft_leave_end(&leaving, error == 0);
    return error;
}

static void end_rename(struct draft_table *table, struct draft_leaving *from, struct draft_leaving *to,
                       bool is_done, bool is_exchange)
{
    struct draft_node *dead = NULL;
    pthread_mutex_lock(&table->lock);
    /* Between two names of one file rename(2) does nothing. */
    if (is_done && from->hold.node != to->hold.node) {
        leave_for_locked(table, from, to, &dead);
        if (to->hold.node != NULL)
            leave_for_locked(table, to, is_exchange ? from : NULL, &dead);
    }
    table->changes++;
    pthread_mutex_unlock(&table->lock);
    free_dead(dead);
    if (to->hold.node != NULL)
        end_hold(&to->hold);
    end_hold(&from->hold);
}

int draft_table_rename(struct draft_table *table, struct draft_node *parent, const char *name,
                       struct draft_node *new_parent, const char *new_name, unsigned int flags)
{
    _cleanup_draft_hold_ struct draft_hold folder = {.table = NULL};
    _cleanup_draft_hold_ struct draft_hold new_folder = {.table = NULL};
    struct draft_leaving from;
    struct draft_leaving to;
    int error = draft_hold(table, parent, &folder);
    error = error != 0 ? error : draft_hold(table, new_parent, &new_folder);
    error = error != 0 ? error : draft_leave_begin(table, parent, name, &from);
    if (error != 0)
        return error;
    if (from.hold.node == NULL)
        return -ENOENT;
    error = draft_leave_begin(table, new_parent, new_name, &to);
    if (error != 0) {
        draft_leave_end(&from, false);
        return error;
    }
    error = renameat2(folder.fd, name, new_folder.fd, new_name, flags) == 0 ? 0 : -errno;
    end_rename(table, &from, &to, error == 0, (flags & RENAME_EXCHANGE) != 0);
    return error;
}

/* ---------------------------------------------------------------- writers, kept away by a hand-in */

enum {
    WRITERS_WAIT_MS = 2000
};

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

unsigned int draft_node_count_writers(struct draft_table *table, const struct draft_node *node)
{
    pthread_mutex_lock(&table->lock);
    unsigned int writers = node->writers;
    pthread_mutex_unlock(&table->lock);
    return writers;
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
    int64_t until_ms = clock_monotonic_ms(table->clock) + WRITERS_WAIT_MS;
    int error = 0;
    while (node->writers > 0 && error == 0)
        error = node->flushed_writers < node->writers
                    ? -EBUSY
                    : wait_until(table->clock, &table->writer_left, &table->lock, until_ms, cancel);
    return node->writers == 0 ? 0 : error == -ETIMEDOUT ? -EBUSY : error;
}

int draft_node_begin_move(struct draft_table *table, struct draft_node *node, struct cancel *cancel)
{
    int error = -EBUSY;
    pthread_mutex_lock(&table->lock);
    if (node->state == DRAFT_HERE) {
        node->state = DRAFT_MOVING;
        error = wait_for_writers_locked(table, node, cancel);
        if (error != 0)
            node->state = DRAFT_HERE;
    }
    pthread_mutex_unlock(&table->lock);
    return error;
}

void draft_node_end_move(struct draft_table *table, struct draft_node *node, bool has_left)
{
    pthread_mutex_lock(&table->lock);
    node->state = has_left ? DRAFT_LEFT : DRAFT_HERE;
    /* The number of the file may be another's before the kernel forgets this node. */
    if (has_left && map_find(&table->nodes, node->key) == node)
        map_remove(&table->nodes, node->key);
    table->changes++;
    pthread_mutex_unlock(&table->lock);
}
