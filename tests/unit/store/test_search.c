/* SPDX-License-Identifier: MIT */
/*
 * Searches by the service, by the local index, and by both.
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "support/test.h"

#include "store/search_index.h"
#include "store/store_content.h"
#include "store/store_private.h"
#include "unit/store/store_fixture.h"

static const struct service_capabilities extended = {.inbox_list = CAPABILITY_PRESENT};

/* `expected` has the ids of the emails found, joined by blanks. */
static void assert_found(struct store_fixture *fixture, const char *query, const char *expected)
{
    _cleanup_strbuf_ struct strbuf names = STRBUF_INIT(1 << 20);
    struct store_search found;
    assert_int_equal(store_search(fixture->store, query, NULL, &found), 0);
    for (size_t i = 0; i < found.len; i++) {
        _cleanup_free_ char *json = NULL;
        size_t len;
        assert_int_equal(store_read_email(fixture->store, found.emails[i], &json, &len), 0);
        const char *id = strstr(json, "\"id\": \"") + strlen("\"id\": \"");
        strbuf_appendf(&names, "%s%.*s", names.len > 0 ? " " : "", (int)strcspn(id, "\""), id);
    }
    store_search_release(&found);
    assert_string_equal(strbuf_str(&names), expected);
}

static bool is_service_asked(struct store_fixture *fixture, const char *query)
{
    struct store_search found;
    assert_int_equal(store_search(fixture->store, query, NULL, &found), 0);
    bool is_asked = found.is_service_asked;
    store_search_release(&found);
    return is_asked;
}

static bool is_cut_short(struct store_fixture *fixture, const char *query)
{
    struct store_search found;
    assert_int_equal(store_search(fixture->store, query, NULL, &found), 0);
    bool is_truncated = found.is_truncated;
    store_search_release(&found);
    return is_truncated;
}

/* Repeats a search for at most 20 s, until its result is complete. A search waits one second for the index.
 */
static void await_index(struct store_fixture *fixture)
{
    for (int i = 0; is_cut_short(fixture, "invoice"); i++) {
        assert_true(i < 2000);
        usleep(10 * 1000);
    }
}

static void add(struct store_fixture *fixture, const char *inbox, const char *id, const char *date,
                const char *rest)
{
    char json[1024];
    snprintf(json, sizeof(json),
             "{\"id\": \"%s\", \"inbox_id\": \"%s\", \"date\": \"2026-11-%sT08:00:00Z\", %s}", id, inbox,
             date, rest);
    fake_service_add_email(fixture->fake, inbox, json);
}

static int set_up(void **state)
{
    struct store_fixture *fixture = malloc(sizeof(*fixture));
    fixture_init_with_alice(fixture);
    fixture->content_cache_bytes = UINT64_C(1) << 20;
    fake_service_add_inbox(fixture->fake,
                           "{\"id\": \"in-2\", \"name\": \"bob\", \"email_address\": \"bob@inbox.example\"}");
    fake_service_set_capabilities(fixture->fake, &extended);
    add(fixture, "in-1", "a1", "01",
        "\"subject\": \"invoice of october\", \"from_address\": {\"address\": \"shop@x.example\", \"name\": "
        "\"Shop\"}");
    add(fixture, "in-1", "a2", "02",
        "\"subject\": \"lunch\", \"from_address\": {\"address\": \"zoe@x.example\"}");
    add(fixture, "in-2", "b1", "03",
        "\"subject\": \"Invoice of November\", \"from_address\": {\"address\": \"shop@x.example\"}");
    fixture_start(fixture);
    assert_int_equal(fixture_sync(fixture), 0);
    *state = fixture;
    return 0;
}

TEST_WITH(both_inboxes_are_searched_newest_first, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    assert_found(fixture, "invoice", "b1 a1");
    assert_found(fixture, "invoice october", "a1");
    assert_found(fixture, "invoice from:shop", "b1 a1");
    assert_found(fixture, "from:zoe", "a2");
    assert_found(fixture, "invoice in:bob", "b1");
    assert_found(fixture, "in:alice", "a2 a1");
    assert_found(fixture, "in:nobody invoice", "");
    assert_found(fixture, "\"of november\"", "b1");
    assert_found(fixture, "nothing", "");
}

TEST_WITH(the_service_finds_mail_that_the_index_does_not_find, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    assert_true(is_service_asked(fixture, "nvoice"));
    assert_found(fixture, "nvoice", "b1 a1"); /* the fake service finds parts of words */
    assert_found(fixture, "nvoice ctober", "a1");
    assert_found(fixture, "nvoice in:bob", "b1");
    assert_found(fixture, "nvoice from:zoe", "");
}

TEST_WITH(a_search_in_one_inbox_asks_the_service_for_that_inbox_alone, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fake_service_add_inbox(fixture->fake,
                           "{\"id\": \"in-3\", \"name\": \"c\", \"email_address\": \"Carol@inbox.example\"}");
    assert_int_equal(fixture_sync(fixture), 0);
    assert_true(is_service_asked(fixture, "invoice in:CAROL"));
    unsigned int asked = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
    struct fake_record record = fake_service_get(fixture->fake, FAKE_LIST_EMAILS, asked - 1);
    assert_string_equal("invoice", record.key);
    assert_non_null(record.text);
    assert_string_equal("in-3", record.text);
}

/* Searches with the service, which finds parts of words, and without the service. */
TEST_WITH(operators_apply_to_hits_of_the_service_and_of_the_index, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    static const struct {
        const char *query;
        const char *found;
    } rows[] = {
        {"invoice -october", "b1"},
        {"-invoice", "a2"},
        {"-from:shop", "a2"},
        {"-in:bob", "a2 a1"},
        {"october OR lunch", "a2 a1"},
        {"invoice october OR november", "b1 a1"},
        {"invoice november OR from:zoe", "b1"},
        {"subject:invoice", "b1 a1"},
        {"subject:shop", ""},
        {"subject:lunch OR subject:november", "b1 a2"},
        {"invoice subject:october", "a1"},
        {"to:shop invoice", ""},
        {"after:2026-11-02", "b1 a2"},
        {"after:2026-11-02 before:2026-11-03", "a2"},
        {"invoice before:2026-11-02", "a1"},
        {"invoice after:2026-11-02", "b1"},
        {"after:2026-12", ""},
        {"before:2027 -lunch in:alice", "a1"},
    };
    for (size_t pass = 0; pass < 2; pass++) {
        fake_service_set_reachable(fixture->fake, pass == 0);
        await_index(fixture);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
            assert_found(fixture, rows[i].query, rows[i].found);
    }
}

/* The index does not know these emails' bodies. */
TEST_WITH(hits_of_the_service_alone_are_filtered, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    await_index(fixture);
    assert_found(fixture, "nvoice -ctober", "b1");
    assert_found(fixture, "invoice -ctober", "b1");
    assert_found(fixture, "-nvoice", "a2");
    assert_found(fixture, "nvoice after:2026-11-02", "b1");
    assert_found(fixture, "nvoice subject:october", "a1");
    assert_found(fixture, "nvoice -subject:october", "b1");
    assert_found(fixture, "ctober OR unch", "a2 a1");
    assert_found(fixture, "nvoice unch OR from:shop", "b1 a1");
    assert_found(fixture, "nvoice has:attachment", "");
    assert_found(fixture, "nvoice in:alice OR in:bob", "b1 a1");
}

TEST_WITH(the_search_index_answers_without_the_service, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fake_service_set_reachable(fixture->fake, false);
    assert_false(is_service_asked(fixture, "invoice"));
    assert_found(fixture, "invoice", "b1 a1");
    assert_found(fixture, "nvoice", "");
    fixture_restart(fixture);
    await_index(fixture);
    assert_found(fixture, "invoice october", "a1");
}

TEST_WITH(a_core_server_gets_no_search_request, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    static const struct service_capabilities core = {.inbox_list = CAPABILITY_ABSENT};
    fake_service_set_capabilities(fixture->fake, &core);
    unsigned int before = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
    assert_found(fixture, "invoice", "b1 a1");
    assert_int_equal(fake_service_count(fixture->fake, FAKE_LIST_EMAILS), before);
}

TEST_WITH(a_service_that_refuses_to_search_gets_no_further_request, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    unsigned int before = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
    fake_service_push(fixture->fake, FAKE_LIST_EMAILS, (struct fake_outcome){.outcome = SERVICE_REJECTED});
    assert_found(fixture, "invoice", "b1 a1");
    assert_found(fixture, "invoice", "b1 a1");
    assert_int_equal(fake_service_count(fixture->fake, FAKE_LIST_EMAILS), before + 1);
}

/* The list of such a service may be too long to be read for each search. */
TEST_WITH(a_service_that_finds_all_in_every_search_gets_no_further_request, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    static const struct fake_outcome outcomes[] = {
        {.outcome = SERVICE_OK, .http_status = 200, .ignores_term = true},
        {.outcome = SERVICE_RETRY, .http_status = 200, .error = EIO, .records = 2, .ignores_term = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++) {
        if (i > 0)
            fixture_restart(fixture);
        unsigned int before = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
        fake_service_push(fixture->fake, FAKE_LIST_EMAILS, outcomes[i]);
        assert_found(fixture, "invoice", "b1 a1");
        assert_found(fixture, "october", "a1");
        assert_int_equal(fake_service_count(fixture->fake, FAKE_LIST_EMAILS), before + 1);
    }
}

/* The service finds more emails with the word than it lists. */
TEST_WITH(a_common_word_is_passed_over_for_another_word_alone, set_up, fixture_tear_down)
{
    enum {
        EMAILS = 120
    };
    struct store_fixture *fixture = *state;
    const struct fake_outcome refusal = {.outcome = SERVICE_REJECTED, .http_status = 422};
    const struct fake_outcome answer = {.outcome = SERVICE_OK, .http_status = 200};
    char id[16];
    for (int i = 0; i < EMAILS; i++) {
        snprintf(id, sizeof(id), "c%d", i);
        add(fixture, "in-1", id, "20", "\"subject\": \"invoice\"");
    }
    assert_int_equal(fixture_sync(fixture), 0);
    assert_true(is_service_asked(fixture, "lunch"));
    fake_service_push(fixture->fake, FAKE_LIST_EMAILS, refusal); /* the first limit */
    assert_found(fixture, "invoice from:x.example", "b1 a1");
    fake_service_push(fixture->fake, FAKE_LIST_EMAILS, answer); /* for "october" */
    fake_service_push(fixture->fake, FAKE_LIST_EMAILS, refusal);
    assert_found(fixture, "october invoice", "a1");
    fake_service_push(fixture->fake, FAKE_LIST_EMAILS, refusal);
    assert_true(is_cut_short(fixture, "invoice from:x.example"));
}

TEST_WITH(each_word_is_one_request_and_a_search_at_most_four, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    assert_found(fixture, "invoice", "b1 a1"); /* here the store tests whether the service searches */
    unsigned int before = fake_service_count(fixture->fake, FAKE_LIST_EMAILS);
    assert_found(fixture, "invoice of october", "a1");
    assert_int_equal(fake_service_count(fixture->fake, FAKE_LIST_EMAILS), before + 3);
    struct store_search found;
    assert_int_equal(store_search(fixture->store, "in vo oi ic ce of", NULL, &found), 0);
    store_search_release(&found);
    assert_true(fake_service_count(fixture->fake, FAKE_LIST_EMAILS) <= before + 7);
    assert_found(fixture, "from:shop in:bob", "b1");
    assert_true(fake_service_count(fixture->fake, FAKE_LIST_EMAILS) <= before + 7);
}

TEST_WITH(a_search_finds_mail_that_arrived_after_the_last_sync, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    add(fixture, "in-2", "b2", "04", "\"subject\": \"invoice of december\"");
    assert_found(fixture, "december", "b2");
    /* A search starts a sync for unknown emails at most once in 30 s. */
    add(fixture, "in-2", "b3", "05", "\"subject\": \"invoice of january\"");
    assert_found(fixture, "january", "");
    fake_clock_advance(&fixture->clock, 30 * 1000);
    assert_found(fixture, "january", "b3");
}

TEST_WITH(mail_that_is_gone_is_not_found, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    fake_service_remove_email(fixture->fake, "a1");
    assert_int_equal(fixture_sync_removal(fixture), 0);
    assert_found(fixture, "invoice", "b1");
    assert_found(fixture, "after:2020", "b1 a2");
}

TEST_WITH(a_query_that_cannot_be_searched_is_an_error, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    struct store_search found;
    assert_int_equal(store_search(fixture->store, "***", NULL, &found), -EINVAL);
    assert_int_equal(store_search(fixture->store, "\xff", NULL, &found), -EILSEQ);
    assert_int_equal(store_search(fixture->store, "is:unread", NULL, &found), -EINVAL);
}

static void read_content(struct store_fixture *fixture, const char *query)
{
    struct store_search found;
    struct store_content *content;
    assert_int_equal(store_search(fixture->store, query, NULL, &found), 0);
    assert_int_equal(found.len, 1);
    assert_int_equal(store_content_get(fixture->store, found.emails[0], NULL, &content), 0);
    store_content_unref(content);
    store_search_release(&found);
}

static void give_walrus(struct store_fixture *fixture)
{
    fake_service_set_content(
        fixture->fake, "a2",
        "{\"id\": \"a2\", \"inbox_id\": \"in-1\", \"subject\": \"lunch\", \"plain_text\": \"Is the walrus "
        "coming?\", \"html\": null, \"prompt\": \"\", \"thread_prompt\": \"\", \"attachments\": [{\"id\": "
        "\"at-1\", \"filename\": \"menu.pdf\", \"content_type\": \"application/pdf\"}]}");
}

TEST_WITH(bodies_that_were_read_are_found_without_the_service, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    give_walrus(fixture);
    assert_found(fixture, "walrus", "");
    read_content(fixture, "from:zoe");
    fake_service_set_reachable(fixture->fake, false);
    assert_found(fixture, "walrus lunch", "a2");
    assert_found(fixture, "menu", "a2");
    fixture_restart(fixture);
    assert_found(fixture, "walrus lunch", "a2");
    assert_found(fixture, "invoice", "b1 a1");
}

TEST_WITH(a_body_read_right_before_the_end_is_found_by_the_next_mount, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    give_walrus(fixture);
    read_content(fixture, "from:zoe");
    fixture_restart(fixture);
    fake_service_set_reachable(fixture->fake, false);
    assert_found(fixture, "walrus", "a2");
    assert_found(fixture, "invoice", "b1 a1");
}

TEST_WITH(has_attachment_finds_emails_whose_content_was_read, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    give_walrus(fixture);
    fake_service_set_content(
        fixture->fake, "a1",
        "{\"id\": \"a1\", \"inbox_id\": \"in-1\", \"subject\": \"invoice of october\", \"plain_text\": "
        "\"Pay.\", "
        "\"html\": null, \"prompt\": \"\", \"thread_prompt\": \"\", \"attachments\": []}");
    await_index(fixture);
    assert_found(fixture, "has:attachment", "");
    assert_true(is_cut_short(fixture, "has:attachment"));
    read_content(fixture, "from:zoe");
    read_content(fixture, "subject:october");
    assert_found(fixture, "has:attachment", "a2");
    assert_found(fixture, "lunch has:attachment", "a2");
    assert_found(fixture, "-has:attachment", "a1");
    assert_found(fixture, "-has:attachment october", "a1");
    /* b1 may have an attachment. */
    assert_true(is_cut_short(fixture, "has:attachment"));
    assert_false(is_cut_short(fixture, "has:attachment in:alice"));
    assert_false(is_cut_short(fixture, "has:attachment before:2026-11-03"));
    assert_true(is_cut_short(fixture, "nvoice has:attachment")); /* the service alone finds parts of words */
    assert_false(is_cut_short(fixture, "invoice -november has:attachment"));
}

struct waiting_search {
    struct store_fixture *fixture;
    struct cancel cancel;
    int error;
};

static void *search_and_wait(void *argument)
{
    struct waiting_search *waiting = argument;
    struct store_search found;
    waiting->error = store_search(waiting->fixture->store, "invoice", &waiting->cancel, &found);
    return NULL;
}

TEST_WITH(a_search_can_be_interrupted, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    struct waiting_search waiting = {.fixture = fixture};
    pthread_t thread;
    cancel_init(&waiting.cancel);
    fake_service_close_gate(fixture->fake, FAKE_LIST_EMAILS);
    pthread_create(&thread, NULL, search_and_wait, &waiting);
    fake_service_wait_at_gate(fixture->fake, FAKE_LIST_EMAILS, 1);
    cancel_set(&waiting.cancel);
    pthread_join(thread, NULL);
    assert_int_equal(waiting.error, -EINTR);
    fake_service_open_gate(fixture->fake, FAKE_LIST_EMAILS);
    cancel_release(&waiting.cancel);
}

static void remove_state(struct store_fixture *fixture, const char *path)
{
    assert_int_equal(unlinkat(fixture->dir.fd, path, 0), 0);
}

/* The test adds more emails than are indexed in a second. */
TEST_WITH(a_search_whose_index_lags_behind_is_truncated, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    struct connection *connection = NULL;
    struct cache *cache = &fixture->store->cache;
    await_index(fixture);
    store_stop(fixture->store);
    fake_service_set_reachable(fixture->fake, false);
    assert_false(is_cut_short(fixture, "invoice"));
    assert_int_equal(cache_begin_write(cache, &connection), 0);
    int error = query_execute(connection,
                              "WITH RECURSIVE numbers (number) AS"
                              " (SELECT 1000 UNION ALL SELECT number + 1 FROM numbers LIMIT 3000000)"
                              " INSERT INTO search_pending SELECT number FROM numbers",
                              "");
    assert_int_equal(cache_end_write(cache, error), 0);
    assert_true(is_cut_short(fixture, "invoice"));
}

TEST_WITH(a_lost_search_index_is_rebuilt, set_up, fixture_tear_down)
{
    struct store_fixture *fixture = *state;
    assert_found(fixture, "invoice", "b1 a1");
    fixture_close(fixture);
    remove_state(fixture, "cache/mail.sqlite3");
    fixture_start(fixture);
    assert_int_equal(fixture_sync(fixture), 0);
    fake_service_set_reachable(fixture->fake, false);
    await_index(fixture);
    assert_found(fixture, "invoice", "b1 a1");
}
