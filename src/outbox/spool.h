/* SPDX-License-Identifier: MIT */
/*
 * The spool on disk: a folder with one database, which has a row for each item, and a plain file NUMBER.data
 * for each content. It knows rows and files and their durability, not what may follow what.
 *
 * Model. A *turn* is a transaction: what is saved between spool_begin() and spool_end() is durable with its
 * end, all of it or nothing; turns of several threads share an fsync (sql/database.h). A content is made
 * before a row refers to it, and removed after no row does, so a content without a row is what a crash left
 * behind. A row of an item without content says the opposite: the file was never moved in, or was moved out.
 *
 * All functions wait for the disk, but spool_take_number() and spool_dir_fd(), and may be called from any
 * thread, with outbox->lock not held.
 */
#ifndef INBOXFS_OUTBOX_SPOOL_H
#define INBOXFS_OUTBOX_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "outbox/item.h"
#include "sql/database.h"

struct spool;

/* Makes or opens the folder "spool". Returns 0 or -errno, with *ret_reason in words (the caller frees):
 * -EPROTO: it is of another version of the program; -EUCLEAN: its database is damaged or foreign. */
int spool_open(int state_dir_fd, struct spool **ret_spool, char **ret_reason);
/* NULL-safe. No turn may be open. */
void spool_free(struct spool *spool);
/* Returns the folder's descriptor, which is the spool's. */
int spool_dir_fd(const struct spool *spool);

/* Returns a number that was never given before, once spool_end() has saved it or a greater one. */
uint64_t spool_take_number(struct spool *spool);
/* Makes later numbers greater than this one. */
void spool_skip_number(struct spool *spool, uint64_t number);

/* ---------------------------------------------------------------- rows */

/* Begins a turn, which the same thread ends. Returns 0 or -errno: there is no turn. */
int spool_begin(struct spool *spool, struct connection **ret_turn);
/* Ends it: durable when this returns 0, undone where `error` is set or this fails. */
int spool_end(struct spool *spool, struct connection *turn, int error);

/* In a turn: inserts or replaces a row with its pieces; removes one; records the request of a message (NULL:
 * there is none); adds an email to the count of the day; remembers what the pool calls a file. All return 0
 * or -errno. */
int spool_save_row(struct connection *turn, const struct row *row);
int spool_remove_row(struct connection *turn, uint64_t number);
int spool_save_request(struct connection *turn, uint64_t number, const char *request);
int spool_count_sent(struct connection *turn, int64_t day);
int spool_save_pool_id(struct connection *turn, const struct piece *piece);

/* Returns the id under which the pool has a file of this digest and name, as far as is known; the caller
 * frees. NULL: none, or the database does not say. */
char *spool_find_pool_id(struct spool *spool, const char *digest, const char *name);
/* The pool has forgotten it. */
void spool_forget_pool_id(struct spool *spool, const char *pool_id);

/* Reads the recorded request (the caller frees; NULL: there is none). Returns 0 or -errno. */
int spool_read_request(struct spool *spool, uint64_t number, char **ret_request);
/* Reads what was saved of the spool itself. Returns 0 or -errno. */
struct spool_head {
    bool is_taken_over; /* so is what an older version, or a database that was moved away, left in the folder
                         */
    uint64_t next_number;
    int64_t day;  /* UTC, days since 1970 */
    int64_t sent; /* that day */
};
int spool_read_head(struct spool *spool, struct spool_head *ret);

/* Calls `visit` with each row, in order of position; it takes the row over. Its error ends the walk. Returns
 * 0, that error, or -errno. */
int spool_load(struct spool *spool, int (*visit)(void *context, struct row *row), void *context);

/* In a turn: the older files were taken over. Returns 0 or -errno. */
int spool_set_taken_over(struct connection *turn);

/* ---------------------------------------------------------------- contents */

/* `flags` as open(2); the caller closes *ret_fd. The name of one that this makes is not durable yet. */
int spool_open_content(struct spool *spool, uint64_t number, int flags, int *ret_fd);
/* Reads all of it (the caller frees). -EFBIG: it is longer than `max_bytes`. */
int spool_read_content(struct spool *spool, uint64_t number, size_t max_bytes, char **ret_bytes,
                       size_t *ret_len);
int spool_stat_content(struct spool *spool, uint64_t number, struct stat *ret_status);
/* Makes all names of contents durable that were made or removed before. */
int spool_sync_names(struct spool *spool);
/* Gives the content a second number: by a link, or by a durable copy. The name is not durable yet. */
int spool_link_content(struct spool *spool, uint64_t number, uint64_t to);
/* If another number links to the same content, copies it, so that `number` has a file of its own.
 * Descriptors that were opened before stay with the shared file. *ret_is_renewed says whether it copied. */
int spool_renew_content(struct spool *spool, uint64_t number, bool *ret_is_renewed);
/* Renames a file in, to be the content of `number`: durable in both folders. If it fails, the file is
 * where it was. */
int spool_take_in(struct spool *spool, uint64_t number, int dir_fd, const char *name);
/* Renames the content of `number` out, durably. `flags`: RENAME_NOREPLACE or 0. */
int spool_take_out(struct spool *spool, uint64_t number, int dir_fd, const char *name, unsigned int flags);
/* Removes the content durably. Returns 0 or -errno: it may be there. */
int spool_unlink_content(struct spool *spool, uint64_t number);
/* Removes one that no row has; a failure is logged, for the next start removes it. */
void spool_remove_content(struct spool *spool, uint64_t number);
/* Removes the contents of pieces of `from` that `except` does not have, which may be NULL. */
void spool_remove_pieces(struct spool *spool, const struct row *from, const struct row *except);

/* Walks over the folder's files: *ret_number is a content's, or 0 for another file. Its error ends the walk.
 */
int spool_scan(struct spool *spool, int (*visit)(void *context, const char *name, uint64_t number),
               void *context);
/* Moves a file into the folder "quarantine", under another name where its own is taken there, and logs why.
 */
void spool_quarantine(struct spool *spool, const char *name, const char *why);

#endif
