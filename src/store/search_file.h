/* SPDX-License-Identifier: MIT */
/*
 * The file that the search index is in: an SQLite database of our tables, written with a journal beside it
 * (WAL), so that one connection can write while others read.
 */
#ifndef INBOXFS_STORE_SEARCH_FILE_H
#define INBOXFS_STORE_SEARCH_FILE_H

#include <limits.h>
#include <sqlite3.h>

struct search_file {
    char path[PATH_MAX];
};

/* Where it is in `dir_fd`, whether it is there or not. 0 or -errno. */
int search_file_locate(int dir_fd, struct search_file *ret_file);

/* The connection that writes; makes the file and its tables where there are none. 0 or -errno; -EUCLEAN:
 * damaged, or not of this version. The caller closes. */
int search_file_open_to_write(const struct search_file *file, sqlite3 **ret_db);
/* One that reads. 0 or -errno. The caller closes. */
int search_file_open_to_read(const struct search_file *file, sqlite3 **ret_db);

/* With all that SQLite put beside it. */
void search_file_remove(const struct search_file *file);

#endif
