/* SPDX-License-Identifier: MIT */
/*
 * SQLite copies the database page by page, as one transaction sees it. The files of the pool are copied
 * afterwards. They are never changed or removed, so each file that the copied database names still exists.
 */
#include "service/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glib.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "mail/draft.h"
#include "mail/reason.h"
#include "sql/query.h"

static int copy_file(int from_fd, int to_fd, const char *name)
{
    char *bytes = NULL;
    size_t len = 0;
    int error = file_read_at(from_fd, name, ATTACHMENTS_MAX_BYTES, &bytes, &len);
    if (error != 0)
        return error;
    error = file_replace_lazily_at(to_fd, name, bytes, len, 0600);
    explicit_bzero(bytes, len); /* the bytes may be the key */
    free(bytes);
    return error;
}

static int copy_pool(struct connection *reader, int data_fd, int copy_fd)
{
    _cleanup_close_ int from_fd = file_open_dir(data_fd, "pool");
    _cleanup_close_ int to_fd = file_open_dir(copy_fd, "pool");
    if (from_fd < 0 || to_fd < 0)
        return from_fd < 0 ? from_fd : to_fd;
    _cleanup_statement_ struct statement statement = {0};
    int error = query_begin(reader, &statement, "SELECT id FROM pool", "");
    int step = 0;
    while (error == 0 && (step = query_step(statement.row)) > 0)
        error = copy_file(from_fd, to_fd, query_column_text(statement.row, 0));
    if (error == 0)
        error = step;
    return error == 0 ? file_sync(to_fd) : error;
}

static int copy_database(struct connection *reader, int copy_fd, const char *path)
{
    /* SQLite would make the file with the mode that the umask leaves. */
    int fd = openat(copy_fd, "inbox.sqlite3", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    close(fd);
    struct connection copy = {0};
    int result = sqlite3_open_v2(path, &copy.db, SQLITE_OPEN_READWRITE, NULL);
    if (result == SQLITE_OK) {
        sqlite3_backup *backup = sqlite3_backup_init(copy.db, "main", reader->db, "main");
        result = backup != NULL ? sqlite3_backup_step(backup, -1) : sqlite3_errcode(copy.db);
        sqlite3_backup_finish(backup);
    }
    int error = result == SQLITE_DONE ? query_execute(&copy, TABLES_NAME_INSTANCE, "")
                                      : query_error_on(copy.db, result);
    connection_close(&copy);
    return error;
}

static int copy_data(struct database *database, const char *data_dir, const char *copy_dir)
{
    g_autofree char *path = g_strconcat(copy_dir, "/inbox.sqlite3", NULL);
    _cleanup_close_ int data_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int copy_fd = open(copy_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (data_fd < 0 || copy_fd < 0)
        return -errno;
    _cleanup_reader_ struct connection *connection = NULL;
    int error = database_begin_read(database, &connection);
    if (error == 0)
        error = copy_database(connection, copy_fd, path);
    if (error == 0)
        error = copy_pool(connection, data_fd, copy_fd);
    int key_error = error == 0 ? copy_file(data_fd, copy_fd, "api-key") : error;
    if (key_error != 0 && key_error != -ENOENT) /* the administrator may keep the key elsewhere */
        return key_error;
    return file_sync(copy_fd);
}

static int publish(const char *part, const char *target)
{
    if (renameat2(AT_FDCWD, part, AT_FDCWD, target, RENAME_NOREPLACE) != 0)
        return -errno;
    g_autofree char *parent = g_path_get_dirname(target);
    _cleanup_close_ int parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return parent_fd < 0 ? -errno : file_sync(parent_fd);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *position)
{
    return remove(path);
}

static int make_part(const char *part, char **ret_reason)
{
    if (mkdir(part, 0700) == 0)
        return 0;
    int error = -errno;
    if (error == -EEXIST)
        return reason_give(ret_reason, error,
                           "%s is there: another backup is being made, or was broken off; then remove it",
                           part);
    return reason_give(ret_reason, error, "cannot make %s: %s", part, strerrordesc_np(-error));
}

int backup_make(struct database *database, const char *data_dir, const char *target, char **ret_reason)
{
    *ret_reason = NULL;
    size_t len = strlen(target);
    while (len > 1 && target[len - 1] == '/')
        len--;
    g_autofree char *name = g_strndup(target, len);
    g_autofree char *part = g_strconcat(name, ".part", NULL);
    if (access(name, F_OK) == 0)
        return reason_give(ret_reason, -EEXIST, "%s is there already: name a new directory", name);
    int error = make_part(part, ret_reason);
    if (error != 0)
        return error;
    error = copy_data(database, data_dir, part);
    if (error == 0)
        error = publish(part, name);
    if (error == 0)
        return 0;
    nftw(part, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return reason_give(ret_reason, error, "cannot copy %s to %s: %s", data_dir, name,
                       strerrordesc_np(-error));
}
