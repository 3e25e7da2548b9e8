/* SPDX-License-Identifier: MIT */
/*
 * Crash points: named calls at which tests make the program die as in a power cut. If INBOXFS_CRASH_AT=name
 * is in the environment at the process's first crash point, the one of that name kills the process.
 */
#ifndef INBOXFS_BASE_CRASH_POINT_H
#define INBOXFS_BASE_CRASH_POINT_H

void crash_point(const char *name);

#endif
