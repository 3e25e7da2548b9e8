/* SPDX-License-Identifier: MIT */
/*
 * Names made from any text are harmless and within bounds, also when numbered and shortened. A folded name
 * folds to itself. A date that is read and written is read as the same date.
 */
#include "mail/file_name.h"
#include "fuzz/fuzz.h"
#include "mail/date.h"

static void check_numbered(const char *name)
{
    for (unsigned int number = 2; number < 100000; number *= 40) {
        _cleanup_free_ char *numbered = file_name_numbered(name, number);
        FUZZ_CHECK(file_name_is_harmless(numbered) && strcmp(numbered, name) != 0);
    }
    _cleanup_free_ char *shortened = file_name_shortened(name, 64);
    FUZZ_CHECK(strlen(shortened) <= 64 && file_name_is_harmless(shortened));
    _cleanup_free_ char *folded = file_name_fold(name);
    _cleanup_free_ char *twice = file_name_fold(folded);
    FUZZ_CHECK(strcmp(folded, twice) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    _cleanup_free_ char *text = fuzz_string(bytes, len);
    _cleanup_free_ char *name = file_name_from_text(text);
    _cleanup_free_ char *stem = file_name_stem(len % 2 == 0, (int64_t)len * 1000000007, text, text);
    _cleanup_free_ char *slug = file_name_slug(text);
    FUZZ_CHECK(file_name_is_harmless(name) && file_name_is_harmless(stem) && file_name_is_harmless(slug));
    FUZZ_CHECK(strlen(slug) <= FILE_NAME_SLUG_MAX_BYTES);
    check_numbered(name);
    int64_t ms;
    if (date_parse(text, &ms) == 0) {
        char written[32];
        int64_t again;
        date_format(ms, written);
        FUZZ_CHECK(date_parse(written, &again) == 0);
        FUZZ_CHECK(again == ms || strncmp(written, "9999", 4) == 0 || strncmp(written, "0000", 4) == 0);
    }
    return 0;
}
