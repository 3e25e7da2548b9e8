/* SPDX-License-Identifier: MIT */
/*
 * Folder names of inboxes: the address where it can be one, safe and unique in any case.
 */
#include "store/inbox_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "mail/file_name.h"

static int put(struct inbox_table *table, uint32_t number, const char *id, const char *name)
{
    const struct inbox_row row = {
        .number = number, .origin = INBOX_LISTED, .id = id, .name = name, .json = "{}\n", .json_len = 3};
    return inbox_table_put(table, &row);
}

static void names_are_addresses_or_safe_ids(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        const char *address;
        const char *name; /* NULL: only safe */
    } cases[] = {
        {"in-1", "new@x.example", "new@x.example"},
        {"in-1", NULL, "in-1"},
        {"in-1", "taken@x.example", "in-1"},
        {"in-1", ".hidden@x.example", "in-1"},
        {"in-1", "-rf@x.example", "in-1"},
        {"in-1", "Taken@X.example", "in-1"},
        {"Taken-ID", NULL, "Taken-ID-2"},
        {"--help", NULL, NULL},
        {"in-1", "a/b@x.example", "in-1"},
        {"taken-id", NULL, "taken-id-2"},
        {"../../etc", NULL, NULL},
        {"..", NULL, NULL},
        {"a\nb", NULL, NULL},
        {"\xff\xfe", NULL, NULL},
    };
    struct inbox_table table = {0};
    assert_int_equal(put(&table, 0, "other", "taken@x.example"), 0);
    assert_int_equal(put(&table, 1, "another", "taken-id"), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *name = inbox_table_choose_name(&table, NULL, cases[i].id, cases[i].address);
        assert_true(file_name_is_harmless(name));
        if (cases[i].name != NULL)
            assert_string_equal(name, cases[i].name);
    }
    inbox_table_release(&table);
}

static void an_inbox_may_keep_its_own_name(void **state)
{
    (void)state;
    struct inbox_table table = {0};
    assert_int_equal(put(&table, 0, "in-1", "a@x.example"), 0);
    _cleanup_free_ char *name =
        inbox_table_choose_name(&table, inbox_table_get(&table, 0), "in-1", "a@x.example");
    assert_string_equal(name, "a@x.example");
    inbox_table_release(&table);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    struct inbox_table table = {0};
    assert_int_equal(put(&table, 3, "in-3", "three"), 0);
    assert_null(inbox_table_get(&table, 0));
    assert_int_equal(put(&table, 3, "other", "other"), -EBADMSG);
    assert_int_equal(put(&table, 4, "in-3", "other"), -EBADMSG);
    assert_int_equal(put(&table, 4, "in-4", "three"), -EBADMSG);
    assert_int_equal(put(&table, INBOXES_MAX, "in-4", "four"), -EBADMSG);
    assert_string_equal(inbox_table_find_id(&table, "in-3")->name, "three");
    inbox_table_release(&table);
}

static void renaming_and_removing_free_the_name(void **state)
{
    (void)state;
    struct inbox_table table = {0};
    assert_int_equal(put(&table, 0, "in-1", "old"), 0);
    assert_int_equal(put(&table, 0, "in-1", "new"), 0);
    assert_null(inbox_table_find_name(&table, "old"));
    struct inbox *inbox = inbox_table_find_name(&table, "new");
    assert_ptr_equal(inbox, inbox_table_get(&table, 0));
    inbox_table_remove(&table, inbox);
    assert_null(inbox_table_find_name(&table, "new"));
    assert_ptr_equal(inbox_table_find_id(&table, "in-1"), inbox);
    assert_int_equal(put(&table, 1, "in-2", "new"), 0);
    inbox_table_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_addresses_or_safe_ids),
        cmocka_unit_test(an_inbox_may_keep_its_own_name),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(renaming_and_removing_free_the_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
