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

/* What is cut off must not make it look like a receipt. */
static char *shorten(const char *name, size_t max_bytes)
{
    char *shortened = file_name_shortened(name, max_bytes);
    if (shortened != NULL && core_is_receipt_name(shortened))
        shortened[strlen(shortened) - 1] = '\0';
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
    _cleanup_free_ char *whole = shorten(name, NAME_MAX_BYTES);
    if (whole == NULL || !item_table_is_taken(table, folder, whole))
        return TAKE_PTR(whole);
    /* Of "x-2", where there is an "x", the next is "x-3", not "x-2-2". */
    _cleanup_free_ char *unnumbered = file_name_unnumbered(name);
    if (unnumbered != NULL && item_table_is_taken(table, folder, unnumbered))
        name = unnumbered;
    _cleanup_free_ char *base = shorten(name, NAME_MAX_BYTES - NUMBER_MAX_BYTES);
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
