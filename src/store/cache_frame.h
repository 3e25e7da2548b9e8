/* SPDX-License-Identifier: MIT */
/*
 * What the records of the cache look like. An inbox or email that changes is appended anew; the last one
 * counts. Numbers of inboxes are those of one file: given from 0 in the order of their frames.
 */
#ifndef INBOXFS_STORE_CACHE_FRAME_H
#define INBOXFS_STORE_CACHE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/record_log.h"

enum cache_frame_kind {
    CACHE_INBOX = 1,   /* struct inbox_frame, then id, address, folder name, json, each with a NUL */
    CACHE_INBOX_GONE,  /* struct gone_frame */
    CACHE_EMAIL,       /* struct email_frame, then json, key, file name, each with a NUL */
    CACHE_EMAIL_GONE,  /* struct gone_frame, then key and a NUL */
    CACHE_FIRST_SYNC,  /* nothing: what this account held at the beginning is known */
    CACHE_INBOX_QUIET, /* struct gone_frame: mail found in this inbox is announced from here on */
};

/* How an inbox became known; the higher counts. */
enum inbox_origin {
    INBOX_OF_NO_NAME, /* collects mail that names no inbox */
    INBOX_FROM_MAIL,  /* named by mail */
    INBOX_CREATED,    /* made here */
    INBOX_LISTED,     /* the service lists it */
};

enum inbox_frame_flag {
    INBOX_IS_QUIET = 1, /* what it holds was there before this account was first looked at */
};

struct inbox_frame {
    uint32_t number;
    uint16_t origin;
    uint16_t flags;
    int64_t changed_ms; /* when the record changed */
    uint32_t id_len;
    uint32_t address_len; /* 0: none */
    uint32_t name_len;
    uint32_t json_len;
};

enum email_frame_flag {
    EMAIL_IS_HELD = 1, /* the service holds it back: it is not shown with the others */
};

struct email_frame {
    uint32_t inbox;
    uint32_t json_len;
    int64_t date_ms;
    int64_t seen_ms; /* when this content was first seen */
    uint32_t key_len;
    uint32_t name_len;
    uint32_t line_len; /* in index.jsonl, without the file name: email_record.h */
    uint32_t flags;    /* enum email_frame_flag */
};

struct gone_frame {
    uint32_t inbox;
    uint32_t key_len; /* 0 where no key follows */
    int64_t changed_ms;
};

/* The parts of a frame, pointing into it. */
struct inbox_parts {
    const char *id;
    const char *address; /* NULL: none */
    const char *name;
    const char *json;
};

struct email_parts {
    const char *key;
    const char *name;
    const char *json;
};

/* False when the payload is not one of this kind. */
bool inbox_frame_read(const void *payload, size_t len, struct inbox_parts *ret);
bool email_frame_read(const void *payload, size_t len, struct email_parts *ret);
bool gone_frame_read(const void *payload, size_t len, const char **ret_key);

/* Append; the lengths in `frame` are those of `parts`. The position, or RECORD_NOWHERE without memory. */
uint64_t inbox_frame_append(struct record_log *log, const struct inbox_frame *frame,
                            const struct inbox_parts *parts);
uint64_t email_frame_append(struct record_log *log, const struct email_frame *frame,
                            const struct email_parts *parts);
/* The same into a batch: record_batch_add(). */
int email_frame_add(struct record_batch *batch, const struct email_frame *frame,
                    const struct email_parts *parts, size_t *ret_offset);
/* `key` may be NULL. 0 or -ENOMEM. */
int gone_frame_append(struct record_log *log, enum cache_frame_kind kind, uint32_t inbox, const char *key,
                      int64_t changed_ms);

/* The parts of a frame that is known to be right. */
void inbox_frame_get_parts(const struct inbox_frame *frame, struct inbox_parts *ret);
void email_frame_get_parts(const struct email_frame *frame, struct email_parts *ret);

/* The length of the payload of an email, by those of its parts. */
size_t email_frame_len(size_t json_len, size_t key_len, size_t name_len);

/* What an inbox takes in the file. */
uint64_t inbox_frame_bytes(const struct inbox_frame *frame);

#endif
