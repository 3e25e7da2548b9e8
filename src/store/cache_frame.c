/* SPDX-License-Identifier: MIT */
/*
 * Frames put together and taken apart.
 */
#include "store/cache_frame.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

/* The bytes of a frame of `header` bytes and four texts, each with its NUL. Lengths are at most 32 bits, so
 * nothing overflows. */
static uint64_t frame_len(size_t header, uint64_t first, uint64_t second, uint64_t third)
{
    return header + first + 1 + second + 1 + third + 1;
}

/* Whether there is a text of that length, to its NUL. */
static bool is_text(const char *text, uint32_t len)
{
    return strnlen(text, (size_t)len + 1) == len;
}

static uint64_t inbox_frame_len(const struct inbox_frame *frame)
{
    return frame_len(sizeof(*frame), (uint64_t)frame->id_len + frame->address_len + 1, frame->name_len,
                     frame->json_len);
}

size_t email_frame_len(size_t json_len, size_t key_len, size_t name_len)
{
    return frame_len(sizeof(struct email_frame), key_len, name_len, json_len);
}

void inbox_frame_get_parts(const struct inbox_frame *frame, struct inbox_parts *ret)
{
    ret->id = (const char *)(frame + 1);
    const char *address = ret->id + frame->id_len + 1;
    ret->address = frame->address_len == 0 ? NULL : address;
    ret->name = address + frame->address_len + 1;
    ret->json = ret->name + frame->name_len + 1;
}

void email_frame_get_parts(const struct email_frame *frame, struct email_parts *ret)
{
    ret->json = (const char *)(frame + 1);
    ret->key = ret->json + frame->json_len + 1;
    ret->name = ret->key + frame->key_len + 1;
}

bool inbox_frame_read(const void *payload, size_t len, struct inbox_parts *ret)
{
    const struct inbox_frame *frame = payload;
    if (len < sizeof(*frame) || inbox_frame_len(frame) != len)
        return false;
    inbox_frame_get_parts(frame, ret);
    return is_text(ret->id, frame->id_len) && ret->name[-1] == '\0' && is_text(ret->name, frame->name_len) &&
           ret->json[frame->json_len] == '\0' && frame->name_len > 0;
}

bool email_frame_read(const void *payload, size_t len, struct email_parts *ret)
{
    const struct email_frame *frame = payload;
    if (len < sizeof(*frame) || email_frame_len(frame->json_len, frame->key_len, frame->name_len) != len)
        return false;
    email_frame_get_parts(frame, ret);
    return is_text(ret->key, frame->key_len) && is_text(ret->name, frame->name_len) &&
           ret->json[frame->json_len] == '\0' && frame->name_len > 0;
}

bool gone_frame_read(const void *payload, size_t len, const char **ret_key)
{
    const struct gone_frame *frame = payload;
    if (len < sizeof(*frame) || sizeof(*frame) + (uint64_t)frame->key_len + 1 != len)
        return false;
    *ret_key = (const char *)(frame + 1);
    return (*ret_key)[frame->key_len] == '\0';
}

static struct iovec text_part(const char *text, uint32_t len)
{
    return (struct iovec){.iov_base = (void *)(text == NULL ? "" : text), .iov_len = (size_t)len + 1};
}

uint64_t inbox_frame_append(struct record_log *log, const struct inbox_frame *frame,
                            const struct inbox_parts *parts)
{
    const struct iovec pieces[] = {
        {.iov_base = (void *)frame, .iov_len = sizeof(*frame)},
        text_part(parts->id, frame->id_len),
        text_part(parts->address, frame->address_len),
        text_part(parts->name, frame->name_len),
        text_part(parts->json, frame->json_len),
    };
    return record_log_append(log, CACHE_INBOX, pieces, ARRAY_LEN(pieces));
}

enum {
    EMAIL_PIECES = 4
};

static void gather_email(const struct email_frame *frame, const struct email_parts *parts,
                         struct iovec ret_pieces[EMAIL_PIECES])
{
    ret_pieces[0] = (struct iovec){.iov_base = (void *)frame, .iov_len = sizeof(*frame)};
    ret_pieces[1] = text_part(parts->json, frame->json_len);
    ret_pieces[2] = text_part(parts->key, frame->key_len);
    ret_pieces[3] = text_part(parts->name, frame->name_len);
}

uint64_t email_frame_append(struct record_log *log, const struct email_frame *frame,
                            const struct email_parts *parts)
{
    struct iovec pieces[EMAIL_PIECES];
    gather_email(frame, parts, pieces);
    return record_log_append(log, CACHE_EMAIL, pieces, ARRAY_LEN(pieces));
}

int email_frame_add(struct record_batch *batch, const struct email_frame *frame,
                    const struct email_parts *parts, size_t *ret_offset)
{
    struct iovec pieces[EMAIL_PIECES];
    gather_email(frame, parts, pieces);
    return record_batch_add(batch, CACHE_EMAIL, pieces, ARRAY_LEN(pieces), ret_offset);
}

int gone_frame_append(struct record_log *log, enum cache_frame_kind kind, uint32_t inbox, const char *key,
                      int64_t changed_ms)
{
    const struct gone_frame frame = {
        .inbox = inbox,
        .key_len = key == NULL ? 0 : (uint32_t)strlen(key),
        .changed_ms = changed_ms,
    };
    const struct iovec pieces[] = {
        {.iov_base = (void *)&frame, .iov_len = sizeof(frame)},
        text_part(key, frame.key_len),
    };
    return record_log_append(log, kind, pieces, ARRAY_LEN(pieces)) == RECORD_NOWHERE ? -ENOMEM : 0;
}

uint64_t inbox_frame_bytes(const struct inbox_frame *frame)
{
    return record_log_frame_bytes(inbox_frame_len(frame));
}
