/* SPDX-License-Identifier: MIT */
/*
 * Reads the log into memory as a whole: it is read once in the life of a state directory.
 */
#include "store/old_log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"

enum {
    MAX_BYTES = 1 << 30,
    ALIGNMENT = 8,
    VERSION = 3,
    BYTE_ORDER_MARK = 0x01020304,
};

struct old_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
};

struct old_frame {
    uint32_t len; /* of what follows, without padding */
    uint16_t kind;
    uint16_t check;
    uint64_t checksum;
};

static size_t padded(uint32_t len)
{
    return ((size_t)len + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static bool is_intact(const struct old_frame *frame, size_t bytes)
{
    return bytes >= sizeof(*frame) && padded(frame->len) <= bytes - sizeof(*frame) &&
           frame->check == (uint16_t)(hash_bytes(frame->kind, &frame->len, sizeof(frame->len)) >> 48) &&
           frame->checksum ==
               hash_bytes((uint64_t)frame->len << 32 | (uint64_t)frame->kind << 16 | frame->check, frame + 1,
                          padded(frame->len));
}

static bool is_ours(const char *bytes, size_t len)
{
    const struct old_header *header = (const void *)bytes;
    return len >= sizeof(*header) && memcmp(header->magic, "inboxfs", sizeof(header->magic)) == 0 &&
           header->version == VERSION && header->byte_order == BYTE_ORDER_MARK;
}

int old_log_visit(int dir_fd, const char *name, old_log_visitor visitor, void *context)
{
    _cleanup_free_ char *bytes = NULL;
    size_t len = 0;
    int error = file_read_at(dir_fd, name, MAX_BYTES, &bytes, &len);
    if (error == -ELOOP || error == -EISDIR || (error == 0 && !is_ours(bytes, len)))
        return -EBADMSG;
    for (size_t at = sizeof(struct old_header); error == 0 && at < len;) {
        const struct old_frame *frame = (const void *)(bytes + at);
        if (!is_intact(frame, len - at)) {
            at += ALIGNMENT;
            continue;
        }
        error = visitor(context, frame->kind, frame + 1, frame->len);
        at += sizeof(*frame) + padded(frame->len);
    }
    return error;
}
