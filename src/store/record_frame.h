/* SPDX-License-Identifier: MIT */
/*
 * The frames that a record log (record_log.h) is made of, each with its record, or with nothing: what an idle
 * frame holds no longer counts.
 */
#ifndef INBOXFS_STORE_RECORD_FRAME_H
#define INBOXFS_STORE_RECORD_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECORD_FRAME_ALIGNMENT = 8,
    RECORD_FRAME_IDLE = UINT16_MAX, /* in place of a kind */
};

struct record_frame {
    uint32_t len; /* bytes of the payload, without padding */
    uint16_t kind;
    uint16_t check;    /* of the two above: a damaged length must not lead far astray */
    uint64_t checksum; /* of the payload, seeded with the three above; idle: of those alone */
    char payload[];
};

/* What a frame takes in the file. */
uint64_t record_frame_bytes(size_t payload_len);

/* Fills in what protects a frame whose length, kind and payload are there, padded with zeros. */
void record_frame_seal(struct record_frame *frame);

/* Whether the first sizeof(struct record_frame) bytes of this can be those of a frame. */
bool record_frame_has_head(const struct record_frame *frame);

/* Whether this is a frame that ends within `room` bytes. */
bool record_frame_is_intact(const struct record_frame *frame, size_t room);

#endif
