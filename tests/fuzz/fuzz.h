/* SPDX-License-Identifier: MIT */
/*
 * Functions for all harnesses. Each other .c file here is a harness, and its head lists what it asserts
 * besides memory safety. libFuzzer looks for inputs that break the assertions (`make fuzz`), and replay.c
 * replays the inputs in tests/fuzz/corpus.
 */
#ifndef INBOXFS_TESTS_FUZZ_FUZZ_H
#define INBOXFS_TESTS_FUZZ_FUZZ_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fail(#condition, __FILE__, __LINE__))

static inline void fuzz_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

/* Fixes the order of jansson's hash tables, so that an input always has the same result. */
__attribute__((constructor)) static inline void fuzz_begin(void)
{
    json_object_seed(1);
}

/* Returns a copy with a NUL at its end; the caller frees it. */
static inline char *fuzz_string(const void *bytes, size_t len)
{
    char *text = malloc(len + 1);
    FUZZ_CHECK(text != NULL);
    if (len > 0)
        memcpy(text, bytes, len);
    text[len] = '\0';
    return text;
}

/* Removes the first line from the input and returns a copy; the caller frees it. */
static inline char *fuzz_take_line(const uint8_t **bytes, size_t *len)
{
    const uint8_t *newline = *len > 0 ? memchr(*bytes, '\n', *len) : NULL;
    size_t line_len = newline != NULL ? (size_t)(newline - *bytes) : *len;
    char *line = fuzz_string(*bytes, line_len);
    size_t taken = newline != NULL ? line_len + 1 : line_len;
    *bytes += taken;
    *len -= taken;
    return line;
}

/* Checks that a text may be sent to a terminal: it is UTF-8 without control characters (except `allowed`),
 * and without characters that change the direction of text or end a line for some programs. */
static inline void fuzz_check_harmless(const char *text, size_t len, const char *allowed)
{
    FUZZ_CHECK(g_utf8_validate(text, (gssize)len, NULL));
    for (const char *at = text; at < text + len; at = g_utf8_next_char(at)) {
        gunichar c = g_utf8_get_char(at);
        FUZZ_CHECK(!g_unichar_iscntrl(c) || (c < 0x80 && strchr(allowed, (int)c) != NULL));
        FUZZ_CHECK(!(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069));
    }
}

#endif
