/* SPDX-License-Identifier: MIT */
/*
 * Lists of emails taken apart: long ones in two threads, with the same outcome as in one.
 */
#include "api/email_intake.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/hash.h"

enum {
    LIST_MAX_BYTES = 32 << 20,
    PIECE_BYTES = 16 * 1024,
};

/* What was handed on, and how it ended. */
struct outcome {
    pthread_t thread; /* in which all is to be handed on */
    unsigned int emails;
    unsigned int pauses;
    uint64_t hash;        /* of keys, texts and their order */
    unsigned int stop_at; /* the sink fails at this one; 0: never */
    int fed;
    int finished;
    unsigned int count;
    int stopped_by;
    char words[LIST_WORDS_MAX_BYTES];
};

static int take(void *context, struct email_record *record)
{
    struct outcome *outcome = context;
    assert_true(pthread_equal(outcome->thread, pthread_self()));
    if (record == NULL) {
        outcome->pauses++;
        return 0;
    }
    outcome->emails++;
    assert_int_equal(strlen(record->json), record->json_len);
    outcome->hash = hash_bytes(outcome->hash, record->json, record->json_len);
    outcome->hash = hash_bytes(outcome->hash, record->key, strlen(record->key));
    outcome->hash = hash_bytes(outcome->hash, record->stem, strlen(record->stem));
    if (record->inbox_id != NULL)
        outcome->hash = hash_bytes(outcome->hash, record->inbox_id, strlen(record->inbox_id));
    return outcome->emails == outcome->stop_at ? -ENOSPC : 0;
}

static void feed_all(struct email_intake *intake, const struct strbuf *list, struct outcome *outcome)
{
    const struct list_intake_ops *ops = intake->base.ops;
    for (size_t i = 0; i < list->len && outcome->fed == 0; i += PIECE_BYTES) {
        size_t left = list->len - i;
        outcome->fed = ops->feed(&intake->base, list->data + i, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
}

/* In at most so many threads besides this one. */
static struct outcome run(const struct strbuf *list, unsigned int threads, unsigned int stop_at)
{
    struct pipeline_limit limit = {.most = threads};
    struct outcome outcome = {.thread = pthread_self(), .stop_at = stop_at};
    struct email_intake intake;
    assert_int_equal(email_intake_init(&intake, take, SIZE_MAX, &outcome, &limit), 0);
    feed_all(&intake, list, &outcome);
    outcome.finished = intake.base.ops->finish(&intake.base);
    bool is_long = outcome.fed == 0 && list->len > EMAIL_INTAKE_SHORT_BYTES + PIECE_BYTES;
    if (threads == 0 || is_long)
        assert_int_equal(intake.pipeline != NULL, threads > 0);
    outcome.count = intake.base.count;
    outcome.stopped_by = intake.base.stopped_by;
    memcpy(outcome.words, intake.base.words, sizeof(outcome.words));
    email_intake_release(&intake);
    assert_int_equal(atomic_load(&limit.running), 0);
    return outcome;
}

static void assert_same(const struct outcome *one, const struct outcome *other)
{
    assert_int_equal(one->emails, other->emails);
    assert_true(one->hash == other->hash);
    assert_int_equal(one->finished, other->finished);
    assert_int_equal(one->count, other->count);
    assert_int_equal(one->stopped_by, other->stopped_by);
    assert_string_equal(one->words, other->words);
}

/* A list that is read the same way whether in one thread or in two. */
static struct outcome run_both_ways(const struct strbuf *list, unsigned int stop_at)
{
    struct outcome here = run(list, 0, stop_at);
    struct outcome ahead = run(list, 1, stop_at);
    assert_same(&here, &ahead);
    return ahead;
}

/* ---------------------------------------------------------------- lists */

static void append_email(struct strbuf *list, int number)
{
    strbuf_appendf(list,
                   "%c{\"id\":\"id-%d\",\"inbox_id\":\"box-%d\",\"subject\":\"[{\\\"%d\\\"}] and so on, "
                   "\xc3\xa9\",\"date\":\"2026-11-20T10:14:36Z\",\"to_addresses\":[{\"address\":\"a@b\"}]}",
                   list->len == 0 ? '[' : ',', number, number % 3, number);
}

static void append_emails(struct strbuf *list, int count)
{
    for (int i = 0; i < count; i++)
        append_email(list, i);
}

static void end_list(struct strbuf *list)
{
    strbuf_append_char(list, ']');
    assert_int_equal(list->error, 0);
}

static void a_long_list_is_handed_on_in_order(void **state)
{
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    (void)state;
    append_emails(&list, 30000);
    end_list(&list);
    struct outcome outcome = run_both_ways(&list, 0);
    assert_int_equal(outcome.emails, 30000);
    assert_int_equal(outcome.finished, 0);
}

static void what_cannot_be_read_hides_nothing(void **state)
{
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    (void)state;
    append_emails(&list, 5000);
    strbuf_append_str(&list, ",{\"id\":\"\xff\"}");
    append_emails(&list, 5000);
    strbuf_append_str(&list, ",{\"id\":1,\"id\":2},{\"deep\":");
    for (int i = 0; i < 300; i++)
        strbuf_append_char(&list, '[');
    for (int i = 0; i < 300; i++)
        strbuf_append_char(&list, ']');
    strbuf_append_str(&list, "}");
    append_emails(&list, 5000);
    end_list(&list);
    struct outcome outcome = run_both_ways(&list, 0);
    assert_int_equal(outcome.emails, 15000);
    assert_int_equal(outcome.count, 15003);
    assert_string_equal(outcome.words, "record 5001 of the list cannot be read: invalid UTF-8");
}

/* Records that are tiny, huge, or grow by their layout: whatever bound of the pipeline is met. */
static void records_of_every_size_fit(void **state)
{
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    (void)state;
    append_emails(&list, 2000);
    for (int i = 0; i < 100000; i++)
        strbuf_appendf(&list, ",{\"id\":%d}", i);
    strbuf_append_str(&list, ",{\"id\":\"huge\",\"x\":\"");
    for (int i = 0; i < 300000; i++)
        strbuf_append_str(&list, "0123456789");
    strbuf_append_str(&list, "\"}");
    for (int i = 0; i < 2000; i++) {
        strbuf_appendf(&list, ",{\"id\":\"deep-%d\",\"x\":", i);
        for (int depth = 0; depth < 190; depth++)
            strbuf_append_char(&list, '[');
        for (int depth = 0; depth < 190; depth++)
            strbuf_append_char(&list, ']');
        strbuf_append_char(&list, '}');
    }
    append_emails(&list, 2000);
    end_list(&list);
    assert_int_equal(run_both_ways(&list, 0).emails, 2000 + 100000 + 1 + 2000 + 2000);
}

static void damage_comes_after_what_stood_before_it(void **state)
{
    static const char *const ends[] = {"}", "", ",]", "]]", ",{\"id\":"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
        append_emails(&list, 8000);
        strbuf_append_str(&list, ends[i]);
        if (i == 0) /* and then much that is no longer read */
            append_emails(&list, 8000);
        struct outcome outcome = run_both_ways(&list, 0);
        assert_int_equal(outcome.emails, 8000);
        assert_int_equal(outcome.finished, -EBADMSG);
        if (i == 0) /* told at once: whoever sends rubbish could send it without end */
            assert_int_equal(outcome.fed, -EBADMSG);
    }
}

static void a_sink_can_stop_it_anywhere(void **state)
{
    static const unsigned int places[] = {1, 2000, 7000, 19999, 20000};
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    (void)state;
    append_emails(&list, 20000);
    end_list(&list);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct outcome outcome = run_both_ways(&list, places[i]);
        assert_int_equal(outcome.emails, places[i]);
        assert_int_equal(outcome.stopped_by, -ENOSPC);
        assert_int_equal(outcome.finished, -ENOSPC);
    }
}

/* ---------------------------------------------------------------- threads */

static void before_a_pause_all_is_handed_on(void **state)
{
    struct pipeline_limit limit = {.most = 1};
    struct outcome outcome = {.thread = pthread_self()};
    struct email_intake intake;
    struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    (void)state;
    assert_int_equal(email_intake_init(&intake, take, SIZE_MAX, &outcome, &limit), 0);
    const struct list_intake_ops *ops = intake.base.ops;
    size_t fed = 0;
    for (int i = 0; i < 20000; i++) {
        append_email(&list, i);
        if (i % 1000 > 2) /* at times many come at once, at times one */
            continue;
        assert_int_equal(ops->feed(&intake.base, list.data + fed, list.len - fed), 0);
        ops->pause(&intake.base);
        assert_int_equal(outcome.emails, i + 1);
        fed = list.len;
    }
    assert_int_equal(outcome.pauses, 60);
    assert_non_null(intake.pipeline);
    email_intake_release(&intake);
    strbuf_release(&list);
}

/* A server may know no limit, and a hostile one no end. */
static void no_more_are_taken_than_are_wanted(void **state)
{
    (void)state;
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    append_emails(&list, 5000);
    for (unsigned int threads = 0; threads < 2; threads++) {
        for (unsigned int most = 4999; most <= 5000; most++) {
            struct pipeline_limit limit = {.most = threads};
            struct outcome outcome = {.thread = pthread_self()};
            struct email_intake intake;
            assert_int_equal(email_intake_init(&intake, take, most, &outcome, &limit), 0);
            feed_all(&intake, &list, &outcome);
            intake.base.ops->finish(&intake.base);
            assert_int_equal(outcome.emails, most);
            assert_int_equal(intake.base.stopped_by, most == 5000 ? 0 : -EOVERFLOW);
            email_intake_release(&intake);
        }
    }
}

static void an_abandoned_list_is_forgotten(void **state)
{
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    (void)state;
    append_emails(&list, 5000);
    strbuf_append_str(&list, ",{\"id\":\"huge\",\"x\":\"");
    for (int i = 0; i < 100000; i++)
        strbuf_append_str(&list, "0123456789");
    strbuf_append_str(&list, "\"}");
    append_emails(&list, 5000);
    for (int round = 0; round < 20; round++) {
        struct pipeline_limit limit = {.most = 1};
        struct outcome outcome = {.thread = pthread_self()};
        struct email_intake intake;
        assert_int_equal(email_intake_init(&intake, take, SIZE_MAX, &outcome, &limit), 0);
        feed_all(&intake, &list, &outcome);
        email_intake_release(&intake);
        assert_int_equal(atomic_load(&limit.running), 0);
    }
}

static void so_many_threads_and_no_more(void **state)
{
    struct pipeline_limit limit = {.most = 1};
    struct outcome outcomes[2] = {{.thread = pthread_self()}, {.thread = pthread_self()}};
    struct email_intake intakes[2];
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX_BYTES);
    (void)state;
    append_emails(&list, 5000);
    end_list(&list);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(email_intake_init(&intakes[i], take, SIZE_MAX, &outcomes[i], &limit), 0);
        feed_all(&intakes[i], &list, &outcomes[i]);
    }
    assert_non_null(intakes[0].pipeline);
    assert_null(intakes[1].pipeline);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(intakes[i].base.ops->finish(&intakes[i].base), 0);
        assert_int_equal(outcomes[i].emails, 5000);
        email_intake_release(&intakes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_list_is_handed_on_in_order),
        cmocka_unit_test(what_cannot_be_read_hides_nothing),
        cmocka_unit_test(records_of_every_size_fit),
        cmocka_unit_test(damage_comes_after_what_stood_before_it),
        cmocka_unit_test(a_sink_can_stop_it_anywhere),
        cmocka_unit_test(before_a_pause_all_is_handed_on),
        cmocka_unit_test(no_more_are_taken_than_are_wanted),
        cmocka_unit_test(an_abandoned_list_is_forgotten),
        cmocka_unit_test(so_many_threads_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
