/* SPDX-License-Identifier: MIT */
/*
 * Names looked up in search/. A query that is read has terms to look for, and what accepts them is no crash.
 */
#include "mail/search_query.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct search_query query;
    _cleanup_free_ char *text = fuzz_string(bytes, len);
    if (search_query_parse(text, &query) != 0)
        return 0;
    FUZZ_CHECK(query.len > 0 && query.len <= SEARCH_TERMS_MAX);
    for (size_t i = 0; i < query.len; i++)
        FUZZ_CHECK(query.terms[i].text[0] != '\0' && strchr(query.terms[i].text, '"') == NULL);
    _cleanup_free_ char *folded = search_fold(text);
    _cleanup_free_ char *twice = search_fold(folded);
    FUZZ_CHECK(g_utf8_validate(folded, -1, NULL) && strcmp(folded, twice) == 0);
    for (enum search_term_kind kind = SEARCH_WORD; kind <= SEARCH_IN; kind++)
        FUZZ_CHECK(search_query_has(&query, kind) || search_query_accepts(&query, kind, folded));
    search_query_release(&query);
    return 0;
}
