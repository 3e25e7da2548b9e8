/* SPDX-License-Identifier: MIT */
/*
 * The whole transition table: a transition that is not in the table below must not be allowed. And the
 * lookups of the item table by name and id while items are shown and hidden. Receipts are valid JSON for any
 * texts in them.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "mail/json_value.h"
#include "mail/receipt.h"
#include "outbox/item.h"

static const char *const allowed[ITEM_STATES] = {
    /* to:               G W w Q S s U u F ? I */
    [ITEM_GONE] = /**/ "++++..+....", [ITEM_WRITING] = "++++..+.+++",     [ITEM_WAITING] = /**/ "++++..+.+++",
    [ITEM_QUEUED] = "+++++.+.+++",    [ITEM_SENDING] = "...+.+..++.",     [ITEM_SENT] = /**/ "+.++..+....",
    [ITEM_UPLOADING] = "++++..+++..", [ITEM_UPLOADED] = "++++..+....",    [ITEM_FAILED] = "+.++..+....",
    [ITEM_UNKNOWN] = "+.++..+....",   [ITEM_INTERRUPTED] = "+.++..+....",
};

TEST(only_the_listed_transitions_are_allowed)
{
    for (unsigned int from = 0; from < ITEM_STATES; from++) {
        for (unsigned int to = 0; to < ITEM_STATES; to++) {
            bool is_allowed = allowed[from][to] == '+';
            if (item_state_may_follow((enum item_state)from, (enum item_state)to) != is_allowed)
                fail_msg("from %u to %u", from, to);
        }
    }
}

TEST(a_sent_or_sending_message_is_never_sent_again_by_itself)
{
    for (unsigned int from = 0; from < ITEM_STATES; from++) {
        bool is_allowed = from == ITEM_QUEUED;
        assert_int_equal(item_state_may_follow((enum item_state)from, ITEM_SENDING), is_allowed);
    }
    assert_false(item_state_may_follow(ITEM_SENDING, ITEM_GONE));
    assert_false(item_state_may_follow(ITEM_SENDING, ITEM_WAITING));
}

TEST(each_state_is_found_by_its_name)
{
    for (unsigned int i = ITEM_GONE + 1; i < ITEM_STATES; i++) {
        enum item_state found = ITEM_GONE;
        assert_int_equal(item_state_from_name(item_states[i].name, &found), 0);
        assert_int_equal(found, i);
    }
    enum item_state found;
    assert_int_not_equal(item_state_from_name("sleeping", &found), 0);
}

TEST(each_state_shows_in_its_folder)
{
    static const struct {
        enum item_state state;
        enum item_kind kind;
        int folder;
    } rows[] = {
        {ITEM_WRITING, ITEM_MESSAGE, OUTBOX_FOLDER_OUTBOX},
        {ITEM_WRITING, ITEM_ATTACHMENT, OUTBOX_FOLDER_ATTACHMENTS},
        {ITEM_WAITING, ITEM_ATTACHMENT, OUTBOX_FOLDER_ATTACHMENTS},
        {ITEM_QUEUED, ITEM_MESSAGE, OUTBOX_FOLDER_OUTBOX},
        {ITEM_SENDING, ITEM_MESSAGE, OUTBOX_FOLDER_OUTBOX},
        {ITEM_SENT, ITEM_MESSAGE, OUTBOX_FOLDER_SENT},
        {ITEM_UPLOADED, ITEM_ATTACHMENT, OUTBOX_FOLDER_ATTACHMENTS},
        {ITEM_FAILED, ITEM_ATTACHMENT, OUTBOX_FOLDER_FAILED},
        {ITEM_UNKNOWN, ITEM_MESSAGE, OUTBOX_FOLDER_FAILED},
        {ITEM_INTERRUPTED, ITEM_MESSAGE, OUTBOX_FOLDER_FAILED},
        {ITEM_GONE, ITEM_MESSAGE, -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(item_state_folder(rows[i].state, rows[i].kind), rows[i].folder);
}

/* ---------------------------------------------------------------- the table of items */

static struct item *show(struct item_table *table, enum outbox_folder folder, uint64_t number,
                         const char *name, const char *id)
{
    struct item *item = item_new(number, ITEM_MESSAGE);
    assert_non_null(item);
    item->row.name = strdup(name);
    item->row.id = id == NULL ? NULL : strdup(id);
    item_table_add(table, item);
    item_table_reserve(table, folder, item->row.name);
    item_table_show(table, folder, item);
    return item;
}

TEST(an_id_is_found_while_an_item_with_it_is_shown)
{
    struct item_table table;
    item_table_init(&table);
    struct item *one = show(&table, OUTBOX_FOLDER_SENT, 1, "one", "id-1");
    struct item *twin = show(&table, OUTBOX_FOLDER_SENT, 2, "twin", "id-1");
    struct item *none = show(&table, OUTBOX_FOLDER_SENT, 3, "none", NULL);
    assert_true(item_table_has_id(&table, OUTBOX_FOLDER_SENT, "id-1"));
    assert_false(item_table_has_id(&table, OUTBOX_FOLDER_SENT, "id-2"));
    assert_false(item_table_has_id(&table, OUTBOX_FOLDER_FAILED, "id-1"));
    item_table_hide(&table, OUTBOX_FOLDER_SENT, one);
    item_table_hide(&table, OUTBOX_FOLDER_SENT, one); /* no effect: `one` is already hidden */
    item_table_hide(&table, OUTBOX_FOLDER_SENT, none);
    assert_true(item_table_has_id(&table, OUTBOX_FOLDER_SENT, "id-1"));
    item_table_hide(&table, OUTBOX_FOLDER_SENT, twin);
    assert_false(item_table_has_id(&table, OUTBOX_FOLDER_SENT, "id-1"));
    item_table_release(&table);
}

/* Returns the name that item_table_choose_name() makes from a taken name. The caller frees it. */
static char *choose_beside(const char *name)
{
    struct item_table table;
    item_table_init(&table);
    item_table_reserve(&table, OUTBOX_FOLDER_OUTBOX, name);
    char *chosen = item_table_choose_name(&table, OUTBOX_FOLDER_OUTBOX, name);
    item_table_release(&table);
    assert_non_null(chosen);
    return chosen;
}

TEST(a_number_does_not_change_whether_a_name_is_sent)
{
    static const struct {
        const char *name;
        const char *chosen;
    } rows[] = {
        {"x.tmp", "x-2.tmp"}, {"x~", "x~-2~"},        {"#x#", "#x#-2~"},           {"4913", "4913-2~"},
        {".x", ".x-2"},       {"x.save", "x-2.save"}, {"x.save.1", "x.save-2.1~"}, {"x.eml", "x-2.eml"},
        {"x", "x-2"},         {"49", "49-2"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *chosen = choose_beside(rows[i].name);
        assert_string_equal(chosen, rows[i].chosen);
        assert_int_equal(item_is_never_sent(ITEM_MESSAGE, chosen),
                         item_is_never_sent(ITEM_MESSAGE, rows[i].name));
        free(chosen);
    }
}

/* The lengths of the names make the cut fall at every possible place. */
TEST(a_cut_does_not_change_whether_a_name_is_sent)
{
    static const char *const middles[] = {".tmp", "~", "~~~~~~~~", ".bak", ".save.1", "#", ".receipt.json"};
    static const char *const ends[] = {"n", "~", "#", "nnnnnnnn", "n.eml", "n.tmp"};
    for (size_t i = 0; i < ARRAY_LEN(middles) * ARRAY_LEN(ends) * 30; i++) {
        char name[256];
        const char *middle = middles[i % ARRAY_LEN(middles)];
        const char *end = ends[i / ARRAY_LEN(middles) % ARRAY_LEN(ends)];
        size_t at = 222 + i / (ARRAY_LEN(middles) * ARRAY_LEN(ends));
        memset(name, 'n', 255);
        name[0] = '#';
        name[255] = '\0';
        memcpy(name + at, middle, at + strlen(middle) > 255 ? 255 - at : strlen(middle));
        memcpy(name + 255 - strlen(end), end, strlen(end));
        struct item_table table;
        item_table_init(&table);
        char *taken[2];
        for (size_t j = 0; j < ARRAY_LEN(taken); j++) {
            char *chosen = taken[j] = item_table_choose_name(&table, OUTBOX_FOLDER_OUTBOX, name);
            assert_non_null(chosen);
            assert_true(strlen(chosen) + strlen(RECEIPT_SUFFIX) <= 255 && !item_is_receipt_name(chosen));
            assert_int_equal(item_is_never_sent(ITEM_MESSAGE, chosen),
                             item_is_never_sent(ITEM_MESSAGE, name));
            item_table_reserve(&table, OUTBOX_FOLDER_OUTBOX, chosen);
        }
        item_table_release(&table);
        free(taken[0]);
        free(taken[1]);
    }
}

TEST(a_receipt_is_json_with_all_members)
{
    static const char *const members[] = {"state",       "kind",        "id",       "idempotency_key",
                                          "accepted_at", "finished_at", "attempts", "http_status",
                                          "error",       "request"};
    const struct row row = {
        .state = ITEM_SENT,
        .kind = ITEM_MESSAGE,
        .key = "3c90c3cc-0d44-4b50-8888-8dd25736052a",
        .not_carried = (char[]){"one\na \"second\" one"},
        .attempts = 3,
        .accepted_ms = 1795176000000,
        .finished_ms = 1795176001234,
        .http_status = 200,
        .id = (char[]){"id"},
        .error = (char[]){"words\x1b[31m \xff"},
    };
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RECEIPT_MAX_BYTES);
    assert_int_equal(row_format_receipt(&row, "{\"subject\":\"a \\\"quote\\\" \\u0000\"}", &text), 0);
    json_t *root = json_loadb(text.data, text.len, JSON_ALLOW_NUL, NULL);
    assert_true(json_is_object(root));
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        assert_non_null(json_object_get(root, members[i]));
    assert_true(json_is_object(json_object_get(root, "request")));
    assert_string_equal(json_string_value(json_object_get(root, "finished_at")), "2026-11-20T12:00:01.234Z");
    assert_null(strchr(text.data, '\x1b'));
    assert_int_equal(json_array_size(json_object_get(root, "not_carried")), 2);
    json_decref(root);

    strbuf_clear(&text);
    const struct row bare = {.state = ITEM_UPLOADING, .kind = ITEM_ATTACHMENT};
    assert_int_equal(row_format_receipt(&bare, NULL, &text), 0);
    assert_non_null(strstr(text.data, "\"request\": null"));
    assert_non_null(strstr(text.data, "\"http_status\": null"));
    assert_non_null(strstr(text.data, "\"kind\": \"attachment\""));
}

TEST(a_receipt_with_delivery_members_is_json)
{
    static const char record[] = "{\"status\": \"sent\", \"latest_event\": {\"event_type\": \"click\"}}";
    const struct row row = {.state = ITEM_SENT, .kind = ITEM_MESSAGE};
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(1 << 16);
    assert_int_equal(row_format_receipt(&row, "{\"a\":1}", &receipt), 0);
    size_t end = receipt.len - strlen(RECEIPT_END);
    assert_string_equal(receipt.data + end, RECEIPT_END);
    strbuf_truncate(&receipt, end);
    assert_int_equal(receipt_delivery_format(record, strlen(record), &receipt), 0);
    strbuf_append_str(&receipt, RECEIPT_END);
    _cleanup_json_ json_t *value = json_loadb(receipt.data, receipt.len, JSON_REJECT_DUPLICATES, NULL);
    assert_string_equal(json_string_value(json_object_get(value, "status")), "sent");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(value, "latest_event"), "event_type")), "click");
    assert_true(json_is_object(json_object_get(value, "request")));
}
