/* SPDX-License-Identifier: MIT */
/*
 * Receipts that were removed with their file: only the process that removed the file still finds them, for
 * some seconds.
 */

#include "tree/removed_names.h"

#include "support/test.h"

static const struct tree_entry receipt = {.ino = 77};

TEST(only_the_process_that_removed_it_finds_it)
{
    struct removed_names names;
    struct tree_entry entry;
    removed_names_init(&names);
    removed_names_add(&names, 5, "a.receipt.json", 100, 1000, &receipt);
    assert_true(removed_names_find(&names, 5, "a.receipt.json", 100, 1000, &entry));
    assert_int_equal(entry.ino, 77);
    assert_false(removed_names_find(&names, 5, "a.receipt.json", 101, 1000, &entry));
    assert_false(removed_names_find(&names, 6, "a.receipt.json", 100, 1000, &entry));
    assert_false(removed_names_find(&names, 5, "b.receipt.json", 100, 1000, &entry));
    removed_names_release(&names);
}

TEST(a_removed_name_is_taken_once)
{
    struct removed_names names;
    removed_names_init(&names);
    removed_names_add(&names, 5, "a.receipt.json", 100, 1000, &receipt);
    assert_false(removed_names_take(&names, 5, "a.receipt.json", 101, 1000));
    assert_true(removed_names_take(&names, 5, "a.receipt.json", 100, 1000));
    assert_false(removed_names_take(&names, 5, "a.receipt.json", 100, 1000));
    removed_names_release(&names);
}

TEST(a_removed_name_is_forgotten_after_some_seconds)
{
    struct removed_names names;
    removed_names_init(&names);
    removed_names_add(&names, 5, "a.receipt.json", 100, 1000, &receipt);
    assert_false(removed_names_take(&names, 5, "a.receipt.json", 100, 1000 + REMOVED_NAMES_MS));
    removed_names_release(&names);
}

TEST(an_unknown_process_leaves_nothing)
{
    struct removed_names names;
    removed_names_init(&names);
    removed_names_add(&names, 5, "a.receipt.json", 0, 1000, &receipt);
    assert_false(removed_names_take(&names, 5, "a.receipt.json", 0, 1000));
    removed_names_release(&names);
}
