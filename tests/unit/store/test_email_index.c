/* SPDX-License-Identifier: MIT */
/*
 * The index of emails: numbers, names and keys, over many inboxes and many emails.
 */
#include "store/email_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

enum {
    LISTS = 3,
    EMAILS = 20000,
};

struct indexed {
    struct email_index *index;
    struct email_list lists[LISTS];
};

static void init(struct indexed *indexed)
{
    *indexed = (struct indexed){.index = email_index_new()};
    assert_non_null(indexed->index);
}

static void release(struct indexed *indexed)
{
    for (size_t i = 0; i < LISTS; i++)
        email_list_release(&indexed->lists[i]);
    email_index_free(indexed->index);
}

static uint32_t add(struct indexed *indexed, uint32_t list, const char *key, const char *name)
{
    struct email_room room;
    const struct email_entry entry = {
        .name = email_index_keep_texts(indexed->index, name, key),
        .line_len = 20,
        .inbox = list & EMAIL_INBOX_MAX,
    };
    uint32_t number = email_index_len(indexed->index);
    assert_int_equal(email_index_prepare(indexed->index, &indexed->lists[list], number, 1, &room), 0);
    email_list_take_room(&indexed->lists[list], &room);
    email_room_release(&room);
    email_index_add(indexed->index, &indexed->lists[list], number, &entry,
                    email_index_hash(indexed->index, key).hash, email_index_hash(indexed->index, name).hash);
    return number;
}

static uint32_t find_key(const struct indexed *indexed, const struct email_list *list, const char *key)
{
    return email_list_find_key(indexed->index, list, email_index_hash(indexed->index, key));
}

static uint32_t find_name(const struct indexed *indexed, const struct email_list *list, const char *name)
{
    return email_list_find_name(indexed->index, list, email_index_hash(indexed->index, name));
}

static void every_email_is_found_by_number_name_and_key(void **state)
{
    (void)state;
    struct indexed indexed;
    char key[32];
    char name[32];
    init(&indexed);
    for (uint32_t i = 0; i < EMAILS; i++) {
        snprintf(key, sizeof(key), "key-%u", i);
        snprintf(name, sizeof(name), "name-%u.json", i);
        assert_int_equal(add(&indexed, i % LISTS, key, name), i);
    }
    assert_int_equal(email_index_len(indexed.index), EMAILS);
    for (uint32_t i = 0; i < EMAILS; i++) {
        const struct email_list *list = &indexed.lists[i % LISTS];
        const struct email_list *other = &indexed.lists[(i + 1) % LISTS];
        snprintf(key, sizeof(key), "key-%u", i);
        snprintf(name, sizeof(name), "name-%u.json", i);
        assert_int_equal(find_key(&indexed, list, key), i);
        assert_int_equal(find_name(&indexed, list, name), i);
        assert_int_equal(find_key(&indexed, other, key), NUMBER_NONE);
        assert_int_equal(find_name(&indexed, other, name), NUMBER_NONE);
        assert_int_equal(list->order[i / LISTS], i);
        assert_string_equal(email_index_find(indexed.index, i)->name, name);
    }
    assert_null(email_index_find(indexed.index, EMAILS));
    assert_null(email_index_find(indexed.index, NUMBER_NONE));
    release(&indexed);
}

static void the_same_key_in_two_inboxes_is_two_emails(void **state)
{
    (void)state;
    struct indexed indexed;
    init(&indexed);
    assert_int_equal(add(&indexed, 0, "key", "name"), 0);
    assert_int_equal(add(&indexed, 1, "key", "name"), 1);
    assert_int_equal(find_key(&indexed, &indexed.lists[0], "key"), 0);
    assert_int_equal(find_key(&indexed, &indexed.lists[1], "key"), 1);
    assert_int_equal(find_name(&indexed, &indexed.lists[2], "name"), NUMBER_NONE);
    release(&indexed);
}

static void room_that_is_not_used_is_given_back(void **state)
{
    (void)state;
    struct indexed indexed;
    struct email_room room;
    init(&indexed);
    assert_int_equal(email_index_prepare(indexed.index, &indexed.lists[0], 0, 1000, &room), 0);
    email_room_release(&room);
    assert_int_equal(email_index_len(indexed.index), 0);
    release(&indexed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_email_is_found_by_number_name_and_key),
        cmocka_unit_test(the_same_key_in_two_inboxes_is_two_emails),
        cmocka_unit_test(room_that_is_not_used_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
