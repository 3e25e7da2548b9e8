/* SPDX-License-Identifier: MIT */
/*
 * Inode numbers and the table of what is always there.
 */
#include "tree/inode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "tree/root.h"
#include "tree/tree.h"

static void kind_and_number_come_back(void **state)
{
    static const uint64_t numbers[] = {0, 1, 4711, UINT32_MAX, (UINT64_C(1) << 59) - 1};
    (void)state;
    for (int kind = INODE_FIXED; kind <= INODE_DRAFT; kind++)
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
            uint64_t ino = inode_make((enum inode_kind)kind, numbers[i]);
            assert_int_equal(inode_kind(ino), kind);
            assert_int_equal(inode_number(ino), numbers[i]);
            assert_int_not_equal(ino, 0);
        }
}

static void the_root_is_the_kernels_root(void **state)
{
    (void)state;
    assert_int_equal(inode_make(INODE_FIXED, FIXED_ROOT), TREE_ROOT_INO);
}

static void every_fixed_node_is_found_by_its_name(void **state)
{
    (void)state;
    for (int i = FIXED_ROOT + 1; i < FIXED_NODES; i++) {
        const struct fixed_entry *entry = fixed_get((enum fixed_node)i);
        assert_non_null(entry->name);
        assert_int_equal(fixed_find(entry->name), i);
    }
    assert_int_equal(fixed_find("nothing"), FIXED_ROOT);
    assert_int_equal(fixed_find(""), FIXED_ROOT);
}

static void folders_are_0700_files_0444_and_what_waits_is_hidden(void **state)
{
    (void)state;
    for (int i = FIXED_ROOT; i < FIXED_NODES; i++) {
        const struct fixed_entry *entry = fixed_get((enum fixed_node)i);
        bool waits = i == FIXED_EVENTS || i == FIXED_CTL;
        assert_int_equal(entry->is_hidden, waits);
        if (S_ISDIR(entry->mode))
            assert_int_equal(entry->mode & 07777, 0700);
        else if (!waits)
            assert_int_equal(entry->mode, S_IFREG | 0444);
    }
}

static void outbox_folders_go_both_ways(void **state)
{
    enum outbox_folder folder = OUTBOX_FOLDER_OUTBOX;
    int found = 0;
    (void)state;
    for (int i = FIXED_ROOT; i < FIXED_NODES; i++)
        if (fixed_is_outbox_folder((enum fixed_node)i, &folder)) {
            assert_int_equal(fixed_of_outbox_folder(folder), i);
            found++;
        }
    assert_int_equal(found, OUTBOX_FOLDERS);
    assert_false(fixed_is_outbox_folder(FIXED_DRAFTS, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kind_and_number_come_back),
        cmocka_unit_test(the_root_is_the_kernels_root),
        cmocka_unit_test(every_fixed_node_is_found_by_its_name),
        cmocka_unit_test(folders_are_0700_files_0444_and_what_waits_is_hidden),
        cmocka_unit_test(outbox_folders_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
