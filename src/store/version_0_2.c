/* SPDX-License-Identifier: MIT */
/*
 * Imports, from the cache folder of version 0.2, the ids of the sent mail that the user hid. Other data are
 * fetched again. The version after 0.3 will not need this file.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "sql/query.h"
#include "store/store_private.h"

static void remove_files(int dir_fd)
{
    static const char *const names[] = {"records.sqlite3", "search.sqlite3", "message_ids.sqlite3"};
    static const char *const suffixes[] = {"", "-wal", "-shm", ".set-aside", ".set-aside-wal"};
    char name[64];
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        for (size_t j = 0; j < ARRAY_LEN(suffixes); j++) {
            snprintf(name, sizeof(name), "%s%s", names[i], suffixes[j]);
            unlinkat(dir_fd, name, 0);
        }
}

static void remove_content(int state_dir_fd)
{
    _cleanup_closedir_ DIR *dir = file_opendirat(state_dir_fd, "content");
    const struct dirent *item;
    while (dir != NULL && (item = readdir(dir)) != NULL)
        unlinkat(dirfd(dir), item->d_name, 0);
    unlinkat(state_dir_fd, "content", AT_REMOVEDIR);
}

void take_over_version_0_2(struct store *store, int dir_fd, int state_dir_fd)
{
    char path[64];
    struct connection old = {0};
    struct statement statement = {0};
    snprintf(path, sizeof(path), "/proc/self/fd/%d/records.sqlite3", dir_fd);
    if (sqlite3_open_v2(path, &old.db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        query_begin(&old, &statement, "SELECT key FROM sent_emails WHERE is_held", "") == 0)
        while (query_step(statement.row) > 0)
            store_hide_sent(store, query_column_text(statement.row, 0));
    query_end(&statement);
    connection_close(&old);
    remove_files(dir_fd);
    remove_content(state_dir_fd);
}
