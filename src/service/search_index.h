/* SPDX-License-Identifier: MIT */
/*
 * The search index finds the messages that hold given three characters in a row (the table `trigrams`, FTS5).
 * They are candidates: the search compares the text of each one, and so answers the same as without the
 * index.
 *
 * To index a message takes as much CPU as to store it. So a thread indexes messages later, some at a time,
 * when nothing was stored for a moment. `settings.indexed` is the seq of the last indexed message; all later
 * ones are candidates of each search.
 */
#ifndef INBOXFS_SERVICE_SEARCH_INDEX_H
#define INBOXFS_SERVICE_SEARCH_INDEX_H

#include "sql/database.h"

/* The migration that creates the empty index. */
#define SEARCH_INDEX_TABLES                                                                        \
    "CREATE VIRTUAL TABLE trigrams USING fts5 (text, content = '', detail = none, columnsize = 0," \
    " tokenize = 'trigram case_sensitive 1');"                                                     \
    "INSERT INTO settings VALUES ('indexed', 0)"

/* A table of candidates, to be joined; its column `seq` names messages. The parameter is
 * search_index_match()'s. */
#define SEARCH_INDEX_CANDIDATES(parameter)                               \
    "(SELECT rowid AS seq FROM trigrams WHERE trigrams MATCH " parameter \
    " UNION ALL SELECT seq FROM messages"                                \
    " WHERE seq > (SELECT value FROM settings WHERE name = 'indexed'))"

/* Decides whether a search is quicker with the index. `term` is folded (message_fold()), `emails` is about
 * how many the search would read without the index, and `limit` how many it returns at most. *ret_match,
 * which the caller frees, is NULL if the search should read the emails: the term is shorter than three
 * characters, or so common that the newest emails have enough of it. Return: 0 or -errno. */
int search_index_match(sqlite3 *db, const char *term, int64_t emails, int64_t limit, char **ret_match);

struct search_index;

/* Starts the thread. The database is borrowed until search_index_stop(). Return: 0 or -errno. */
int search_index_start(struct database *database, struct search_index **ret_index);

/* Waits for the batch under way (some 0.1 s), and frees. NULL-safe. */
void search_index_stop(struct search_index *index);

#endif
