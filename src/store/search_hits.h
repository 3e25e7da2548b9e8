/* SPDX-License-Identifier: MIT */
/*
 * Emails found: a bounded set of numbers. What a service or an index names is looked for in the mirror; mail
 * that is gone or held back is no hit.
 */
#ifndef INBOXFS_STORE_SEARCH_HITS_H
#define INBOXFS_STORE_SEARCH_HITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mail/search_query.h"
#include "store/mirror.h"

struct search_hits { /* empty: all zeros */
    uint32_t *emails;
    size_t len;
    size_t capacity;
    bool is_truncated; /* there are more than the bound */
};

void search_hits_release(struct search_hits *hits);

/* The email of an inbox by its key: 0; -ENOENT: the mirror does not have it, though it has the inbox
 * (*ret_inbox); -ENODEV: nor that; -ESTALE: it is gone or held back. `inbox_id` "" or NULL: the inbox of
 * mail that names none. */
int search_hits_find_email(struct mirror *mirror, const char *inbox_id, const char *key, uint32_t *ret_inbox,
                           uint32_t *ret_email);

/* Whether its inbox and its sender are those that the query narrows to. */
bool search_hits_accepts(struct mirror *mirror, const struct search_query *query, uint32_t email);

/* 0; -ENOSPC: it is full, and is_truncated from now on; -ENOMEM. */
int search_hits_add(struct search_hits *hits, uint32_t email);

/* Leaves what is in `other`, too; or takes in what is. Both come out in order of number, each email once. */
void search_hits_intersect(struct search_hits *hits, struct search_hits *other);
int search_hits_unite(struct search_hits *hits, const struct search_hits *other);

/* Newest first. */
void search_hits_sort_by_date(struct search_hits *hits, struct mirror *mirror);

#endif
