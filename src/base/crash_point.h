/* SPDX-License-Identifier: MIT */
/*
 * Crash points: named calls at which tests make the program die as in a power cut. The crash point whose name
 * is the value of INBOXFS_CRASH_AT in the environment kills the process.
 */
#ifndef INBOXFS_BASE_CRASH_POINT_H
#define INBOXFS_BASE_CRASH_POINT_H

void crash_point(const char *name);

#endif
