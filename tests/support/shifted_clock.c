/* SPDX-License-Identifier: MIT */
/*
 * Replaces the C library's clock_gettime().
 */
#include "support/shifted_clock.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int_least64_t passed_s;
static atomic_int_least64_t slept_s;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, ret);
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW)
        ret->tv_sec += atomic_load(&passed_s);
    if (clock == CLOCK_BOOTTIME)
        ret->tv_sec += atomic_load(&passed_s) + atomic_load(&slept_s);
    return rc;
}

void shifted_clock_pass(int64_t seconds)
{
    atomic_fetch_add(&passed_s, seconds);
}

void shifted_clock_suspend(int64_t seconds)
{
    atomic_fetch_add(&slept_s, seconds);
}
