/* SPDX-License-Identifier: MIT */
/*
 * The queue of texts.
 */
#include "store/search_texts.h"

#include <stdlib.h>
#include <string.h>

enum {
    TEXTS_MAX_BYTES = 8 * 1024 * 1024
};

void search_texts_init(struct search_texts *texts)
{
    *texts = (struct search_texts){.first = NULL};
    texts->end = &texts->first;
}

void search_text_items_free(struct search_text_item *first)
{
    while (first != NULL) {
        struct search_text_item *next = first->next;
        free(first);
        first = next;
    }
}

void search_texts_release(struct search_texts *texts)
{
    search_text_items_free(texts->first);
    free(texts->known);
    search_texts_init(texts);
}

static bool is_known(const struct search_texts *texts, uint32_t email)
{
    return email / 8 < texts->known_bytes && (texts->known[email / 8] & 1U << email % 8) != 0;
}

static bool note_known(struct search_texts *texts, uint32_t email)
{
    if (email / 8 >= texts->known_bytes) {
        size_t bytes = (size_t)email / 4 + 64;
        unsigned char *known = realloc(texts->known, bytes);
        if (known == NULL)
            return false;
        memset(known + texts->known_bytes, 0, bytes - texts->known_bytes);
        texts->known = known;
        texts->known_bytes = bytes;
    }
    texts->known[email / 8] |= (unsigned char)(1U << email % 8);
    return true;
}

bool search_texts_want(const struct search_texts *texts, uint32_t email)
{
    return texts->bytes <= TEXTS_MAX_BYTES && !is_known(texts, email);
}

bool search_texts_are_many(const struct search_texts *texts)
{
    return texts->bytes > TEXTS_MAX_BYTES / 2;
}

struct search_text_item *search_text_item_new(uint32_t email, const char *text, size_t len)
{
    struct search_text_item *item = malloc(sizeof(*item) + len + 1);
    if (item == NULL)
        return NULL;
    *item = (struct search_text_item){.email = email, .len = len};
    memcpy(item->bytes, text, len);
    item->bytes[len] = '\0';
    return item;
}

bool search_texts_add(struct search_texts *texts, struct search_text_item *item)
{
    if (!search_texts_want(texts, item->email) || !note_known(texts, item->email))
        return false;
    *texts->end = item;
    texts->end = &item->next;
    texts->bytes += sizeof(*item) + item->len;
    return true;
}

struct search_text_item *search_texts_take(struct search_texts *texts)
{
    struct search_text_item *first = texts->first;
    texts->first = NULL;
    texts->end = &texts->first;
    texts->bytes = 0;
    return first;
}

void search_texts_forget(struct search_texts *texts)
{
    if (texts->known_bytes > 0)
        memset(texts->known, 0, texts->known_bytes);
}
