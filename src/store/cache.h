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
 * - search: the full-text index, by the numbers of emails (search_index.h).
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
    CACHE_INDEX_EMAIL,
    CACHE_REINDEX_EMAIL,
    CACHE_UNINDEX_EMAIL,
    CACHE_HAS_CONTENT,
    CACHE_INDEX_CONTENT,
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

/* Opens or makes the database in the directory `dir_fd`, and removes the files that version 0.2 kept there
 * (waits for the disk). 0 or -errno: a full disk, no right to the file, another process has it open. */
int cache_open(struct cache *cache, int dir_fd);
/* All zeros are fine, too. Waits for the disk. */
void cache_release(struct cache *cache);

/* Returns `error`; -EUCLEAN is remembered as damage, and returned as -EIO. From any thread. */
int cache_note(struct cache *cache, int error);

/* Sets the damaged database aside and makes an empty one (waits for the disk). 0 or -errno: every use of the
 * cache fails until this is called again. */
int cache_renew(struct cache *cache);

/* Begins and ends a turn to write (database_begin_write(), database_end_write()), with errors noted as damage
 * where they are. */
int cache_begin_write(struct cache *cache, struct connection **ret_connection);
int cache_end_write(struct cache *cache, int error);

#endif
