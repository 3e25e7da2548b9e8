/* SPDX-License-Identifier: MIT */
/*
 * Answers that refuse, of any server: words for the user, and which field they name.
 */
#include <jansson.h>

#include "api/outcome.h"
#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "mail/json_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct error_body body;
    _cleanup_strbuf_ struct strbuf words = STRBUF_INIT(1 << 24);
    _cleanup_json_ json_t *request = json_pack("{s:s, s:[]}", "subject", "x", "to_addresses");
    if (len == 0)
        return 0;
    error_body_init(&body, (const char *)bytes + 1, len - 1, bytes[0] % 2 == 0);
    error_body_append_words(&body, &words);
    FUZZ_CHECK(words.error == 0);
    FUZZ_CHECK(!error_body_names(&body, "subject") || error_body_names_any(&body, request));
    error_body_release(&body);
    return 0;
}
