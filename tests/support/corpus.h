/* SPDX-License-Identifier: MIT */
/*
 * The messages in tests/data/mime, which have the structures of real mail. For each NAME.eml, NAME.expected
 * has the values that a reader must find: subject, number of recipients, bodies, size and digest of each
 * attachment, and for some messages the readable text and its new part; or the error and its reason.
 */
#ifndef INBOXFS_TESTS_SUPPORT_CORPUS_H
#define INBOXFS_TESTS_SUPPORT_CORPUS_H

#include <jansson.h>
#include <stddef.h>

struct corpus_message {
    char *name; /* file name without ".eml" */
    char *bytes;
    size_t len;
    json_t *expected;
};

/* Calls `check` for each message in order of name. Returns the number of messages. Fails the test if a
 * message cannot be read. */
size_t corpus_for_each(void (*check)(void *context, const struct corpus_message *message), void *context);

#endif
