/* SPDX-License-Identifier: MIT */
/*
 * The record log. What the disk does not take goes into blocks of memory; the position of a record there is
 * its address, with the bit that tells it from those in the file.
 */
#include "store/record_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "store/record_frame.h"
#include "store/record_scan.h"

enum {
    FORMAT_VERSION = 3,
    BYTE_ORDER_MARK = 0x01020304,
    WINDOW_BYTES = 64 * 1024,
};

struct log_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
};

struct heap_block {
    struct heap_block *next;
    char bytes[] __attribute__((aligned(RECORD_FRAME_ALIGNMENT)));
};

struct record_log {
    const char *name;           /* of the file, for words to the user; borrowed */
    int fd;                     /* -1: records live in memory alone */
    size_t end;                 /* where the next frame goes */
    struct record_batch single; /* a record being put together */
    int disk_error;             /* 0, or why the last record did not reach the disk */
    struct heap_block *heap;
};

static const char magic[8] = "inboxfs";

uint64_t record_log_frame_bytes(size_t payload_len)
{
    return record_frame_bytes(payload_len);
}

/* ---------------------------------------------------------------- opening */

static bool header_is_ours(int fd)
{
    struct log_header header;
    return file_pread_all(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
           memcmp(header.magic, magic, sizeof(magic)) == 0 && header.version == FORMAT_VERSION &&
           header.byte_order == BYTE_ORDER_MARK;
}

static int write_header(int fd)
{
    struct log_header header = {.version = FORMAT_VERSION, .byte_order = BYTE_ORDER_MARK};
    memcpy(header.magic, magic, sizeof(magic));
    return file_pwrite_all(fd, &header, sizeof(header), 0);
}

/* Whatever has the name and cannot be used keeps its content under another name. */
static void set_aside(int dir_fd, const char *name)
{
    char aside[NAME_MAX + 1];
    int length = snprintf(aside, sizeof(aside), "%s.set-aside", name);
    if (length < 0 || (size_t)length >= sizeof(aside))
        return;
    if (renameat(dir_fd, name, dir_fd, aside) == 0)
        log_warning("the state file %s cannot be read and is set aside as %s; it is built anew", name, aside);
}

static int open_existing(int dir_fd, const char *name)
{
    _cleanup_close_ int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;
    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (!S_ISREG(status.st_mode) || (status.st_size != 0 && !header_is_ours(fd)))
        return -EBADMSG;
    return TAKE_FD(fd);
}

/* The file, with its header, or -errno: it cannot be had. */
static int open_file(int dir_fd, const char *name)
{
    _cleanup_close_ int fd = open_existing(dir_fd, name);
    if (fd < 0 && fd != -ENOENT) {
        set_aside(dir_fd, name);
        fd = -ENOENT;
    }
    if (fd == -ENOENT)
        fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int error = header_is_ours(fd) ? 0 : write_header(fd);
    return error != 0 ? error : TAKE_FD(fd);
}

static void give_up_file(struct record_log *log, int error)
{
    log_warning("the state file %s cannot be kept on disk: %s", log->name, strerror(-error));
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
    log->disk_error = error;
}

/* Visits what is there, and cuts off what cannot be read behind it. -errno of the visitor. */
static int read_file(struct record_log *log, record_visitor visitor, void *context)
{
    struct stat status;
    if (fstat(log->fd, &status) != 0 || status.st_size < 0) {
        give_up_file(log, -EIO);
        return 0;
    }
    size_t file_bytes = (size_t)status.st_size;
    struct record_scan scan = {.fd = log->fd, .bytes = file_bytes, .end = log->end};
    int error = record_scan_run(&scan, visitor, context);
    log->end = scan.end;
    if (error == 0 && scan.damaged > 0)
        log_warning("the state file %s was damaged in %zu places; what is intact is kept", log->name,
                    scan.damaged);
    if (scan.unreadable > 0) {
        /* It may be readable the next time: nothing is cut off, and nothing written over it. */
        log_warning("the disk cannot read all of the state file %s; what it can is kept", log->name);
        log->end = (file_bytes + RECORD_FRAME_ALIGNMENT - 1) & ~(size_t)(RECORD_FRAME_ALIGNMENT - 1);
    }
    if (error == 0 && file_bytes > log->end && ftruncate(log->fd, (off_t)log->end) != 0)
        give_up_file(log, -errno);
    return error;
}

int record_log_open(int dir_fd, const char *name, record_visitor visitor, void *context,
                    struct record_log **ret_log)
{
    struct record_log *log = calloc(1, sizeof(*log));
    if (log == NULL)
        return -ENOMEM;
    log->name = name;
    log->end = sizeof(struct log_header);
    log->fd = open_file(dir_fd, name);
    if (log->fd < 0)
        give_up_file(log, log->fd);
    int error = log->fd < 0 ? 0 : read_file(log, visitor, context);
    if (error != 0) {
        record_log_free(log);
        return error;
    }
    *ret_log = log;
    return 0;
}

void record_log_free(struct record_log *log)
{
    if (log == NULL)
        return;
    record_log_sync(log);
    cleanup_close(&log->fd);
    while (log->heap != NULL) {
        struct heap_block *next = log->heap->next;
        free(log->heap);
        log->heap = next;
    }
    record_batch_release(&log->single);
    free(log);
}

/* ---------------------------------------------------------------- appending */

static uint64_t append_to_file(struct record_log *log, const struct record_batch *batch)
{
    int error = log->fd < 0 ? log->disk_error : 0;
    if (error == 0)
        error = file_pwrite_all(log->fd, batch->bytes, batch->len, (off_t)log->end);
    if (error != 0) {
        if (log->disk_error == 0)
            log_warning("the state file %s cannot be written: %s; what is new is kept in memory", log->name,
                        strerror(-error));
        log->disk_error = error;
        /* Half a frame may be left; should it stay, the next one overwrites it. */
        if (log->fd >= 0 && ftruncate(log->fd, (off_t)log->end) != 0)
            log_debug("the state file %s cannot be shortened: %s", log->name, strerror(errno));
        return RECORD_NOWHERE;
    }
    log->disk_error = 0;
    uint64_t position = log->end;
    log->end += batch->len;
    return position;
}

static uint64_t append_to_heap(struct record_log *log, const struct record_batch *batch)
{
    struct heap_block *block = malloc(sizeof(*block) + batch->len);
    if (block == NULL)
        return RECORD_NOWHERE;
    memcpy(block->bytes, batch->bytes, batch->len);
    block->next = log->heap;
    log->heap = block;
    return RECORD_IN_MEMORY | (uintptr_t)block->bytes;
}

uint64_t record_log_append_batch(struct record_log *log, const struct record_batch *batch)
{
    uint64_t position = append_to_file(log, batch);
    return position != RECORD_NOWHERE ? position : append_to_heap(log, batch);
}

int record_log_append_durably(struct record_log *log, const struct record_batch *batch)
{
    size_t end = log->end;
    if (append_to_file(log, batch) == RECORD_NOWHERE)
        return log->disk_error;
    int error = file_sync(log->fd);
    if (error != 0) {
        log->end = end;
        if (ftruncate(log->fd, (off_t)end) != 0)
            log_debug("the state file %s cannot be shortened: %s", log->name, strerror(errno));
    }
    return error;
}

uint64_t record_log_append(struct record_log *log, unsigned int kind, const struct iovec *parts,
                           size_t parts_len)
{
    size_t offset;
    if (record_batch_add(&log->single, kind, parts, parts_len, &offset) != 0)
        return RECORD_NOWHERE;
    uint64_t position = record_log_append_batch(log, &log->single);
    record_batch_clear(&log->single);
    return position == RECORD_NOWHERE ? position : position + offset;
}

/* ---------------------------------------------------------------- reading */

/* Copies bytes from `start` on: how many there are. */
static size_t copy_bytes(const struct record_log *log, uint64_t start, size_t bytes, void *ret_bytes)
{
    if ((start & RECORD_IN_MEMORY) == 0) {
        ssize_t got = file_pread_all(log->fd, ret_bytes, bytes, (off_t)start);
        return got < 0 ? 0 : (size_t)got;
    }
    memcpy(ret_bytes, (const void *)(uintptr_t)(start & ~RECORD_IN_MEMORY), bytes);
    return bytes;
}

/* An idle frame, which stands where records were discarded, may be as long as the one that is looked for. */
static bool is_frame_of(const struct record_frame *frame, size_t bytes, size_t len)
{
    return frame->kind != RECORD_FRAME_IDLE && frame->len == len && record_frame_is_intact(frame, bytes);
}

int record_log_read(const struct record_log *log, uint64_t position, size_t len, void **ret_payload)
{
    size_t bytes = record_frame_bytes(len);
    if (position == RECORD_NOWHERE)
        return -EIO;
    _cleanup_free_ struct record_frame *frame = malloc(bytes);
    if (frame == NULL)
        return -ENOMEM;
    if (copy_bytes(log, position - sizeof(*frame), bytes, frame) != bytes || !is_frame_of(frame, bytes, len))
        return -EIO;
    memmove(frame, frame->payload, len);
    *ret_payload = TAKE_PTR(frame);
    return 0;
}

static bool has(const struct record_window *window, uint64_t start, size_t bytes)
{
    return start >= window->start && start - window->start <= window->len &&
           window->len - (start - window->start) >= bytes;
}

/* Moves on to the next piece, or back to the one before; elsewhere to one frame alone, whose neighbours may
 * not be wanted. 0 or -ENOMEM. */
static int move_to(struct record_window *window, const struct record_log *log, uint64_t start, size_t bytes)
{
    uint64_t end = window->start + window->len;
    bool is_in_file = (start & RECORD_IN_MEMORY) == 0 && window->len > 0;
    bool goes_on = is_in_file && start <= end && end - start < WINDOW_BYTES;
    bool goes_back = is_in_file && start < window->start && window->start - start < WINDOW_BYTES;
    uint64_t from = start;
    size_t wanted = bytes;
    if (bytes < WINDOW_BYTES && goes_back)
        from = start + bytes > WINDOW_BYTES ? start + bytes - WINDOW_BYTES : 0;
    if (bytes < WINDOW_BYTES && (goes_on || goes_back))
        wanted = goes_back ? (size_t)(start + bytes - from) : (size_t)WINDOW_BYTES;
    if (wanted > window->capacity) {
        size_t capacity = wanted < WINDOW_BYTES ? (size_t)WINDOW_BYTES : wanted;
        char *larger = realloc(window->bytes, capacity);
        if (larger == NULL)
            return -ENOMEM;
        window->bytes = larger;
        window->capacity = capacity;
    }
    window->start = from;
    window->len = copy_bytes(log, from, wanted, window->bytes);
    return 0;
}

int record_window_read(struct record_window *window, const struct record_log *log, uint64_t position,
                       size_t len, const void **ret_payload)
{
    size_t bytes = record_frame_bytes(len);
    uint64_t start = position - sizeof(struct record_frame);
    if (position == RECORD_NOWHERE)
        return -EIO;
    if (!has(window, start, bytes) && move_to(window, log, start, bytes) != 0)
        return -ENOMEM;
    if (!has(window, start, bytes))
        return -EIO;
    const struct record_frame *frame = (const void *)(window->bytes + (start - window->start));
    *ret_payload = frame->payload;
    return is_frame_of(frame, bytes, len) ? 0 : -EIO;
}

void record_window_release(struct record_window *window)
{
    free(window->bytes);
    *window = (struct record_window){.bytes = NULL};
}

uint64_t record_log_bytes(const struct record_log *log)
{
    return log->end - sizeof(struct log_header);
}

uint64_t record_log_end(const struct record_log *log)
{
    return log->end;
}

/* Inode numbers are given again; the moment of birth is not. */
int64_t record_log_identity(const struct record_log *log)
{
    struct statx status;
    if (log->fd < 0 || statx(log->fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &status) != 0 ||
        (status.stx_mask & STATX_BTIME) == 0)
        return 0;
    const uint64_t parts[] = {status.stx_ino, (uint64_t)status.stx_btime.tv_sec, status.stx_btime.tv_nsec};
    return (int64_t)(hash_bytes(0, parts, sizeof(parts)) | 1);
}

int record_log_discard(struct record_log *log, uint64_t position, uint64_t bytes)
{
    struct record_frame idle = {.kind = RECORD_FRAME_IDLE};
    uint64_t offset = position - sizeof(idle);
    if (log->fd < 0 || position < sizeof(idle) + sizeof(struct log_header) || bytes < sizeof(idle) ||
        bytes - sizeof(idle) > UINT32_MAX || offset > log->end || bytes > log->end - offset)
        return -EINVAL;
    idle.len = (uint32_t)(bytes - sizeof(idle));
    record_frame_seal(&idle);
    /* Torn by a crash, it is one of the places that are damaged: then what it stood for is read again, in its
     * order, and superseded again. */
    int error = file_pwrite_all(log->fd, &idle, sizeof(idle), (off_t)offset);
    if (error == 0 && fallocate(log->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                (off_t)(offset + sizeof(idle)), (off_t)idle.len) != 0)
        error = -errno;
    return error;
}

int record_log_sync(struct record_log *log)
{
    if (log->disk_error != 0)
        return log->disk_error;
    return log->fd < 0 ? -EBADF : file_sync(log->fd);
}
