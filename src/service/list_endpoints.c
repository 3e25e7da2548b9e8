/* SPDX-License-Identifier: MIT */
/*
 * The lists of inboxes, of received and of sent emails: GET /api/v1/inbox, /email and /email/outbound.
 *
 * In a query, clients repeat a key for each item of a list, write the list as JSON in one value, or use the
 * old singular name: all are accepted. A parameter that is empty or "null" counts as left out. The SQL
 * statement is put together from the filters in the request; each value is bound. A client that has the
 * newest list gets a 304.
 */
#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "mail/json_writer.h"
#include "service/endpoints.h"
#include "service/search_index.h"
#include "service/validation.h"
#include "sql/query.h"

/* ---------------------------------------------------------------- the query */

struct list_query {
    struct json_input in;   /* collects problems */
    json_t *inbox_ids;      /* owned array of strings; NULL for all inboxes */
    json_t *from_addresses; /* owned array of strings; NULL for all senders */
    char *search_term;      /* owned, by g_utf8_casefold(); or NULL */
    int64_t limit;
    bool valid_only;
};

enum {
    LIMIT_DEFAULT = 100,
    LIMIT_MAX = 1000 * 1000 * 1000,
    LIST_MAX = 1000,
};

static void read_list(struct list_query *query, const char *name, const char *value, json_t **list)
{
    if (*list == NULL)
        *list = json_array();
    _cleanup_json_ json_t *items = value[0] == '[' ? json_loads(value, 0, NULL) : json_pack("[s]", value);
    if (*list == NULL || items == NULL)
        validate_add_problem(&query->in, name, "list_type", "Input should be a valid list");
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item) {
        if (!json_is_string(item))
            validate_add_problem(&query->in, name, "string_type", "Input should be a valid string");
        else if (json_array_size(*list) >= LIST_MAX)
            validate_add_problem(&query->in, name, "too_long", "List has too many items");
        else
            json_array_append(*list, item);
    }
}

static void read_limit(struct list_query *query, const char *name, const char *value)
{
    char *end = NULL;
    long long limit = strtoll(value, &end, 10);
    bool is_number = *end == '\0' && strspn(value, "0123456789+-") == strlen(value);
    if (!is_number)
        validate_add_problem(&query->in, name, "int_parsing",
                             "Input should be a valid integer, unable to parse string as an integer");
    else if (limit < 1)
        validate_add_problem(&query->in, name, "greater_than_equal",
                             "Input should be greater than or equal to 1");
    else
        query->limit = limit < LIMIT_MAX ? limit : LIMIT_MAX;
}

static enum MHD_Result read_argument(void *context, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    struct list_query *query = context;
    if (value == NULL || value[0] == '\0' || strcmp(value, "null") == 0)
        return MHD_YES;
    if (strcmp(name, "inbox_ids") == 0 || strcmp(name, "inbox_id") == 0) {
        read_list(query, name, value, &query->inbox_ids);
    } else if (strcmp(name, "from_addresses") == 0) {
        read_list(query, name, value, &query->from_addresses);
    } else if (strcmp(name, "limit") == 0) {
        read_limit(query, name, value);
    } else if (strcmp(name, "valid_only") == 0) {
        if (!validate_read_boolean_word(value, &query->valid_only))
            validate_add_problem(&query->in, name, "bool_parsing",
                                 "Input should be a valid boolean, unable to interpret input");
    } else if (strcmp(name, "search_term") == 0 && !g_utf8_validate(value, -1, NULL)) {
        validate_add_problem(&query->in, name, "string_unicode", "Input should be a valid string in UTF-8");
    } else if (strcmp(name, "search_term") == 0) {
        free(query->search_term);
        query->search_term = g_utf8_casefold(value, -1);
    }
    return MHD_YES;
}

/* ---------------------------------------------------------------- the answer */

/* `changes` says how often the list changed, and is about the number of its emails. */
static int prepare_list(struct connection *reader, const struct list_query *query, enum email_side side,
                        int64_t changes, struct statement *ret_list)
{
    _cleanup_strbuf_ struct strbuf sql = STRBUF_INIT(4096);
    _cleanup_free_ char *inbox_ids = json_dumps(query->inbox_ids, JSON_COMPACT);
    _cleanup_free_ char *from_addresses = json_dumps(query->from_addresses, JSON_COMPACT);
    _cleanup_free_ char *match = NULL;
    if ((query->inbox_ids != NULL && inbox_ids == NULL) ||
        (query->from_addresses != NULL && from_addresses == NULL))
        return -ENOMEM;
    if (query->search_term != NULL) {
        int error = search_index_match(reader, query->search_term, changes, query->limit, &match);
        if (error != 0)
            return error;
    }
    strbuf_append_str(&sql, "SELECT r.record FROM ");
    if (match != NULL)
        strbuf_append_str(&sql, SEARCH_INDEX_CANDIDATES("?4") " m CROSS JOIN ");
    strbuf_append_str(&sql, side == SIDE_SENT ? "outbound r WHERE true" : "emails r WHERE true");
    if (match != NULL)
        strbuf_append_str(&sql, " AND r.message = m.seq");
    if (side == SIDE_RECEIVED && query->valid_only)
        strbuf_append_str(&sql, " AND r.is_valid");
    /* With "=" instead of "IN", SQLite reads a single inbox by its index, newest first, and sorts nothing. */
    if (json_array_size(query->inbox_ids) == 1)
        strbuf_append_str(&sql, " AND r.inbox = (SELECT seq FROM inboxes WHERE id = ?2 ->> 0)");
    else if (query->inbox_ids != NULL)
        strbuf_append_str(&sql, " AND r.inbox IN (SELECT seq FROM inboxes WHERE id IN"
                                " (SELECT value FROM json_each(?2)))");
    if (side == SIDE_RECEIVED && query->from_addresses != NULL)
        strbuf_append_str(&sql, " AND r.from_address IN (SELECT value FROM json_each(?3))");
    strbuf_append_str(
        &sql, " AND (?5 IS NULL OR instr((SELECT search_text FROM messages WHERE seq = r.message), ?5))"
              " ORDER BY r.seq DESC LIMIT ?1");
    return sql.error != 0 ? sql.error
                          : query_begin(reader, ret_list, strbuf_str(&sql), "issss", query->limit, inbox_ids,
                                        from_addresses, match, query->search_term);
}

/* Makes the ETag from the list's statement and the number of its changes. Return: 0 or -errno. */
static int make_etag(const struct record_array *records, int64_t changes, char ret_etag[REPLY_ETAG_SIZE])
{
    _cleanup_statement_ struct statement statement = {0};
    int error = query_first(records->connection, &statement,
                            "SELECT value FROM settings WHERE name = 'instance'", "");
    if (error != 0)
        return error == -ENOENT ? -EUCLEAN : error;
    char *sql = sqlite3_expanded_sql(records->statement.row);
    _cleanup_free_ char *state = NULL;
    int len = asprintf(&state, "%s %s %lld %s", INBOXFS_VERSION, query_column_text(statement.row, 0),
                       (long long)changes, sql != NULL ? sql : "");
    bool is_whole = sql != NULL && len >= 0;
    sqlite3_free(sql);
    if (!is_whole)
        return -ENOMEM;
    char digest[65];
    hash_sha256(state, (size_t)len, digest);
    snprintf(ret_etag, REPLY_ETAG_SIZE, "\"%s\"", digest);
    return 0;
}

/* Adds the ETag to a reply with records, or replaces it with a 304 if the client has the list. */
static int add_etag(const struct request *request, int64_t changes, struct reply *reply)
{
    char etag[REPLY_ETAG_SIZE];
    const char *known = request_header(request, MHD_HTTP_HEADER_IF_NONE_MATCH);
    int error = make_etag(reply->records, changes, etag);
    if (error != 0)
        return error;
    if (known != NULL && (strcmp(known, "*") == 0 || strstr(known, etag) != NULL)) {
        reply_release(reply);
        reply->status = MHD_HTTP_NOT_MODIFIED;
    }
    snprintf(reply->etag, sizeof(reply->etag), "%s", etag);
    return 0;
}

int endpoint_inbox_list(struct request *request, struct reply *reply)
{
    int error = reply_begin_records(reply, request->context->database);
    if (error != 0)
        return error;
    struct connection *reader = reply->records->connection;
    int64_t changes = 0;
    error =
        query_integers(reader, &changes, 1, "SELECT value FROM settings WHERE name = 'inbox_changes'", "");
    if (error == 0)
        error =
            query_begin(reader, &reply->records->statement, "SELECT record FROM inboxes ORDER BY seq", "");
    return error == 0 ? add_etag(request, changes, reply) : error;
}

static int count_changes(struct connection *reader, const struct list_query *query, enum email_side side,
                         int64_t *ret_changes)
{
    if (side == SIDE_SENT || json_array_size(query->inbox_ids) != 1)
        return query_integers(reader, ret_changes, 1, "SELECT value FROM settings WHERE name = ?", "s",
                              side == SIDE_SENT ? "outbound_changes" : "email_changes");
    const char *id = json_string_value(json_array_get(query->inbox_ids, 0));
    int error =
        query_integers(reader, ret_changes, 1, "SELECT email_changes FROM inboxes WHERE id = ?", "s", id);
    return error == -ENOENT ? 0 : error;
}

static int answer_emails(const struct request *request, const struct list_query *query, struct reply *reply)
{
    int error = reply_begin_records(reply, request->context->database);
    if (error != 0)
        return error;
    struct connection *reader = reply->records->connection;
    int64_t changes = 0;
    error = count_changes(reader, query, request->side, &changes);
    if (error == 0)
        error = prepare_list(reader, query, request->side, changes, &reply->records->statement);
    return error == 0 ? add_etag(request, changes, reply) : error;
}

int endpoint_email_list(struct request *request, struct reply *reply)
{
    _cleanup_validation_ struct validation validation = {0};
    const struct location location = {.name = "query"};
    struct list_query query = {
        .in = {&validation, &location, NULL}, .limit = LIMIT_DEFAULT, .valid_only = true};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, read_argument, &query);
    int error =
        validation.has_failed ? reply_invalid(reply, &validation) : answer_emails(request, &query, reply);
    json_decref(query.inbox_ids);
    json_decref(query.from_addresses);
    free(query.search_term);
    return error;
}
