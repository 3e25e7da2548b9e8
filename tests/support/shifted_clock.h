/* SPDX-License-Identifier: MIT */
/*
 * Moves the clocks ahead for the whole program, including its libraries. A sleep takes as long as before, so
 * these functions serve only code that compares the times of two events.
 */
#ifndef INBOXFS_TESTS_SHIFTED_CLOCK_H
#define INBOXFS_TESTS_SHIFTED_CLOCK_H

#include <stdint.h>

/* Lets this time pass, as on a machine that runs. */
void shifted_clock_pass(int64_t seconds);

/* Lets this time pass, as on a machine that sleeps: CLOCK_MONOTONIC stands still. */
void shifted_clock_suspend(int64_t seconds);

#endif
