/* SPDX-License-Identifier: MIT */
/*
 * Opening a file has three results: it is this program's; it is foreign or damaged; or it cannot be opened
 * now (a full disk, a wrong mode). The third must not be taken for the second: the user would lose the data.
 */
#include "sql/database.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"

enum {
    READERS_KEPT = 16,
    TURNS_MAX = 64,  /* turns in a transaction, so that it ends even if ever more writers wait */
    BUSY_MS = 10000, /* time-out of waits for the locks of other processes */
};

/* A finished turn, on the stack of its thread, which waits for the end of the transaction. */
struct finished_turn {
    struct finished_turn *next;
    sem_t is_ended;
    int error; /* why the transaction was not committed, or 0; set before sem_post() */
};

struct database {
    const struct database_format *format;
    char path[PATH_MAX];
    const char *vfs; /* the SQLite VFS that locks and maps the file; NULL: the default */
    /* A writer has its turn from database_begin_write() to database_end_write(), and owns these fields. */
    pthread_mutex_t write_lock;     /* the turn; taken before `lock` */
    struct connection *writer;      /* NULL if `error` is set */
    int error;                      /* why `writer` could not be opened; 0 if it is open */
    struct finished_turn *finished; /* turns of the open transaction that wait for its end */
    size_t turns;                   /* number of turns in the open transaction */
    atomic_uint waiting;            /* number of threads that wait for a turn; any thread changes it */
    pthread_mutex_t lock;           /* protects the fields below; a leaf */
    pthread_cond_t changed;         /* `commits` grew; is_renewing ended; readers_out is 0 in a renewal */
    struct connection *readers[READERS_KEPT]; /* idle */
    size_t readers_len;
    size_t readers_out; /* number of readers taken and not returned */
    bool is_renewing;   /* no reader may be taken */
    uint64_t commits;
};

/* ---------------------------------------------------------------- the file */

static int locate(struct database *database, int dir_fd)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
    ssize_t len = readlink(link, database->path, sizeof(database->path));
    if (len < 0)
        return -errno;
    size_t left = sizeof(database->path) - (size_t)len;
    int written = snprintf(database->path + len, left, "/%s", database->format->name);
    return written < 0 || (size_t)written >= left ? -ENAMETOOLONG : 0;
}

/* SQLite would make the file with the mode of the umask, and copies the mode to its other files. The file
 * must be closed before SQLite opens it: a later close would release the process's locks, and another process
 * could then remove the log. Returns -EUCLEAN if the name is that of a folder or a link. */
static int make_file(const char *path)
{
    _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno == ELOOP || errno == EISDIR ? -EUCLEAN : -errno;
    return 0;
}

/* The log is removed first: SQLite would apply a remaining log to the new file. */
static void set_aside(const struct database *database)
{
    char from[PATH_MAX + 8];
    char to[PATH_MAX + 24];
    snprintf(from, sizeof(from), "%s-wal", database->path);
    unlink(from);
    snprintf(to, sizeof(to), "%s.set-aside", database->path);
    /* rename(2) replaces neither a folder by a file, nor a file by a folder. */
    if (unlink(to) != 0)
        rmdir(to);
    if (rename(database->path, to) == 0)
        log_warning("%s cannot be read and is set aside as %s.set-aside; it is filled anew",
                    database->format->name, database->format->name);
}

/* ---------------------------------------------------------------- the tables */

static int run_steps_inside(struct connection *connection, const struct database_format *format)
{
    char statement[64];
    int64_t version = 0;
    int error = query_integers(connection, &version, 1, "PRAGMA user_version", "");
    if (error != 0)
        return error;
    if (version < 0 || (size_t)version > format->steps_len)
        return -EPROTO;
    for (size_t next = (size_t)version; error == 0 && next < format->steps_len; next++) {
        const struct database_step *step = &format->steps[next];
        error = query_script(connection->db, step->sql);
        if (error == 0 && step->run != NULL)
            error = step->run(connection);
    }
    if (error != 0 || (size_t)version == format->steps_len)
        return error;
    snprintf(statement, sizeof(statement), "PRAGMA user_version = %zu", format->steps_len);
    return query_execute(connection, statement, "");
}

static int run_steps(struct connection *connection, const struct database_format *format)
{
    int error = query_execute(connection, "BEGIN IMMEDIATE", "");
    if (error != 0)
        return error;
    error = run_steps_inside(connection, format);
    if (error == 0)
        error = query_execute(connection, "COMMIT", "");
    if (error != 0 && sqlite3_get_autocommit(connection->db) == 0)
        (void)query_execute(connection, "ROLLBACK", "");
    return error;
}

/* ---------------------------------------------------------------- connections */

static void free_connection(struct connection *connection)
{
    if (connection == NULL)
        return;
    connection_close(connection);
    free(connection);
}

static int open_connection(struct database *database, const char *pragma, struct connection **ret)
{
    enum {
        FLAGS = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW
    };
    const struct database_format *format = database->format;
    struct connection *connection = g_new0(struct connection, 1);
    sqlite3 **db = &connection->db;
    int result = sqlite3_open_v2(database->path, db, FLAGS, database->vfs);
    int error = query_error_on(*db, result);
    if (error == 0) {
        sqlite3_busy_timeout(*db, BUSY_MS);
        if (format->pragmas != NULL)
            error = query_script(*db, format->pragmas);
    }
    if (error == 0)
        error = query_script(
            *db, "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
                 "PRAGMA cell_size_check = ON; PRAGMA journal_size_limit = 4194304");
    if (error == 0)
        error = query_script(*db, format->is_expendable ? "PRAGMA synchronous = NORMAL"
                                                        : "PRAGMA synchronous = FULL");
    if (error == 0)
        error = query_script(*db, pragma);
    if (error != 0) {
        free_connection(connection);
        return error;
    }
    connection->database = database;
    *ret = connection;
    return 0;
}

static int open_writer_once(struct database *database)
{
    int error = make_file(database->path);
    /* The pages for undoing a turn stay in memory: otherwise SQLite would make and unlink a file for each
     * turn. Readers use files, since they sort whole lists. */
    if (error == 0)
        error = open_connection(database, "PRAGMA temp_store = MEMORY", &database->writer);
    if (error == 0)
        error = run_steps(database->writer, database->format);
    if (error != 0)
        free_connection(TAKE_PTR(database->writer));
    return error;
}

static int open_writer(struct database *database)
{
    int error = open_writer_once(database);
    /* A foreign database may have tables of the same names. */
    bool is_unusable = error == -EUCLEAN || error == -EPROTO || error == -EINVAL;
    if (is_unusable && database->format->is_expendable) {
        set_aside(database);
        error = open_writer_once(database);
    }
    database->error = error;
    return error == -EINVAL ? -EUCLEAN : error;
}

int database_open(int dir_fd, const struct database_format *format, enum database_sharing sharing,
                  struct database **ret_database)
{
    /* SQLite counts its memory under one lock for all connections: with this lock, 32 readers of the service
     * had 0.6 to 0.9 times the throughput of 8. After the first call, this has no effect. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    _cleanup_(cleanup_database_free) struct database *database = g_new0(struct database, 1);
    database->format = format;
    database->vfs = sharing == DATABASE_ALONE ? "unix-excl" : NULL;
    pthread_mutex_init(&database->write_lock, NULL);
    pthread_mutex_init(&database->lock, NULL);
    clock_condition_init(&database->changed);
    int error = locate(database, dir_fd);
    if (error == 0)
        error = open_writer(database);
    if (error == 0)
        error = file_sync(dir_fd); /* SQLite does not make the name of a new file durable */
    if (error != 0)
        return error;
    *ret_database = TAKE_PTR(database);
    return 0;
}

static void close_readers(struct database *database)
{
    while (database->readers_len > 0)
        free_connection(database->readers[--database->readers_len]);
}

void database_free(struct database *database)
{
    if (database == NULL)
        return;
    close_readers(database);
    free_connection(TAKE_PTR(database->writer));
    pthread_cond_destroy(&database->changed);
    pthread_mutex_destroy(&database->lock);
    pthread_mutex_destroy(&database->write_lock);
    free(database);
}

/* ---------------------------------------------------------------- reading */

static void count_returned_locked(struct database *database)
{
    if (--database->readers_out == 0 && database->is_renewing)
        pthread_cond_broadcast(&database->changed);
}

void database_return_reader(struct connection *connection)
{
    if (connection == NULL)
        return;
    struct database *database = connection->database;
    if (sqlite3_get_autocommit(connection->db) == 0)
        (void)query_execute(connection, "ROLLBACK", "");
    LOCK_GUARD(&database->lock);
    if (database->readers_len < READERS_KEPT)
        database->readers[database->readers_len++] = connection;
    else
        free_connection(connection);
    count_returned_locked(database);
}

int database_take_reader(struct database *database, struct connection **ret_connection)
{
    pthread_mutex_lock(&database->lock);
    while (database->is_renewing)
        pthread_cond_wait(&database->changed, &database->lock);
    database->readers_out++;
    struct connection *connection =
        database->readers_len > 0 ? database->readers[--database->readers_len] : NULL;
    pthread_mutex_unlock(&database->lock);
    /* Lists are read once, from end to end, so that a large cache would only cost memory. */
    int error = connection == NULL ? open_connection(database, "PRAGMA cache_size = -512", &connection) : 0;
    if (error == 0) {
        *ret_connection = connection;
        return 0;
    }
    LOCK_GUARD(&database->lock);
    count_returned_locked(database);
    return error;
}

int database_begin_read(struct database *database, struct connection **ret_connection)
{
    _cleanup_reader_ struct connection *connection = NULL;
    int error = database_take_reader(database, &connection);
    if (error == 0)
        error = query_execute(connection, "BEGIN", "");
    if (error == 0)
        *ret_connection = TAKE_PTR(connection);
    return error;
}

/* ---------------------------------------------------------------- writing */

/* Ends the transaction in its last turn: commits it, or undoes it if `error` is set, and wakes the threads of
 * the other turns. Return: 0; -errno when nothing was committed. */
static int commit_for_all(struct database *database, int error)
{
    struct connection *writer = database->writer;
    if (error == 0)
        error = query_execute(writer, "COMMIT", "");
    if (error != 0 && writer != NULL && sqlite3_get_autocommit(writer->db) == 0)
        (void)query_execute(writer, "ROLLBACK", "");
    database->turns = 0;
    while (database->finished != NULL) {
        struct finished_turn *turn = database->finished;
        database->finished = turn->next;
        turn->error = error;
        sem_post(&turn->is_ended); /* from now on its thread may have freed the turn */
    }
    return error;
}

/* Calls commit_for_all(), lets the next writer begin, and counts the commit if it succeeded. */
static int end_transaction(struct database *database, int error)
{
    error = commit_for_all(database, error);
    pthread_mutex_unlock(&database->write_lock);
    if (error != 0)
        return error;
    LOCK_GUARD(&database->lock);
    database->commits++;
    pthread_cond_broadcast(&database->changed);
    return 0;
}

/* Leaves the transaction to the next writer, and waits for its end. Return: as commit_for_all(). */
static int await_end(struct database *database)
{
    struct finished_turn turn = {.next = database->finished};
    sem_init(&turn.is_ended, 0, 0);
    database->finished = &turn;
    pthread_mutex_unlock(&database->write_lock);
    TEMP_FAILURE_RETRY(sem_wait(&turn.is_ended));
    sem_destroy(&turn.is_ended);
    return turn.error;
}

int database_begin_write(struct database *database, struct connection **ret_connection)
{
    database->waiting++;
    pthread_mutex_lock(&database->write_lock);
    database->waiting--;
    bool is_first = database->finished == NULL;
    int error = database->error;
    if (error == 0)
        error = query_execute(database->writer, is_first ? "BEGIN IMMEDIATE" : "SAVEPOINT turn", "");
    if (error != 0)
        return end_transaction(database, error);
    database->turns++;
    *ret_connection = database->writer;
    return 0;
}

int database_end_write(struct database *database, int error)
{
    struct connection *writer = database->writer;
    bool is_first = database->finished == NULL;
    /* After some errors (a full disk, no memory) SQLite has already undone the whole transaction. */
    if (sqlite3_get_autocommit(writer->db) != 0)
        return end_transaction(database, error != 0 ? error : -EIO);
    if (error != 0 && is_first)
        return end_transaction(database, error);
    int turn_error =
        is_first ? 0 : query_execute(writer, error != 0 ? "ROLLBACK TO turn" : "RELEASE turn", "");
    if (turn_error != 0)
        return end_transaction(database, turn_error);
    bool is_last = database->waiting == 0 || database->turns >= TURNS_MAX;
    int end_error = is_last ? end_transaction(database, 0) : await_end(database);
    return end_error != 0 ? end_error : error;
}

int database_renew(struct database *database)
{
    LOCK_GUARD(&database->write_lock);
    if (database->finished != NULL)
        (void)commit_for_all(database, 0);
    /* All connections are closed first: closing one later would remove the new file's log. */
    pthread_mutex_lock(&database->lock);
    database->is_renewing = true;
    while (database->readers_out > 0)
        pthread_cond_wait(&database->changed, &database->lock);
    close_readers(database);
    pthread_mutex_unlock(&database->lock);
    free_connection(TAKE_PTR(database->writer));
    set_aside(database);
    int error = open_writer(database);
    LOCK_GUARD(&database->lock);
    database->is_renewing = false;
    pthread_cond_broadcast(&database->changed);
    return error;
}

/* ---------------------------------------------------------------- commits */

uint64_t database_commits(struct database *database)
{
    LOCK_GUARD(&database->lock);
    return database->commits;
}

int database_await_commit(struct database *database, uint64_t seen, int64_t until_ms, struct cancel *cancel)
{
    int error = 0;
    LOCK_GUARD(&database->lock);
    while (database->commits == seen && error == 0)
        error = wait_until(clock_system(), &database->changed, &database->lock, until_ms, cancel);
    return error;
}
