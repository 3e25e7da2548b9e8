/* SPDX-License-Identifier: MIT */
/*
 * Records put together in memory (record_log.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/record_frame.h"
#include "store/record_log.h"

enum {
    FIRST_BYTES = 4096,
    KEPT_BYTES = 1024 * 1024,
};

static int reserve(struct record_batch *batch, size_t len)
{
    size_t needed = batch->len + len;
    if (needed <= batch->capacity)
        return 0;
    size_t capacity = batch->capacity == 0 ? FIRST_BYTES : batch->capacity;
    while (capacity < needed)
        capacity *= 2;
    char *bytes = realloc(batch->bytes, capacity);
    if (bytes == NULL)
        return -ENOMEM;
    batch->bytes = bytes;
    batch->capacity = capacity;
    return 0;
}

int record_batch_add(struct record_batch *batch, unsigned int kind, const struct iovec *parts,
                     size_t parts_len, size_t *ret_offset)
{
    size_t len = 0;
    for (size_t i = 0; i < parts_len; i++)
        len += parts[i].iov_len;
    if (len > RECORD_PAYLOAD_MAX_BYTES || kind > RECORD_KIND_MAX)
        return -EMSGSIZE;
    if (reserve(batch, record_frame_bytes(len)) != 0)
        return -ENOMEM;

    struct record_frame *frame = (struct record_frame *)(batch->bytes + batch->len);
    frame->len = (uint32_t)len;
    frame->kind = (uint16_t)kind;
    char *to = frame->payload;
    for (size_t i = 0; i < parts_len; i++) {
        if (parts[i].iov_len > 0)
            memcpy(to, parts[i].iov_base, parts[i].iov_len);
        to += parts[i].iov_len;
    }
    char *end = (char *)frame + record_frame_bytes(len);
    memset(to, 0, (size_t)(end - to));
    record_frame_seal(frame);
    *ret_offset = batch->len + sizeof(*frame);
    batch->len += record_frame_bytes(len);
    return 0;
}

void record_batch_clear(struct record_batch *batch)
{
    batch->len = 0;
    if (batch->capacity > KEPT_BYTES)
        record_batch_release(batch);
}

void record_batch_release(struct record_batch *batch)
{
    free(batch->bytes);
    *batch = (struct record_batch){0};
}
