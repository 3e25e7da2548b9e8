/* SPDX-License-Identifier: MIT */
/*
 * search/: a folder in which every name is a query. To look a query up makes nothing but a folder of it;
 * opening that, or looking for a name in it that is not known yet, asks. What was found shows as symbolic
 * links to the emails, and in NOTE what was asked and when. What a query found a moment ago is not asked for
 * again, and neither is what a process asks for that has just listed search/: it goes through all there is.
 *
 * Nothing of this is cached by the kernel, since requests wait here. Bounded: the latest queries show in
 * search/, some more names are remembered.
 */
#ifndef INBOXFS_TREE_SEARCH_H
#define INBOXFS_TREE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/store.h"
#include "tree/tree.h"

/* ---------------------------------------------------------------- names of what was found */

/* What a folder of search/ shows, made once and shared by whoever looks at it: names in order, each with its
 * inode. */

struct search_name {
    const char *name;
    uint64_t ino;
    char *owned; /* the name, where it is not somebody else's; or NULL */
};

struct search_names;

/* The links to the emails that were found (borrowed), in order of name; names that several have are numbered.
 * One reference. NULL without memory. */
struct search_names *search_names_of_emails(struct store *store, const struct store_search *found);
/* Copies of `texts`, in their order, with the inodes beside them. The same. */
struct search_names *search_names_of_queries(const char *const *texts, const uint64_t *inos, size_t len);

struct search_names *search_names_ref(struct search_names *names);
/* NULL-safe. */
void search_names_unref(struct search_names *names);

size_t search_names_len(const struct search_names *names);
const struct search_name *search_names_get(const struct search_names *names, size_t index);
/* Of emails alone: the inode, or 0. */
uint64_t search_names_find(const struct search_names *names, const char *name);

/* ---------------------------------------------------------------- the table of queries */

/* Queries by number and by text, the latest first: a bounded number of names, of which the latest that were
 * asked hold what was found. Numbers are never given twice, so that an inode whose query was forgotten leads
 * nowhere. Locks are the caller's. */

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

/* ---------------------------------------------------------------- the folder search/ */

enum {
    SEARCH_FRESH_MS = 10 * 1000,
    SEARCHES_AT_ONCE = 16,
};

extern const char search_note_name[]; /* ".search.json" */

struct search_folder;

/* NULL without memory. */
struct search_folder *search_folder_new(void);
/* NULL-safe. */
void search_folder_free(struct search_folder *folder);

/* A name in search/. Does not wait. 0; -ENOENT: not one to ask for; -ENAMETOOLONG. */
int search_folder_lookup(struct tree *tree, const char *name, struct tree_entry *ret);
/* Attributes of any inode of these kinds. */
bool search_folder_get(struct tree *tree, uint64_t ino, struct tree_entry *ret);
/* rmdir(2) of a query: forgets it. 0 or -ENOENT. */
int search_folder_remove(struct tree *tree, const char *name);

/* A name in the folder of a query. May wait unless search_query_knows(). 0, -ENOENT, -EINTR, -EAGAIN (too
 * many searches at once), -ENOMEM. */
int search_query_lookup(struct tree *tree, const struct tree_caller *caller, uint64_t ino, const char *name,
                        struct tree_entry *ret);
bool search_query_knows(struct tree *tree, uint64_t ino, const char *name);

/* What search/ or the folder of a query shows; the caller unrefs. Of a query it may wait, unless it is fresh.
 */
int search_folder_list(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                       struct search_names **ret_names);
bool search_query_is_fresh(struct tree *tree, uint64_t ino);

/* Where a link leads. 0, -ENOENT, -ENAMETOOLONG. */
int search_hit_read_link(struct tree *tree, uint64_t ino, char *ret_target, size_t size);

/* The text of a query's NOTE; the caller frees. 0, -ENOENT, -ENOMEM. */
int search_note_read(struct tree *tree, uint64_t ino, char **ret_text, size_t *ret_len);

#endif
