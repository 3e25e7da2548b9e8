/* SPDX-License-Identifier: MIT */
/*
 * The messages in tests/data/mime: every structure that mail has been seen to have. Each NAME.eml has in
 * NAME.expected what a reader must find in it: subject, number of recipients, bodies, attachments by size and
 * digest, and where that is worth looking at, the readable text and what is new in it; or the error and its
 * words.
 */
#ifndef INBOXFS_TESTS_SUPPORT_CORPUS_H
#define INBOXFS_TESTS_SUPPORT_CORPUS_H

#include <jansson.h>
#include <stddef.h>

struct corpus_message {
    char *name; /* without extension */
    char *bytes;
    size_t len;
    json_t *expected;
};

/* Calls `check` for each message in order of name; the number of them. Fails the test where one cannot be
 * read. */
size_t corpus_for_each(void (*check)(void *context, const struct corpus_message *message), void *context);

#endif
