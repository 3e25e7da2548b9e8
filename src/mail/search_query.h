/* SPDX-License-Identifier: MIT */
/*
 * What a user looks for, and what of an email it is compared with. A query is words (at the beginning of
 * words, all of them), "phrases" (as they stand), `from:TEXT` (in the sender's address or name) and `in:TEXT`
 * (in the inbox's folder name), each of these two also as from:"TEXT". Nothing else has a meaning.
 */
#ifndef INBOXFS_MAIL_SEARCH_QUERY_H
#define INBOXFS_MAIL_SEARCH_QUERY_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SEARCH_TERMS_MAX = 64,
    SEARCH_QUERY_MAX_BYTES = 4096,
};

enum search_term_kind {
    SEARCH_WORD,
    SEARCH_PHRASE,
    SEARCH_FROM, /* folded: search_fold() */
    SEARCH_IN,   /* folded */
};

struct search_term {
    enum search_term_kind kind;
    char *text; /* never empty; without quotes */
};

struct search_query {
    struct search_term terms[SEARCH_TERMS_MAX];
    size_t len;
};

/* Reads what the user wrote. Words and phrases without a letter or digit are passed over, terms past the
 * bound too. 0; -EINVAL: nothing to look for is left; -EILSEQ: not UTF-8; -EMSGSIZE; -ENOMEM. */
int search_query_parse(const char *text, struct search_query *ret_query);
void search_query_release(struct search_query *query);

/* The same for all ways of writing capitals, compatibility forms and accents put together or apart. The
 * caller frees; NULL without memory. `text` is UTF-8. */
char *search_fold(const char *text);

/* Whether the (folded) text satisfies all terms of `kind`, each somewhere in it. */
bool search_query_accepts(const struct search_query *query, enum search_term_kind kind, const char *folded);
bool search_query_has(const struct search_query *query, enum search_term_kind kind);

/* What of an email is looked in by a search. */
struct search_record {
    char *subject;
    char *sender; /* address and name, search_fold()ed */
    char *people; /* everybody's addresses and names */
};

/* From the text of a record (email_record.json). Fields of odd types are passed over. 0, -EBADMSG, -ENOMEM.
 */
int search_record_read(const char *json, size_t len, struct search_record *ret_record);
void search_record_release(struct search_record *record);

#endif
