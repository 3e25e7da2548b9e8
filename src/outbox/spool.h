/* SPDX-License-Identifier: MIT */
/*
 * The spool on disk: a flat folder with NUMBER.data (content) and NUMBER.json (envelope) for each item. Knows
 * files and their durability, not states. What "durable" says below has reached the disk when the function
 * returns 0; all functions wait for the disk and may be called from any thread.
 */
#ifndef INBOXFS_OUTBOX_SPOOL_H
#define INBOXFS_OUTBOX_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct spool;

/* Makes or opens the folder "spool". 0 or -errno; -EPROTO: it is of a newer version of the program.
 * *ret_reason in words on failure (caller frees). */
int spool_open(int state_dir_fd, struct spool **ret_spool, char **ret_reason);
/* NULL-safe. */
void spool_free(struct spool *spool);

/* The next number: never given before in this spool, whatever was removed since. */
int spool_take_number(struct spool *spool, uint64_t *ret_number);

/* ---- envelopes */

/* Replaces the envelope, durably. Where that fails, the old one is there; but on a filesystem that cannot
 * exchange names, it may be the new one. */
int spool_write_envelope(struct spool *spool, uint64_t number, const char *text, size_t len);
int spool_read_envelope(struct spool *spool, uint64_t number, char **ret_text, size_t *ret_len);

/* ---- content */

/* A new item: an empty content file, opened for reading and writing, and its envelope. Neither is durable. */
int spool_create(struct spool *spool, uint64_t number, const char *envelope, size_t len, int *ret_fd);
/* Makes a new item's content, envelope and names durable. */
int spool_sync_new(struct spool *spool, uint64_t number, int data_fd);
/* `flags` as open(2); the caller closes *ret_fd. */
int spool_open_data(struct spool *spool, uint64_t number, int flags, int *ret_fd);
/* The whole content; -EFBIG when it is longer than `max_bytes`. */
int spool_read_data(struct spool *spool, uint64_t number, size_t max_bytes, char **ret_bytes,
                    size_t *ret_len);
/* Makes a durable copy of the content of `number`, with its times, to be the content of `to`. */
int spool_copy_data(struct spool *spool, uint64_t number, uint64_t to);
/* Whether the content has two names: version 0.1 of the program ended while it split an attachment in two. */
bool spool_shares_data(struct spool *spool, uint64_t number);

/* Renames a file in, to be the content of `number`: durable in both folders. When it fails, the file is where
 * it was. */
int spool_take_in(struct spool *spool, uint64_t number, int dir_fd, const char *name);
/* Renames the content of `number` out. `flags`: RENAME_NOREPLACE or 0. */
int spool_take_out(struct spool *spool, uint64_t number, int dir_fd, const char *name, unsigned int flags);

/* Whether the content is there, as far as the disk says. */
bool spool_has_data(struct spool *spool, uint64_t number);
/* Removes the content alone. */
int spool_remove_data(struct spool *spool, uint64_t number);
/* Removes content and envelope, in that order; what is not there is no error. */
int spool_remove(struct spool *spool, uint64_t number);

/* ---- all of it */

struct spool_item {
    uint64_t number;
    char *envelope; /* the visitor may take it (TAKE_PTR); NULL: there is none */
    size_t envelope_len;
    bool has_data;
    off_t size;
    struct timespec mtime;
};

/* Calls `visit` for each number that has a content or an envelope, in no order. Files that are none of the
 * spool's are moved into its folder "quarantine" and logged, leftovers of unfinished writes removed. An error
 * of `visit` ends the walk. */
int spool_visit(struct spool *spool, int (*visit)(void *context, struct spool_item *item), void *context);
/* Moves what there is of an item into "quarantine" and logs why. */
void spool_set_aside(struct spool *spool, uint64_t number, const char *why);
/* Makes later numbers greater than this one. */
void spool_skip_number(struct spool *spool, uint64_t number);

/* ---- the count of the day */

/* One line, written in place (one sector: old or new after a crash). */
int spool_read_count(struct spool *spool, int64_t *ret_day, int64_t *ret_count);
int spool_write_count(struct spool *spool, int64_t day, int64_t count, bool is_durable);

#endif
