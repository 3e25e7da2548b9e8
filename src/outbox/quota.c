/* SPDX-License-Identifier: MIT */
/*
 * The count of the day.
 */
#include "outbox/quota.h"

#include <string.h>

#include "base/log.h"

enum {
    DAY_MS = 24 * 3600 * 1000
};

int64_t quota_day(int64_t realtime_ms)
{
    return realtime_ms / DAY_MS;
}

int64_t quota_wait_ms(int64_t now_ms)
{
    return DAY_MS - now_ms % DAY_MS;
}

void quota_init(struct quota *quota, struct spool *spool, int64_t limit, int64_t now_ms)
{
    int64_t day;
    int64_t count;
    *quota = (struct quota){.spool = spool, .limit = limit, .day = quota_day(now_ms)};
    pthread_mutex_init(&quota->lock, NULL);
    pthread_mutex_init(&quota->saving, NULL);
    if (spool_read_count(spool, &day, &count) == 0)
        quota_raise(quota, day, count);
}

void quota_release(struct quota *quota)
{
    pthread_mutex_destroy(&quota->saving);
    pthread_mutex_destroy(&quota->lock);
}

void quota_raise(struct quota *quota, int64_t day, int64_t count)
{
    pthread_mutex_lock(&quota->lock);
    if (day == quota->day && count > quota->count)
        quota->count = count;
    pthread_mutex_unlock(&quota->lock);
}

static void turn_day_locked(struct quota *quota, int64_t now_ms)
{
    int64_t day = quota_day(now_ms);
    if (day == quota->day)
        return;
    quota->day = day;
    quota->count = 0;
}

static bool has_room_locked(const struct quota *quota)
{
    return quota->limit < 0 || quota->count + quota->under_way < quota->limit;
}

bool quota_enter(struct quota *quota, int64_t now_ms)
{
    pthread_mutex_lock(&quota->lock);
    turn_day_locked(quota, now_ms);
    bool has_room = has_room_locked(quota);
    if (has_room)
        quota->under_way++;
    pthread_mutex_unlock(&quota->lock);
    return has_room;
}

bool quota_has_room(struct quota *quota, int64_t now_ms)
{
    pthread_mutex_lock(&quota->lock);
    turn_day_locked(quota, now_ms);
    bool has_room = has_room_locked(quota);
    pthread_mutex_unlock(&quota->lock);
    return has_room;
}

void quota_leave(struct quota *quota)
{
    pthread_mutex_lock(&quota->lock);
    quota->under_way--;
    pthread_mutex_unlock(&quota->lock);
}

void quota_count(struct quota *quota, int64_t now_ms)
{
    pthread_mutex_lock(&quota->saving);
    pthread_mutex_lock(&quota->lock);
    turn_day_locked(quota, now_ms);
    int64_t day = quota->day;
    int64_t count = ++quota->count;
    pthread_mutex_unlock(&quota->lock);
    int error = spool_write_count(quota->spool, day, count, quota->limit >= 0);
    pthread_mutex_unlock(&quota->saving);
    if (error != 0)
        log_warning("the count of emails sent today could not be saved: %s", strerror(-error));
}

int64_t quota_get_count(struct quota *quota, int64_t now_ms)
{
    pthread_mutex_lock(&quota->lock);
    turn_day_locked(quota, now_ms);
    int64_t count = quota->count;
    pthread_mutex_unlock(&quota->lock);
    return count;
}
