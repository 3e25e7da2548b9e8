/* SPDX-License-Identifier: MIT */
/*
 * An append-only file of records. A record is known by its position, which never becomes another's, and is
 * read from the file each time somebody looks at it. It is never mapped: what another program cuts off, or a
 * disk cannot read, is an error of that one read, where it would be a signal that ends the program.
 *
 * The file is a cache. It is repaired when it is damaged (intact records are kept), set aside when it is of
 * another version or none of ours, and where it cannot be written (full, read-only) records live in memory
 * alone. Nothing of that is an error.
 *
 * On disk: a header, then frames aligned to 8 bytes: length, kind, checks, payload. In the machine's byte
 * order, which the header names.
 */
#ifndef INBOXFS_STORE_RECORD_LOG_H
#define INBOXFS_STORE_RECORD_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    RECORD_KIND_MAX = 15,
    RECORD_PAYLOAD_MAX_BYTES = 64 * 1024 * 1024,
};

/* Where the payload of a record is. Positions in the file grow in the order of appending; those in memory are
 * beyond all of them. */
#define RECORD_IN_MEMORY (UINT64_C(1) << 63)
#define RECORD_NOWHERE UINT64_MAX

struct record_log;

/* Called for each intact record, in the order of appending. `payload` is aligned to 8 bytes and gone after
 * the call. Non-zero (-errno) ends the visit. */
typedef int (*record_visitor)(void *context, unsigned int kind, const void *payload, size_t len,
                              uint64_t position);

/* Opens or makes `name` (borrowed until record_log_free()) in `dir_fd` and visits what it holds (waits for
 * the disk). 0, -ENOMEM, or what the visitor returned. */
int record_log_open(int dir_fd, const char *name, record_visitor visitor, void *context,
                    struct record_log **ret_log);

/* Writes what is not on the disk yet (waits for it), and frees. NULL-safe. */
void record_log_free(struct record_log *log);

/* Records put together in memory, to be appended with one write. */
struct record_batch { /* empty: all zeros */
    char *bytes;
    size_t len;
    size_t capacity;
};

/* Adds a record, its payload gathered from `parts`; *ret_offset is where that is going to be, seen from what
 * record_log_append_batch() returns. 0, -ENOMEM, -EMSGSIZE (past RECORD_PAYLOAD_MAX_BYTES, or no such kind).
 */
int record_batch_add(struct record_batch *batch, unsigned int kind, const struct iovec *parts,
                     size_t parts_len, size_t *ret_offset);
/* Empties it; memory for a usual one is kept. */
void record_batch_clear(struct record_batch *batch);
void record_batch_release(struct record_batch *batch);

/* Appends all that is in the batch. One caller at a time. Returns the position that its offsets count from,
 * or RECORD_NOWHERE without memory. */
uint64_t record_log_append_batch(struct record_log *log, const struct record_batch *batch);

/* The same for what must not be lost: on the disk when it returns 0 (waits for it). Else -errno, and nothing
 * was appended. */
int record_log_append_durably(struct record_log *log, const struct record_batch *batch);

/* Appends one record, its payload gathered from `parts`. One caller at a time. Returns its position;
 * RECORD_NOWHERE without memory or past RECORD_PAYLOAD_MAX_BYTES. */
uint64_t record_log_append(struct record_log *log, unsigned int kind, const struct iovec *parts,
                           size_t parts_len);

/* Reads a record of `len` bytes again (waits for the disk, mostly for the page cache). Any thread, also while
 * others append. The payload is aligned to 8 bytes; the caller frees it. 0, -ENOMEM, or -EIO: it cannot be
 * read, is damaged, or was discarded. */
int record_log_read(const struct record_log *log, uint64_t position, size_t len, void **ret_payload);

/* A piece of the log, for whoever reads many records that may lie side by side, forwards or backwards. */
struct record_window { /* empty: all zeros */
    char *bytes;
    size_t capacity;
    uint64_t start; /* position of bytes[0] */
    size_t len;
};

/* The same through a window of the caller's, which *ret_payload points into until the next call. */
int record_window_read(struct record_window *window, const struct record_log *log, uint64_t position,
                       size_t len, const void **ret_payload);
void record_window_release(struct record_window *window);

/* Bytes of the file that hold records, intact or not. */
uint64_t record_log_bytes(const struct record_log *log);

/* Positions in the file so far are all below this. */
uint64_t record_log_end(const struct record_log *log);

/* Tells this file from any other that had its name, or 0: there is none. */
int64_t record_log_identity(const struct record_log *log);

/* What one record of `payload_len` bytes takes in the file. */
uint64_t record_log_frame_bytes(size_t payload_len);

/* Gives back the disk space of records that lie side by side and no longer count: `bytes` (of
 * record_log_frame_bytes()) from the one at `position`. They are not visited again, and to read them is an
 * error. 0 or -errno: the space stays taken. */
int record_log_discard(struct record_log *log, uint64_t position, uint64_t bytes);

/* Makes the file durable. 0 or -errno: the error that keeps records from the disk. */
int record_log_sync(struct record_log *log);

#endif
