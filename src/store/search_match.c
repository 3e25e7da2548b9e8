/* SPDX-License-Identifier: MIT */
/*
 * Queries in the words of FTS5.
 */
#include "store/search_match.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "sql/query.h"

enum {
    MATCH_MAX_BYTES = 64 * 1024,
    STEPS_BETWEEN_LOOKS = 20000, /* of SQLite's machine: some milliseconds */
};

/* A string of FTS5, in which nothing but a quote has a meaning, and terms hold none. "*" behind it: the last
 * word of it goes on. NULL: no words at all, or no memory. */
static char *match_expression(const struct search_query *query)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MATCH_MAX_BYTES);
    for (size_t i = 0; i < query->len; i++) {
        const struct search_term *term = &query->terms[i];
        if (term->kind == SEARCH_WORD || term->kind == SEARCH_PHRASE)
            strbuf_appendf(&text, "%s\"%s\"%s", text.len > 0 ? " AND " : "", term->text,
                           term->kind == SEARCH_WORD ? "*" : "");
    }
    return strbuf_take(&text, NULL);
}

struct finding {
    const struct search_query *query;
    search_hit_sink sink;
    search_stop stop;
    void *context;
};

static int look_whether_to_stop(void *context)
{
    const struct finding *finding = context;
    return finding->stop(finding->context) ? 1 : 0;
}

static int step_through(struct finding *finding, sqlite3_stmt *statement)
{
    int more;
    while ((more = query_step(statement)) > 0) {
        const char *inbox_id = (const char *)sqlite3_column_text(statement, 0);
        const char *key = (const char *)sqlite3_column_text(statement, 1);
        const char *sender = (const char *)sqlite3_column_text(statement, 2);
        if (inbox_id == NULL || key == NULL || sender == NULL)
            return -ENOMEM;
        if (search_query_accepts(finding->query, SEARCH_FROM, sender) &&
            !finding->sink(finding->context, inbox_id, key))
            return 0;
    }
    return more;
}

static int find_with(sqlite3 *db, struct finding *finding)
{
    static const char by_text[] = "SELECT e.inbox, e.key, e.sender FROM texts AS t JOIN emails AS e"
                                  " ON e.id = t.rowid WHERE texts MATCH ? ORDER BY e.date_ms DESC, e.id DESC";
    static const char all[] = "SELECT inbox, key, sender FROM emails ORDER BY date_ms DESC, id DESC";
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    bool has_words =
        search_query_has(finding->query, SEARCH_WORD) || search_query_has(finding->query, SEARCH_PHRASE);
    _cleanup_free_ char *expression = has_words ? match_expression(finding->query) : NULL;
    if (has_words && expression == NULL)
        return -ENOMEM;
    int error = has_words ? query_prepare(db, &statement, by_text, "s", expression)
                          : query_prepare(db, &statement, all, "");
    return error != 0 ? error : step_through(finding, statement);
}

int search_match_find(sqlite3 *db, const struct search_query *query, search_hit_sink sink, search_stop stop,
                      void *context)
{
    struct finding finding = {.query = query, .sink = sink, .stop = stop, .context = context};
    sqlite3_progress_handler(db, STEPS_BETWEEN_LOOKS, look_whether_to_stop, &finding);
    int error = find_with(db, &finding);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    return error;
}
