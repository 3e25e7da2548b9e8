/* SPDX-License-Identifier: MIT */
/*
 * Lists of records. However the bytes are cut into pieces, the reader finds the same records and the same
 * error.
 */
#include "api/list_reader.h"
#include "base/hash.h"
#include "fuzz/fuzz.h"

enum {
    RECORD_MAX_BYTES = 300
};

struct outcome {
    uint64_t hash;      /* hash of all records, in order */
    unsigned int count; /* includes records that are too long or too deep */
    int error;
};

static int take(void *context, const char *text, size_t len)
{
    struct outcome *outcome = context;
    FUZZ_CHECK(len >= 2 && len <= RECORD_MAX_BYTES && text[0] == '{' && strchr("}]", text[len - 1]) != NULL);
    outcome->hash = hash_bytes(outcome->hash, text, len);
    return 0;
}

/* Feeds pieces of `step` bytes, each in its own block, so that sanitizers find reads past the end. */
static struct outcome feed(const uint8_t *bytes, size_t len, size_t step)
{
    struct outcome outcome = {.count = 0};
    struct list_reader reader;
    list_reader_init(&reader, RECORD_MAX_BYTES, SIZE_MAX, take, &outcome);
    for (size_t at = 0; at < len && outcome.error == 0; at += step) {
        size_t part = len - at < step ? len - at : step;
        char *piece = malloc(part);
        memcpy(piece, bytes + at, part);
        outcome.error = list_reader_feed(&reader, piece, part);
        free(piece);
    }
    if (outcome.error == 0)
        outcome.error = list_reader_finish(&reader);
    outcome.count = reader.count;
    list_reader_release(&reader);
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
