/* SPDX-License-Identifier: MIT */
/*
 * Envelopes of the spool, and the receipts made of them. What is read is written to be read as the same; a
 * receipt is JSON, and stays it with what the service tells put in.
 */
#include <jansson.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "mail/envelope.h"
#include "mail/json_writer.h"

enum {
    TEXT_MAX_BYTES = 1 << 24
};

static bool is_object(const char *text, size_t len, size_t flags)
{
    _cleanup_json_ json_t *object = json_loadb(text, len, flags | JSON_ALLOW_NUL, NULL);
    return json_is_object(object);
}

/* A request that was damaged may have a member twice, or what jansson reads only when it is replaced. */
static void check_object(const struct strbuf *text, const char *request)
{
    bool is_strict = is_object(request, strlen(request), JSON_REJECT_DUPLICATES);
    FUZZ_CHECK(is_object(text->data, text->len, is_strict ? JSON_REJECT_DUPLICATES : 0));
}

static void check_receipt(const struct envelope *envelope)
{
    static const char record[] = "{\"status\":\"delivered\",\"latest_event\":\"opened\"}";
    _cleanup_strbuf_ struct strbuf receipt = STRBUF_INIT(TEXT_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf delivery = STRBUF_INIT(TEXT_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf joined = STRBUF_INIT(TEXT_MAX_BYTES);
    const char *request = envelope->request != NULL ? envelope->request : "{}";
    FUZZ_CHECK(receipt_format(envelope, &receipt) == 0);
    check_object(&receipt, request);
    fuzz_check_harmless(receipt.data, receipt.len, "\n");
    FUZZ_CHECK(receipt_delivery_format(record, strlen(record), &delivery) == 0);
    size_t end = receipt_end(receipt.data, receipt.len);
    strbuf_append(&joined, receipt.data, end);
    strbuf_append(&joined, delivery.data, delivery.len);
    strbuf_append(&joined, receipt.data + end, receipt.len - end);
    check_object(&joined, request);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct envelope envelope;
    struct envelope again;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(TEXT_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf same = STRBUF_INIT(TEXT_MAX_BYTES);
    if (envelope_parse((const char *)bytes, len, &envelope) != 0)
        return 0;
    FUZZ_CHECK(envelope_format(&envelope, &text) == 0);
    FUZZ_CHECK(envelope_parse(text.data, text.len, &again) == 0);
    FUZZ_CHECK(envelope_format(&again, &same) == 0);
    FUZZ_CHECK(strcmp(text.data, same.data) == 0);
    check_receipt(&envelope);
    envelope_release(&envelope);
    envelope_release(&again);
    return 0;
}
