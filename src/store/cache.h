/* SPDX-License-Identifier: MIT */
/*
 * The cache: one database, cache/mail.sqlite3, of everything that the service can be asked for again. A user
 * may delete it while the program is not running.
 *
 * - inboxes: a row each, with its record. Sent mail is in an inbox of its own, which nobody sees as one.
 * - emails: a narrow row each, with all that the index in memory (index.h) needs. Its number is the email's.
 * - records: the records of emails as text, by numbers of their own. A record that changes becomes a new row;
 *   the row before is listed in replaced_records, and deleted when no open index.jsonl can need it any more
 *   (cache_clean()).
 * - search: the full-text index, by the numbers of emails, and search_pending, the emails whose row in it is
 *   to be made or changed (search_index.h).
 * - parts and part_bytes: what emails hold, as far as it was fetched (content_cache.h).
 * - message_ids: which emails a Message-ID names (message_ids.h).
 *
 * Rows that belong together are written in one turn (sql/database.h): none of these contradicts another after
 * a kill or a power cut. Each row of inboxes, emails and records has a hash of what is in it, because SQLite
 * does not notice a changed byte in a value.
 *
 * A file that is damaged, foreign or of a newer version is set aside and filled anew. Damage that is found
 * later is noted (cache_note()), and the next sync has the database made anew (index_renew_cache()).
 */
#ifndef INBOXFS_STORE_CACHE_H
#define INBOXFS_STORE_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sql/database.h"

/* The statements of each connection to the cache (struct statements). */
enum cache_statement {
    CACHE_PUT_INBOX,
    CACHE_LIST_INBOXES,
    CACHE_PUT_EMAIL,
    CACHE_DELETE_EMAIL,
    CACHE_LIST_EMAILS,
    CACHE_ADD_RECORD,
    CACHE_READ_RECORD,
    CACHE_READ_RECORDS_FORWARDS,
    CACHE_READ_RECORDS_BACKWARDS,
    CACHE_LAST_RECORD,
    CACHE_NOTE_REPLACED,
    CACHE_DELETE_REPLACED,
    CACHE_FORGET_REPLACED,
    CACHE_HAS_GONE,
    CACHE_UNINDEX_GONE, /* with the next three, in this order: cache_load() */
    CACHE_REPLACE_GONE,
    CACHE_DELETE_GONE_EMAILS,
    CACHE_DELETE_GONE_INBOXES,
    CACHE_SET_MARK,
    CACHE_GET_MARK,
    CACHE_NOTE_UNINDEXED,
    CACHE_NOTE_CONTENT,
    CACHE_KNOWS_CONTENT,
    CACHE_NEXT_UNINDEXED,
    CACHE_FORGET_UNINDEXED,
    CACHE_INDEX_EMAIL,
    CACHE_REINDEX_RECORD,
    CACHE_UNINDEX_EMAIL,
    CACHE_READ_PART,
    CACHE_FIND_PART,
    CACHE_GET_PART_LEN,
    CACHE_HAS_PART_FILE,
    CACHE_ADD_PART,
    CACHE_ADD_PART_BYTES,
    CACHE_USE_PART,
    CACHE_DELETE_PART,
    CACHE_DELETE_PART_BYTES,
    CACHE_COUNT_PARTS,
    CACHE_COUNT_PARTS_OF,
    CACHE_LIST_PARTS,
    CACHE_FIND_MESSAGE_ID,
    CACHE_ADD_MESSAGE_ID,
    CACHE_TRIM_MESSAGE_IDS,
};

struct cache {
    struct database *database;
    atomic_bool is_damaged; /* set by whoever finds damage, cleared by cache_renew() */
    atomic_uint renewals;   /* how often it was made anew */
};

/* Opens or makes the database in the directory `dir_fd` (waits for the disk). 0 or -errno: a full disk, no
 * right to the file, another process has it open. */
int cache_open(struct cache *cache, int dir_fd);
/* All zeros are fine, too. Waits for the disk. */
void cache_release(struct cache *cache);

/* Returns 64 bits of a digest of the text, as a key of a table: nobody can make another text with the same.
 */
int64_t cache_digest(const char *text);

/* Returns `error`; -EUCLEAN is remembered as damage, and returned as -EIO. From any thread. */
int cache_note(struct cache *cache, int error);

/* Sets the damaged database aside and makes an empty one (waits for the disk). 0 or -errno: every use of the
 * cache fails until this is called again. */
int cache_renew(struct cache *cache);

/* Begins and ends a turn to write (database_begin_write(), database_end_write()), with errors noted as damage
 * where they are. */
int cache_begin_write(struct cache *cache, struct connection **ret_connection);
int cache_end_write(struct cache *cache, int error);

/* ---------------------------------------------------------------- rows */

/* How an inbox became known; a higher one replaces a lower one. */
enum inbox_origin {
    INBOX_OF_SENT,    /* holds the mail that was sent */
    INBOX_OF_NO_NAME, /* collects mail that names no inbox */
    INBOX_FROM_MAIL,  /* named by mail */
    INBOX_CREATED,    /* made here */
    INBOX_LISTED,     /* the service lists it */
};

struct inbox_row {
    uint32_t number;
    enum inbox_origin origin;
    bool is_backfilling; /* its first complete list is still to come, and brings no new mail */
    bool is_gone;        /* the next start deletes it with its emails */
    int64_t record_ms;   /* when the record changed */
    int64_t changed_ms;  /* when the record, or the set of emails, changed */
    const char *id;
    const char *address; /* NULL: none */
    const char *name;    /* of its folder */
    const char *json;
    size_t json_len;
};

struct email_row {
    uint32_t number;
    uint32_t inbox; /* its number */
    uint32_t json_len;
    uint32_t line_len; /* in index.jsonl, without the file name: email_record.h */
    int64_t date_ms;
    int64_t seen_ms;  /* when this record was first seen */
    bool is_held;     /* the service holds it back: it is not shown with the others */
    uint64_t text;    /* number of its record */
    const char *key;  /* email_record.h */
    const char *name; /* of its file */
};

/* Called with each row, inboxes first, in order of their numbers. The texts are gone after the call. Non-zero
 * (-errno) ends the visit. */
struct cache_visitor {
    int (*visit_inbox)(void *context, const struct inbox_row *row);
    int (*visit_email)(void *context, const struct email_row *row);
    void *context;
};

/* Loaded beside the rows. */
struct cache_state {
    uint64_t next_text;      /* the number of the next record */
    bool is_first_sync_done; /* what the account held when it was first looked at is known */
};

/* Deletes inboxes that are gone, and records that were replaced, then reads all rows (waits for the disk).
 * Nobody else uses the cache yet. 0; -EUCLEAN: a row is not what was written; what the visitor returned; or
 * -errno. */
int cache_load(struct cache *cache, const struct cache_visitor *visitor, struct cache_state *ret_state);

/* These write, in a turn. 0 or -errno. */
int cache_put_inbox(struct connection *connection, const struct inbox_row *row);
int cache_put_email(struct connection *connection, const struct email_row *row);
int cache_delete_email(struct connection *connection, uint32_t number);
int cache_add_record(struct connection *connection, uint64_t text, const char *json, size_t len);
/* The record is no email's any more. */
int cache_note_replaced(struct connection *connection, uint64_t text);
int cache_set_first_sync_done(struct connection *connection, bool is_done);

/* Deletes the records that were replaced (waits for the disk). A deletion that fails is done another time. */
void cache_clean(struct cache *cache);

/* ---------------------------------------------------------------- records */

/* Reads a record of `len` bytes (waits for the disk, mostly for the page cache). The caller frees *ret_json,
 * which has a NUL behind it. 0; -ENOENT: there is none of this number; -ENOMEM; -EIO: it cannot be read. */
int cache_read_record(struct cache *cache, uint64_t text, size_t len, char **ret_json);

/* Reads records one after the other: one whose number is next to that of the record before is a step of
 * SQLite, not a lookup. */
struct record_reader {
    struct cache *cache;
    struct connection *connection; /* NULL: none can be had */
    sqlite3_stmt *rows;            /* NULL: none is being read */
    bool is_backwards;             /* the numbers fall */
    uint64_t next;                 /* the number of the row to come */
};
void record_reader_begin(struct record_reader *reader, struct cache *cache);
/* `is_backwards`: the numbers to come fall, as far as is known. *ret_json, without a NUL behind it, stays
 * until the next call. 0 or -EIO. */
int record_reader_read(struct record_reader *reader, uint64_t text, size_t len, bool is_backwards,
                       const char **ret_json);
void record_reader_end(struct record_reader *reader);

#endif
