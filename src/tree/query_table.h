/* SPDX-License-Identifier: MIT */
/*
 * Queries by number and by text, the latest first: a bounded number of names, of which the latest that were
 * asked hold what was found. Numbers are never given twice, so that an inode whose query was forgotten leads
 * nowhere. Locks are the caller's.
 */
#ifndef INBOXFS_TREE_QUERY_TABLE_H
#define INBOXFS_TREE_QUERY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tree/search_names.h"

enum {
    SEARCH_QUERIES_SHOWN = 50,
    SEARCH_NAMES_KNOWN = 1024,
};

struct query {
    uint64_t number;
    char *text;
    struct search_names *found; /* NULL: not asked yet, or forgotten for want of room */
    char *note;                 /* goes with it */
    size_t note_len;
    int64_t asked_ms; /* monotonic */
    int64_t asked_real_ms;
    bool is_asking; /* somebody has it without the lock: it stays */
};

struct query_table {                           /* empty: all zeros */
    struct query *queries[SEARCH_NAMES_KNOWN]; /* the latest first */
    size_t len;
    uint64_t last_number;
};

void query_table_release(struct query_table *table);

/* NULL: there is none. */
struct query *query_table_find_number(const struct query_table *table, uint64_t number);
struct query *query_table_find_text(const struct query_table *table, const char *text);

/* A query that is not in it, in place of the oldest; NULL without memory. */
struct query *query_table_add(struct query_table *table, const char *text);
void query_table_remove(struct query_table *table, struct query *query);

/* It was asked now: takes over what was found. What the oldest found is forgotten. */
void query_table_settle(struct query_table *table, struct query *query, struct search_names *found,
                        char *note, size_t note_len);

#endif
