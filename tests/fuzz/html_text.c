/* SPDX-License-Identifier: MIT */
/*
 * HTML of any sender. Its text is UTF-8 without control characters, ends with a line end, and is the same
 * each time.
 */
#include "mail/html_text.h"
#include "base/strbuf.h"
#include "fuzz/fuzz.h"

enum {
    TEXT_MAX_BYTES = 1 << 24
};

static void check_text(const struct strbuf *text)
{
    FUZZ_CHECK(g_utf8_validate(strbuf_str(text), (gssize)text->len, NULL));
    for (size_t i = 0; i < text->len; i++)
        FUZZ_CHECK(((unsigned char)text->data[i] >= ' ' && text->data[i] != 0x7f) || text->data[i] == '\n');
    FUZZ_CHECK(text->len == 0 || text->data[text->len - 1] == '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf again = STRBUF_INIT(TEXT_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf markdown = STRBUF_INIT(TEXT_MAX_BYTES);
    if (html_to_text(&text, (const char *)bytes, len) != 0)
        return 0;
    check_text(&text);
    FUZZ_CHECK(html_to_text(&again, (const char *)bytes, len) == 0);
    FUZZ_CHECK(strcmp(strbuf_str(&text), strbuf_str(&again)) == 0);
    if (html_to_markdown(&markdown, (const char *)bytes, len, 1) == 0)
        check_text(&markdown);
    return 0;
}
