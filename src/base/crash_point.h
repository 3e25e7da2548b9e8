/* SPDX-License-Identifier: MIT */
/*
 * Named places at which tests make the program die as by a power cut: with INBOXFS_CRASH_AT=name in the
 * environment when the first of them is passed, the process kills itself there. Otherwise they do nothing.
 */
#ifndef INBOXFS_BASE_CRASH_POINT_H
#define INBOXFS_BASE_CRASH_POINT_H

void crash_point(const char *name);

#endif
