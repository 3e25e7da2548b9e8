/* SPDX-License-Identifier: MIT */
/*
 * The search index finds messages by three characters in a row (the table `trigrams`, FTS5). These messages
 * are candidates: the search compares the text of each, so that it has the same result as without the index.
 *
 * Indexing a message takes as much CPU as storing it. So a thread indexes messages later, in batches, when no
 * message has been stored for a moment. `settings.indexed` is the seq of the last indexed message; all later
 * messages are candidates of each search.
 */
#ifndef INBOXFS_SERVICE_SEARCH_INDEX_H
#define INBOXFS_SERVICE_SEARCH_INDEX_H

#include <pthread.h>

#include "sql/database.h"

/* The step of the database format that creates the empty index. */
#define SEARCH_INDEX_TABLES                                                                        \
    "CREATE VIRTUAL TABLE trigrams USING fts5 (text, content = '', detail = none, columnsize = 0," \
    " tokenize = 'trigram case_sensitive 1');"                                                     \
    "INSERT INTO settings VALUES ('indexed', 0)"

/* A table of candidates to be joined by its column `seq`. `parameter` is bound to the result of
 * search_index_match(). */
#define SEARCH_INDEX_CANDIDATES(parameter)                               \
    "(SELECT rowid AS seq FROM trigrams WHERE trigrams MATCH " parameter \
    " UNION ALL SELECT seq FROM messages"                                \
    " WHERE seq > (SELECT value FROM settings WHERE name = 'indexed'))"

/* Decides whether a search is quicker with the index. `term` is folded (g_utf8_casefold()), `emails` is about
 * how many emails the search would read without the index, and `limit` how many it returns at most.
 * *ret_match, which the caller frees, is NULL if the search should do without the index: the term is shorter
 * than three characters, or too common. Return: 0 or -errno. */
int search_index_match(struct connection *reader, const char *term, int64_t emails, int64_t limit,
                       char **ret_match);

struct search_index {
    struct database *database;
    struct cancel cancel;
    pthread_t thread;
    bool has_thread;
};

/* Starts the thread. The database is borrowed until search_index_stop(). Return: 0 or -errno. */
int search_index_start(struct search_index *index, struct database *database);

/* Ends the thread after its current batch (some 0.1 s). Accepts a zeroed index. */
void search_index_stop(struct search_index *index);

#endif
