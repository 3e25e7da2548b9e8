/* SPDX-License-Identifier: MIT */
/*
 * The logs that version 0.1 kept in the state directory, to be taken over once: a header, then frames aligned
 * to 8 bytes, each with its length, its kind and checks. What changed was appended anew; the last frame of a
 * thing counts.
 */
#ifndef INBOXFS_STORE_OLD_LOG_H
#define INBOXFS_STORE_OLD_LOG_H

#include <stddef.h>

/* Called with each frame that is intact, in order. `payload` is aligned to 8 bytes and gone after the call.
 * Non-zero
 * (-errno) ends the visit. */
typedef int (*old_log_visitor)(void *context, unsigned int kind, const void *payload, size_t len);

/* Visits the file `name` in `dir_fd` (waits for the disk). What is damaged is passed over. 0; what the
 * visitor returned; -ENOENT; -EBADMSG: it is no such log; or -errno of reading it. */
int old_log_visit(int dir_fd, const char *name, old_log_visitor visitor, void *context);

#endif
