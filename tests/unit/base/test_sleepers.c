/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait for work: none is woken without need, none sleeps on when there is something to do.
 */
#include "base/sleepers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/thread.h"

enum {
    THREADS = 6,
    TASKS = 20000,
};

struct shop {
    pthread_mutex_t lock;
    struct sleepers idlers;
    pthread_cond_t changed;
    unsigned int tasks; /* that wait, */
    unsigned int done;  /* and that were done */
    unsigned int asleep;
    unsigned int last; /* who did the last one */
    bool is_closed;
};

struct hand {
    struct shop *shop;
    unsigned int number;
    pthread_t thread;
};

static void *work(void *argument)
{
    struct hand *hand = argument;
    struct shop *shop = hand->shop;
    struct sleeper self;
    sleeper_init(&self);
    pthread_mutex_lock(&shop->lock);
    while (!shop->is_closed) {
        if (shop->tasks > 0) {
            shop->tasks--;
            shop->done++;
            shop->last = hand->number;
            pthread_cond_broadcast(&shop->changed);
            continue;
        }
        shop->asleep++;
        pthread_cond_broadcast(&shop->changed);
        sleepers_wait(&shop->idlers, &self, clock_system(), &shop->lock, CLOCK_FOREVER);
        shop->asleep--;
    }
    pthread_mutex_unlock(&shop->lock);
    sleeper_release(&self);
    return NULL;
}

static void open_shop(struct shop *shop, struct hand hands[THREADS])
{
    *shop = (struct shop){.tasks = 0};
    pthread_mutex_init(&shop->lock, NULL);
    pthread_cond_init(&shop->changed, NULL);
    for (unsigned int i = 0; i < THREADS; i++) {
        hands[i] = (struct hand){.shop = shop, .number = i};
        assert_int_equal(thread_start(&hands[i].thread, "test", work, &hands[i]), 0);
        pthread_mutex_lock(&shop->lock);
        while (shop->asleep != i + 1)
            pthread_cond_wait(&shop->changed, &shop->lock);
        pthread_mutex_unlock(&shop->lock);
    }
}

static void close_shop(struct shop *shop, struct hand hands[THREADS])
{
    pthread_mutex_lock(&shop->lock);
    shop->is_closed = true;
    sleepers_wake_all(&shop->idlers);
    assert_null(shop->idlers.first);
    pthread_mutex_unlock(&shop->lock);
    for (unsigned int i = 0; i < THREADS; i++)
        pthread_join(hands[i].thread, NULL);
    pthread_cond_destroy(&shop->changed);
    pthread_mutex_destroy(&shop->lock);
}

static void put_task_locked(struct shop *shop)
{
    shop->tasks++;
    sleepers_wake_one(&shop->idlers);
}

static void each_task_wakes_one_thread(void **state)
{
    struct shop shop;
    struct hand hands[THREADS];
    (void)state;
    open_shop(&shop, hands);
    pthread_mutex_lock(&shop.lock);
    for (unsigned int i = 0; i < TASKS; i++) {
        put_task_locked(&shop);
        while (shop.done <= i)
            pthread_cond_wait(&shop.changed, &shop.lock);
    }
    pthread_mutex_unlock(&shop.lock);
    close_shop(&shop, hands);
    assert_int_equal(shop.done, TASKS);
}

static void who_slept_last_is_woken_first(void **state)
{
    struct shop shop;
    struct hand hands[THREADS];
    (void)state;
    open_shop(&shop, hands);
    pthread_mutex_lock(&shop.lock);
    put_task_locked(&shop);
    while (shop.done == 0)
        pthread_cond_wait(&shop.changed, &shop.lock);
    assert_int_equal(shop.last, THREADS - 1);
    pthread_mutex_unlock(&shop.lock);
    close_shop(&shop, hands);
}

static void a_heap_of_tasks_wakes_all(void **state)
{
    struct shop shop;
    struct hand hands[THREADS];
    (void)state;
    open_shop(&shop, hands);
    pthread_mutex_lock(&shop.lock);
    for (unsigned int i = 0; i < THREADS; i++)
        put_task_locked(&shop);
    assert_null(shop.idlers.first);
    put_task_locked(&shop); /* nobody sleeps */
    while (shop.done < THREADS + 1)
        pthread_cond_wait(&shop.changed, &shop.lock);
    pthread_mutex_unlock(&shop.lock);
    close_shop(&shop, hands);
}

static void a_sleep_ends_when_its_time_is_up(void **state)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct clock *clock = clock_system();
    struct sleepers sleepers = {.first = NULL};
    struct sleeper self;
    (void)state;
    sleeper_init(&self);
    pthread_mutex_lock(&lock);
    int64_t until = clock_monotonic_ms(clock) + 20;
    while (clock_monotonic_ms(clock) < until)
        sleepers_wait(&sleepers, &self, clock, &lock, until);
    assert_null(sleepers.first);
    assert_false(self.is_asleep);
    sleepers_wake_one(&sleepers);
    pthread_mutex_unlock(&lock);
    sleeper_release(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_task_wakes_one_thread),
        cmocka_unit_test(who_slept_last_is_woken_first),
        cmocka_unit_test(a_heap_of_tasks_wakes_all),
        cmocka_unit_test(a_sleep_ends_when_its_time_is_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
