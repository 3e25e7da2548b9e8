/* SPDX-License-Identifier: MIT */
/*
 * Queries of search/. A query consists of terms, and an email has to match all of them:
 *
 * - WORD, "SOME WORDS": words in a row, in any text; WORD may also be the beginning of a longer word.
 *   Punctuation at the ends does not count
 * - subject: from: to: before WORD or "SOME WORDS" search that field alone (to: means To, Cc and Bcc)
 * - has:attachment
 * - in:TEXT: the folder name of the inbox contains TEXT
 * - after:DATE before:DATE: the email is not older, or is older, than the beginning of 2026-11-20, 2026-11 or
 *   2026 (UTC), or than an age: 7d, 2w, 6m, 1y
 * - -TERM: the email does not match TERM
 * - TERM OR TERM: the email matches one of them; OR binds closer than a blank
 *
 * The search index compares texts; in:, after: and before: are facts, which the store compares in memory. An
 * OR joins texts or facts, not both, because neither the index nor the store compares both.
 */
#ifndef INBOXFS_MAIL_SEARCH_QUERY_H
#define INBOXFS_MAIL_SEARCH_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SEARCH_TERMS_MAX = 64,
    SEARCH_QUERY_MAX_BYTES = 4096,
};

enum search_term_kind {
    SEARCH_WORD,
    SEARCH_SUBJECT,
    SEARCH_FROM,
    SEARCH_TO,
    SEARCH_ATTACHMENT,    /* the email has an attachment */
    SEARCH_NO_ATTACHMENT, /* the email is known to have none */
    SEARCH_IN,            /* SEARCH_IN to SEARCH_BEFORE are facts */
    SEARCH_AFTER,
    SEARCH_BEFORE,
};

struct search_term {
    enum search_term_kind kind;
    bool is_quoted;      /* the last word of `text` matches whole words only */
    bool is_negated;     /* the email must not match the term, which is a group of its own */
    bool is_alternative; /* belongs to the group of the previous term */
    char *text;          /* words without quotes, never "" (SEARCH_IN: file_name_fold()); NULL for
                            attachments and dates */
    int64_t date_ms;     /* SEARCH_AFTER, SEARCH_BEFORE: since 1970 UTC */
};

/* Groups of terms: an email has to match at least one term of each group. */
struct search_query {
    struct search_term terms[SEARCH_TERMS_MAX];
    size_t len;
};

/* Parses the user's text; ages count from `now_ms`. Words without a letter or digit are ignored. The caller
 * releases the query. Return: 0; -EINVAL if the text is ambiguous or malformed, or has no term or more than
 * SEARCH_TERMS_MAX, with *ret_reason (the caller frees); -EILSEQ if it is not UTF-8; -EMSGSIZE if it is
 * longer than SEARCH_QUERY_MAX_BYTES. */
int search_query_parse(const char *text, int64_t now_ms, struct search_query *ret_query, char **ret_reason);
void search_query_release(struct search_query *query);

/* Returns the index of the term after the group that begins at index `first`. */
size_t search_query_group_end(const struct search_query *query, size_t first);

static inline bool search_term_is_fact(const struct search_term *term)
{
    return term->kind >= SEARCH_IN;
}

/* Returns true if an email of this date, in the inbox of this name (file_name_fold()), matches all groups of
 * facts. */
bool search_query_matches_facts(const struct search_query *query, const char *folded_inbox, int64_t date_ms);

#endif
