/* SPDX-License-Identifier: MIT */
/*
 * Adding and finding rows of the table message_ids.
 */
#include "store/message_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    EMAIL_ID_MAX_BYTES = 255, /* a longer id is not added */
};

int message_ids_find(struct cache *cache, const char *message_id, char *ret_email_ids[MESSAGE_IDS_EMAILS_MAX],
                     size_t *ret_len)
{
    struct connection *reader;
    sqlite3_stmt *row = NULL;
    size_t len = 0;
    int error = database_take_reader(cache->database, &reader);
    if (error != 0)
        return cache_report_error(cache, error);
    int more = statements_begin(reader, CACHE_FIND_MESSAGE_ID, &row, "ii", cache_digest(message_id),
                                (int64_t)MESSAGE_IDS_EMAILS_MAX);
    for (; more > 0 && len < MESSAGE_IDS_EMAILS_MAX; more = query_step(row)) {
        ret_email_ids[len] = query_column_copy(row, 0, NULL);
        if (ret_email_ids[len] == NULL) {
            more = -ENOMEM;
            break;
        }
        len++;
    }
    statements_end(row);
    database_return_reader(reader);
    while (more < 0 && len > 0)
        free(ret_email_ids[--len]);
    *ret_len = len;
    return more < 0 ? cache_report_error(cache, more) : 0;
}

int message_ids_add(struct connection *writer, const char *message_id, const char *email_id)
{
    if (strlen(email_id) > EMAIL_ID_MAX_BYTES)
        return 0;
    int error = statements_execute(writer, CACHE_ADD_MESSAGE_ID, "isi", cache_digest(message_id), email_id,
                                   (int64_t)MESSAGE_IDS_EMAILS_MAX);
    return error != 0 ? error
                      : statements_execute(writer, CACHE_TRIM_MESSAGE_IDS, "i", (int64_t)MESSAGE_IDS_MAX);
}
