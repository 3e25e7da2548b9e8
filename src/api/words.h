/* SPDX-License-Identifier: MIT */
/*
 * Words from strangers, made fit to be shown: one line of valid UTF-8 without control characters, bounded.
 */
#ifndef INBOXFS_API_WORDS_H
#define INBOXFS_API_WORDS_H

#include <stddef.h>

#include "base/strbuf.h"

enum {
    WORDS_MAX_BYTES = 1000
};

/* Appends the text, as much as fits below WORDS_MAX_BYTES, cut at a character's end. Runs of white space and
 * control characters (C0, DEL, C1, bidirectional controls) become one space, invalid UTF-8 `?`. */
void words_append(struct strbuf *words, const char *text, size_t len);

#endif
