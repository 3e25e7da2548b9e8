/* SPDX-License-Identifier: MIT */
/*
 * The machine's clocks, moved ahead by a test: of the whole program, libraries too, that calls the functions
 * below. A sleep takes as long as before, so this is for what looks at the time between two events.
 */
#ifndef INBOXFS_TESTS_SHIFTED_CLOCK_H
#define INBOXFS_TESTS_SHIFTED_CLOCK_H

#include <stdint.h>

/* So much time passes, as on a machine that runs. */
void shifted_clock_pass(int64_t seconds);

/* So much time passes, as on a machine that sleeps: CLOCK_MONOTONIC stands still. */
void shifted_clock_suspend(int64_t seconds);

#endif
