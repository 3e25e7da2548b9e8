/* SPDX-License-Identifier: MIT */
/*
 * The map, against what it should hold after any sequence of changes.
 */
#include "base/map.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

enum {
    ENTRIES = 5000
};

struct entry {
    char key[16];
    bool is_in;
};

static struct entry *make_entries(void)
{
    struct entry *entries = calloc(ENTRIES, sizeof(*entries));
    assert_non_null(entries);
    for (int i = 0; i < ENTRIES; i++)
        snprintf(entries[i].key, sizeof(entries[i].key), "key-%d", i);
    return entries;
}

TEST(an_empty_map_finds_nothing)
{
    struct map map = {0};
    size_t position = 0;
    assert_null(map_find(&map, "a"));
    assert_null(map_find(&map, ""));
    assert_null(map_remove(&map, "a"));
    assert_null(map_next(&map, &position));
    map_release(&map);
}

TEST(the_beginning_of_a_key_is_another_key)
{
    struct map map = {0};
    int one = 1;
    int empty = 0;
    assert_int_equal(map_set(&map, "abc", &one), 0);
    assert_int_equal(map_set(&map, "", &empty), 0);
    assert_ptr_equal(map_find(&map, "abc"), &one);
    assert_null(map_find(&map, "ab"));
    assert_null(map_find(&map, "abcd"));
    assert_ptr_equal(map_find(&map, ""), &empty);
    map_release(&map);
}

TEST(setting_again_replaces_key_and_value)
{
    struct map map = {0};
    char first[] = "key";
    char second[] = "key";
    int one = 1;
    int two = 2;
    assert_int_equal(map_set(&map, first, &one), 0);
    assert_int_equal(map_set(&map, second, &two), 0);
    first[0] = 'x'; /* the first key is no longer the map's */
    assert_ptr_equal(map_find(&map, "key"), &two);
    assert_int_equal(map.len, 1);
    map_release(&map);
}

static void check_all(const struct map *map, const struct entry *entries)
{
    size_t len = 0;
    for (int i = 0; i < ENTRIES; i++) {
        assert_ptr_equal(map_find(map, entries[i].key), entries[i].is_in ? &entries[i] : NULL);
        len += entries[i].is_in;
    }
    assert_int_equal(map->len, len);
}

TEST(it_holds_what_any_sequence_of_changes_leaves)
{
    struct map map = {0};
    struct entry *entries = make_entries();
    unsigned int seed = 1;
    for (int step = 0; step < 200 * 1000; step++) {
        seed = seed * 1103515245 + 12345;
        struct entry *entry = &entries[(seed >> 8) % ENTRIES];
        if (entry->is_in)
            assert_ptr_equal(map_remove(&map, entry->key), entry);
        else
            assert_int_equal(map_set(&map, entry->key, entry), 0);
        entry->is_in = !entry->is_in;
        if (step % 40000 == 0)
            check_all(&map, entries);
    }
    check_all(&map, entries);
    assert_true(map.capacity <= 4 * ENTRIES); /* markers of the deleted do not pile up */
    map_release(&map);
    free(entries);
}

/* Files come and go under ever new names, a few at a time: a search must always meet an empty place. */
TEST(names_that_come_and_go_leave_room)
{
    enum {
        AT_ONCE = 3
    };
    struct map map = {0};
    struct entry *entries = make_entries();
    for (int i = 0; i < ENTRIES; i++) {
        assert_int_equal(map_set(&map, entries[i].key, &entries[i]), 0);
        if (i >= AT_ONCE)
            assert_ptr_equal(map_remove(&map, entries[i - AT_ONCE].key), &entries[i - AT_ONCE]);
        assert_true(map.used < map.capacity);
        assert_null(map_find(&map, "another"));
    }
    assert_int_equal(map.len, AT_ONCE);
    assert_true(map.capacity <= 64);
    map_release(&map);
    free(entries);
}

TEST(a_walk_meets_every_entry_once_and_may_remove_it)
{
    struct map map = {0};
    struct entry *entries = make_entries();
    for (int i = 0; i < ENTRIES; i++)
        assert_int_equal(map_set(&map, entries[i].key, &entries[i]), 0);
    size_t position = 0;
    size_t met = 0;
    for (struct entry *entry; (entry = map_next(&map, &position)) != NULL; met++) {
        assert_false(entry->is_in);
        entry->is_in = true;
        assert_ptr_equal(map_remove(&map, entry->key), entry);
    }
    assert_int_equal(met, ENTRIES);
    assert_int_equal(map.len, 0);
    map_release(&map);
    free(entries);
}
