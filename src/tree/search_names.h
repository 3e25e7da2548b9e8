/* SPDX-License-Identifier: MIT */
/*
 * What a folder of search/ shows, made once and shared by whoever looks at it: names in order, each with its
 * inode.
 */
#ifndef INBOXFS_TREE_SEARCH_NAMES_H
#define INBOXFS_TREE_SEARCH_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/store.h"

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

#endif
