/* SPDX-License-Identifier: MIT */
/*
 * The queries that search/ remembers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tree/search.h"

static struct query *add(struct query_table *table, int number)
{
    char text[32];
    snprintf(text, sizeof(text), "query %d", number);
    struct query *query = query_table_add(table, text);
    assert_non_null(query);
    return query;
}

static void settle(struct query_table *table, struct query *query)
{
    struct search_names *found = search_names_of_queries(NULL, NULL, 0);
    assert_non_null(found);
    query_table_settle(table, query, found, strdup("note"), strlen("note"));
}

static void a_query_is_found_by_text_and_number_until_it_is_removed(void **state)
{
    struct query_table table = {.len = 0};
    (void)state;
    struct query *first = add(&table, 1);
    struct query *second = add(&table, 2);
    uint64_t number = first->number;
    assert_ptr_equal(query_table_find_text(&table, "query 1"), first);
    assert_ptr_equal(query_table_find_number(&table, second->number), second);
    query_table_remove(&table, first);
    assert_null(query_table_find_text(&table, "query 1"));
    assert_null(query_table_find_number(&table, number));
    /* Its number is not given again. */
    assert_true(add(&table, 1)->number > second->number);
    query_table_release(&table);
}

static void names_are_bounded_and_what_is_being_asked_stays(void **state)
{
    struct query_table table = {.len = 0};
    (void)state;
    struct query *asking = add(&table, 0);
    asking->is_asking = true;
    for (int i = 1; i < 3 * SEARCH_NAMES_KNOWN; i++)
        add(&table, i);
    assert_int_equal(table.len, SEARCH_NAMES_KNOWN);
    assert_ptr_equal(query_table_find_text(&table, "query 0"), asking);
    assert_null(query_table_find_text(&table, "query 1"));
    query_table_release(&table);
}

static void the_latest_that_were_asked_hold_what_was_found(void **state)
{
    struct query_table table = {.len = 0};
    (void)state;
    struct query *again = add(&table, 0);
    settle(&table, again);
    for (int i = 1; i <= SEARCH_QUERIES_SHOWN; i++) {
        settle(&table, add(&table, i));
        if (i == SEARCH_QUERIES_SHOWN / 2)
            settle(&table, again);
    }
    assert_non_null(again->found);
    assert_null(query_table_find_text(&table, "query 1")->found);
    assert_null(query_table_find_text(&table, "query 1")->note);
    assert_non_null(query_table_find_text(&table, "query 2")->found);
    query_table_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_is_found_by_text_and_number_until_it_is_removed),
        cmocka_unit_test(names_are_bounded_and_what_is_being_asked_stays),
        cmocka_unit_test(the_latest_that_were_asked_hold_what_was_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
