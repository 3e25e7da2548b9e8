/* SPDX-License-Identifier: MIT */
/*
 * What is found of items by their names and ids while they are shown and hidden.
 */
#include "outbox/item_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct item *show(struct item_table *table, enum outbox_folder folder, uint64_t number,
                         const char *name, const char *id)
{
    struct item *item = item_new(number);
    assert_non_null(item);
    item->envelope.name = strdup(name);
    item->envelope.id = id == NULL ? NULL : strdup(id);
    assert_int_equal(item_table_add(table, item), 0);
    assert_int_equal(item_table_reserve(table, folder, item->envelope.name), 0);
    item_table_show(table, folder, item);
    return item;
}

static void ids_are_known_as_long_as_any_item_of_them_is_shown(void **state)
{
    struct item_table table = {0};
    (void)state;
    struct item *one = show(&table, OUTBOX_FOLDER_SENT, 1, "one", "id-1");
    struct item *twin = show(&table, OUTBOX_FOLDER_SENT, 2, "twin", "id-1");
    struct item *none = show(&table, OUTBOX_FOLDER_SENT, 3, "none", NULL);
    assert_true(item_table_has_id(&table, OUTBOX_FOLDER_SENT, "id-1"));
    assert_false(item_table_has_id(&table, OUTBOX_FOLDER_SENT, "id-2"));
    assert_false(item_table_has_id(&table, OUTBOX_FOLDER_FAILED, "id-1"));
    item_table_hide(&table, OUTBOX_FOLDER_SENT, one);
    item_table_hide(&table, OUTBOX_FOLDER_SENT, one); /* which is no longer shown */
    item_table_hide(&table, OUTBOX_FOLDER_SENT, none);
    assert_true(item_table_has_id(&table, OUTBOX_FOLDER_SENT, "id-1"));
    item_table_hide(&table, OUTBOX_FOLDER_SENT, twin);
    assert_false(item_table_has_id(&table, OUTBOX_FOLDER_SENT, "id-1"));
    item_table_release(&table);
}

static void what_takes_a_name_hides_who_had_it(void **state)
{
    struct item_table table = {0};
    (void)state;
    struct item *older = show(&table, OUTBOX_FOLDER_ATTACHMENTS, 1, "file", "pool-1");
    struct item *newer = item_new(2);
    newer->envelope.name = strdup("file");
    newer->envelope.id = strdup("pool-2");
    assert_int_equal(item_table_add(&table, newer), 0);
    item_table_show(&table, OUTBOX_FOLDER_ATTACHMENTS, newer);
    assert_ptr_equal(item_table_find(&table, OUTBOX_FOLDER_ATTACHMENTS, "file"), newer);
    assert_false(item_table_has_id(&table, OUTBOX_FOLDER_ATTACHMENTS, "pool-1"));
    assert_true(item_table_has_id(&table, OUTBOX_FOLDER_ATTACHMENTS, "pool-2"));
    item_table_hide(&table, OUTBOX_FOLDER_ATTACHMENTS, older);
    assert_true(item_table_has_id(&table, OUTBOX_FOLDER_ATTACHMENTS, "pool-2"));
    item_table_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_known_as_long_as_any_item_of_them_is_shown),
        cmocka_unit_test(what_takes_a_name_hides_who_had_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
