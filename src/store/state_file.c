/* SPDX-License-Identifier: MIT */
/*
 * Opening decides between three: the file is ours, it is not (then it is set aside), it cannot be had now.
 * The last must not be taken for the second: a full disk or a wrong mode would cost the user what is in it.
 */
#include "store/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"

enum {
    CACHE_KB = 1024, /* the kernel caches the file, too */
};

/* ---------------------------------------------------------------- the file */

/* -ENAMETOOLONG, or the error of readlink(2). */
static int locate(struct state_file *file, int dir_fd)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
    ssize_t len = readlink(link, file->path, sizeof(file->path));
    if (len < 0)
        return -errno;
    size_t left = sizeof(file->path) - (size_t)len;
    int written = snprintf(file->path + len, left, "/%s", file->format->name);
    return written < 0 || (size_t)written >= left ? -ENAMETOOLONG : 0;
}

/* SQLite would make the file by the umask; its log takes its mode from this one. Closed before SQLite opens
 * it: a later close would drop the process's locks. -EUCLEAN: what has the name is no file. */
static int make_file(const char *path, bool *ret_is_new)
{
    enum {
        FLAGS = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
    };
    struct stat status;
    _cleanup_close_ int fd = open(path, FLAGS | O_CREAT | O_EXCL, 0600);
    *ret_is_new = fd >= 0;
    if (fd < 0 && errno == EEXIST)
        fd = open(path, FLAGS);
    if (fd < 0)
        return errno == ELOOP || errno == EISDIR || errno == ENXIO ? -EUCLEAN : -errno;
    if (fstat(fd, &status) != 0)
        return -errno;
    return S_ISREG(status.st_mode) ? 0 : -EUCLEAN;
}

/* That the name is durable, SQLite leaves to others. */
static void sync_folder(const char *path)
{
    char dir[PATH_MAX];
    memcpy(dir, path, PATH_MAX);
    *strrchr(dir, '/') = '\0';
    _cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd < 0 ? -errno : file_sync(fd);
    if (error != 0)
        log_warning("the folder %s cannot be made durable: %s", dir, strerror(-error));
}

static int make_tables(struct state_file *file)
{
    char version[64];
    snprintf(version, sizeof(version), "PRAGMA user_version = %d", file->format->version);
    int error = query_execute(file->db, "BEGIN", "");
    if (error == 0)
        error = query_error_on(file->db, sqlite3_exec(file->db, file->format->schema, NULL, NULL, NULL));
    if (error == 0)
        error = query_execute(file->db, version, "");
    if (error == 0)
        error = query_execute(file->db, "COMMIT", "");
    if (error == 0)
        sync_folder(file->path);
    return error;
}

/* -EUCLEAN: what is there is not of this format. A file that lost everything, its log perhaps, looks like a
 * new one, and nobody is to lose marks without a word. */
static int check_tables(struct state_file *file, bool is_new)
{
    int64_t version = 0;
    int64_t tables = 0;
    int error = query_integer(file->db, &version, "PRAGMA user_version", "");
    if (error == 0)
        error = query_integer(file->db, &tables, "SELECT count(*) FROM sqlite_schema", "");
    if (error == 0 && version == 0 && tables == 0) {
        if (!is_new)
            log_warning("the state file %s is empty; it is built anew", file->format->name);
        return make_tables(file);
    }
    return error == 0 && version != file->format->version ? -EUCLEAN : error;
}

/* Locked for this process before the log is entered, so that SQLite needs no file of shared memory, which it
 * would map. Commits are of the quick kind until somebody wants a durable one. */
static int set_up(struct state_file *file)
{
    char words[512];
    snprintf(
        words, sizeof(words),
        "PRAGMA page_size = %d; PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
        "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = %d; PRAGMA journal_size_limit = 4194304;"
        "PRAGMA cache_size = -%d; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF",
        file->format->page_bytes, file->format->log_pages, CACHE_KB);
    file->is_durable = false;
    return query_error_on(file->db, sqlite3_exec(file->db, words, NULL, NULL, NULL));
}

static void close_connection(struct state_file *file)
{
    sqlite3 *aside = file->aside.db;
    statements_release(&file->aside);
    sqlite3_close(aside);
    statements_release(&file->statements);
    sqlite3_close(file->db);
    file->db = NULL;
}

enum {
    OPEN_FLAGS = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW
};

static int open_connection(struct state_file *file)
{
    bool is_new = false;
    int error = make_file(file->path, &is_new);
    if (error == 0)
        error = query_error_on(file->db, sqlite3_open_v2(file->path, &file->db, OPEN_FLAGS, NULL));
    if (error == 0)
        error = set_up(file);
    if (error == 0)
        error = check_tables(file, is_new);
    if (error != 0)
        close_connection(file);
    else
        statements_init(&file->statements, file->db, file->format->statements);
    return error;
}

static const char *const suffixes[] = {"", "-wal"};

static void set_aside(struct state_file *file)
{
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        char from[PATH_MAX + 32];
        char to[PATH_MAX + 32];
        snprintf(from, sizeof(from), "%s%s", file->path, suffixes[i]);
        snprintf(to, sizeof(to), "%s.set-aside%s", file->path, suffixes[i]);
        bool is_moved = rename(from, to) == 0;
        if (is_moved && i == 0)
            log_warning("the state file %s cannot be read and is set aside as %s.set-aside; it is built anew",
                        file->format->name, file->format->name);
        if (!is_moved)
            unlink(to); /* of an earlier one */
    }
}

/* Opens the file, or a new one in its place. */
static int open_file(struct state_file *file)
{
    int error = open_connection(file);
    if (error == -EUCLEAN) {
        set_aside(file);
        error = open_connection(file);
    }
    file->error = error;
    atomic_store(&file->is_damaged, false);
    if (error != 0)
        log_warning("the state file %s cannot be kept on disk: %s", file->format->name, strerror(-error));
    return error;
}

int state_file_open(struct state_file *file, int dir_fd, const struct state_file_format *format)
{
    *file = (struct state_file){.format = format};
    pthread_mutex_init(&file->transaction, NULL);
    pthread_mutex_init(&file->connection, NULL);
    int error = locate(file, dir_fd);
    if (error == 0)
        error = open_file(file);
    file->error = error;
    return error == -ENOMEM ? error : 0;
}

void state_file_release(struct state_file *file)
{
    if (file->format == NULL)
        return;
    close_connection(file);
    pthread_mutex_destroy(&file->connection);
    pthread_mutex_destroy(&file->transaction);
    *file = (struct state_file){.format = NULL};
}

/* ---------------------------------------------------------------- transactions */

void state_file_lock(struct state_file *file)
{
    pthread_mutex_lock(&file->connection);
}

void state_file_unlock(struct state_file *file)
{
    pthread_mutex_unlock(&file->connection);
}

int state_file_note(struct state_file *file, int error)
{
    if (error == -EUCLEAN)
        atomic_store(&file->is_damaged, true);
    return error;
}

static int execute(struct state_file *file, const char *words)
{
    return state_file_note(file, file->db == NULL ? file->error : query_execute(file->db, words, ""));
}

int state_file_begin(struct state_file *file, bool is_durable)
{
    int error = 0;
    pthread_mutex_lock(&file->transaction);
    state_file_lock(file);
    if (file->is_durable != is_durable)
        error = execute(file, is_durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
    if (error == 0) {
        file->is_durable = is_durable;
        error = execute(file, "BEGIN IMMEDIATE");
    }
    state_file_unlock(file);
    if (error != 0)
        pthread_mutex_unlock(&file->transaction);
    return error;
}

static void roll_back(struct state_file *file)
{
    if (file->db != NULL && sqlite3_get_autocommit(file->db) == 0)
        (void)execute(file, "ROLLBACK");
}

int state_file_commit(struct state_file *file)
{
    state_file_lock(file);
    int error = execute(file, "COMMIT");
    if (error != 0)
        roll_back(file);
    state_file_unlock(file);
    pthread_mutex_unlock(&file->transaction);
    return error;
}

void state_file_abandon(struct state_file *file)
{
    state_file_lock(file);
    roll_back(file);
    state_file_unlock(file);
    pthread_mutex_unlock(&file->transaction);
}

int state_file_execute(struct state_file *file, size_t statement, const char *types, ...)
{
    va_list arguments;
    va_start(arguments, types);
    state_file_lock(file);
    int error =
        file->db == NULL ? file->error : statements_vexecute(&file->statements, statement, types, arguments);
    state_file_unlock(file);
    va_end(arguments);
    return state_file_note(file, error);
}

/* ---------------------------------------------------------------- damage */

static void open_aside(struct state_file *file)
{
    char path[PATH_MAX + 32];
    sqlite3 *db = NULL;
    snprintf(path, sizeof(path), "%s.set-aside", file->path);
    if (sqlite3_open_v2(path, &db, OPEN_FLAGS, NULL) != SQLITE_OK ||
        query_execute(db, "PRAGMA locking_mode = EXCLUSIVE", "") != 0) {
        log_debug("nothing can be read of %s", path);
        sqlite3_close(db);
        return;
    }
    statements_init(&file->aside, db, file->format->statements);
}

int state_file_renew(struct state_file *file)
{
    pthread_mutex_lock(&file->transaction);
    state_file_lock(file);
    close_connection(file);
    set_aside(file);
    int error = open_file(file);
    if (error == 0)
        open_aside(file);
    atomic_fetch_add(&file->generation, 1);
    state_file_unlock(file);
    pthread_mutex_unlock(&file->transaction);
    return error;
}

void state_file_take_back(struct state_file *file)
{
    pthread_mutex_lock(&file->transaction);
    state_file_lock(file);
    close_connection(file);
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        char from[PATH_MAX + 32];
        char to[PATH_MAX + 32];
        snprintf(from, sizeof(from), "%s.set-aside%s", file->path, suffixes[i]);
        snprintf(to, sizeof(to), "%s%s", file->path, suffixes[i]);
        if (rename(from, to) != 0)
            unlink(to); /* of the one that was made anew */
    }
    (void)open_file(file);
    atomic_store(&file->is_damaged, true);
    state_file_unlock(file);
    pthread_mutex_unlock(&file->transaction);
}
