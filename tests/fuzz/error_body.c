/* SPDX-License-Identifier: MIT */
/*
 * Error answers of any server: the reason for the user, and the field that the answer names.
 */
#include "api/outcome.h"
#include "base/strbuf.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct http_config config = {.base_url = "http://localhost"};
    static struct http_client *client;
    struct error_body body;
    if (len == 0)
        return 0;
    error_body_init(&body, (const char *)bytes + 1, len - 1, bytes[0] % 2 == 0);
    FUZZ_CHECK(!body.is_html || !error_body_mentions(&body, "subject"));
    error_body_release(&body);

    struct strbuf text = STRBUF_INIT(len);
    const struct http_response response = {.status = 400, .is_html = bytes[0] % 2 == 0};
    FUZZ_CHECK(client != NULL || http_client_new(&config, &client) == 0);
    strbuf_append(&text, bytes + 1, len - 1);
    _cleanup_free_ char *reason = outcome_describe(client, &response, &text);
    FUZZ_CHECK(reason != NULL && strlen(reason) <= OUTCOME_REASON_MAX_BYTES);
    fuzz_check_harmless(reason, strlen(reason), "");
    strbuf_release(&text);
    return 0;
}
