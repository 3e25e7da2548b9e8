/* SPDX-License-Identifier: MIT */
/*
 * The tables, their statements, and what keeps rows and texts honest.
 */
#include "store/records.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"

enum {
    VERSION = 1,
    PAGE_BYTES = 16 * 1024,   /* half the work of 4 kB where 100,000 records come at once */
    LOG_PAGES = 4096,         /* 64 MB: what a long list brings is taken over into the file seldom */
    TEXTS_LOST_MAX = 1 << 20, /* by a power cut: more than the log has room for */
    FREE_PAGES_ALLOWED = 256,
};

/* ---------------------------------------------------------------- the file */

#define TABLES(list)                                                                                        \
    "CREATE TABLE " list "_inboxes (number INTEGER PRIMARY KEY, origin INTEGER NOT NULL,"                   \
    " is_quiet INTEGER NOT NULL, is_gone INTEGER NOT NULL, record_ms INTEGER NOT NULL,"                     \
    " changed_ms INTEGER NOT NULL, id TEXT NOT NULL, address TEXT, name TEXT NOT NULL, json BLOB NOT NULL," \
    " hash INTEGER NOT NULL);"                                                                              \
    "CREATE TABLE " list "_emails (number INTEGER PRIMARY KEY, inbox INTEGER NOT NULL,"                     \
    " json_len INTEGER NOT NULL, line_len INTEGER NOT NULL, date_ms INTEGER NOT NULL,"                      \
    " seen_ms INTEGER NOT NULL, is_held INTEGER NOT NULL, is_gone INTEGER NOT NULL, text INTEGER NOT NULL," \
    " key TEXT NOT NULL, name TEXT NOT NULL, hash INTEGER NOT NULL);"                                       \
    "CREATE TABLE " list "_texts (number INTEGER PRIMARY KEY, hash INTEGER NOT NULL, json BLOB NOT NULL);"  \
    "CREATE TABLE " list "_replaced (text INTEGER PRIMARY KEY);"                                            \
    "CREATE TABLE " list "_marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"

enum statement {
    PUT_INBOX,
    PUT_EMAIL,
    ADD_TEXT,
    READ_TEXT,
    READ_FORWARDS,
    READ_BACKWARDS,
    LAST_TEXT,
    NOTE_REPLACED,
    DELETE_TEXTS,
    DELETE_REPLACED,
    SET_MARK,
    GET_MARK,
    LIST_INBOXES,
    LIST_EMAILS,
    REPLACE_GONE,
    DELETE_GONE_EMAILS,
    DELETE_GONE_INBOXES,
    STATEMENTS /* how many a list has */
};

#define GONE(list) "is_gone OR inbox IN (SELECT number FROM " list "_inboxes WHERE is_gone)"

/* The text of the highest number stays, so that its number is not given again. */
#define STATEMENTS_OF(list, first)                                                                          \
    [(first) + PUT_INBOX] =                                                                                 \
        "INSERT OR REPLACE INTO " list "_inboxes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",                 \
               [(first) + PUT_EMAIL] =                                                                      \
                   "INSERT OR REPLACE INTO " list "_emails VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",    \
               [(first) + ADD_TEXT] = "INSERT OR REPLACE INTO " list "_texts VALUES (?, ?, ?)",             \
               [(first) + READ_TEXT] = "SELECT hash, json FROM " list "_texts WHERE number = ?",            \
               [(first) + READ_FORWARDS] =                                                                  \
                   "SELECT hash, json, number FROM " list "_texts WHERE number >= ? ORDER BY number",       \
               [(first) + READ_BACKWARDS] =                                                                 \
                   "SELECT hash, json, number FROM " list "_texts WHERE number <= ? ORDER BY number DESC",  \
               [(first) + LAST_TEXT] = "SELECT max(ifnull((SELECT max(number) FROM " list "_texts), 0),"    \
                                       " ifnull((SELECT max(text) FROM " list "_replaced), 0))",            \
               [(first) + NOTE_REPLACED] = "INSERT OR REPLACE INTO " list "_replaced VALUES (?)",           \
               [(first) + DELETE_TEXTS] =                                                                   \
                   "DELETE FROM " list "_texts WHERE number IN (SELECT text FROM " list "_replaced"         \
                   " WHERE text < (SELECT max(number) FROM " list "_texts) ORDER BY text LIMIT 2000)",      \
               [(first) + DELETE_REPLACED] =                                                                \
                   "DELETE FROM " list "_replaced WHERE text IN (SELECT text FROM " list "_replaced"        \
                   " WHERE text < (SELECT max(number) FROM " list "_texts) ORDER BY text LIMIT 2000)",      \
               [(first) + SET_MARK] = "INSERT OR REPLACE INTO " list "_marks VALUES (?, ?)",                \
               [(first) + GET_MARK] = "SELECT value FROM " list "_marks WHERE name = ?",                    \
               [(first) + LIST_INBOXES] = "SELECT * FROM " list "_inboxes ORDER BY number",                 \
               [(first) + LIST_EMAILS] = "SELECT * FROM " list "_emails WHERE number >= ? ORDER BY number", \
               [(first) + REPLACE_GONE] = "INSERT OR REPLACE INTO " list "_replaced SELECT text FROM " list \
                                          "_emails WHERE " GONE(list),                                      \
               [(first) + DELETE_GONE_EMAILS] = "DELETE FROM " list "_emails WHERE " GONE(list),            \
               [(first) + DELETE_GONE_INBOXES] = "DELETE FROM " list "_inboxes WHERE is_gone"

static const char *const statements[] = {STATEMENTS_OF("received", 0), STATEMENTS_OF("sent", STATEMENTS)};
_Static_assert(ARRAY_LEN(statements) == 2 * STATEMENTS, "a list has all of them");
_Static_assert(ARRAY_LEN(statements) <= STATEMENTS_MAX, "room for all of them");

static const struct state_file_format format = {
    .name = "records.sqlite3",
    .version = VERSION,
    .schema = TABLES("received") TABLES("sent"),
    .statements = statements,
    .page_bytes = PAGE_BYTES,
    .log_pages = LOG_PAGES,
    .is_filled_without_log = true,
};

static const char mark_identity[] = "identity";
static const char mark_first_sync[] = "first_sync";

int records_open_file(struct state_file *file, int dir_fd)
{
    /* What version 0.1 kept in its place: it is fetched again. */
    unlinkat(dir_fd, "records", 0);
    unlinkat(dir_fd, "records.compact", 0);
    return state_file_open(file, dir_fd, &format);
}

/* ---------------------------------------------------------------- texts in memory */

enum {
    KEY_SIZE = 17
};

struct kept_text {
    char key[KEY_SIZE];
    bool is_unused; /* the writer's */
    char bytes[];
};

static void make_key(uint64_t text, char ret_key[KEY_SIZE])
{
    snprintf(ret_key, KEY_SIZE, "%llx", (unsigned long long)text);
}

/* NULL: it was freed. With the file's lock held, or by the writer. */
static struct kept_text *find_kept(const struct records *records, uint64_t text)
{
    char key[KEY_SIZE];
    make_key(text, key);
    return map_find(&records->in_memory, key);
}

void records_note_unused(struct records *records, uint64_t text)
{
    struct kept_text *kept = (text & RECORDS_IN_MEMORY) == 0 ? NULL : find_kept(records, text);
    if (kept != NULL)
        kept->is_unused = true;
}

int records_keep_in_memory(struct records *records, const char *json, size_t len, int error,
                           uint64_t *ret_text)
{
    struct kept_text *kept = malloc(sizeof(*kept) + len + 1);
    if (kept == NULL)
        return -ENOMEM;
    if (!records->has_warned)
        log_warning("the state file %s cannot be written: %s; what is new is kept in memory", format.name,
                    strerror(-error));
    records->has_warned = true;
    kept->is_unused = false;
    memcpy(kept->bytes, json, len);
    kept->bytes[len] = '\0';
    *ret_text = RECORDS_IN_MEMORY | records->kept++;
    make_key(*ret_text, kept->key);
    state_file_lock(records->file);
    int of_map = map_set(&records->in_memory, kept->key, kept);
    state_file_unlock(records->file);
    if (of_map != 0)
        free(kept);
    return of_map;
}

/* ---------------------------------------------------------------- writing */

#define NUMBER(records, statement) ((size_t)(records)->list * STATEMENTS + (statement))

static uint64_t hash_text(uint64_t seed, const char *text)
{
    return text == NULL ? seed : hash_bytes(seed, text, strlen(text) + 1);
}

static int64_t hash_inbox(const struct inbox_row *row)
{
    const int64_t numbers[] = {row->number,  row->origin,    row->is_quiet,
                               row->is_gone, row->record_ms, row->changed_ms};
    uint64_t hash = hash_bytes(0, numbers, sizeof(numbers));
    hash = hash_text(hash_text(hash_text(hash, row->id), row->address), row->name);
    return (int64_t)hash_bytes(hash, row->json, row->json_len);
}

static int64_t hash_email(const struct email_row *row)
{
    const int64_t numbers[] = {row->number,  row->inbox,   row->json_len, row->line_len,     row->date_ms,
                               row->seen_ms, row->is_held, row->is_gone,  (int64_t)row->text};
    return (int64_t)hash_text(hash_text(hash_bytes(0, numbers, sizeof(numbers)), row->key), row->name);
}

int records_begin(struct records *records)
{
    return state_file_begin(records->file, false);
}

int records_commit(struct records *records)
{
    int error = state_file_commit(records->file);
    if (error == 0)
        records->has_warned = false;
    return error;
}

void records_abandon(struct records *records)
{
    state_file_abandon(records->file);
}

bool records_must_save(struct records *records)
{
    if (atomic_load(&records->file->is_damaged))
        (void)state_file_renew(records->file);
    else
        state_file_open_renewed(records->file);
    return records->generation != atomic_load(&records->file->generation);
}

void records_note_saved(struct records *records)
{
    records->generation = atomic_load(&records->file->generation);
}

int records_put_inbox(struct records *records, const struct inbox_row *row)
{
    return state_file_execute(records->file, NUMBER(records, PUT_INBOX), "iiiiiisssbi", (int64_t)row->number,
                              (int64_t)row->origin, (int64_t)row->is_quiet, (int64_t)row->is_gone,
                              row->record_ms, row->changed_ms, row->id, row->address, row->name,
                              (const void *)row->json, row->json_len, hash_inbox(row));
}

int records_put_email(struct records *records, const struct email_row *row)
{
    return state_file_execute(records->file, NUMBER(records, PUT_EMAIL), "iiiiiiiiissi", (int64_t)row->number,
                              (int64_t)row->inbox, (int64_t)row->json_len, (int64_t)row->line_len,
                              row->date_ms, row->seen_ms, (int64_t)row->is_held, (int64_t)row->is_gone,
                              (int64_t)row->text, row->key, row->name, hash_email(row));
}

int records_add_text(struct records *records, uint64_t text, const char *json, size_t len)
{
    return state_file_execute(records->file, NUMBER(records, ADD_TEXT), "iib", (int64_t)text,
                              (int64_t)hash_bytes(text, json, len), (const void *)json, len);
}

int records_note_replaced(struct records *records, uint64_t text)
{
    if ((text & RECORDS_IN_MEMORY) != 0)
        return 0;
    records->has_replaced = true;
    return state_file_execute(records->file, NUMBER(records, NOTE_REPLACED), "i", (int64_t)text);
}

static int set_mark(struct records *records, const char *name, int64_t value)
{
    return state_file_execute(records->file, NUMBER(records, SET_MARK), "si", name, value);
}

int records_put_marks(struct records *records)
{
    int error = set_mark(records, mark_identity, records->identity);
    return error != 0 ? error : set_mark(records, mark_first_sync, records->first_sync_done);
}

/* 1: there may be more; 0; or -errno. */
static int clean_some(struct records *records)
{
    int error = records_begin(records);
    if (error != 0)
        return error;
    error = state_file_execute(records->file, NUMBER(records, DELETE_TEXTS), "");
    if (error == 0)
        error = state_file_execute(records->file, NUMBER(records, DELETE_REPLACED), "");
    if (error != 0) {
        records_abandon(records);
        return error;
    }
    state_file_lock(records->file);
    bool has_more = sqlite3_changes(records->file->db) > 0;
    state_file_unlock(records->file);
    error = records_commit(records);
    return error != 0 ? error : has_more;
}

static void free_unused(struct records *records)
{
    struct kept_text *kept;
    size_t position = 0;
    state_file_lock(records->file);
    while ((kept = map_next(&records->in_memory, &position)) != NULL)
        if (kept->is_unused)
            free(map_remove(&records->in_memory, kept->key));
    state_file_unlock(records->file);
}

/* Some at a time, for who reads other texts waits for each statement, and each commit. */
void records_clean(struct records *records)
{
    int more = records->has_replaced;
    free_unused(records);
    while (more > 0)
        more = clean_some(records);
    records->has_replaced = more < 0;
}

/* ---------------------------------------------------------------- texts */

static int copy_text(const void *json, size_t len, char **ret_json)
{
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, json, len);
    copy[len] = '\0';
    *ret_json = copy;
    return 0;
}

/* The text of this row, as long as the row is the current one; NULL: it is not the one that was written. */
static const char *row_text(sqlite3_stmt *row, uint64_t text, size_t len)
{
    const char *json = sqlite3_column_blob(row, 1);
    bool is_intact = json != NULL && (size_t)sqlite3_column_bytes(row, 1) == len &&
                     sqlite3_column_int64(row, 0) == (int64_t)hash_bytes(text, json, len);
    return is_intact ? json : NULL;
}

static int take_text(sqlite3_stmt *row, uint64_t text, size_t len, char **ret_json)
{
    const char *json = row_text(row, text, len);
    return json != NULL ? copy_text(json, len, ret_json) : -EIO;
}

/* 0; -ENOENT: there is none; another -errno. */
static int read_from(struct records *records, struct statements *from, uint64_t text, size_t len,
                     char **ret_json)
{
    sqlite3_stmt *row = NULL;
    if (from->db == NULL)
        return -EIO;
    int result = statements_begin(from, NUMBER(records, READ_TEXT), &row, "i", (int64_t)text);
    if (result >= 0)
        result = result == 0 ? -ENOENT : take_text(row, text, len, ret_json);
    statements_end(row);
    return result;
}

/* Of a file that was made anew, what was not saved yet is in the one before. */
static int read_locked(struct records *records, uint64_t text, size_t len, char **ret_json)
{
    struct state_file *file = records->file;
    if ((text & RECORDS_IN_MEMORY) != 0) {
        const struct kept_text *kept = find_kept(records, text);
        return kept == NULL ? -EIO : copy_text(kept->bytes, len, ret_json);
    }
    int error = state_file_note(file, read_from(records, &file->statements, text, len, ret_json));
    if (error == -ENOENT)
        error = read_from(records, &file->aside, text, len, ret_json);
    return error == 0 || error == -ENOMEM ? error : -EIO;
}

int records_save_text(struct records *records, uint64_t text, size_t len)
{
    _cleanup_free_ char *json = NULL;
    state_file_lock(records->file);
    int error = read_from(records, &records->file->aside, text, len, &json);
    state_file_unlock(records->file);
    return error != 0 ? -ENOENT : records_add_text(records, text, json, len);
}

int records_read_text(struct records *records, uint64_t text, size_t len, char **ret_json)
{
    state_file_lock(records->file);
    int error = read_locked(records, text, len, ret_json);
    state_file_unlock(records->file);
    return error;
}

void text_reader_begin(struct text_reader *reader, struct records *records)
{
    *reader = (struct text_reader){.records = records};
    state_file_lock(records->file);
}

static void end_rows(struct text_reader *reader)
{
    statements_end(reader->rows);
    reader->rows = NULL;
}

/* True: the current row is that of the text, if the file has it. */
static bool find_row(struct text_reader *reader, uint64_t text, bool is_backwards)
{
    struct records *records = reader->records;
    struct statements *kept = &records->file->statements;
    int more;
    if (reader->rows != NULL && reader->next == text) {
        more = query_step(reader->rows);
    } else {
        end_rows(reader);
        if (kept->db == NULL)
            return false;
        reader->is_backwards = is_backwards;
        more = statements_begin(kept, NUMBER(records, is_backwards ? READ_BACKWARDS : READ_FORWARDS),
                                &reader->rows, "i", (int64_t)text);
    }
    if (more > 0 && sqlite3_column_int64(reader->rows, 2) == (int64_t)text) {
        reader->next = reader->is_backwards ? text - 1 : text + 1;
        return true;
    }
    end_rows(reader);
    return false;
}

int text_reader_read(struct text_reader *reader, uint64_t text, size_t len, bool is_backwards,
                     const char **ret_json)
{
    int error = 0;
    free(reader->copy);
    reader->copy = NULL;
    if ((text & RECORDS_IN_MEMORY) == 0 && find_row(reader, text, is_backwards) &&
        (*ret_json = row_text(reader->rows, text, len)) != NULL)
        return 0;
    end_rows(reader);
    error = read_locked(reader->records, text, len, &reader->copy);
    *ret_json = reader->copy;
    return error;
}

void text_reader_end(struct text_reader *reader)
{
    end_rows(reader);
    free(reader->copy);
    state_file_unlock(reader->records->file);
}

/* ---------------------------------------------------------------- loading */

/* NULL: it has a NUL in it, or is none. */
static const char *column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text != NULL && strlen(text) == (size_t)sqlite3_column_bytes(statement, column) ? text : NULL;
}

/* False: what is there is not what was written. */
static bool read_inbox(sqlite3_stmt *statement, struct inbox_row *ret)
{
    *ret = (struct inbox_row){
        .number = (uint32_t)sqlite3_column_int64(statement, 0),
        .origin = (enum inbox_origin)sqlite3_column_int64(statement, 1),
        .is_quiet = sqlite3_column_int64(statement, 2) != 0,
        .is_gone = sqlite3_column_int64(statement, 3) != 0,
        .record_ms = sqlite3_column_int64(statement, 4),
        .changed_ms = sqlite3_column_int64(statement, 5),
        .id = column_text(statement, 6),
        .address = column_text(statement, 7),
        .name = column_text(statement, 8),
        .json = sqlite3_column_blob(statement, 9),
        .json_len = (size_t)sqlite3_column_bytes(statement, 9),
    };
    return ret->id != NULL && ret->name != NULL && ret->name[0] != '\0' && ret->json != NULL &&
           sqlite3_column_int64(statement, 10) == hash_inbox(ret);
}

static bool read_email(sqlite3_stmt *statement, struct email_row *ret)
{
    *ret = (struct email_row){
        .number = (uint32_t)sqlite3_column_int64(statement, 0),
        .inbox = (uint32_t)sqlite3_column_int64(statement, 1),
        .json_len = (uint32_t)sqlite3_column_int64(statement, 2),
        .line_len = (uint32_t)sqlite3_column_int64(statement, 3),
        .date_ms = sqlite3_column_int64(statement, 4),
        .seen_ms = sqlite3_column_int64(statement, 5),
        .is_held = sqlite3_column_int64(statement, 6) != 0,
        .is_gone = sqlite3_column_int64(statement, 7) != 0,
        .text = (uint64_t)sqlite3_column_int64(statement, 8),
        .key = column_text(statement, 9),
        .name = column_text(statement, 10),
    };
    return ret->key != NULL && ret->name != NULL && ret->name[0] != '\0' &&
           (ret->text & RECORDS_IN_MEMORY) == 0 && sqlite3_column_int64(statement, 11) == hash_email(ret);
}

/* Visits each row of a statement. What is damaged is passed over and noted. Nobody else uses the file yet. */
static int visit_inboxes(struct records *records, const struct records_visitor *visitor, bool *ret_has_gone)
{
    sqlite3_stmt *statement;
    struct inbox_row row;
    int error = 0;
    int more = statements_begin(&records->file->statements, NUMBER(records, LIST_INBOXES), &statement, "");
    for (; more > 0 && error == 0; more = query_step(statement)) {
        if (!read_inbox(statement, &row))
            state_file_note(records->file, -EUCLEAN);
        else
            error = visitor->visit_inbox(visitor->context, &row);
        *ret_has_gone |= row.is_gone;
    }
    statements_end(statement);
    return error != 0 ? error : more;
}

/* From this number on. *number moves on behind the last that was visited. 0; *ret_error: what the visitor
 * returned; -errno: what follows cannot be read. */
static int visit_emails_from(struct records *records, const struct records_visitor *visitor, int64_t *number,
                             bool *ret_has_gone, int *ret_error)
{
    sqlite3_stmt *statement;
    struct email_row row;
    int more =
        statements_begin(&records->file->statements, NUMBER(records, LIST_EMAILS), &statement, "i", *number);
    for (; more > 0 && *ret_error == 0; more = query_step(statement)) {
        *number = sqlite3_column_int64(statement, 0) + 1;
        if (!read_email(statement, &row)) {
            state_file_note(records->file, -EUCLEAN);
            continue;
        }
        if (row.text >= records->next_text)
            records->next_text = row.text + 1;
        *ret_error = visitor->visit_email(visitor->context, &row);
        *ret_has_gone |= row.is_gone;
    }
    statements_end(statement);
    return more;
}

/* A page that cannot be read costs what stood there: what is behind it is found by larger and larger steps.
 */
static int visit_emails(struct records *records, const struct records_visitor *visitor, bool *ret_has_gone)
{
    int64_t number = 0;
    int64_t step = 1;
    int error = 0;
    while (number <= UINT32_MAX) {
        int64_t before = number;
        int result = visit_emails_from(records, visitor, &number, ret_has_gone, &error);
        if (result >= 0 || result == -ENOMEM || error != 0)
            return error != 0 ? error : result;
        state_file_note(records->file, -EUCLEAN);
        step = number > before ? 1 : 2 * step;
        number += step;
    }
    return 0;
}

/* Emails that went, and inboxes, with all of theirs. What the disk does not take now is done at another
 * start: a full disk is no damage. */
static void delete_gone(struct records *records)
{
    int error = records_begin(records);
    if (error != 0)
        return;
    for (enum statement statement = REPLACE_GONE; statement <= DELETE_GONE_INBOXES && error == 0; statement++)
        error = state_file_execute(records->file, NUMBER(records, statement), "");
    if (error == 0)
        (void)records_commit(records);
    else
        records_abandon(records);
}

static int64_t get_mark(struct records *records, const char *name)
{
    int64_t value = 0;
    int error =
        statements_integers(&records->file->statements, NUMBER(records, GET_MARK), &value, 1, "s", name);
    return state_file_note(records->file, error) == 0 ? value : 0;
}

static int make_identity(struct records *records)
{
    int error = random_bytes(&records->identity, sizeof(records->identity));
    if (error == 0)
        error = records_begin(records);
    if (error != 0)
        return error;
    error = records_put_marks(records);
    if (error == 0)
        return records_commit(records);
    records_abandon(records);
    return error;
}

static void load_marks(struct records *records)
{
    int64_t last = 0;
    records->first_sync_done = get_mark(records, mark_first_sync) != 0;
    records->identity = get_mark(records, mark_identity);
    if (records->identity == 0 && make_identity(records) != 0)
        records->identity = 0;
    int error = statements_integers(&records->file->statements, NUMBER(records, LAST_TEXT), &last, 1, "");
    if (error != 0)
        state_file_note(records->file, -EUCLEAN);
    records->next_text = (uint64_t)last + 1; /* or behind those of the emails */
}

static bool is_wasteful(sqlite3 *db)
{
    int64_t pages = 0;
    int64_t free_pages = 0;
    return query_integer(db, &pages, "PRAGMA page_count", "") == 0 &&
           query_integer(db, &free_pages, "PRAGMA freelist_count", "") == 0 &&
           free_pages > FREE_PAGES_ALLOWED && free_pages > pages / 2;
}

/* Where most of the file holds nothing, it is written anew. Nobody else uses it yet. */
static void compact(struct state_file *file)
{
    if (file->db == NULL || !is_wasteful(file->db))
        return;
    if (state_file_note(file, query_execute(file->db, "VACUUM", "")) == 0)
        (void)query_execute(file->db, "PRAGMA wal_checkpoint (TRUNCATE)", "");
}

int records_load(struct records *records, struct state_file *file, enum records_list list,
                 const struct records_visitor *visitor)
{
    bool has_gone = false;
    *records = (struct records){.file = file, .list = list, .next_text = 1, .has_replaced = true};
    records->generation = atomic_load(&file->generation);
    if (file->db == NULL)
        return 0;
    load_marks(records);
    int error = visit_inboxes(records, visitor, &has_gone);
    if (error == 0 && has_gone)
        delete_gone(records);
    has_gone = false;
    if (error == 0)
        error = visit_emails(records, visitor, &has_gone);
    if (error == 0 && has_gone)
        delete_gone(records);
    if (error != 0 && error != -ENOMEM && error != -EOVERFLOW) {
        /* What was read is kept: it is written to a new file. */
        state_file_note(file, -EUCLEAN);
        error = 0;
    }
    /* Numbers that a power cut took back were given before, perhaps: the search index may know of them. */
    records->next_text += TEXTS_LOST_MAX;
    records_clean(records);
    compact(file);
    return error;
}

void records_release(struct records *records)
{
    struct kept_text *kept;
    for (size_t position = 0; (kept = map_next(&records->in_memory, &position)) != NULL;)
        free(kept);
    map_release(&records->in_memory);
}
