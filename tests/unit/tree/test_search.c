/* SPDX-License-Identifier: MIT */
/*
 * Folders of search/: how long a query keeps its inode and its answer, and what starts a search.
 */
#include "tree_fixture.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/thread.h"
#include "base/wait.h"
#include "support/test.h"

enum {
    QUERIES_SHOWN = 50,
    NAMES_KNOWN = 1024,
};

static uint64_t look_up(struct tree_fixture *fixture, int number)
{
    char path[32];
    snprintf(path, sizeof(path), "search/query %d", number);
    return fixture_ino(fixture, path);
}

static bool exists(struct tree_fixture *fixture, uint64_t ino)
{
    struct tree_attributes attributes;
    return tree_get_attributes(fixture->tree, &any_caller, ino, &attributes) == 0;
}

static void search_for(struct tree_fixture *fixture, int number)
{
    struct cancel cancel;
    const struct tree_caller caller = {.pid = 7, .cancel = &cancel};
    struct tree_handle *dir = NULL;
    cancel_init(&cancel);
    assert_int_equal(tree_open_dir(fixture->tree, &caller, look_up(fixture, number), &dir), 0);
    tree_release(dir);
    cancel_release(&cancel);
}

TEST_WITH(a_query_keeps_its_inode_until_its_removal, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    uint64_t first = look_up(fixture, 1);
    uint64_t second = look_up(fixture, 2);
    assert_int_equal(look_up(fixture, 1), first);
    assert_true(exists(fixture, second));
    assert_int_equal(tree_remove_dir(fixture->tree, fixture_ino(fixture, "search"), "query 1"), 0);
    assert_false(exists(fixture, first));
    /* The number of a removed query is not reused. */
    assert_true(look_up(fixture, 1) > second);
}

TEST_WITH(a_query_that_means_nothing_is_refused_with_a_reason, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct tree_entry entry;
    uint64_t search = fixture_ino(fixture, "search");
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, search, "is:unread hello", &entry), -EINVAL);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, search, "*", &entry), -EINVAL);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, search, "\xff", &entry), -EILSEQ);
    _cleanup_free_ char *events = fixture_read(fixture, "events.jsonl");
    assert_non_null(strstr(events, "\"refused\""));
    assert_non_null(strstr(events, "\"search/is:unread hello\""));
    assert_non_null(strstr(events, "is: is no operator"));
    assert_non_null(strstr(events, "a letter or a digit"));
}

TEST_WITH(names_of_files_are_not_queries, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    static const char *const files[] = {"Makefile", "body.txt", "README.md", "package.json", "HEAD", ".git"};
    static const char *const queries[] = {
        "\"body.txt\"", "body.txt figures", "example.com", "bob@example.md", "figures.pdf", "make", "head"};
    struct tree_entry entry;
    uint64_t search = fixture_ino(fixture, "search");
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        assert_int_equal(tree_lookup(fixture->tree, &any_caller, search, files[i], &entry), -ENOENT);
    for (size_t i = 0; i < ARRAY_LEN(queries); i++)
        assert_int_equal(tree_lookup(fixture->tree, &any_caller, search, queries[i], &entry), 0);
}

TEST_WITH(the_number_of_known_queries_is_bounded, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    uint64_t first = look_up(fixture, 0);
    uint64_t second = look_up(fixture, 1);
    for (int i = 2; i <= NAMES_KNOWN; i++)
        look_up(fixture, i);
    assert_false(exists(fixture, first));
    assert_true(exists(fixture, second));
}

TEST_WITH(only_the_latest_queries_keep_their_results, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct fixture_names names;
    search_for(fixture, 0);
    for (int i = 1; i <= QUERIES_SHOWN; i++)
        search_for(fixture, i);
    fixture_list(fixture, "search", 0, &names);
    assert_int_equal(names.taken, 2 + QUERIES_SHOWN);
    assert_null(strstr(names.text, "query 0 "));
    assert_non_null(strstr(names.text, "query 1 "));
    /* A new search lists a query again. */
    search_for(fixture, 0);
    fixture_list(fixture, "search", 0, &names);
    assert_int_equal(names.taken, 2 + QUERIES_SHOWN);
    assert_non_null(strstr(names.text, "query 0 "));
    assert_null(strstr(names.text, "query 1 "));
}

TEST_WITH(hits_of_equal_names_get_numbers, fixture_set_up, fixture_tear_down)
{
    struct tree_fixture *fixture = *state;
    struct fixture_names names;
    for (int i = 2; i <= 4; i++) {
        char json[128];
        char id[32];
        snprintf(json, sizeof(json),
                 "{\"id\":\"i%d\",\"name\":\"b%d\",\"email_address\":\"b%d@inbox.example\"}", i, i, i);
        fake_service_add_inbox(fixture->fake, json);
        snprintf(json, sizeof(json), "i%d", i);
        snprintf(id, sizeof(id), "4d81d4dd-%d", i);
        fake_service_add_simple_email(fixture->fake, json, id, "Twin");
    }
    fixture_sync(fixture);
    fixture_list(fixture, "search/twin", 0, &names);
    assert_string_equal(names.text, ". .. .search.json 20261120T100000Z_twin_4d81d4dd-2.json "
                                    "20261120T100000Z_twin_4d81d4dd-3.json "
                                    "20261120T100000Z_twin_4d81d4dd.json ");
}

struct lookup_thread {
    struct tree_fixture *fixture;
    struct cancel cancel;
    uint64_t query;
    int error;
};

static void *run_lookup(void *argument)
{
    struct lookup_thread *lookup = argument;
    const struct tree_caller caller = {.pid = 7, .cancel = &lookup->cancel};
    struct tree_entry entry;
    lookup->error = tree_lookup(lookup->fixture->tree, &caller, lookup->query, "nothing", &entry);
    return NULL;
}

TEST_WITH(a_query_is_not_freed_during_its_search, fixture_set_up, fixture_tear_down)
{
    static const struct service_capabilities extended = {.inbox_list = CAPABILITY_PRESENT};
    struct tree_fixture *fixture = *state;
    struct lookup_thread lookup = {.fixture = fixture};
    struct tree_entry entry;
    pthread_t thread;
    fake_service_set_capabilities(fixture->fake, &extended);
    uint64_t search = fixture_ino(fixture, "search");
    lookup.query = fixture_ino(fixture, "search/hello");
    cancel_init(&lookup.cancel);
    fake_service_close_gate(fixture->fake, FAKE_LIST_EMAILS);
    assert_int_equal(thread_start(&thread, "lookup", run_lookup, &lookup), 0);
    fake_service_wait_at_gate(fixture->fake, FAKE_LIST_EMAILS, 1);
    assert_int_equal(tree_remove_dir(fixture->tree, search, "hello"), -EBUSY);
    for (int i = 0; i < 3 * NAMES_KNOWN; i++)
        look_up(fixture, i);
    assert_int_equal(fixture_ino(fixture, "search/hello"), lookup.query);
    fake_service_open_gate(fixture->fake, FAKE_LIST_EMAILS);
    pthread_join(thread, NULL);
    assert_int_equal(lookup.error, -ENOENT);
    assert_int_equal(tree_remove_dir(fixture->tree, search, "hello"), 0);
    assert_int_equal(tree_remove_dir(fixture->tree, search, "hello"), -ENOENT);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, lookup.query, "nothing", &entry), -ENOENT);
    cancel_release(&lookup.cancel);
}

static size_t count_listed(struct tree_fixture *fixture, const struct tree_caller *caller, uint64_t ino)
{
    struct fixture_names names;
    fixture_list_ino(fixture, caller, ino, 0, &names);
    return names.taken;
}

TEST_WITH(a_process_that_listed_search_sees_new_mail_some_seconds_later, fixture_set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct cancel cancel;
    const struct tree_caller caller = {.pid = 77, .cancel = &cancel};
    struct tree_entry query;
    uint64_t search = fixture_ino(fixture, "search");
    cancel_init(&cancel);
    assert_int_equal(tree_lookup(fixture->tree, &caller, search, "hello", &query), 0);
    size_t before = count_listed(fixture, &caller, query.ino);
    (void)count_listed(fixture, &caller, search);
    fake_service_add_simple_email(fixture->fake, "i1", "ffffffff-1", "Hello again");
    fixture_sync(fixture);
    size_t after = before;
    for (int i = 0; i < 500 && after == before; i++) {
        fake_clock_advance(&fixture_fake_clock, 11000);
        assert_int_equal(tree_lookup(fixture->tree, &caller, search, "hello", &query), 0);
        after = count_listed(fixture, &caller, query.ino);
        if (after == before)
            usleep(10 * 1000); /* until the index has the email */
    }
    assert_int_equal(after, before + 1);
    cancel_release(&cancel);
}

TEST_WITH(a_query_is_searched_again_after_new_mail, fixture_set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct cancel cancel;
    const struct tree_caller caller = {.pid = 76, .cancel = &cancel};
    uint64_t query = fixture_ino(fixture, "search/hello");
    cancel_init(&cancel);
    size_t before = count_listed(fixture, &caller, query);
    fake_service_add_simple_email(fixture->fake, "i1", "ffffffff-1", "Hello again");
    fixture_sync(fixture);
    assert_int_equal(count_listed(fixture, &caller, query), before + 1);
    cancel_release(&cancel);
}

static int64_t search_time_s(struct tree_fixture *fixture, const struct tree_caller *caller)
{
    struct tree_entry query;
    assert_int_equal(tree_lookup(fixture->tree, caller, fixture_ino(fixture, "search"), "hello", &query), 0);
    (void)count_listed(fixture, caller, query.ino);
    assert_int_equal(tree_lookup(fixture->tree, caller, fixture_ino(fixture, "search"), "hello", &query), 0);
    return query.attributes.stat.st_mtim.tv_sec;
}

/* find(1) runs for long if search/ has many queries. */
TEST_WITH(a_process_that_walks_through_the_queries_causes_no_search, fixture_set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct cancel cancel;
    cancel_init(&cancel);
    const struct tree_caller caller = {.pid = 78, .cancel = &cancel};
    int64_t before = search_time_s(fixture, &caller);
    fake_clock_advance(&fixture_fake_clock, 60 * 1000);
    (void)count_listed(fixture, &caller, fixture_ino(fixture, "search"));
    for (int i = 0; i < 5; i++) {
        fake_clock_advance(&fixture_fake_clock, 6 * 1000);
        assert_int_equal(search_time_s(fixture, &caller), before);
    }
    fake_clock_advance(&fixture_fake_clock, 11 * 1000);
    assert_true(search_time_s(fixture, &caller) > before);
    cancel_release(&cancel);
}

TEST_WITH(only_a_lookup_of_a_name_outside_the_answer_causes_a_search, fixture_set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct fixture_names names;
    struct tree_entry query;
    struct tree_entry entry;
    uint64_t search = fixture_ino(fixture, "search");
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, search, "hello", &query), 0);
    fixture_list_ino(fixture, &any_caller, query.ino, 0, &names);
    names.text[strlen(names.text) - 1] = '\0';
    const char *name = strrchr(names.text, ' ') + 1;
    assert_non_null(strstr(name, "_hello_"));
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, search, "hello", &query), 0);
    int64_t before = query.attributes.stat.st_mtim.tv_sec;
    fake_clock_advance(&fixture_fake_clock, 60 * 1000);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, query.ino, name, &entry), 0);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, query.ino, ".hidden", &entry), -ENOENT);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, search, "hello", &query), 0);
    assert_int_equal(query.attributes.stat.st_mtim.tv_sec, before);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, query.ino, "nothing.json", &entry), -ENOENT);
    assert_int_equal(tree_lookup(fixture->tree, &any_caller, search, "hello", &query), 0);
    assert_true(query.attributes.stat.st_mtim.tv_sec > before);
}

struct helper {
    pid_t task;
    pthread_barrier_t barrier;
};

static void *run_helper(void *argument)
{
    struct helper *helper = argument;
    helper->task = (pid_t)syscall(SYS_gettid);
    pthread_barrier_wait(&helper->barrier);
    pthread_barrier_wait(&helper->barrier);
    return NULL;
}

TEST_WITH(other_threads_of_a_process_that_listed_search_cause_no_search, fixture_set_up_with_fake_clock,
          fixture_tear_down_with_fake_clock)
{
    struct tree_fixture *fixture = *state;
    struct helper helper;
    struct cancel cancel;
    pthread_t thread;
    cancel_init(&cancel);
    pthread_barrier_init(&helper.barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, run_helper, &helper), 0);
    pthread_barrier_wait(&helper.barrier);
    const struct tree_caller lister = {.pid = getpid(), .cancel = &cancel};
    const struct tree_caller other = {.pid = helper.task, .cancel = &cancel};
    int64_t before = search_time_s(fixture, &lister);
    fake_clock_advance(&fixture_fake_clock, 60 * 1000);
    (void)count_listed(fixture, &lister, fixture_ino(fixture, "search"));
    int64_t after = search_time_s(fixture, &other);
    pthread_barrier_wait(&helper.barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&helper.barrier);
    cancel_release(&cancel);
    assert_int_equal(after, before);
}
