/* SPDX-License-Identifier: MIT */
/*
 * Frames and what protects them.
 */
#include "store/record_frame.h"

#include "base/hash.h"
#include "store/record_log.h"

static size_t padded(size_t len)
{
    return (len + RECORD_FRAME_ALIGNMENT - 1) & ~(size_t)(RECORD_FRAME_ALIGNMENT - 1);
}

uint64_t record_frame_bytes(size_t payload_len)
{
    return sizeof(struct record_frame) + padded(payload_len);
}

static uint16_t check_of(const struct record_frame *frame)
{
    return (uint16_t)(hash_bytes(frame->kind, &frame->len, sizeof(frame->len)) >> 48);
}

static uint64_t checksum_of(const struct record_frame *frame)
{
    uint64_t seed = (uint64_t)frame->len << 32 | (uint64_t)frame->kind << 16 | frame->check;
    return hash_bytes(seed, frame->payload, frame->kind == RECORD_FRAME_IDLE ? 0 : padded(frame->len));
}

void record_frame_seal(struct record_frame *frame)
{
    frame->check = check_of(frame);
    frame->checksum = checksum_of(frame);
}

static bool has_possible_len(const struct record_frame *frame)
{
    return frame->kind == RECORD_FRAME_IDLE ||
           (frame->kind <= RECORD_KIND_MAX && frame->len <= RECORD_PAYLOAD_MAX_BYTES);
}

bool record_frame_has_head(const struct record_frame *frame)
{
    return has_possible_len(frame) && frame->check == check_of(frame);
}

/* What an idle frame takes of the file; of that nothing but the head is looked at. */
bool record_frame_is_intact(const struct record_frame *frame, size_t room)
{
    return room >= sizeof(*frame) && record_frame_has_head(frame) && record_frame_bytes(frame->len) <= room &&
           frame->checksum == checksum_of(frame);
}
