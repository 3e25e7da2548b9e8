/* SPDX-License-Identifier: MIT */
/*
 * A reason is a message that a user gets with an errno. It describes the mistake in the user's text.
 */
#ifndef INBOXFS_MAIL_REASON_H
#define INBOXFS_MAIL_REASON_H

/* Formats *ret_reason (the caller frees) as valid UTF-8 on one line. Returns `error`. Callers
 * quote the user's text with a bound ("%.80s"). */
int reason_give(char **ret_reason, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
