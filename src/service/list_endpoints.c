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
#include "base/strbuf.h"
#include "mail/json_writer.h"
#include "service/endpoints.h"
#include "service/search_index.h"
#include "service/validation.h"
#include "sql/query.h"

/* ---------------------------------------------------------------- the query */

struct list_query {
    struct input in;        /* collects problems */
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

/* ---------------------------------------------------------------- the text of a list */

/* A JSON array of records. They are read while they are sent, so that only one is in memory. */
struct record_list {
    struct connection *reader;  /* in a read transaction, which ends when the list is freed */
    struct statement statement; /* the text of a record is in the first column of each row */
    char *instance;             /* the database's random name (tables.h); owned */
    int64_t changes;            /* how often the list changed: about the number of its emails */
    GString *text;              /* the JSON text that was read and that libmicrohttpd does not have yet */
    bool has_record;
    bool is_at_end;
};

static void free_list(void *context)
{
    struct record_list *list = context;
    if (list == NULL)
        return;
    query_end(&list->statement);
    database_return_reader(list->reader);
    free(list->instance);
    g_string_free(list->text, TRUE);
    free(list);
}

static void cleanup_list(struct record_list **list)
{
    free_list(*list);
}

#define _cleanup_list_ _cleanup_(cleanup_list)

/* Takes the request's reader, and reads the list's changes: those of one inbox, or the setting `counter`.
 * Return: 0 or -errno. */
static int begin_list(struct request *request, const char *counter, const char *inbox_id,
                      struct record_list **ret_list)
{
    _cleanup_statement_ struct statement statement = {0};
    struct record_list *list = *ret_list = g_new0(struct record_list, 1);
    list->reader = TAKE_PTR(request->reader);
    list->text = g_string_new("[");
    int error = query_first(list->reader, &statement,
                            "SELECT i.value, coalesce((SELECT email_changes FROM inboxes WHERE id = ?2),"
                            " c.value) FROM settings i, settings c WHERE i.name = 'instance' AND c.name = ?1",
                            "ss", counter, inbox_id);
    if (error != 0)
        return error == -ENOENT ? -EUCLEAN : error;
    list->instance = g_strdup(query_column_text(statement.row, 0));
    list->changes = sqlite3_column_int64(statement.row, 1);
    return 0;
}

static ssize_t read_list_text(void *context, uint64_t position, char *ret_bytes, size_t len)
{
    struct record_list *list = context;
    GString *text = list->text;
    while (text->len < len && !list->is_at_end) {
        int step = query_step(list->statement.row);
        const char *record = step > 0 ? (const char *)sqlite3_column_text(list->statement.row, 0) : "]";
        if (step < 0 || record == NULL)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (step > 0 && list->has_record)
            g_string_append_c(text, ',');
        g_string_append(text, record);
        list->has_record = true;
        list->is_at_end = step == 0;
    }
    size_t part = text->len < len ? text->len : len;
    memcpy(ret_bytes, text->str, part);
    g_string_erase(text, 0, (gssize)part);
    return part > 0 ? (ssize_t)part : MHD_CONTENT_READER_END_OF_STREAM;
}

/* ---------------------------------------------------------------- the answer */

enum {
    ETAG_SIZE = 67, /* 64 hex digits in quotes */
};

static int prepare_list(struct record_list *list, const struct list_query *query, enum email_side side)
{
    _cleanup_strbuf_ struct strbuf sql = STRBUF_INIT(4096);
    _cleanup_free_ char *inbox_ids = json_dumps(query->inbox_ids, JSON_COMPACT);
    _cleanup_free_ char *from_addresses = json_dumps(query->from_addresses, JSON_COMPACT);
    _cleanup_free_ char *match = NULL;
    if (query->search_term != NULL) {
        int error = search_index_match(list->reader, query->search_term, list->changes, query->limit, &match);
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
                          : query_begin(list->reader, &list->statement, strbuf_str(&sql), "issss",
                                        query->limit, inbox_ids, from_addresses, match, query->search_term);
}

/* Makes the ETag from the list's statement and its changes. Return: 0 or -ENOMEM. */
static int make_etag(const struct record_list *list, char ret_etag[ETAG_SIZE])
{
    char *sql = sqlite3_expanded_sql(list->statement.row);
    if (sql == NULL)
        return -ENOMEM;
    g_autofree char *state =
        g_strdup_printf("%s %s %lld %s", INBOXFS_VERSION, list->instance, (long long)list->changes, sql);
    sqlite3_free(sql);
    char digest[65];
    hash_sha256(state, strlen(state), digest);
    snprintf(ret_etag, ETAG_SIZE, "\"%s\"", digest);
    return 0;
}

/* Replies with the list, or with a 304 if the client has it. The list's statement is prepared. */
static int answer_with_list(const struct request *request, struct record_list **list, struct reply *reply)
{
    char etag[ETAG_SIZE];
    const char *known = request_header(request, MHD_HTTP_HEADER_IF_NONE_MATCH);
    int error = make_etag(*list, etag);
    if (error != 0)
        return error;
    if (known != NULL && (strcmp(known, "*") == 0 || strstr(known, etag) != NULL))
        reply_not_modified(reply);
    else
        reply_stream(reply, read_list_text, free_list, TAKE_PTR(*list));
    reply_add_header(reply, MHD_HTTP_HEADER_ETAG, etag);
    return 0;
}

int endpoint_inbox_list(struct request *request, struct reply *reply)
{
    _cleanup_list_ struct record_list *list = NULL;
    int error = begin_list(request, "inbox_changes", NULL, &list);
    if (error == 0)
        error = query_begin(list->reader, &list->statement, "SELECT record FROM inboxes ORDER BY seq", "");
    return error == 0 ? answer_with_list(request, &list, reply) : error;
}

static int answer_emails(struct request *request, const struct list_query *query, struct reply *reply)
{
    _cleanup_list_ struct record_list *list = NULL;
    bool is_one_inbox = request->side == SIDE_RECEIVED && json_array_size(query->inbox_ids) == 1;
    const char *inbox_id = is_one_inbox ? json_string_value(json_array_get(query->inbox_ids, 0)) : NULL;
    int error = begin_list(request, request->side == SIDE_SENT ? "outbound_changes" : "email_changes",
                           inbox_id, &list);
    if (error == 0)
        error = prepare_list(list, query, request->side);
    return error == 0 ? answer_with_list(request, &list, reply) : error;
}

int endpoint_email_list(struct request *request, struct reply *reply)
{
    _cleanup_validation_ struct validation validation = {0};
    struct list_query query = {
        .in = {.validation = &validation, .name = "query"}, .limit = LIMIT_DEFAULT, .valid_only = true};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, read_argument, &query);
    int error = validation.problems != NULL ? reply_invalid(reply, &validation)
                                            : answer_emails(request, &query, reply);
    json_decref(query.inbox_ids);
    json_decref(query.from_addresses);
    free(query.search_term);
    return error;
}
