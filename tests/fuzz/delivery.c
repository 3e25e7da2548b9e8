/* SPDX-License-Identifier: MIT */
/*
 * The input is a record of sent mail, as any service may send it. A receipt with members of that record is
 * valid JSON.
 */
#include <jansson.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "mail/json_writer.h"
#include "mail/receipt.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    _cleanup_strbuf_ struct strbuf delivery = STRBUF_INIT(1 << 24);
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(1 << 24);
    if (receipt_delivery_format((const char *)bytes, len, &delivery) != 0)
        return 0;
    strbuf_append_str(&receipt, "{\n  \"state\": \"sent\"");
    strbuf_append(&receipt, delivery.data, delivery.len);
    strbuf_append_str(&receipt, "\n}\n");
    _cleanup_json_ json_t *object = json_loadb(receipt.data, receipt.len, JSON_ALLOW_NUL, NULL);
    FUZZ_CHECK(json_is_object(object));
    FUZZ_CHECK(strcmp(json_string_value(json_object_get(object, "state")), "sent") == 0);
    fuzz_check_harmless(receipt.data, receipt.len, "\n");
    return 0;
}
