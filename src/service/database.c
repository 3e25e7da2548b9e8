/* SPDX-License-Identifier: MIT */
/*
 * The tables, the steps from one version of them to the next (SQLite's user_version), and the connections to
 * the database.
 *
 * A message is written once, however many inboxes it is delivered to: `messages` and `contents` have it,
 * `emails` and `outbound` say who received and who sent it. The records that lists answer with are kept as
 * the JSON text they are sent as, so that a list of 100,000 is a copy. Large columns have a table of their
 * own, or come last, so that scans do not read them.
 */
#include "service/database.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "service/rereading.h"
#include "sql/query.h"

/* ---------------------------------------------------------------- the tables */

static const char version_1[] =
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE api_keys (id TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, prefix TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, revoked_ms INTEGER);"
    "CREATE TABLE inboxes (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " address TEXT NOT NULL UNIQUE COLLATE NOCASE, record TEXT NOT NULL,"
    " email_changes INTEGER NOT NULL DEFAULT 0);"
    /* message_id: by which replies find it; a made up one where another message has the same. thread: seq of
     * its first message. header: what the content records of all who see it have in common. */
    "CREATE TABLE messages (seq INTEGER PRIMARY KEY, message_id TEXT NOT NULL UNIQUE,"
    " thread INTEGER NOT NULL, forward_depth INTEGER NOT NULL, date_ms INTEGER NOT NULL, header TEXT NOT "
    "NULL, search_text TEXT NOT NULL);"
    "CREATE INDEX messages_thread ON messages (thread);"
    "CREATE TABLE contents (message INTEGER PRIMARY KEY REFERENCES messages, plain_text TEXT, html TEXT,"
    " raw BLOB NOT NULL);"
    "CREATE TABLE emails (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " inbox INTEGER NOT NULL REFERENCES inboxes, message INTEGER NOT NULL REFERENCES messages,"
    " is_valid INTEGER NOT NULL, from_address TEXT NOT NULL COLLATE NOCASE, record TEXT NOT NULL);"
    "CREATE INDEX emails_inbox ON emails (inbox);"
    "CREATE INDEX emails_message ON emails (message);"
    "CREATE TABLE outbound (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
    " inbox INTEGER NOT NULL REFERENCES inboxes, message INTEGER NOT NULL REFERENCES messages,"
    " date_ms INTEGER NOT NULL, record TEXT NOT NULL);"
    "CREATE INDEX outbound_inbox ON outbound (inbox);"
    "CREATE INDEX outbound_message ON outbound (message);"
    "CREATE INDEX outbound_date ON outbound (date_ms);"
    "CREATE TABLE idempotency_keys (key TEXT PRIMARY KEY, digest TEXT NOT NULL,"
    " outbound_id TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE pool (id TEXT PRIMARY KEY, name TEXT NOT NULL, content_type TEXT NOT NULL,"
    " bytes INTEGER NOT NULL, created_ms INTEGER NOT NULL) WITHOUT ROWID;"
    /* What ETags are made of: how often each list changed, received mail by inbox too, so that a client that
     * polls one inbox is not sent all of it again for what happened elsewhere. */
    "INSERT INTO settings VALUES ('inbox_changes', 0), ('email_changes', 0), ('outbound_changes', 0);"
    "CREATE TRIGGER inbox_inserted AFTER INSERT ON inboxes BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'inbox_changes'; END;"
    "CREATE TRIGGER inbox_updated AFTER UPDATE OF record ON inboxes BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'inbox_changes'; END;"
    "CREATE TRIGGER emails_inserted AFTER INSERT ON emails BEGIN"
    " UPDATE inboxes SET email_changes = email_changes + 1 WHERE seq = new.inbox;"
    " UPDATE settings SET value = value + 1 WHERE name = 'email_changes'; END;"
    "CREATE TRIGGER emails_updated AFTER UPDATE ON emails BEGIN"
    " UPDATE inboxes SET email_changes = email_changes + 1 WHERE seq = new.inbox;"
    " UPDATE settings SET value = value + 1 WHERE name = 'email_changes'; END;"
    "CREATE TRIGGER outbound_inserted AFTER INSERT ON outbound BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'outbound_changes'; END;";

/* What the service hands to others by itself (outgoing.h). due_ms: NULL once it failed for good. */
static const char version_2[] =
    "CREATE TABLE outgoing (seq INTEGER PRIMARY KEY, kind INTEGER NOT NULL, email INTEGER NOT NULL,"
    " address TEXT NOT NULL COLLATE NOCASE, attempts INTEGER NOT NULL DEFAULT 0, begun_ms INTEGER NOT NULL,"
    " due_ms INTEGER, failure TEXT, UNIQUE (kind, email, address));"
    "CREATE INDEX outgoing_due ON outgoing (kind, due_ms);"
    "CREATE TRIGGER outbound_updated AFTER UPDATE OF record ON outbound BEGIN"
    " UPDATE settings SET value = value + 1 WHERE name = 'outbound_changes'; END;";

/* The step to a version: statements, and what they cannot do. */
static const struct version {
    const char *sql;
    int (*run)(sqlite3 *db);
} versions[] = {
    {version_1, NULL},
    {version_2, NULL},
    {"", rereading_run},
    {"ALTER TABLE outgoing DROP COLUMN begun_ms", NULL}, /* which nobody read */
};

static int newest_version(void)
{
    return (int)ARRAY_LEN(versions);
}

/* What ETags of this database differ by from those of another that stood in its place. */
static int name_instance(sqlite3 *db)
{
    char instance[37];
    int error = random_uuid(instance);
    if (error != 0)
        return error;
    return query_execute(db, "INSERT OR IGNORE INTO settings VALUES ('instance', ?)", "s", instance);
}

static int run_step(sqlite3 *db, const struct version *version)
{
    int error = query_script(db, version->sql);
    return error == 0 && version->run != NULL ? version->run(db) : error;
}

static int migrate_inside(sqlite3 *db)
{
    int64_t version = 0;
    int error = query_integer(db, &version, "PRAGMA user_version", "");
    if (error != 0)
        return error;
    if (version < 0 || version > newest_version())
        return -EPROTO;
    for (int64_t next = version; error == 0 && next < newest_version(); next++)
        error = run_step(db, &versions[next]);
    if (error == 0)
        error = name_instance(db);
    if (error != 0 || version == newest_version())
        return error;
    char statement[64];
    snprintf(statement, sizeof(statement), "PRAGMA user_version = %d", newest_version());
    return query_execute(db, statement, "");
}

/* Brings an older or empty database up to newest_version(), in one transaction. 0, -EPROTO when it was made
 * by a newer program, or -errno. */
static int migrate(sqlite3 *db)
{
    int error = query_execute(db, "BEGIN IMMEDIATE", "");
    if (error != 0)
        return error;
    error = migrate_inside(db);
    if (error == 0)
        error = query_execute(db, "COMMIT", "");
    if (error != 0)
        (void)query_execute(db, "ROLLBACK", "");
    return error;
}

/* ---------------------------------------------------------------- the connections */

enum {
    READERS_KEPT = 16,
    TURNS_MAX = 64,  /* in a transaction, so that it ends though writers keep coming */
    BUSY_MS = 10000, /* for the key commands, which write from a process of their own */
};

/* A turn that is over, and whose thread waits for the end of the transaction; on that thread's stack. */
struct finished_turn {
    struct finished_turn *next;
    sem_t is_ended;
    int error; /* why the transaction was not committed, or 0; set before the semaphore */
};

struct database {
    char path[PATH_MAX];
    const char *vfs;            /* SQLite's name for the way it locks and maps; NULL: the usual one */
    pthread_mutex_t large_lock; /* database_begin_large(); taken before write_lock */
    /* A writer has its turn from database_begin_write() to database_end_write(); these all are its own. */
    pthread_mutex_t write_lock; /* the turn; taken before read_lock */
    sqlite3 *writer;
    struct finished_turn *finished; /* turns of the open transaction that wait for its end */
    size_t turns;                   /* how many this transaction has had */
    atomic_uint waiting;            /* threads that wait for their turn; counted by any thread */
    pthread_mutex_t read_lock;
    sqlite3 *readers[READERS_KEPT]; /* idle; protected by read_lock */
    size_t readers_len;             /* protected by read_lock */
    pthread_mutex_t commit_lock;    /* a leaf */
    pthread_cond_t committed;       /* `commits` grew */
    uint64_t commits;               /* protected by commit_lock */
};

static int open_connection(const struct database *database, sqlite3 **ret_db)
{
    sqlite3 *db = NULL;
    int result =
        sqlite3_open_v2(database->path, &db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, database->vfs);
    int error = query_error_on(db, result);
    if (error == 0)
        sqlite3_busy_timeout(db, BUSY_MS);
    if (error == 0)
        error = query_script(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                                 "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF");
    if (error != 0) {
        sqlite3_close(db);
        return error;
    }
    *ret_db = db;
    return 0;
}

int database_open(const char *dir, enum database_sharing sharing, struct database **ret_database)
{
    _cleanup_(cleanup_database_free) struct database *database = calloc(1, sizeof(*database));
    if (database == NULL)
        return -ENOMEM;
    pthread_mutex_init(&database->large_lock, NULL);
    pthread_mutex_init(&database->write_lock, NULL);
    pthread_mutex_init(&database->read_lock, NULL);
    pthread_mutex_init(&database->commit_lock, NULL);
    clock_condition_init(&database->committed);
    database->vfs = sharing == DATABASE_ALONE ? "unix-excl" : NULL;
    int length = snprintf(database->path, sizeof(database->path), "%s/inbox.sqlite3", dir);
    if (length < 0 || (size_t)length >= sizeof(database->path))
        return -ENAMETOOLONG;

    /* SQLite would make it by the umask; its other files take their mode from this one. Closed before SQLite
     * opens it: a later close would drop the process's locks, and another process would then take the log
     * from under this one. */
    int fd = open(database->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    close(fd);
    int error = open_connection(database, &database->writer);
    /* What a turn may have to undo is kept in memory: a file would be written and unlinked with each. Readers
     * keep to files, for they sort whole lists. */
    if (error == 0)
        error = query_execute(database->writer, "PRAGMA temp_store = MEMORY", "");
    if (error == 0)
        error = migrate(database->writer);
    if (error != 0)
        return error;
    *ret_database = TAKE_PTR(database);
    return 0;
}

int database_open_existing(const char *dir, struct database **ret_database)
{
    char *path = NULL;
    if (asprintf(&path, "%s/inbox.sqlite3", dir) < 0)
        return -ENOMEM;
    int error = access(path, F_OK) == 0 ? 0 : -errno;
    free(path);
    return error == 0 ? database_open(dir, DATABASE_SHARED, ret_database) : error;
}

void database_free(struct database *database)
{
    if (database == NULL)
        return;
    for (size_t i = 0; i < database->readers_len; i++)
        sqlite3_close(database->readers[i]);
    sqlite3_close(database->writer);
    pthread_cond_destroy(&database->committed);
    pthread_mutex_destroy(&database->commit_lock);
    pthread_mutex_destroy(&database->read_lock);
    pthread_mutex_destroy(&database->write_lock);
    pthread_mutex_destroy(&database->large_lock);
    free(database);
}

int database_begin_read(struct database *database, sqlite3 **ret_db)
{
    sqlite3 *db = NULL;
    pthread_mutex_lock(&database->read_lock);
    if (database->readers_len > 0)
        db = database->readers[--database->readers_len];
    pthread_mutex_unlock(&database->read_lock);

    int error = 0;
    if (db == NULL) {
        error = open_connection(database, &db);
        /* Lists are read once, from one end to the other: a large cache would only take memory. */
        if (error == 0)
            error = query_execute(db, "PRAGMA cache_size = -512", "");
    }
    if (error == 0)
        error = query_execute(db, "BEGIN", "");
    if (error != 0) {
        sqlite3_close(db);
        return error;
    }
    *ret_db = db;
    return 0;
}

void database_end_read(struct database *database, sqlite3 *db)
{
    bool is_kept = query_execute(db, "ROLLBACK", "") == 0;
    pthread_mutex_lock(&database->read_lock);
    is_kept = is_kept && database->readers_len < READERS_KEPT;
    if (is_kept)
        database->readers[database->readers_len++] = db;
    pthread_mutex_unlock(&database->read_lock);
    if (!is_kept)
        sqlite3_close(db);
}

static void count_commit(struct database *database)
{
    pthread_mutex_lock(&database->commit_lock);
    database->commits++;
    pthread_cond_broadcast(&database->committed);
    pthread_mutex_unlock(&database->commit_lock);
}

/* Ends the transaction: commits it, or undoes it where `error` is set; tells the turns that wait for it, and
 * lets the next writer begin. 0, or why nothing was committed. */
static int end_transaction(struct database *database, int error)
{
    sqlite3 *db = database->writer;
    if (error == 0)
        error = query_execute(db, "COMMIT", "");
    if (error != 0 && sqlite3_get_autocommit(db) == 0)
        (void)query_execute(db, "ROLLBACK", "");
    database->turns = 0;
    while (database->finished != NULL) {
        struct finished_turn *turn = database->finished;
        database->finished = turn->next;
        turn->error = error;
        sem_post(&turn->is_ended); /* from here on it is gone */
    }
    pthread_mutex_unlock(&database->write_lock);
    if (error == 0)
        count_commit(database);
    return error;
}

/* Leaves the transaction to the next writer, and waits for its end. 0, or why nothing was committed. */
static int await_end(struct database *database)
{
    struct finished_turn turn = {.next = database->finished};
    sem_init(&turn.is_ended, 0, 0);
    database->finished = &turn;
    pthread_mutex_unlock(&database->write_lock);
    while (sem_wait(&turn.is_ended) != 0)
        ;
    sem_destroy(&turn.is_ended);
    return turn.error;
}

int database_begin_write(struct database *database, sqlite3 **ret_db)
{
    database->waiting++;
    pthread_mutex_lock(&database->write_lock);
    database->waiting--;
    bool is_first = database->finished == NULL;
    int error = query_execute(database->writer, is_first ? "BEGIN IMMEDIATE" : "SAVEPOINT turn", "");
    if (error != 0)
        return end_transaction(database, error);
    database->turns++;
    *ret_db = database->writer;
    return 0;
}

int database_end_write(struct database *database, int error)
{
    sqlite3 *db = database->writer;
    bool is_first = database->finished == NULL;
    /* On some errors (a full disk, no memory) SQLite undoes the whole transaction by itself. */
    if (sqlite3_get_autocommit(db) != 0)
        return end_transaction(database, error != 0 ? error : -EIO);
    if (error != 0 && is_first)
        return end_transaction(database, error);
    int turn_error = is_first ? 0 : query_execute(db, error != 0 ? "ROLLBACK TO turn" : "RELEASE turn", "");
    if (turn_error != 0)
        return end_transaction(database, turn_error);
    bool is_last = database->waiting == 0 || database->turns >= TURNS_MAX;
    int end_error = is_last ? end_transaction(database, 0) : await_end(database);
    return end_error != 0 ? end_error : error;
}

void database_begin_large(struct database *database)
{
    pthread_mutex_lock(&database->large_lock);
}

void database_end_large(struct database *database)
{
    pthread_mutex_unlock(&database->large_lock);
}

uint64_t database_commits(struct database *database)
{
    pthread_mutex_lock(&database->commit_lock);
    uint64_t commits = database->commits;
    pthread_mutex_unlock(&database->commit_lock);
    return commits;
}

int database_await_commit(struct database *database, uint64_t seen, int64_t until_ms, struct cancel *cancel)
{
    int error = 0;
    pthread_mutex_lock(&database->commit_lock);
    while (database->commits == seen && error == 0)
        error = wait_until(clock_system(), &database->committed, &database->commit_lock, until_ms, cancel);
    pthread_mutex_unlock(&database->commit_lock);
    return error;
}
