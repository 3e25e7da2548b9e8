/* SPDX-License-Identifier: MIT */
/*
 * Names of what was found. Those of emails live as long as the store and are not copied.
 */
#include "tree/search_names.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mail/file_name.h"
#include "tree/inode.h"

struct search_names {
    atomic_uint references;
    size_t len;
    struct search_name items[];
};

static struct search_names *new_names(size_t capacity)
{
    struct search_names *names = calloc(1, sizeof(*names) + capacity * sizeof(names->items[0]));
    if (names != NULL)
        atomic_init(&names->references, 1);
    return names;
}

struct search_names *search_names_ref(struct search_names *names)
{
    atomic_fetch_add(&names->references, 1);
    return names;
}

void search_names_unref(struct search_names *names)
{
    if (names == NULL || atomic_fetch_sub(&names->references, 1) != 1)
        return;
    for (size_t i = 0; i < names->len; i++)
        free(names->items[i].owned);
    free(names);
}

static int compare(const void *one, const void *other)
{
    const struct search_name *a = one;
    const struct search_name *b = other;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : a->ino < b->ino ? -1 : a->ino > b->ino;
}

uint64_t search_names_find(const struct search_names *names, const char *name)
{
    size_t low = 0;
    size_t high = names->len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(names->items[middle].name, name);
        if (order == 0)
            return names->items[middle].ino;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* The same mail in two inboxes has one name twice: the first stays as it is. Numbered names are chosen while
 * all still stand in order under their own. */
static void number_doubles(struct search_names *names)
{
    unsigned int number = 1;
    for (size_t i = 1; i < names->len; i++) {
        struct search_name *item = &names->items[i];
        if (strcmp(item->name, names->items[i - 1].name) != 0) {
            number = 1;
            continue;
        }
        do {
            free(item->owned);
            item->owned = file_name_numbered(item->name, ++number);
        } while (item->owned != NULL && search_names_find(names, item->owned) != 0);
    }
    for (size_t i = 0; i < names->len; i++)
        if (names->items[i].owned != NULL)
            names->items[i].name = names->items[i].owned;
    qsort(names->items, names->len, sizeof(names->items[0]), compare);
}

struct search_names *search_names_of_emails(struct store *store, const struct store_search *found)
{
    struct search_names *names = new_names(found->len);
    if (names == NULL)
        return NULL;
    for (size_t i = 0; i < found->len; i++) {
        struct email_view view;
        if (store_get_email(store, found->emails[i], &view))
            names->items[names->len++] =
                (struct search_name){.name = view.name, .ino = inode_make(INODE_SEARCH_HIT, view.number)};
    }
    qsort(names->items, names->len, sizeof(names->items[0]), compare);
    number_doubles(names);
    return names;
}

struct search_names *search_names_of_queries(const char *const *texts, const uint64_t *inos, size_t len)
{
    struct search_names *names = new_names(len);
    for (size_t i = 0; names != NULL && i < len; i++) {
        char *copy = strdup(texts[i]);
        if (copy != NULL)
            names->items[names->len++] = (struct search_name){.name = copy, .ino = inos[i], .owned = copy};
    }
    return names;
}

size_t search_names_len(const struct search_names *names)
{
    return names->len;
}

const struct search_name *search_names_get(const struct search_names *names, size_t index)
{
    return &names->items[index];
}
