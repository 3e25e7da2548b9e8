/* SPDX-License-Identifier: MIT */
/*
 * The lists of inboxes, of received and of sent emails: GET /api/v1/inbox, /email and /email/outbound.
 *
 * Clients write a list in a query in different forms (repeated key, JSON text in one value, the old singular
 * name). All are accepted, and a parameter that a client leaves out may be "null" or empty. The SQL statement
 * is put together from the filters in the request; every value is bound. Its rows are sent as they are read
 * (reply.h), so that no list is ever in memory as a whole. A client that has the newest list gets a 304.
 */
#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "service/endpoints.h"
#include "service/message.h"
#include "service/search_index.h"
#include "service/validation.h"
#include "sql/query.h"

/* ---------------------------------------------------------------- the query */

struct list_query {
    json_t *inbox_ids;      /* array of strings; NULL: all inboxes. Owned */
    json_t *from_addresses; /* array of strings; NULL: any. Owned */
    char *search_term;      /* folded; NULL: none. Owned */
    int64_t limit;
    bool valid_only;
};

enum {
    LIMIT_DEFAULT = 100,
    LIMIT_MAX = 1000 * 1000 * 1000,
    LIST_MAX = 1000,
};

struct query_reader {
    struct json_input in; /* collects problems */
    struct list_query *query;
    bool is_out_of_memory;
};

static void append_item(struct query_reader *reader, const char *name, json_t *list, json_t *item)
{
    if (!json_is_string(item))
        validate_fail(&reader->in, name, "string_type", "Input should be a valid string");
    else if (json_array_size(list) >= LIST_MAX)
        validate_fail(&reader->in, name, "too_long", "List has too many items");
    else
        json_array_append(list, item);
}

static void read_list(struct query_reader *reader, const char *name, const char *value, json_t **list)
{
    if (*list == NULL)
        *list = json_array();
    json_t *items = value[0] == '[' ? json_loads(value, 0, NULL) : json_pack("[s]", value);
    if (*list == NULL || items == NULL) {
        validate_fail(&reader->in, name, "list_type", "Input should be a valid list");
        return;
    }
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item)
        append_item(reader, name, *list, item);
    json_decref(items);
}

static void read_limit(struct query_reader *reader, const char *name, const char *value)
{
    char *end = NULL;
    errno = 0;
    long long limit = strtoll(value, &end, 10);
    bool is_number = *end == '\0' && strspn(value, "0123456789+-") == strlen(value);
    if (!is_number)
        validate_fail(&reader->in, name, "int_parsing",
                      "Input should be a valid integer, unable to parse string as an integer");
    else if (limit < 1)
        validate_fail(&reader->in, name, "greater_than_equal", "Input should be greater than or equal to 1");
    else
        reader->query->limit = limit < LIMIT_MAX ? limit : LIMIT_MAX;
}

static void read_valid_only(struct query_reader *reader, const char *name, const char *value)
{
    if (!validate_read_boolean_word(value, &reader->query->valid_only))
        validate_fail(&reader->in, name, "bool_parsing",
                      "Input should be a valid boolean, unable to interpret input");
}

static void read_search_term(struct query_reader *reader, const char *name, const char *value)
{
    if (!g_utf8_validate(value, -1, NULL)) {
        validate_fail(&reader->in, name, "string_unicode", "Input should be a valid string in UTF-8");
        return;
    }
    free(reader->query->search_term);
    reader->query->search_term = message_fold(value);
    if (reader->query->search_term == NULL)
        reader->is_out_of_memory = true;
}

static enum MHD_Result read_argument(void *context, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    struct query_reader *reader = context;
    if (value == NULL || value[0] == '\0' || strcmp(value, "null") == 0)
        return MHD_YES;
    if (strcmp(name, "inbox_ids") == 0 || strcmp(name, "inbox_id") == 0)
        read_list(reader, name, value, &reader->query->inbox_ids);
    else if (strcmp(name, "from_addresses") == 0)
        read_list(reader, name, value, &reader->query->from_addresses);
    else if (strcmp(name, "limit") == 0)
        read_limit(reader, name, value);
    else if (strcmp(name, "valid_only") == 0)
        read_valid_only(reader, name, value);
    else if (strcmp(name, "search_term") == 0)
        read_search_term(reader, name, value);
    return MHD_YES;
}

static int list_query_read(struct MHD_Connection *connection, struct validation *validation,
                           struct list_query *ret_query)
{
    *ret_query = (struct list_query){.limit = LIMIT_DEFAULT, .valid_only = true};
    struct location location = {.name = "query"};
    struct query_reader reader = {.in = {validation, &location, NULL}, .query = ret_query};
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, read_argument, &reader);
    return reader.is_out_of_memory ? -ENOMEM : 0;
}

static void list_query_release(struct list_query *query)
{
    json_decref(query->inbox_ids);
    json_decref(query->from_addresses);
    free(query->search_term);
    *query = (struct list_query){0};
}

/* ---------------------------------------------------------------- the answer */

struct list {
    struct connection *connection;
    sqlite3_stmt *statement;
    int64_t changes; /* how often the list changed; about as many emails are in it */
};

static const char inboxes_filter[] = " AND r.inbox IN (SELECT seq FROM inboxes WHERE id IN"
                                     " (SELECT value FROM json_each(?2)))";
/* With "=" SQLite reads a single inbox by its index, newest first, and sorts nothing. */
static const char inbox_filter[] = " AND r.inbox = (SELECT seq FROM inboxes WHERE id = ?2 ->> 0)";
static const char from_filter[] = " AND r.from_address IN (SELECT value FROM json_each(?3))";
static const char search_filter[] =
    " AND (?5 IS NULL OR instr((SELECT search_text FROM messages WHERE seq = r.message), ?5))";
static const char *const tables[] = {[SIDE_RECEIVED] = "emails", [SIDE_SENT] = "outbound"};

static int build_sql(const struct list_query *query, enum email_side side, bool has_match, struct strbuf *sql)
{
    strbuf_append_str(sql, "SELECT r.record FROM ");
    if (has_match)
        strbuf_append_str(sql, SEARCH_INDEX_CANDIDATES("?4") " m CROSS JOIN ");
    strbuf_appendf(sql, "%s r WHERE %s", tables[side], has_match ? "r.message = m.seq" : "true");
    if (side == SIDE_RECEIVED && query->valid_only)
        strbuf_append_str(sql, " AND r.is_valid");
    if (query->inbox_ids != NULL)
        strbuf_append_str(sql, json_array_size(query->inbox_ids) == 1 ? inbox_filter : inboxes_filter);
    if (side == SIDE_RECEIVED && query->from_addresses != NULL)
        strbuf_append_str(sql, from_filter);
    strbuf_append_str(sql, search_filter);
    return strbuf_append_str(sql, " ORDER BY r.seq DESC LIMIT ?1");
}

static int prepare(const struct list_query *query, enum email_side side, struct list *list)
{
    sqlite3 *db = list->connection->db;
    _cleanup_strbuf_ struct strbuf sql = STRBUF_INIT(4096);
    _cleanup_free_ char *inbox_ids = json_dumps(query->inbox_ids, JSON_COMPACT);
    _cleanup_free_ char *from_addresses = json_dumps(query->from_addresses, JSON_COMPACT);
    _cleanup_free_ char *match = NULL;
    if ((query->inbox_ids != NULL && inbox_ids == NULL) ||
        (query->from_addresses != NULL && from_addresses == NULL))
        return -ENOMEM;
    int error = query->search_term == NULL
                    ? 0
                    : search_index_match(db, query->search_term, list->changes, query->limit, &match);
    if (error == 0)
        error = build_sql(query, side, match != NULL, &sql);
    return error == 0 ? query_prepare(db, &list->statement, strbuf_str(&sql), "issss", query->limit,
                                      inbox_ids, from_addresses, match, query->search_term)
                      : error;
}

/* Answers 304 and returns true if the client has the state that `etag` names. */
static bool is_unchanged(const struct request *request, const char *etag, struct reply *reply)
{
    const char *known = request_header(request, MHD_HTTP_HEADER_IF_NONE_MATCH);
    if (known == NULL || (strcmp(known, "*") != 0 && strstr(known, etag) == NULL))
        return false;
    reply_release(reply);
    reply->status = MHD_HTTP_NOT_MODIFIED;
    snprintf(reply->etag, sizeof(reply->etag), "%s", etag);
    return true;
}

/* Makes the ETag from the list's statement and the number of its changes. Return: 0 or -errno. */
static int make_etag(const struct list *list, char ret_etag[REPLY_ETAG_SIZE])
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int error = query_first(list->connection->db, &statement,
                            "SELECT value FROM settings WHERE name = 'instance'", "");
    if (error != 0)
        return error == -ENOENT ? -EUCLEAN : error;
    char *sql = sqlite3_expanded_sql(list->statement);
    _cleanup_free_ char *state = NULL;
    int len = asprintf(&state, "%s %s %lld %s", INBOXFS_VERSION, query_column_text(statement, 0),
                       (long long)list->changes, sql != NULL ? sql : "");
    bool is_whole = sql != NULL && len >= 0;
    sqlite3_free(sql);
    if (!is_whole)
        return -ENOMEM;
    char digest[65];
    hash_sha256(state, (size_t)len, digest);
    snprintf(ret_etag, REPLY_ETAG_SIZE, "\"%s\"", digest);
    return 0;
}

/* Answers with the list, or with a 304. Consumes the list. `error` is the result of its preparation. */
static int answer(const struct request *request, struct list *list, int error, struct reply *reply)
{
    char etag[REPLY_ETAG_SIZE];
    if (error == 0)
        error = make_etag(list, etag);
    if (error == 0 && !is_unchanged(request, etag, reply))
        return reply_records(reply, request->context->database, list->connection, list->statement, etag);
    sqlite3_finalize(list->statement);
    database_end_read(request->context->database, list->connection);
    return error;
}

int endpoint_inbox_list(struct request *request, struct reply *reply)
{
    struct list list = {0};
    int error = database_begin_read(request->context->database, &list.connection);
    if (error != 0)
        return error;
    error = query_integer(list.connection->db, &list.changes,
                          "SELECT value FROM settings WHERE name = 'inbox_changes'", "");
    if (error == 0)
        error = query_prepare(list.connection->db, &list.statement, "SELECT record FROM inboxes ORDER BY seq",
                              "");
    return answer(request, &list, error, reply);
}

static int count_changes(const struct list_query *query, enum email_side side, struct list *list)
{
    if (side == SIDE_SENT || json_array_size(query->inbox_ids) != 1)
        return query_integer(list->connection->db, &list->changes,
                             "SELECT value FROM settings WHERE name = ?", "s",
                             side == SIDE_SENT ? "outbound_changes" : "email_changes");
    const char *id = json_string_value(json_array_get(query->inbox_ids, 0));
    int error = query_integer(list->connection->db, &list->changes,
                              "SELECT email_changes FROM inboxes WHERE id = ?", "s", id);
    return error == -ENOENT ? 0 : error;
}

static int answer_emails(const struct request *request, const struct list_query *query, struct reply *reply)
{
    struct list list = {0};
    int error = database_begin_read(request->context->database, &list.connection);
    if (error != 0)
        return error;
    error = count_changes(query, request->side, &list);
    if (error == 0)
        error = prepare(query, request->side, &list);
    return answer(request, &list, error, reply);
}

int endpoint_email_list(struct request *request, struct reply *reply)
{
    _cleanup_validation_ struct validation validation = {0};
    struct list_query query;
    int error = list_query_read(request->connection, &validation, &query);
    if (error == 0 && validation.has_failed)
        reply_invalid(reply, &validation);
    else if (error == 0)
        error = answer_emails(request, &query, reply);
    list_query_release(&query);
    return error;
}
