/* SPDX-License-Identifier: MIT */
/*
 * Removed names: only the thread that removed a name still finds it, for some seconds.
 */

#include "tree/removed_names.h"

#include "support/fake_clock.h"
#include "support/test.h"

static struct fake_clock fake;
static struct removed_names names;
static struct tree_entry entry;

static int set_up(void **state)
{
    fake_clock_init(&fake, 1000);
    removed_names_init(&names, &fake.clock);
    return 0;
}

static int tear_down(void **state)
{
    removed_names_release(&names);
    fake_clock_release(&fake);
    return 0;
}

static void add(pid_t pid)
{
    static const struct tree_entry receipt = {.ino = 77};
    removed_names_add(&names, pid, 5, "a.receipt.json", &receipt);
}

TEST_WITH(only_the_thread_that_removed_a_name_finds_it, set_up, tear_down)
{
    add(100);
    assert_true(removed_names_find(&names, 100, 5, "a.receipt.json", &entry));
    assert_int_equal(entry.ino, 77);
    assert_false(removed_names_find(&names, 101, 5, "a.receipt.json", &entry));
    assert_false(removed_names_find(&names, 100, 6, "a.receipt.json", &entry));
    assert_false(removed_names_find(&names, 100, 5, "b.receipt.json", &entry));
}

TEST_WITH(only_the_thread_that_removed_a_name_forgets_it, set_up, tear_down)
{
    add(100);
    removed_names_forget(&names, 101, 77);
    removed_names_forget(&names, 100, 78);
    assert_true(removed_names_find(&names, 100, 5, "a.receipt.json", &entry));
    removed_names_forget(&names, 100, 77);
    assert_false(removed_names_find(&names, 100, 5, "a.receipt.json", &entry));
}

TEST_WITH(a_removed_name_is_forgotten_after_some_seconds, set_up, tear_down)
{
    add(100);
    fake_clock_advance(&fake, REMOVED_NAMES_MS);
    assert_false(removed_names_find(&names, 100, 5, "a.receipt.json", &entry));
}

TEST_WITH(an_unknown_thread_adds_no_name, set_up, tear_down)
{
    add(0);
    assert_false(removed_names_find(&names, 0, 5, "a.receipt.json", &entry));
}
