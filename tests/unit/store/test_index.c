/* SPDX-License-Identifier: MIT */
/*
 * The index finds emails by number, name and key, and gives each inbox its own name.
 */
#include "store/index_changes.h"

#include "mail/file_name.h"
#include "store/store_private.h"
#include "support/test.h"
#include "unit/store/store_fixture.h"

enum {
    INBOXES = 3,
    EMAILS = 20000,
};

struct indexed {
    struct store_fixture fixture; /* without a started store */
    struct index *index;
    struct email_batch *batch;
};

static int set_up(void **state)
{
    struct indexed *indexed = calloc(1, sizeof(*indexed));
    fixture_init(&indexed->fixture);
    fixture_open(&indexed->fixture);
    indexed->index = &indexed->fixture.store->index;
    indexed->batch = calloc(1, sizeof(*indexed->batch));
    indexed->batch->listing = 1;
    *state = indexed;
    return 0;
}

static int tear_down(void **state)
{
    struct indexed *indexed = *state;
    email_batch_release(indexed->batch);
    free(indexed->batch);
    fixture_release(&indexed->fixture);
    free(indexed);
    return 0;
}

/* ---------------------------------------------------------------- emails */

static void put_email(struct indexed *indexed, uint32_t inbox, const char *key, const char *stem)
{
    bool is_changed;
    struct email_record record = {.key = key, .stem = stem, .json = "{}\n", .json_len = 3, .line_len = 20};
    assert_int_equal(index_put_email(indexed->index, indexed->batch, inbox, &record, &is_changed), 0);
    assert_true(is_changed);
}

static uint32_t put_inbox(struct indexed *indexed, const char *id)
{
    struct inbox_record record;
    uint32_t number;
    assert_int_equal(inbox_record_from_id(id, &record), 0);
    assert_int_equal(index_put_inbox(indexed->index, &record, INBOX_LISTED, 0, &number), 0);
    inbox_record_release(&record);
    return number;
}

TEST_WITH(every_email_is_found_by_number_name_and_key, set_up, tear_down)
{
    struct indexed *indexed = *state;
    struct index *index = indexed->index;
    struct store *store = indexed->fixture.store;
    struct email_view view;
    char key[32];
    char name[48];
    for (uint32_t i = 0; i < INBOXES; i++) {
        snprintf(key, sizeof(key), "in-%u", i);
        assert_int_equal(put_inbox(indexed, key), i);
    }
    for (uint32_t i = 0; i < EMAILS; i++) {
        snprintf(key, sizeof(key), "key-%u", i);
        snprintf(name, sizeof(name), "name-%u", i);
        put_email(indexed, i % INBOXES, key, name);
    }
    assert_int_equal(email_batch_flush(indexed->batch, index), 0);
    assert_int_equal(index_get_size(index).emails, EMAILS);
    for (uint32_t i = 0; i < EMAILS; i++) {
        snprintf(key, sizeof(key), "key-%u", i);
        snprintf(name, sizeof(name), "name-%u.json", i);
        assert_true(store_find_email(store, i % INBOXES, false, name, &view));
        assert_int_equal(view.number, i);
        assert_false(store_find_email(store, (i + 1) % INBOXES, false, name, &view));
        assert_true(store_find_email_by_id(store, (i + 1) % INBOXES, key, &view));
        assert_int_equal(view.number, i);
        assert_int_equal(view.inbox, i % INBOXES);
        assert_true(store_get_email(store, i, &view));
        assert_string_equal(view.name, name);
    }
    assert_false(store_get_email(store, EMAILS, &view));
    assert_false(store_get_email(store, NUMBER_NONE, &view));
}

/* The mark is made during the list, before or after the email's record arrives. */
TEST_WITH(an_email_that_is_marked_during_a_listing_stays, set_up, tear_down)
{
    struct indexed *indexed = *state;
    struct index *index = indexed->index;
    struct email_batch *marking = calloc(1, sizeof(*marking));
    bool is_changed;
    bool is_lacking;
    uint32_t inbox = put_inbox(indexed, "in");
    put_email(indexed, inbox, "key", "name");
    assert_int_equal(email_batch_flush(indexed->batch, index), 0);
    for (uint32_t i = 0; i < 4; i++) {
        char json[32];
        snprintf(json, sizeof(json), "{\"changed\":%u}\n", i);
        struct email_record record = {.key = "key", .stem = "name", .json = json, .json_len = strlen(json)};
        uint32_t listing = index_begin_listing(index);
        indexed->batch->listing = listing;
        if (i == 0)
            assert_int_equal(index_put_email(index, indexed->batch, inbox, &record, &is_changed), 0);
        assert_int_equal(email_batch_flush(indexed->batch, index), 0);
        record.is_quarantined = !record.is_quarantined;
        assert_int_equal(index_put_email(index, marking, inbox, &record, &is_changed), 0);
        assert_true(is_changed);
        record.is_quarantined = !record.is_quarantined;
        if (i == 1)
            assert_int_equal(index_put_email(index, indexed->batch, inbox, &record, &is_changed), 0);
        assert_int_equal(email_batch_flush(marking, index), 0);
        assert_int_equal(email_batch_flush(indexed->batch, index), 0);
        if (i == 3)
            fake_clock_advance(&indexed->fixture.clock, INDEX_CONFIRM_MS);
        assert_int_equal(index_remove_unseen(index, inbox, listing, true, &is_lacking), i < 3 ? 0 : 1);
        assert_int_equal(is_lacking, i == 2);
    }
    email_batch_release(marking);
    free(marking);
}

TEST_WITH(two_threads_do_not_give_one_name_to_two_emails, set_up, tear_down)
{
    struct indexed *indexed = *state;
    struct email_batch *other = calloc(1, sizeof(*other));
    struct email_view one;
    struct email_view two;
    uint32_t inbox = put_inbox(indexed, "in-1");
    put_email(indexed, inbox, "one", "name");
    struct email_batch *first = indexed->batch;
    indexed->batch = other;
    put_email(indexed, inbox, "two", "name");
    assert_int_equal(email_batch_flush(first, indexed->index), 0);
    assert_int_equal(email_batch_flush(other, indexed->index), 0);
    indexed->batch = first;
    assert_true(store_get_email(indexed->fixture.store, 0, &one));
    assert_true(store_get_email(indexed->fixture.store, 1, &two));
    assert_string_not_equal(one.name, two.name);
    email_batch_release(other);
    free(other);
}

TEST_WITH(a_batch_has_each_email_once_while_another_is_flushed, set_up, tear_down)
{
    struct indexed *indexed = *state;
    struct email_batch *other = calloc(1, sizeof(*other));
    struct email_record record = {.key = "key", .stem = "name", .json = "{}", .json_len = 2};
    bool is_changed;
    uint32_t inbox = put_inbox(indexed, "in-1");
    put_email(indexed, inbox, "key", "name");
    assert_int_equal(index_put_email(indexed->index, other, inbox, &record, &is_changed), 0);
    assert_int_equal(email_batch_flush(indexed->batch, indexed->index), 0);
    assert_int_equal(index_put_email(indexed->index, other, inbox, &record, &is_changed), 0);
    assert_true(other->len <= 1);
    assert_int_equal(email_batch_flush(other, indexed->index), 0);
    assert_int_equal(index_get_size(indexed->index).emails, 1);
    email_batch_release(other);
    free(other);
}

TEST_WITH(a_key_in_two_inboxes_belongs_to_two_emails, set_up, tear_down)
{
    struct indexed *indexed = *state;
    struct store *store = indexed->fixture.store;
    struct email_view view;
    for (uint32_t i = 0; i < INBOXES; i++) {
        char id[8];
        snprintf(id, sizeof(id), "in-%u", i);
        put_inbox(indexed, id);
    }
    put_email(indexed, 0, "key", "name");
    put_email(indexed, 1, "key", "name");
    assert_int_equal(email_batch_flush(indexed->batch, indexed->index), 0);
    assert_true(store_find_email_by_id(store, 0, "key", &view));
    assert_int_equal(view.number, 0);
    assert_true(store_find_email_by_id(store, 1, "key", &view));
    assert_int_equal(view.number, 1);
    assert_false(store_find_email(store, 2, false, "name.json", &view));
}

/* ---------------------------------------------------------------- inboxes */

static int put(struct inbox_table *table, uint32_t number, const char *id, const char *name)
{
    const struct inbox_row row = {
        .number = number, .origin = INBOX_LISTED, .id = id, .name = name, .json = "{}\n", .json_len = 3};
    return inbox_table_put(table, &row);
}

static struct inbox_table *table_of(void **state)
{
    return &((struct indexed *)*state)->index->inboxes;
}

TEST_WITH(names_of_inboxes_are_addresses_or_safe_ids, set_up, tear_down)
{
    static const struct {
        const char *id;
        const char *address;
        const char *name; /* the expected name; NULL for any safe name */
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
        {"in-1", "\"a b\"@x.example", "in-1"},
        {"in-1", "a@[192.0.2.1]", "in-1"},
        {"in-1", "o'brien@x.example", "o'brien@x.example"},
        {"in-1", "a..b@xn--mnchen-3ya.example", "a..b@xn--mnchen-3ya.example"},
        {"taken-id", NULL, "taken-id-2"},
        {"../../etc", NULL, NULL},
        {"..", NULL, NULL},
        {"a\nb", NULL, NULL},
        {"\xff\xfe", NULL, NULL},
    };
    struct inbox_table *table = table_of(state);
    assert_int_equal(put(table, 0, "other", "taken@x.example"), 0);
    assert_int_equal(put(table, 1, "another", "taken-id"), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *name = inbox_table_choose_name(table, NULL, cases[i].id, cases[i].address);
        assert_true(file_name_is_harmless(name));
        if (cases[i].name != NULL)
            assert_string_equal(name, cases[i].name);
    }
}

TEST_WITH(an_inbox_may_keep_its_own_name, set_up, tear_down)
{
    struct inbox_table *table = table_of(state);
    assert_int_equal(put(table, 0, "in-1", "a@x.example"), 0);
    _cleanup_free_ char *name =
        inbox_table_choose_name(table, inbox_table_get(table, 0), "in-1", "a@x.example");
    assert_string_equal(name, "a@x.example");
}

TEST_WITH(rows_that_contradict_each_other_are_refused, set_up, tear_down)
{
    struct inbox_table *table = table_of(state);
    assert_int_equal(put(table, 3, "in-3", "three"), 0);
    assert_null(inbox_table_get(table, 0));
    assert_int_equal(put(table, 3, "other", "other"), -EBADMSG);
    assert_int_equal(put(table, 4, "in-3", "other"), -EBADMSG);
    assert_int_equal(put(table, 4, "in-4", "three"), -EBADMSG);
    assert_int_equal(put(table, INBOXES_MAX, "in-4", "four"), -EBADMSG);
    assert_string_equal(inbox_table_find_id(table, "in-3")->row.name, "three");
}

TEST_WITH(renaming_or_removing_an_inbox_frees_its_name, set_up, tear_down)
{
    struct inbox_table *table = table_of(state);
    assert_int_equal(put(table, 0, "in-1", "old"), 0);
    assert_int_equal(put(table, 0, "in-1", "new"), 0);
    struct store *store = ((struct indexed *)*state)->fixture.store;
    struct inbox_view view;
    assert_false(store_find_inbox(store, "old", &view));
    assert_true(store_find_inbox(store, "new", &view));
    struct inbox *inbox = inbox_table_get(table, 0);
    inbox_table_remove(table, inbox);
    assert_false(store_find_inbox(store, "new", &view));
    assert_ptr_equal(inbox_table_find_id(table, "in-1"), inbox);
    assert_int_equal(put(table, 1, "in-2", "new"), 0);
}
