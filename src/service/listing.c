/* SPDX-License-Identifier: MIT */
/*
 * Lists. The statement is put together from the filters that are asked for; every value is bound.
 */
#include "service/listing.h"

#include <errno.h>

#include "base/cleanup.h"
#include "service/listing_query.h"
#include "service/query.h"

static const char inboxes_filter[] = " AND r.inbox IN (SELECT seq FROM inboxes WHERE id IN"
                                     " (SELECT value FROM json_each(?2)))";
/* So that a single inbox is read by its index, newest first, and nothing is sorted. */
static const char inbox_filter[] = " AND r.inbox = (SELECT seq FROM inboxes WHERE id = ?2 ->> 0)";
static const char from_filter[] = " AND r.from_address IN (SELECT value FROM json_each(?3))";
static const char search_filter[] =
    " AND instr((SELECT search_text FROM messages WHERE seq = r.message), ?4)";

static int build_sql(const struct listing_query *query, enum listing_side side, struct strbuf *sql)
{
    strbuf_appendf(sql, "SELECT r.record FROM %s r WHERE true",
                   side == LISTING_RECEIVED ? "emails" : "outbound");
    if (side == LISTING_RECEIVED && query->valid_only)
        strbuf_append_str(sql, " AND r.is_valid");
    if (query->inbox_ids != NULL)
        strbuf_append_str(sql, json_array_size(query->inbox_ids) == 1 ? inbox_filter : inboxes_filter);
    if (side == LISTING_RECEIVED && query->from_addresses != NULL)
        strbuf_append_str(sql, from_filter);
    if (query->search_term != NULL)
        strbuf_append_str(sql, search_filter);
    return strbuf_append_str(sql, " ORDER BY r.seq DESC LIMIT ?1");
}

static int bind_list(sqlite3_stmt *statement, int parameter, const json_t *list)
{
    if (list == NULL)
        return 0;
    char *text = json_dumps(list, JSON_COMPACT);
    return text != NULL ? query_error(sqlite3_bind_text(statement, parameter, text, -1, free)) : -ENOMEM;
}

static int prepare(sqlite3 *db, const struct listing_query *query, enum listing_side side,
                   sqlite3_stmt **ret_statement)
{
    _cleanup_strbuf_ struct strbuf sql = STRBUF_INIT(4096);
    int error = build_sql(query, side, &sql);
    if (error != 0)
        return error;
    sqlite3_stmt *statement = NULL;
    error = query_prepare(db, &statement, strbuf_str(&sql), "i", query->limit);
    if (error != 0)
        return error;
    if (query->inbox_ids != NULL)
        error = bind_list(statement, 2, query->inbox_ids);
    if (error == 0 && side == LISTING_RECEIVED)
        error = bind_list(statement, 3, query->from_addresses);
    if (error == 0 && query->search_term != NULL)
        error = query_error(sqlite3_bind_text(statement, 4, query->search_term, -1, SQLITE_TRANSIENT));
    if (error != 0) {
        sqlite3_finalize(statement);
        return error;
    }
    *ret_statement = statement;
    return 0;
}

/* Consumes the statement and the reader. */
static int stream(const struct request *request, sqlite3 *db, sqlite3_stmt *statement, const char *etag,
                  struct reply *reply)
{
    struct record_stream *records = NULL;
    int error = record_stream_new(request->account->database, db, statement, &records);
    if (error != 0)
        return error;
    reply_bytes(reply, "application/json", NULL, 0);
    reply->records = records;
    snprintf(reply->etag, sizeof(reply->etag), "%s", etag);
    return 0;
}

/* `query` NULL: the rows of `sql` instead. */
static int answer(const struct request *request, const struct listing_query *query, enum listing_side side,
                  const char *sql, struct reply *reply)
{
    sqlite3 *db = NULL;
    int error = database_begin_read(request->account->database, &db);
    if (error != 0)
        return error;
    char etag[REPLY_ETAG_SIZE];
    sqlite3_stmt *statement = NULL;
    error = request_make_etag(request, db, etag);
    bool is_unchanged = error == 0 && request_is_unchanged(request, etag, reply);
    if (error == 0 && !is_unchanged)
        error = query != NULL ? prepare(db, query, side, &statement) : query_prepare(db, &statement, sql, "");
    if (error != 0 || is_unchanged) {
        database_end_read(request->account->database, db);
        return error;
    }
    return stream(request, db, statement, etag, reply);
}

int listing_answer_all(struct request *request, const char *sql, struct reply *reply)
{
    return answer(request, NULL, LISTING_RECEIVED, sql, reply);
}

int listing_answer(struct request *request, enum listing_side side, struct reply *reply)
{
    struct validation validation;
    int error = validation_init(&validation);
    if (error != 0)
        return error;
    struct listing_query query;
    error = listing_query_read(request->connection, &validation, &query);
    if (error == 0 && validation_has_failed(&validation))
        reply_invalid(reply, &validation);
    else if (error == 0)
        error = answer(request, &query, side, NULL, reply);
    listing_query_release(&query);
    validation_release(&validation);
    return error;
}
