/* SPDX-License-Identifier: MIT */
/*
 * Inode numbers and the table of kinds.
 */
#include "tree/node.h"

#include <errno.h>

#include "base/cleanup.h"
#include "support/test.h"

TEST(an_inode_number_holds_kind_and_number)
{
    static const uint64_t numbers[] = {0, 1, 4711, UINT32_MAX, (UINT64_C(1) << 58) - 1};
    for (int kind = NODE_ROOT; kind < NODE_KIND_COUNT; kind++)
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
            uint64_t ino = node_ino((enum node_kind)kind, numbers[i]);
            assert_int_equal(node_kind(ino), kind);
            assert_int_equal(node_number(ino), numbers[i]);
            assert_int_not_equal(ino, 0);
        }
}

TEST(the_root_has_the_kernels_root_number)
{
    assert_int_equal(node_ino(NODE_ROOT, 0), TREE_ROOT_INO);
}

TEST(the_stream_of_events_has_the_number_that_its_listener_knows)
{
    assert_int_equal(node_ino(NODE_EVENT_STREAM, 0), TREE_EVENTS_INO);
}

/* Only a faulty kernel sends such a number. */
TEST(an_inode_number_of_no_kind_is_not_found)
{
    struct tree_entry entry;
    for (uint64_t ino = NODE_KIND_COUNT; ino <= (UINT64_C(1) << NODE_KIND_BITS); ino++)
        assert_int_equal(node_get(NULL, NULL, ino, &entry), -ENOENT);
}

TEST(every_kind_has_either_get_or_a_mode)
{
    for (int kind = NODE_ROOT; kind < NODE_KIND_COUNT; kind++) {
        const struct node_ops *ops = node_ops_of(node_ino((enum node_kind)kind, 0));
        assert_true((ops->get != NULL) != (ops->mode != 0));
    }
}

TEST(only_folders_have_the_operations_of_folders)
{
    for (int kind = NODE_ROOT; kind < NODE_KIND_COUNT; kind++) {
        const struct node_ops *ops = node_ops_of(node_ino((enum node_kind)kind, 0));
        bool is_folder = ops->lookup != NULL;
        assert_true(is_folder || (ops->read_dir == NULL && ops->create == NULL && ops->rename == NULL));
        assert_true(is_folder || ops->open != NULL || ops->read_link != NULL);
        assert_true((ops->open_dir == NULL) == (ops->release_dir == NULL));
        assert_true((ops->init == NULL) == (ops->state_name == NULL));
    }
}
