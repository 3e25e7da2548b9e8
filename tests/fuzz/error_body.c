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
    struct service_result result;
    if (len == 0)
        return 0;
    struct strbuf text = STRBUF_INIT(len);
    const struct http_response response = {.status = 400, .is_html = bytes[0] % 2 == 0};
    FUZZ_CHECK(client != NULL || http_client_new(&config, &client) == 0);
    strbuf_append(&text, bytes + 1, len - 1);
    outcome_decide(client, &response, &text, false, &result);
    FUZZ_CHECK(result.detail != NULL && strlen(result.detail) <= OUTCOME_REASON_MAX_BYTES);
    fuzz_check_harmless(result.detail, strlen(result.detail), "");
    service_result_release(&result);
    (void)outcome_mentions(&text, "subject");
    strbuf_release(&text);
    return 0;
}
