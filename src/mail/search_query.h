/* SPDX-License-Identifier: MIT */
/*
 * Queries of search/, and the texts of an email that they are compared with. A query is terms, and an email
 * has to meet all of them:
 *
 * - WORD, "SOME WORDS": words in a row, anywhere; the last one of WORD may go on
 * - subject: from: to: the same in that field alone (to: is To, Cc and Bcc)
 * - has:attachment
 * - in:TEXT the folder name of the inbox has TEXT in it
 * - after:DATE before:DATE from the beginning of 2026-11-20, 2026-11 or 2026 (UTC) on, or until then; or an
 *   age: 7d, 2w, 6m, 1y
 * - -TERM the email does not meet TERM
 * - TERM OR TERM the email meets one of them; OR binds closer than a blank
 *
 * The search index answers texts; in:, after: and before: are facts, which are compared in memory. An OR
 * joins texts or facts, because neither can answer for both.
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
    SEARCH_ATTACHMENT,         /* has one */
    SEARCH_NO_ATTACHMENT,      /* is known to have none */
    SEARCH_UNKNOWN_ATTACHMENT, /* its content was not read yet; no query has this from its user */
    SEARCH_IN,                 /* this one and those below are facts */
    SEARCH_AFTER,
    SEARCH_BEFORE,
};

struct search_term {
    enum search_term_kind kind;
    bool is_quoted;      /* its last word does not go on */
    bool is_negated;     /* then it is a group by itself; never an attachment */
    bool is_alternative; /* in one group with the term before */
    char *text;          /* of words: never empty, without quotes; of `in:` search_fold()ed; else NULL */
    int64_t date_ms;     /* of dates */
};

/* Groups of terms: an email has to meet one term of each. */
struct search_query {
    struct search_term terms[SEARCH_TERMS_MAX];
    size_t len;
};

/* Reads what the user wrote at `now_ms`. Words without a letter or digit are passed over. 0; -ENOENT: nothing
 * to look for is left; -EINVAL: it would be misunderstood, with words in *ret_reason (the caller frees);
 * -EILSEQ: not UTF-8; -EMSGSIZE; -ENOMEM. */
int search_query_parse(const char *text, int64_t now_ms, struct search_query *ret_query, char **ret_reason);
void search_query_release(struct search_query *query);

/* The term behind the group that begins with `first`. */
size_t search_query_group_end(const struct search_query *query, size_t first);

static inline bool search_term_is_fact(const struct search_term *term)
{
    return term->kind >= SEARCH_IN;
}

/* True: an email of this date, in the inbox of this folded name, meets all groups of facts. */
bool search_query_accepts(const struct search_query *query, const char *folded_inbox, int64_t date_ms);

/* The same for all ways of writing capitals, compatibility forms and accents put together or apart. The
 * caller frees; NULL without memory. `text` is UTF-8. */
char *search_fold(const char *text);

/* The texts of an email that a search looks into; addresses with their names. */
struct search_record {
    char *subject;
    char *sender;
    char *recipients; /* To, Cc and Bcc */
    char *reply_to;
};

/* From the text of a record (email_record.json). Fields of odd types are passed over. 0, -EBADMSG, -ENOMEM.
 */
int search_record_read(const char *json, size_t len, struct search_record *ret_record);
void search_record_release(struct search_record *record);

#endif
