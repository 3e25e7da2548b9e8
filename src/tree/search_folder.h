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
#ifndef INBOXFS_TREE_SEARCH_FOLDER_H
#define INBOXFS_TREE_SEARCH_FOLDER_H

#include "tree/search_names.h"
#include "tree/tree.h"

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
