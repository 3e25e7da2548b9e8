/* SPDX-License-Identifier: MIT */
/*
 * Texts of emails on their way into the search index: a bounded queue, and which emails' texts were taken
 * already. Locks are the caller's.
 */
#ifndef INBOXFS_STORE_SEARCH_TEXTS_H
#define INBOXFS_STORE_SEARCH_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct search_text_item {
    struct search_text_item *next;
    uint32_t email;
    size_t len;
    char bytes[];
};

struct search_texts { /* search_texts_init() */
    struct search_text_item *first;
    struct search_text_item **end;
    size_t bytes;
    unsigned char *known; /* a bit for each email whose text was taken */
    size_t known_bytes;
};

void search_texts_init(struct search_texts *texts);
void search_texts_release(struct search_texts *texts);

/* Whether this email's text was not taken yet, and there is room for it. */
bool search_texts_want(const struct search_texts *texts, uint32_t email);
/* Whether so much waits that it should not wait any longer. */
bool search_texts_are_many(const struct search_texts *texts);

/* A copy, to be added or freed; NULL without memory. */
struct search_text_item *search_text_item_new(uint32_t email, const char *text, size_t len);
/* False: it is not wanted, and stays the caller's. */
bool search_texts_add(struct search_texts *texts, struct search_text_item *item);
/* All that wait; the caller frees them. */
struct search_text_item *search_texts_take(struct search_texts *texts);
void search_text_items_free(struct search_text_item *first);

/* What was taken is lost: all are wanted again. */
void search_texts_forget(struct search_texts *texts);

#endif
