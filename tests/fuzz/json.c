/* SPDX-License-Identifier: MIT */
/*
 * JSON, which three readers are to understand alike. What jansson takes the copying reader takes (but for its
 * depth), the copy means the same, and a copy of the copy is the copy; what is written of a value is that
 * value again.
 */
#include <errno.h>
#include <jansson.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "mail/json_reader.h"
#include "mail/json_writer.h"

enum {
    TEXT_MAX_BYTES = 1 << 24
};

static int copy_text(struct strbuf *out, const char *text, size_t len, unsigned int indent)
{
    struct json_writer writer;
    json_writer_init(&writer, out, indent);
    return json_rewrite(text, len, &writer);
}

static bool means(const json_t *value, const struct strbuf *text)
{
    _cleanup_json_ json_t *read = json_loadb(text->data, text->len, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    return read != NULL && json_equal(read, value);
}

static void check_written(const json_t *value)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(TEXT_MAX_BYTES);
    struct json_writer writer;
    json_writer_init(&writer, &out, 2);
    json_value_write(value, &writer);
    FUZZ_CHECK(out.error == 0 && means(value, &out));
    fuzz_check_harmless(out.data, out.len, "\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return 0;
    unsigned int indent = bytes[0] % 3;
    const char *text = (const char *)bytes + 1;
    _cleanup_strbuf_ struct strbuf copy = STRBUF_INIT(TEXT_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf again = STRBUF_INIT(TEXT_MAX_BYTES);
    json_error_t problem;
    _cleanup_json_ json_t *value = json_loadb(text, len - 1, JSON_ALLOW_NUL | JSON_DECODE_ANY, &problem);
    int error = copy_text(&copy, text, len - 1, indent);
    if (value != NULL)
        check_written(value);
    /* A NUL between two values is nothing to jansson. */
    bool has_nul = memchr(text, '\0', len - 1) != NULL;
    FUZZ_CHECK(value == NULL || error == 0 || error == -EMSGSIZE || has_nul);
    if (error != 0)
        return 0;
    FUZZ_CHECK(value == NULL || means(value, &copy));
    fuzz_check_harmless(copy.data, copy.len, "\n");
    FUZZ_CHECK(copy_text(&again, copy.data, copy.len, indent) == 0);
    FUZZ_CHECK(again.len == copy.len && memcmp(again.data, copy.data, copy.len) == 0);
    return 0;
}
