/* SPDX-License-Identifier: MIT */
/*
 * Words for the user that go with an error: what is wrong with what they wrote.
 */
#ifndef INBOXFS_MAIL_REASON_H
#define INBOXFS_MAIL_REASON_H

/* Puts the words into *ret_reason (the caller frees), as valid UTF-8 on one line, and returns `error`, or
 * -ENOMEM. A user's text is best quoted with a bound ("%.80s"). */
int reason_give(char **ret_reason, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
