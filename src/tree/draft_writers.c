/* SPDX-License-Identifier: MIT */
/*
 * Who writes to a draft, and how a hand-in keeps them away.
 */
#include <errno.h>

#include "tree/draft_table.h"

enum {
    RELEASE_PATIENCE_MS = 2000
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
    /* The number of the file may be another's before the kernel forgets this node. */
    if (has_left && map_find(&table->nodes, node->key) == node)
        map_remove(&table->nodes, node->key);
    table->changes++;
    pthread_mutex_unlock(&table->lock);
}
