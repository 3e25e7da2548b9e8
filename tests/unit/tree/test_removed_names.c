/* SPDX-License-Identifier: MIT */
/*
 * Receipts that went with their file: still there for the process that removed it, for nobody else, and not
 * for ever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tree/removed_names.h"

static const struct tree_entry receipt = {.ino = 77};

static void only_the_process_that_removed_it_finds_it(void **state)
{
    struct removed_names names;
    struct tree_entry entry;
    (void)state;
    removed_names_init(&names);
    removed_names_add(&names, 5, "a.receipt.json", 100, 1000, &receipt);
    assert_true(removed_names_find(&names, 5, "a.receipt.json", 100, 1000, &entry));
    assert_int_equal(entry.ino, 77);
    assert_false(removed_names_find(&names, 5, "a.receipt.json", 101, 1000, &entry));
    assert_false(removed_names_find(&names, 6, "a.receipt.json", 100, 1000, &entry));
    assert_false(removed_names_find(&names, 5, "b.receipt.json", 100, 1000, &entry));
    removed_names_release(&names);
}

static void it_is_removed_once(void **state)
{
    struct removed_names names;
    (void)state;
    removed_names_init(&names);
    removed_names_add(&names, 5, "a.receipt.json", 100, 1000, &receipt);
    assert_false(removed_names_take(&names, 5, "a.receipt.json", 101, 1000));
    assert_true(removed_names_take(&names, 5, "a.receipt.json", 100, 1000));
    assert_false(removed_names_take(&names, 5, "a.receipt.json", 100, 1000));
    removed_names_release(&names);
}

static void it_is_forgotten_after_some_seconds(void **state)
{
    struct removed_names names;
    (void)state;
    removed_names_init(&names);
    removed_names_add(&names, 5, "a.receipt.json", 100, 1000, &receipt);
    assert_false(removed_names_take(&names, 5, "a.receipt.json", 100, 1000 + REMOVED_NAMES_MS));
    removed_names_release(&names);
}

static void an_unknown_process_leaves_nothing(void **state)
{
    struct removed_names names;
    (void)state;
    removed_names_init(&names);
    removed_names_add(&names, 5, "a.receipt.json", 0, 1000, &receipt);
    assert_false(removed_names_take(&names, 5, "a.receipt.json", 0, 1000));
    removed_names_release(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_process_that_removed_it_finds_it),
        cmocka_unit_test(it_is_removed_once),
        cmocka_unit_test(it_is_forgotten_after_some_seconds),
        cmocka_unit_test(an_unknown_process_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
