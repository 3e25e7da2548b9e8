/* SPDX-License-Identifier: MIT */
/*
 * JSON of any origin. If jansson accepts a text, our reader reads the same value. The text that our writer
 * makes of a value is harmless, and is read as the same value.
 */
#include <errno.h>
#include <jansson.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "mail/json_value.h"
#include "mail/json_writer.h"

enum {
    TEXT_MAX_BYTES = 1 << 24
};

static void check_written(const json_t *value, unsigned int indent)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(TEXT_MAX_BYTES);
    _cleanup_json_ json_t *again = NULL;
    struct json_writer writer;
    json_writer_init(&writer, &out, indent);
    json_write_value(&writer, value);
    if (out.error == -EMSGSIZE) /* indents may make the text too long */
        return;
    FUZZ_CHECK(json_value_read(out.data, out.len, JSON_DECODE_ANY, &again) == 0);
    FUZZ_CHECK(json_equal(again, value));
    fuzz_check_harmless(out.data, out.len, "\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return 0;
    const char *text = (const char *)bytes + 1;
    _cleanup_json_ json_t *value = NULL;
    _cleanup_json_ json_t *judged = json_loadb(text, len - 1, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    int error = json_value_read(text, len - 1, JSON_DECODE_ANY, &value);
    /* jansson accepts a NUL between two values. */
    bool has_nul = memchr(text, '\0', len - 1) != NULL;
    FUZZ_CHECK(judged == NULL || has_nul || (error == 0 && json_equal(value, judged)));
    if (error == 0)
        check_written(value, bytes[0] % 3);
    return 0;
}
