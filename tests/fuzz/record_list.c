/* SPDX-License-Identifier: MIT */
/*
 * Lists of records. However the bytes are cut on their way, the same records come out of them, and the same
 * error.
 */
#include "api/record_stream.h"
#include "base/hash.h"
#include "fuzz/fuzz.h"

enum {
    RECORD_MAX_BYTES = 300
};

struct outcome {
    uint64_t hash; /* of all records, in order */
    size_t count;
    int error;
};

static int take(void *context, const char *text, size_t len)
{
    struct outcome *outcome = context;
    FUZZ_CHECK(text == NULL || (len >= 2 && len <= RECORD_MAX_BYTES && text[0] == '{' &&
                                strchr("}]", text[len - 1]) != NULL));
    outcome->hash = text != NULL ? hash_bytes(outcome->hash, text, len) : outcome->hash * 31 + 1;
    outcome->count++;
    return 0;
}

/* In pieces of `step` bytes, each where sanitizers see its end. */
static struct outcome feed(const uint8_t *bytes, size_t len, size_t step)
{
    struct outcome outcome = {.count = 0};
    struct record_stream stream;
    record_stream_init(&stream, RECORD_MAX_BYTES, take, &outcome);
    for (size_t at = 0; at < len && outcome.error == 0; at += step) {
        size_t part = len - at < step ? len - at : step;
        char *piece = malloc(part);
        memcpy(piece, bytes + at, part);
        outcome.error = record_stream_feed(&stream, piece, part);
        free(piece);
    }
    if (outcome.error == 0)
        outcome.error = record_stream_finish(&stream);
    record_stream_release(&stream);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return 0;
    const struct outcome whole = feed(bytes + 1, len - 1, len);
    const struct outcome pieces = feed(bytes + 1, len - 1, 1 + bytes[0] % 40);
    FUZZ_CHECK(whole.count == pieces.count && whole.hash == pieces.hash && whole.error == pieces.error);
    return 0;
}
