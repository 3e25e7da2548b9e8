/* SPDX-License-Identifier: MIT */
/*
 * Lists. The statement is put together from the filters that are asked for; every value is bound.
 */
#include "service/listing.h"

#include <errno.h>

#include "base/cleanup.h"
#include "service/listing_query.h"
#include "sql/query.h"

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

/* A list is prepared with the reader, and what counts its changes. */
struct list {
    sqlite3 *db;
    sqlite3_stmt *statement;
    int64_t changes;
};

/* Answers with the list, or that it is unchanged; consumes what it holds. `error`: of its preparation. */
static int answer(const struct request *request, struct list *list, int error, struct reply *reply)
{
    char etag[REPLY_ETAG_SIZE];
    if (error == 0)
        error = request_make_etag(request, list->db, list->changes, etag);
    if (error == 0 && !request_is_unchanged(request, etag, reply))
        return stream(request, list->db, list->statement, etag, reply);
    sqlite3_finalize(list->statement);
    database_end_read(request->account->database, list->db);
    return error;
}

int listing_answer_inboxes(struct request *request, struct reply *reply)
{
    struct list list = {0};
    int error = database_begin_read(request->account->database, &list.db);
    if (error != 0)
        return error;
    error =
        query_integer(list.db, &list.changes, "SELECT value FROM settings WHERE name = 'inbox_changes'", "");
    if (error == 0)
        error = query_prepare(list.db, &list.statement, "SELECT record FROM inboxes ORDER BY seq", "");
    return answer(request, &list, error, reply);
}

static int count_changes(const struct listing_query *query, enum listing_side side, struct list *list)
{
    if (side == LISTING_SENT)
        return query_integer(list->db, &list->changes,
                             "SELECT value FROM settings WHERE name = 'outbound_changes'", "");
    if (json_array_size(query->inbox_ids) != 1)
        return query_integer(list->db, &list->changes,
                             "SELECT value FROM settings WHERE name = 'email_changes'", "");
    const char *id = json_string_value(json_array_get(query->inbox_ids, 0));
    int error =
        query_integer(list->db, &list->changes, "SELECT email_changes FROM inboxes WHERE id = ?", "s", id);
    return error == -ENOENT ? 0 : error;
}

static int answer_emails(const struct request *request, const struct listing_query *query,
                         enum listing_side side, struct reply *reply)
{
    struct list list = {0};
    int error = database_begin_read(request->account->database, &list.db);
    if (error != 0)
        return error;
    error = count_changes(query, side, &list);
    if (error == 0)
        error = prepare(list.db, query, side, &list.statement);
    return answer(request, &list, error, reply);
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
        error = answer_emails(request, &query, side, reply);
    listing_query_release(&query);
    validation_release(&validation);
    return error;
}
