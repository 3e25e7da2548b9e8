/* SPDX-License-Identifier: MIT */
/*
 * Flowed text. Its plain form is not longer, and has the same characters in the same order, except for quote
 * marks and white space.
 */
#include "fuzz/fuzz.h"
#include "mail/mime_text.h"

/* Returns the position of the next byte that the plain form must keep. */
static size_t next_solid(const char *text, size_t len, size_t at)
{
    while (at < len && strchr("> \r\n", text[at]) != NULL && text[at] != '\0')
        at++;
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    for (int is_delsp = 0; is_delsp <= 1; is_delsp++) {
        g_autoptr(GString) out = g_string_new(NULL);
        flowed_append(out, (const char *)bytes, len, is_delsp);
        FUZZ_CHECK(out->len <= len);
        size_t at = 0;
        for (size_t i = next_solid(out->str, out->len, 0); i < out->len;
             i = next_solid(out->str, out->len, i + 1)) {
            at = next_solid((const char *)bytes, len, at);
            FUZZ_CHECK(at < len && (char)bytes[at++] == out->str[i]);
        }
        FUZZ_CHECK(next_solid((const char *)bytes, len, at) == len);
    }
    return 0;
}
