/* SPDX-License-Identifier: MIT */
/*
 * What a listing tells of the emails of a very large inbox.
 */
#include "tree_fixture.h"

#include <limits.h>

#include "tree/inboxes.h"

enum {
    MANY = LISTED_WITH_ATTRIBUTES + 4 * LOOKUPS_OF_DEMAND
};

static const char box[] = "inboxes/alice@inbox.example";

static void demand_is_seen_after_enough_lookups_in_one_inbox(void **state)
{
    struct attribute_demand demand = {0};
    (void)state;
    for (int i = 0; i < LOOKUPS_OF_DEMAND; i++) {
        assert_false(attribute_demand_is_seen(&demand, 0));
        attribute_demand_note(&demand, 0);
    }
    assert_true(attribute_demand_is_seen(&demand, 0));
    assert_false(attribute_demand_is_seen(&demand, 7));
    attribute_demand_note(&demand, 0);
    assert_true(attribute_demand_is_seen(&demand, 0));
}

static void demand_is_that_of_the_inbox_looked_at_last(void **state)
{
    struct attribute_demand demand = {0};
    (void)state;
    for (int i = 0; i < LOOKUPS_OF_DEMAND; i++)
        attribute_demand_note(&demand, 7);
    assert_true(attribute_demand_is_seen(&demand, 7));
    attribute_demand_note(&demand, 8);
    assert_false(attribute_demand_is_seen(&demand, 7));
    assert_false(attribute_demand_is_seen(&demand, 8));
}

static int set_up_many(void **state)
{
    char id[32];
    struct tree_fixture *fixture = calloc(1, sizeof(*fixture));
    temp_dir_init(&fixture->dir);
    fixture->fake = fake_service_new();
    fake_service_add_inbox(fixture->fake,
                           "{\"id\":\"i1\",\"name\":\"alice\",\"email_address\":\"alice@inbox.example\"}");
    for (int i = 0; i < MANY; i++) {
        snprintf(id, sizeof(id), "%08x", i);
        fake_service_add_simple_email(fixture->fake, "i1", id, "Hello");
    }
    fixture_open_layers(fixture);
    *state = fixture;
    return 0;
}

/* How a listing tells of what is in it. */
struct listed {
    unsigned int entries;
    unsigned int with_attributes;
    unsigned int first_without; /* how many came before it */
    char last[NAME_MAX + 1];
};

static bool take(void *context, const char *name, const struct tree_entry *entry, uint64_t next)
{
    struct listed *listed = context;
    (void)next;
    assert_true(entry->attributes.stat.st_ino != 0);
    assert_true(entry->attributes.stat.st_mode != 0);
    if (entry->ino != 0)
        listed->with_attributes++;
    else if (listed->first_without == 0 && name[0] != '.')
        listed->first_without = listed->entries;
    listed->entries++;
    snprintf(listed->last, sizeof(listed->last), "%s", name);
    return true;
}

static struct listed list(struct tree_fixture *fixture)
{
    struct listed listed = {.entries = 0};
    struct tree_dir *dir = NULL;
    assert_int_equal(tree_open_dir(fixture->tree, NULL, fixture_ino(fixture, box), &dir), 0);
    assert_int_equal(tree_read_dir(dir, 0, take, &listed), 0);
    tree_release_dir(dir);
    return listed;
}

enum {
    OWN = 2,  /* inbox.json, index.jsonl */
    DOTS = 2, /* known to the kernel anyway */
};

static void a_usual_inbox_is_listed_with_all_attributes(void **state)
{
    struct listed listed = list(*state);
    assert_int_equal(listed.entries, 1 + OWN + DOTS);
    assert_int_equal(listed.with_attributes, 1 + OWN);
}

static void a_very_large_inbox_is_listed_by_names_until_they_are_looked_up(void **state)
{
    struct tree_fixture *fixture = *state;
    struct listed listed = list(fixture);
    assert_int_equal(listed.entries, MANY + OWN + DOTS);
    assert_int_equal(listed.with_attributes, LISTED_WITH_ATTRIBUTES + OWN);
    assert_int_equal(listed.first_without, LISTED_WITH_ATTRIBUTES + OWN + DOTS);

    struct tree_entry entry;
    for (int i = 0; i < LOOKUPS_OF_DEMAND; i++)
        assert_int_equal(tree_lookup(fixture->tree, NULL, fixture_ino(fixture, box), listed.last, &entry), 0);
    listed = list(fixture);
    assert_int_equal(listed.entries, MANY + OWN + DOTS);
    assert_int_equal(listed.with_attributes, MANY + OWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demand_is_seen_after_enough_lookups_in_one_inbox),
        cmocka_unit_test(demand_is_that_of_the_inbox_looked_at_last),
        cmocka_unit_test_setup_teardown(a_usual_inbox_is_listed_with_all_attributes, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(a_very_large_inbox_is_listed_by_names_until_they_are_looked_up,
                                        set_up_many, fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
