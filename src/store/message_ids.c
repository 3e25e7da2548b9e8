/* SPDX-License-Identifier: MIT */
/*
 * Rows of a Message-ID's digest and an email's id, in the order in which they were noted.
 */
#include "store/message_ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    EMAIL_ID_MAX_BYTES = 255, /* a longer id is not noted */
};

static int find(struct connection *connection, int64_t digest, char *ret_email_ids[MESSAGE_IDS_EMAILS_MAX],
                size_t *ret_len)
{
    sqlite3_stmt *row = NULL;
    size_t len = 0;
    int more = statements_begin(&connection->statements, CACHE_FIND_MESSAGE_ID, &row, "ii", digest,
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
    while (more < 0 && len > 0)
        free(ret_email_ids[--len]);
    *ret_len = len;
    return more < 0 ? more : 0;
}

int message_ids_find(struct cache *cache, const char *message_id, char *ret_email_ids[MESSAGE_IDS_EMAILS_MAX],
                     size_t *ret_len)
{
    struct connection *reader;
    int error = database_take_reader(cache->database, &reader);
    if (error != 0)
        return cache_note(cache, error);
    error = find(reader, cache_digest(message_id), ret_email_ids, ret_len);
    database_return_reader(cache->database, reader);
    return cache_note(cache, error);
}

int message_ids_note(struct connection *writer, const char *message_id, const char *email_id)
{
    if (strlen(email_id) > EMAIL_ID_MAX_BYTES)
        return 0;
    int error = statements_execute(&writer->statements, CACHE_ADD_MESSAGE_ID, "isi", cache_digest(message_id),
                                   email_id, (int64_t)MESSAGE_IDS_EMAILS_MAX);
    return error != 0 ? error
                      : statements_execute(&writer->statements, CACHE_TRIM_MESSAGE_IDS, "i",
                                           (int64_t)MESSAGE_IDS_MAX);
}
