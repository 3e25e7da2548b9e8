/* SPDX-License-Identifier: MIT */
/*
 * The first free number, found by doubling and halving: thousands of messages may have one name.
 */
#include "outbox/numbered_name.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "mail/file_name.h"
#include "outbox/core.h"

enum {
    NUMBER_MAX_BYTES = 11 /* "-4294967295" */
};

/* Takes bytes away before the extension (or at the end, where that is too long), at a character boundary, so
 * that there is room for a number. */
static char *shorten(const char *name)
{
    size_t len = strlen(name);
    if (len + NUMBER_MAX_BYTES <= NAME_MAX_BYTES)
        return strdup(name);
    size_t excess = len + NUMBER_MAX_BYTES - NAME_MAX_BYTES;
    const char *dot = strrchr(name, '.');
    size_t stem = dot == NULL || (size_t)(dot - name) <= excess ? len : (size_t)(dot - name);
    size_t cut = stem - excess;
    while (cut > 1 && ((unsigned char)name[cut] & 0xc0) == 0x80)
        cut--;
    char *shortened = malloc(len + 1);
    if (shortened == NULL)
        return NULL;
    memcpy(shortened, name, cut);
    memcpy(shortened + cut, name + stem, len - stem + 1);
    return shortened;
}

/* 1 for taken, 0 for free, -1 without memory. */
static int is_taken(const struct item_table *table, enum outbox_folder folder, const char *name,
                    unsigned int number)
{
    _cleanup_free_ char *numbered = file_name_numbered(name, number);
    if (numbered == NULL)
        return -1;
    return item_table_is_taken(table, folder, numbered) ? 1 : 0;
}

char *numbered_name_find(const struct item_table *table, enum outbox_folder folder, const char *name)
{
    if (!item_table_is_taken(table, folder, name))
        return strdup(name);
    _cleanup_free_ char *base = shorten(name);
    if (base == NULL)
        return NULL;
    unsigned int taken = 1;
    unsigned int number = 2;
    int state;
    while ((state = is_taken(table, folder, base, number)) == 1 && number < UINT_MAX / 2) {
        taken = number;
        number *= 2;
    }
    while (state >= 0 && number - taken > 1) {
        unsigned int middle = taken + (number - taken) / 2;
        state = is_taken(table, folder, base, middle);
        *(state == 1 ? &taken : &number) = middle;
    }
    return state < 0 ? NULL : file_name_numbered(base, number);
}
