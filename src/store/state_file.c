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
#include "base/crash_point.h"
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
        error = query_script(file->db, file->format->schema);
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
static int check_tables(struct state_file *file, bool is_new, bool *ret_is_empty)
{
    int64_t version = 0;
    int64_t tables = 0;
    int error = query_integer(file->db, &version, "PRAGMA user_version", "");
    if (error == 0)
        error = query_integer(file->db, &tables, "SELECT count(*) FROM sqlite_schema", "");
    if (error != 0)
        return error;
    *ret_is_empty = version == 0 && tables == 0;
    if (*ret_is_empty && !is_new)
        log_warning("the state file %s is empty; it is built anew", file->format->name);
    return *ret_is_empty || version == file->format->version ? 0 : -EUCLEAN;
}

/* 1: the answer is this one, 0: another; or -errno. */
static int answers(sqlite3 *db, const char *question, const char *answer)
{
    _cleanup_statement_ sqlite3_stmt *statement = NULL;
    int result = query_prepare(db, &statement, question, "");
    if (result == 0)
        result = query_step(statement);
    if (result <= 0)
        return result;
    const char *text = (const char *)sqlite3_column_text(statement, 0);
    return text != NULL && strcmp(text, answer) == 0;
}

/* A file that uses a log is whole; one that was being filled may be. 0, -EUCLEAN, or another -errno. */
static int check_whole(struct state_file *file)
{
    int result = answers(file->db, "PRAGMA journal_mode", "wal");
    if (result == 0)
        result = answers(file->db, "PRAGMA quick_check (1)", "ok");
    if (result == 0)
        return -EUCLEAN;
    return result < 0 ? result : 0;
}

/* Locked for this process before the log is entered, so that SQLite needs no file of shared memory, which it
 * would map. */
static int set_up(struct state_file *file)
{
    char words[512];
    snprintf(words, sizeof(words),
             "PRAGMA page_size = %d; PRAGMA locking_mode = EXCLUSIVE; PRAGMA wal_autocheckpoint = %d;"
             "PRAGMA journal_size_limit = 4194304; PRAGMA cache_size = -%d; PRAGMA cell_size_check = ON;"
             "PRAGMA trusted_schema = OFF",
             file->format->page_bytes, file->format->log_pages, CACHE_KB);
    return query_script(file->db, words);
}

/* What a transaction changed is taken back from memory, where it does not come to its end. */
static int begin_filling(struct state_file *file)
{
    file->is_filling = true;
    return query_script(file->db, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF");
}

/* Commits are of the quick kind until somebody wants a durable one. */
static int begin_log(struct state_file *file)
{
    int error = query_script(file->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    file->is_filling = error != 0;
    file->is_durable = false;
    return error;
}

static void close_connection(struct state_file *file)
{
    sqlite3 *aside = file->aside.db;
    statements_release(&file->aside);
    sqlite3_close(aside);
    statements_release(&file->statements);
    sqlite3_close(file->db);
    file->db = NULL;
    file->is_filling = false;
}

enum {
    OPEN_FLAGS = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW
};

static int open_connection(struct state_file *file)
{
    bool is_new = false;
    bool is_empty = false;
    int error = make_file(file->path, &is_new);
    if (error == 0)
        error = query_error_on(file->db, sqlite3_open_v2(file->path, &file->db, OPEN_FLAGS, NULL));
    if (error == 0)
        error = set_up(file);
    if (error == 0)
        error = check_whole(file);
    if (error == 0)
        error = check_tables(file, is_new, &is_empty);
    if (error == 0)
        error = is_empty && file->format->is_filled_without_log ? begin_filling(file) : begin_log(file);
    if (error == 0 && is_empty)
        error = make_tables(file);
    if (error != 0)
        close_connection(file);
    else
        statements_init(&file->statements, file->db, file->format->statements);
    return error;
}

/* What stands behind the name of the file, and of its log before "-wal". */
static const char usual[] = "";
static const char damaged[] = ".damaged";
static const char set_aside[] = ".set-aside";

struct place {
    char file[PATH_MAX + 16];
    char log[PATH_MAX + 32];
};

static struct place place_of(const struct state_file *file, const char *state)
{
    struct place place;
    snprintf(place.file, sizeof(place.file), "%s%s", file->path, state);
    snprintf(place.log, sizeof(place.log), "%s-wal", place.file);
    return place;
}

/* Moves the file with its log over what is there. The file's rename is the moment in which both move: before
 * it the log has two names, and a log that has no file beside it means nothing. */
static int move(const struct state_file *file, const char *from_state, const char *to_state)
{
    const struct place from = place_of(file, from_state);
    const struct place to = place_of(file, to_state);
    unlink(to.log);
    if (link(from.log, to.log) != 0 && errno != ENOENT)
        (void)rename(from.log, to.log); /* a filesystem without links */
    if (rename(from.file, to.file) != 0)
        return -errno;
    unlink(from.log);
    return 0;
}

static void put_aside(const struct state_file *file, const char *state)
{
    if (move(file, state, set_aside) == 0)
        log_warning("the state file %s cannot be read and is set aside as %s%s; it is built anew",
                    file->format->name, file->format->name, set_aside);
}

/* A damaged file under its other name: the one that was to replace it is not complete. */
static void undo_renewal(const struct state_file *file)
{
    const struct place place = place_of(file, damaged);
    if (access(place.file, F_OK) == 0)
        (void)move(file, damaged, usual);
    else
        unlink(place.log);
}

/* Opens the file, or a new one in its place. */
static int open_file(struct state_file *file)
{
    int error = open_connection(file);
    if (error == -EUCLEAN) {
        put_aside(file, usual);
        error = open_connection(file);
    }
    if (error != 0 && error != file->error)
        log_warning("the state file %s cannot be kept on disk: %s", file->format->name, strerror(-error));
    file->error = error;
    atomic_store(&file->is_damaged, false);
    return error;
}

int state_file_open(struct state_file *file, int dir_fd, const struct state_file_format *format)
{
    *file = (struct state_file){.format = format};
    pthread_mutex_init(&file->transaction, NULL);
    pthread_mutex_init(&file->connection, NULL);
    int error = locate(file, dir_fd);
    if (error == 0) {
        undo_renewal(file);
        error = open_file(file);
    }
    file->error = error;
    return error == -ENOMEM ? error : 0;
}

void state_file_release(struct state_file *file)
{
    if (file->format == NULL)
        return;
    if (!atomic_load(&file->is_damaged))
        state_file_end_filling(file);
    close_connection(file);
    pthread_mutex_destroy(&file->connection);
    pthread_mutex_destroy(&file->transaction);
    *file = (struct state_file){.format = NULL};
}

/* ---------------------------------------------------------------- transactions */

/* It is held while a commit waits for the disk. */
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

/* Readers go on while the disk is waited for. SQLite's own descriptor is used: closing another one would drop
 * the process's locks. */
static int sync_file(struct state_file *file)
{
    sqlite3_file *handle = NULL;
    state_file_lock(file);
    int result = sqlite3_file_control(file->db, "main", SQLITE_FCNTL_FILE_POINTER, &handle);
    state_file_unlock(file);
    if (result == SQLITE_OK)
        result = handle->pMethods->xSync(handle, SQLITE_SYNC_NORMAL);
    return query_error(result);
}

/* Only what is durable may say that it uses a log. */
void state_file_end_filling(struct state_file *file)
{
    pthread_mutex_lock(&file->transaction);
    int error = file->is_filling ? sync_file(file) : 0;
    if (file->is_filling && error == 0) {
        state_file_lock(file);
        error = begin_log(file);
        state_file_unlock(file);
    }
    state_file_note(file, error);
    pthread_mutex_unlock(&file->transaction);
}

/* ---------------------------------------------------------------- damage */

static void open_aside(struct state_file *file)
{
    const struct place place = place_of(file, set_aside);
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(place.file, &db, OPEN_FLAGS, NULL) != SQLITE_OK ||
        query_execute(db, "PRAGMA locking_mode = EXCLUSIVE", "") != 0) {
        log_debug("nothing can be read of %s", place.file);
        sqlite3_close(db);
        return;
    }
    statements_init(&file->aside, db, file->format->statements);
}

static void lock_all(struct state_file *file)
{
    pthread_mutex_lock(&file->transaction);
    state_file_lock(file);
}

static void unlock_all(struct state_file *file)
{
    state_file_unlock(file);
    pthread_mutex_unlock(&file->transaction);
}

static int open_beside_old(struct state_file *file)
{
    int error = open_file(file);
    open_aside(file);
    atomic_fetch_add(&file->generation, 1);
    return error;
}

int state_file_renew(struct state_file *file)
{
    lock_all(file);
    close_connection(file);
    put_aside(file, usual);
    int error = open_beside_old(file);
    unlock_all(file);
    return error;
}

void state_file_open_renewed(struct state_file *file)
{
    lock_all(file);
    if (file->db == NULL && atomic_load(&file->generation) > 0) {
        close_connection(file); /* to the old file */
        (void)open_beside_old(file);
    }
    unlock_all(file);
}

static int begin_renewal(struct state_file *file)
{
    lock_all(file);
    close_connection(file);
    int error = move(file, usual, damaged);
    if (error == -ENOENT) /* somebody removed it: there is nothing to keep */
        error = 0;
    int of_open = open_file(file);
    unlock_all(file);
    return error != 0 ? error : of_open;
}

static void end_renewal(struct state_file *file, bool is_filled)
{
    lock_all(file);
    if (is_filled) {
        put_aside(file, damaged);
        (void)unlink(place_of(file, damaged).file); /* where that failed: else it is the file again */
        sync_folder(file->path); /* else what is written from now on may be undone by a power cut */
    } else {
        close_connection(file);
        undo_renewal(file);
        (void)open_file(file);
        atomic_store(&file->is_damaged, true);
    }
    unlock_all(file);
}

int state_file_replace(struct state_file *file, int (*fill)(void *context), void *context)
{
    int error = begin_renewal(file);
    crash_point("renewed");
    if (error == 0)
        error = fill(context);
    crash_point("refilled");
    end_renewal(file, error == 0);
    return error;
}
