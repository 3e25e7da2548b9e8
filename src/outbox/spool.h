/* SPDX-License-Identifier: MIT */
/*
 * The spool on disk: a folder with one database, which has a row for each item, and a plain file NUMBER.data
 * for each content. The spool makes rows and files durable; item.c decides which state may follow which.
 *
 * Model. A *turn* is a transaction: spool_end() makes all rows saved since spool_begin() durable, or none.
 * Turns of several threads share an fsync (sql/database.h). A content is created before a row refers to it,
 * and removed after no row does: a crash may leave a content without a row. If a row has no content, its file
 * was never moved in, or was moved out.
 *
 * All functions but spool_take_number(), spool_skip_number() and spool_dir_fd() wait for the disk. Any thread
 * may call them, without outbox->lock. Functions that return int return 0 or -errno.
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

/* Creates or opens the folder "spool". Sets *ret_reason for the user on an error (the caller frees it).
 * -EPROTO: another version of the program made it; -EUCLEAN: its database is damaged or foreign. */
int spool_open(int state_dir_fd, struct spool **ret_spool, char **ret_reason);
/* Frees the spool. No turn may be open. NULL-safe. */
void spool_free(struct spool *spool);
/* Returns the folder's descriptor, which the spool owns. */
int spool_dir_fd(const struct spool *spool);

/* Returns a new number, which is never returned again once spool_end() has saved it or a greater number. */
uint64_t spool_take_number(struct spool *spool);
/* Makes all numbers that are taken later greater than `number`. */
void spool_skip_number(struct spool *spool, uint64_t number);

/* ---------------------------------------------------------------- rows */

/* Begins a turn, which the calling thread ends. On an error there is no turn. */
int spool_begin(struct spool *spool, struct connection **ret_turn);
/* Ends the turn. Makes it durable, or undoes it and returns an error, if `error` is set or the disk fails. */
int spool_end(struct spool *spool, struct connection *turn, int error);

/* In a turn: inserts or replaces a row with its pieces; removes a row; records the request of a message (NULL
 * removes it); counts one more email sent on `day`; records the pool's id of a file. */
int spool_save_row(struct connection *turn, const struct row *row);
int spool_remove_row(struct connection *turn, uint64_t number);
int spool_save_request(struct connection *turn, uint64_t number, const char *request);
int spool_count_sent(struct connection *turn, int64_t day);
int spool_save_pool_id(struct connection *turn, const struct piece *piece);

/* Returns the recorded pool id of a file of this digest and name (the caller frees it); NULL if there is none
 * or the database fails. */
char *spool_find_pool_id(struct spool *spool, const char *digest, const char *name);
/* Deletes a recorded id that the pool no longer has. */
void spool_forget_pool_id(struct spool *spool, const char *pool_id);

/* Reads the recorded request of a message (the caller frees it); NULL if there is none. */
int spool_read_request(struct spool *spool, uint64_t number, char **ret_request);
/* Reads the saved state of the spool itself. */
struct spool_head {
    bool is_taken_over; /* migration_run() has converted the older files */
    uint64_t next_number;
    int64_t day;  /* UTC, days since 1970 */
    int64_t sent; /* emails sent on that day */
};
int spool_read_head(struct spool *spool, struct spool_head *ret);

/* Calls `visit` with each row, in order of position; a sent message has no pieces. `visit` may take ownership
 * of the row's members, and sets them to NULL. An error of `visit` ends the walk and is returned. */
int spool_load(struct spool *spool, int (*visit)(void *context, struct row *row), void *context);

/* ---------------------------------------------------------------- contents */

/* Opens a content; `flags` as open(2). The caller closes *ret_fd. A new file's name is not durable. */
int spool_open_content(struct spool *spool, uint64_t number, int flags, int *ret_fd);
/* Reads a content (the caller frees *ret_bytes). -EFBIG: it is longer than `max_bytes`. */
int spool_read_content(struct spool *spool, uint64_t number, size_t max_bytes, char **ret_bytes,
                       size_t *ret_len);
int spool_stat_content(struct spool *spool, uint64_t number, struct stat *ret_status);
/* Makes durable the names of all contents that were created or removed so far. */
int spool_sync_names(struct spool *spool);
/* Links the content to a second number, or makes a durable copy. The new name is not durable yet. */
int spool_link_content(struct spool *spool, uint64_t number, uint64_t to);
/* Copies the content if another number shares its file, and then sets *ret_is_renewed. Descriptors that were
 * opened before the call still refer to the shared file. */
int spool_renew_content(struct spool *spool, uint64_t number, bool *ret_is_renewed);
/* Renames a file into the spool as the content of `number`, durably in both folders. On an error the file
 * stays where it was. */
int spool_move_in(struct spool *spool, uint64_t number, int dir_fd, const char *name);
/* Renames the content out of the spool. Only logs if an fsync fails. `flags`: RENAME_NOREPLACE or 0. */
int spool_move_out(struct spool *spool, uint64_t number, int dir_fd, const char *name, unsigned int flags);
/* Removes the content durably. After an error the content may still exist. */
int spool_unlink_content(struct spool *spool, uint64_t number);
/* Removes a content that no row has. Logs a failure; the next start then removes the content. */
void spool_discard_content(struct spool *spool, uint64_t number);
/* Removes the contents of the pieces of `from` that `except` (may be NULL) does not have. */
void spool_remove_pieces(struct spool *spool, const struct row *from, const struct row *except);

/* Calls `visit` with each file but the database, the version and the quarantine; `number` is 0 unless the
 * file is a content. An error of `visit` ends the walk. */
int spool_scan(struct spool *spool, int (*visit)(void *context, const char *name, uint64_t number),
               void *context);
/* Moves a file into the folder "quarantine", under another name if its own is taken there, and logs `why`. */
void spool_quarantine(struct spool *spool, const char *name, const char *why);

#endif
