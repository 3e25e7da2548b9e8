/* SPDX-License-Identifier: MIT */
/*
 * The new text of an email: its lines are lines of the whole text, in the same order.
 */
#include "mail/new_text.h"
#include "base/strbuf.h"
#include "fuzz/fuzz.h"

/* Returns the next line of the text that equals `line`, or NULL. */
static const char *find_line(const char *at, const char *end, const char *line, size_t len)
{
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline != NULL ? newline : end;
        const char *next = newline != NULL ? newline + 1 : end;
        if ((size_t)(line_end - at) == len && memcmp(at, line, len) == 0)
            return next;
        at = next;
    }
    return NULL;
}

static void check(enum new_text_kind kind, const char *bytes, size_t len)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * len + 16);
    FUZZ_CHECK(new_text_append(&text, kind, bytes, len) == 0);
    const char *from = bytes;
    const char *end = from + len;
    for (size_t at = 0; at < text.len;) {
        const char *line = text.data + at;
        const char *newline = memchr(line, '\n', text.len - at);
        size_t line_len = newline != NULL ? (size_t)(newline - line) : text.len - at;
        if (line_len > 0) { /* a blank line may replace lines that were left out */
            from = find_line(from, end, line, line_len);
            FUZZ_CHECK(from != NULL);
        }
        at += line_len + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    for (enum new_text_kind kind = NEW_TEXT_OF_FIRST; kind <= NEW_TEXT_OF_FORWARD; kind++)
        check(kind, (const char *)bytes, len);
    return 0;
}
