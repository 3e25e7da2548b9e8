/* SPDX-License-Identifier: MIT */
/*
 * Names looked up in search/. An accepted query has terms, in groups that an index or the facts of an email
 * can answer; a refused query has a reason.
 */
#include "mail/search_query.h"
#include "fuzz/fuzz.h"
#include "mail/file_name.h"

#include <errno.h>

static void check_term(const struct search_query *query, size_t i)
{
    const struct search_term *term = &query->terms[i];
    bool is_word = term->kind <= SEARCH_TO || term->kind == SEARCH_IN;
    FUZZ_CHECK(is_word == (term->text != NULL));
    FUZZ_CHECK(!is_word || (term->text[0] != '\0' && strchr(term->text, '"') == NULL));
    FUZZ_CHECK(!term->is_negated || (term->kind != SEARCH_ATTACHMENT && term->kind != SEARCH_NO_ATTACHMENT));
    if (!term->is_alternative)
        return;
    FUZZ_CHECK(i > 0 && !term->is_negated && !query->terms[i - 1].is_negated);
    FUZZ_CHECK(search_term_is_fact(term) == search_term_is_fact(&query->terms[i - 1]));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct search_query query;
    _cleanup_free_ char *reason = NULL;
    _cleanup_free_ char *text = fuzz_string(bytes, len);
    int error = search_query_parse(text, INT64_C(1795168800000), &query, &reason);
    FUZZ_CHECK((error == -EINVAL) == (reason != NULL));
    if (error != 0)
        return 0;
    FUZZ_CHECK(query.len > 0 && query.len <= SEARCH_TERMS_MAX);
    for (size_t i = 0; i < query.len; i++)
        check_term(&query, i);
    _cleanup_free_ char *folded = file_name_fold(text);
    _cleanup_free_ char *twice = file_name_fold(folded);
    FUZZ_CHECK(g_utf8_validate(folded, -1, NULL) && strcmp(folded, twice) == 0);
    (void)search_query_matches_facts(&query, folded, INT64_C(1795168800000));
    search_query_release(&query);
    return 0;
}
