/* SPDX-License-Identifier: MIT */
/*
 * The table of queries. There are few enough to be looked through.
 */
#include "tree/query_table.h"

#include <stdlib.h>
#include <string.h>

static void drop_found(struct query *query)
{
    search_names_unref(query->found);
    free(query->note);
    query->found = NULL;
    query->note = NULL;
    query->note_len = 0;
}

static void free_query(struct query *query)
{
    drop_found(query);
    free(query->text);
    free(query);
}

void query_table_release(struct query_table *table)
{
    for (size_t i = 0; i < table->len; i++)
        free_query(table->queries[i]);
    *table = (struct query_table){.len = 0};
}

struct query *query_table_find_number(const struct query_table *table, uint64_t number)
{
    for (size_t i = 0; i < table->len; i++)
        if (table->queries[i]->number == number)
            return table->queries[i];
    return NULL;
}

struct query *query_table_find_text(const struct query_table *table, const char *text)
{
    for (size_t i = 0; i < table->len; i++)
        if (strcmp(table->queries[i]->text, text) == 0)
            return table->queries[i];
    return NULL;
}

static void take_out(struct query_table *table, const struct query *query)
{
    size_t i = 0;
    while (table->queries[i] != query)
        i++;
    table->len--;
    memmove(&table->queries[i], &table->queries[i + 1], (table->len - i) * sizeof(struct query *));
}

static void put_first(struct query_table *table, struct query *query)
{
    memmove(&table->queries[1], &table->queries[0], table->len * sizeof(struct query *));
    table->queries[0] = query;
    table->len++;
}

/* The oldest that nobody is asking. False: there is none. */
static bool make_room(struct query_table *table)
{
    for (size_t i = table->len; i-- > 0 && table->len == SEARCH_NAMES_KNOWN;) {
        struct query *query = table->queries[i];
        if (query->is_asking)
            continue;
        take_out(table, query);
        free_query(query);
    }
    return table->len < SEARCH_NAMES_KNOWN;
}

/* Those that show too much hold no results any more. */
static void forget_results(struct query_table *table)
{
    size_t shown = 0;
    for (size_t i = 0; i < table->len; i++)
        if (table->queries[i]->found != NULL && ++shown > SEARCH_QUERIES_SHOWN)
            drop_found(table->queries[i]);
}

struct query *query_table_add(struct query_table *table, const char *text)
{
    struct query *query = make_room(table) ? calloc(1, sizeof(*query)) : NULL;
    if (query == NULL || (query->text = strdup(text)) == NULL) {
        free(query);
        return NULL;
    }
    query->number = ++table->last_number;
    put_first(table, query);
    return query;
}

void query_table_remove(struct query_table *table, struct query *query)
{
    take_out(table, query);
    free_query(query);
}

void query_table_settle(struct query_table *table, struct query *query, struct search_names *found,
                        char *note, size_t note_len)
{
    drop_found(query);
    query->found = found;
    query->note = note;
    query->note_len = note_len;
    take_out(table, query);
    put_first(table, query);
    forget_results(table);
}
