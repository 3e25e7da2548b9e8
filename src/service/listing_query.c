/* SPDX-License-Identifier: MIT */
/*
 * Reading the query. Clients disagree on how a list is written (repeated key, JSON text in one value, the old
 * singular name): all are taken, and what they leave out may come as "null" or empty.
 */
#include "service/listing_query.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "service/message.h"

enum {
    LIMIT_DEFAULT = 100,
    LIMIT_MAX = 1000 * 1000 * 1000,
    LIST_MAX = 1000,
};

struct reading {
    struct validation *validation;
    struct listing_query *query;
    bool is_out_of_memory;
};

static void fail(const struct reading *reading, const char *name, const char *type, const char *message)
{
    struct place query = {.name = "query"};
    struct place place = {.parent = &query, .name = name};
    validation_fail(reading->validation, &place, type, message);
}

static void append_item(struct reading *reading, const char *name, json_t *list, json_t *item)
{
    if (!json_is_string(item))
        fail(reading, name, "string_type", "Input should be a valid string");
    else if (json_array_size(list) >= LIST_MAX)
        fail(reading, name, "too_long", "List has too many items");
    else
        json_array_append(list, item);
}

static void read_list(struct reading *reading, const char *name, const char *value, json_t **list)
{
    if (*list == NULL)
        *list = json_array();
    json_t *items = value[0] == '[' ? json_loads(value, 0, NULL) : json_pack("[s]", value);
    if (*list == NULL || items == NULL) {
        fail(reading, name, "list_type", "Input should be a valid list");
        return;
    }
    size_t i;
    json_t *item;
    json_array_foreach (items, i, item)
        append_item(reading, name, *list, item);
    json_decref(items);
}

static void read_limit(struct reading *reading, const char *name, const char *value)
{
    char *end = NULL;
    errno = 0;
    long long limit = strtoll(value, &end, 10);
    bool is_number = *end == '\0' && strspn(value, "0123456789+-") == strlen(value);
    if (!is_number)
        fail(reading, name, "int_parsing",
             "Input should be a valid integer, unable to parse string as an integer");
    else if (limit < 1)
        fail(reading, name, "greater_than_equal", "Input should be greater than or equal to 1");
    else
        reading->query->limit = limit < LIMIT_MAX ? limit : LIMIT_MAX;
}

static void read_valid_only(struct reading *reading, const char *name, const char *value)
{
    if (!validate_read_boolean_word(value, &reading->query->valid_only))
        fail(reading, name, "bool_parsing", "Input should be a valid boolean, unable to interpret input");
}

static void read_search_term(struct reading *reading, const char *name, const char *value)
{
    if (!g_utf8_validate(value, -1, NULL)) {
        fail(reading, name, "string_unicode", "Input should be a valid string in UTF-8");
        return;
    }
    free(reading->query->search_term);
    reading->query->search_term = message_fold(value);
    if (reading->query->search_term == NULL)
        reading->is_out_of_memory = true;
}

static enum MHD_Result read_argument(void *context, enum MHD_ValueKind kind, const char *name,
                                     const char *value)
{
    (void)kind;
    struct reading *reading = context;
    if (value == NULL || value[0] == '\0' || strcmp(value, "null") == 0)
        return MHD_YES;
    if (strcmp(name, "inbox_ids") == 0 || strcmp(name, "inbox_id") == 0)
        read_list(reading, name, value, &reading->query->inbox_ids);
    else if (strcmp(name, "from_addresses") == 0)
        read_list(reading, name, value, &reading->query->from_addresses);
    else if (strcmp(name, "limit") == 0)
        read_limit(reading, name, value);
    else if (strcmp(name, "valid_only") == 0)
        read_valid_only(reading, name, value);
    else if (strcmp(name, "search_term") == 0)
        read_search_term(reading, name, value);
    return MHD_YES;
}

int listing_query_read(struct MHD_Connection *connection, struct validation *validation,
                       struct listing_query *ret_query)
{
    *ret_query = (struct listing_query){.limit = LIMIT_DEFAULT, .valid_only = true};
    struct reading reading = {.validation = validation, .query = ret_query};
    MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, read_argument, &reading);
    return reading.is_out_of_memory ? -ENOMEM : 0;
}

void listing_query_release(struct listing_query *query)
{
    json_decref(query->inbox_ids);
    json_decref(query->from_addresses);
    free(query->search_term);
    *query = (struct listing_query){0};
}
