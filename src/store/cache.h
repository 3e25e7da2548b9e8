/* SPDX-License-Identifier: MIT */
/*
 * The cache: one database, cache/mail.sqlite3, of data that can be fetched from the service again. A user
 * may delete it while the program is not running.
 *
 * - inboxes: one row for each inbox, with its record. Sent mail (STORE_SENT, index.h) has no row.
 * - emails: one narrow row for each email, with all that the index (index.h) needs. The row's number is
 *   the number of the email.
 * - records: the records of emails as text, with numbers of their own. A changed record is a new row; the old
 *   row is listed in replaced_records, and is deleted when no open index.jsonl needs it any more
 *   (cache_delete_replaced()).
 * - search, search_rows and search_pending: the full-text index (search_index.h).
 * - parts and part_bytes: fetched content (content_cache.h).
 * - message_ids: Message-IDs (64 bits of a digest) and the ids of their emails, so that an answer that is
 *   written in a mail program finds the answered email. The service's lists do not have Message-IDs, so a row
 *   is added when the content of an email is fetched: the mail program has read that content.
 *
 * Rows that belong together are written in one turn (sql/database.h), so that they agree after a kill or a
 * power cut. Each row of inboxes, emails and records has a hash of its values, because SQLite does not
 * notice a changed byte in a value.
 *
 * A file that is damaged, foreign or of a newer version is set aside, and a new file is filled. If damage is
 * found later (cache_report_error()), the next sync makes the database anew (index_renew_cache()).
 */
#ifndef INBOXFS_STORE_CACHE_H
#define INBOXFS_STORE_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sql/database.h"
#include "store/store.h"

struct cache {
    struct database *database;
    atomic_bool is_damaged; /* set by cache_report_error(), cleared by cache_renew() */
    atomic_uint renewals;   /* number of calls of cache_renew() */
};

/* Opens or makes the database in the directory `dir_fd` (waits for the disk). Return: 0; -errno when the disk
 * is full, the file may not be opened, or another process has it open. */
int cache_open(struct cache *cache, int dir_fd);
/* Accepts a zeroed struct. Waits for the disk. */
void cache_release(struct cache *cache);

/* Returns 64 bits of a SHA-256 digest of the text, as the key of a row. */
int64_t cache_digest(const char *text);

/* Returns `error`; for -EUCLEAN, marks the cache as damaged and returns -EIO. May be called from any thread.
 */
int cache_report_error(struct cache *cache, int error);

/* Sets the damaged database aside and makes an empty one (waits for the disk). Return: 0; -errno, after
 * which every use of the cache fails until a later call succeeds. */
int cache_renew(struct cache *cache);

/* Begin and end a turn to write (database_begin_write(), database_end_write()), and pass errors to
 * cache_report_error(). */
int cache_begin_write(struct cache *cache, struct connection **ret_connection);
int cache_end_write(struct cache *cache, int error);

/* ---------------------------------------------------------------- rows */

/* How an inbox became known; a higher value replaces a lower one. */
enum inbox_origin {
    INBOX_OF_SENT,    /* has the sent mail */
    INBOX_OF_NO_NAME, /* has the emails whose records name no inbox */
    INBOX_FROM_MAIL,  /* named by the record of an email */
    INBOX_CREATED,    /* created by this store */
    INBOX_LISTED,     /* listed by the service */
};

struct inbox_row {
    uint32_t number;
    enum inbox_origin origin;
    bool is_backfilling; /* until its first complete list, emails are not announced */
    bool is_gone;        /* the next start deletes the inbox with its emails */
    int64_t record_ms;   /* when the record last changed */
    int64_t changed_ms;  /* when the record, or the set of emails, last changed */
    const char *id;
    const char *address; /* NULL if not known */
    const char *name;    /* name of its folder */
    const char *json;
    size_t json_len;
};

/* Receives each row, inboxes first, in order of their numbers. Strings are valid during the call only. A
 * result of -errno ends the visit. */
struct cache_visitor {
    int (*visit_inbox)(void *context, const struct inbox_row *row);
    int (*visit_email)(void *context, const struct email_view *email, const char *key);
    void *context;
};

/* State that cache_load() reads beside the rows. */
struct cache_state {
    uint64_t next_record;    /* the number of the next record */
    bool is_first_sync_done; /* cache_set_first_sync_done() was called since the cache was made */
};

/* Deletes the inboxes that are gone, calls cache_delete_replaced(), then reads all rows (waits for the disk).
 * Call before other threads use the cache. Return: 0; -EUCLEAN when a row is damaged; the visitor's error;
 * -errno of SQLite. */
int cache_load(struct cache *cache, const struct cache_visitor *visitor, struct cache_state *ret_state);

/* Each writes a change in the caller's turn. Return: 0; -errno of SQLite. */
int cache_put_inbox(struct connection *connection, const struct inbox_row *row);
/* `key`: the service's id of the email, or a substitute (email_record.h). */
int cache_put_email(struct connection *connection, const struct email_view *email, const char *key);
int cache_delete_email(struct connection *connection, uint32_t number);
int cache_add_record(struct connection *connection, uint64_t record, const char *json, size_t len);
/* Lists in replaced_records a record that no email has any more. */
int cache_add_replaced(struct connection *connection, uint64_t record);
int cache_set_first_sync_done(struct connection *connection);
/* Makes the new or changed record of an email pending in the search index; or its content, unless the index
 * has that. A content that leaves its cache before it is indexed is not indexed. */
int cache_add_pending(struct connection *connection, uint32_t email, bool is_content);

/* A Message-ID may belong to several emails, one in each inbox that got the message. Senders choose
 * Message-IDs, so the number of emails for each is bounded. */
enum {
    CACHE_MESSAGE_IDS_MAX = 1000 * 1000, /* rows of message_ids; the oldest are deleted */
    CACHE_EMAILS_OF_MESSAGE_ID_MAX = 64, /* emails with one Message-ID; later ones are not added */
    CACHE_EMAIL_ID_MAX_BYTES = 255,      /* a longer id is not added */
};
int cache_add_message_id(struct connection *connection, const char *message_id, const char *email_id);

/* Deletes replaced records, and empties a search index of mostly outdated rows, so that all emails are
 * pending (waits for the disk). Ignores errors: a later call does it. */
void cache_delete_replaced(struct cache *cache);

/* ---------------------------------------------------------------- records */

/* Reads a record of `len` bytes, with a NUL after it (waits for the disk). The caller frees *ret_json.
 * Return: 0; -ENOENT when there is no such record; -ENOMEM; -EIO when the record is damaged or cannot be
 * read. */
int cache_read_record(struct cache *cache, uint64_t record, size_t len, char **ret_json);

/* Like cache_read_record(), for many records by a connection from database_begin_read(). `rows` is all zeros
 * before the first call; the caller ends it by query_end(). *ret_json has no NUL, and is borrowed until then
 * or the next call. The record before the last one is found quickest: a service lists its newest email first,
 * so that numbers fall where dates grow. */
int cache_find_record(struct cache *cache, struct connection *reader, struct statement *rows, uint64_t record,
                      size_t len, const char **ret_json);

#endif
