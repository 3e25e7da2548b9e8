/* SPDX-License-Identifier: MIT */
/*
 * The array: "[", the records with "," between them, "]". A piece is copied from SQLite's own memory, which
 * stays as it is until the next row is asked for.
 */
#include "service/record_stream.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "sql/query.h"

struct record_stream {
    struct database *database;
    sqlite3 *db;
    sqlite3_stmt *statement;
    const char *piece; /* what is to be copied next */
    size_t piece_len;
    bool has_records; /* at least one was begun */
    bool owes_record; /* the row was found, its comma is being copied */
    bool is_at_end;   /* the closing bracket is, or was, copied */
};

int record_stream_new(struct database *database, sqlite3 *db, sqlite3_stmt *statement,
                      struct record_stream **ret_stream)
{
    struct record_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        sqlite3_finalize(statement);
        database_end_read(database, db);
        return -ENOMEM;
    }
    *stream = (struct record_stream){
        .database = database, .db = db, .statement = statement, .piece = "[", .piece_len = 1};
    *ret_stream = stream;
    return 0;
}

void record_stream_free(struct record_stream *stream)
{
    if (stream == NULL)
        return;
    sqlite3_finalize(stream->statement);
    database_end_read(stream->database, stream->db);
    free(stream);
}

static int find_piece(struct record_stream *stream)
{
    if (!stream->owes_record) {
        int step = query_step(stream->statement);
        if (step < 0)
            return step;
        stream->owes_record = step > 0;
        stream->is_at_end = step == 0;
        if (step == 0 || stream->has_records) {
            stream->piece = step == 0 ? "]" : ",";
            stream->piece_len = 1;
            return 0;
        }
    }
    stream->owes_record = false;
    stream->has_records = true;
    stream->piece = (const char *)sqlite3_column_text(stream->statement, 0);
    stream->piece_len = (size_t)sqlite3_column_bytes(stream->statement, 0);
    return stream->piece != NULL ? 0 : -ENOMEM;
}

ssize_t record_stream_read(struct record_stream *stream, char *ret_bytes, size_t len)
{
    size_t done = 0;
    while (done < len) {
        if (stream->piece_len == 0) {
            if (stream->is_at_end)
                break;
            int error = find_piece(stream);
            if (error != 0)
                return error;
        }
        size_t part = stream->piece_len < len - done ? stream->piece_len : len - done;
        memcpy(ret_bytes + done, stream->piece, part);
        stream->piece += part;
        stream->piece_len -= part;
        done += part;
    }
    return (ssize_t)done;
}
