/* SPDX-License-Identifier: MIT */
/*
 * An inbox's record (interface, GET /api/v1/inbox), and the upsert requests made from it. An upsert is a full
 * update: every field the record has is sent back, or it would fall to its default.
 */
#ifndef INBOXFS_MAIL_INBOX_RECORD_H
#define INBOXFS_MAIL_INBOX_RECORD_H

#include <stdbool.h>
#include <stddef.h>

struct inbox_record {
    char *id;        /* never NULL */
    char *address;   /* NULL when the service did not say, or what it said is no address */
    char *json;      /* inbox.json: the record as received, two-space indent, final newline */
    size_t json_len; /* bytes */
};

/* Reads the JSON text of one record. 0, or for a record that cannot be read: -EBADMSG (not JSON), -EILSEQ
 * (not UTF-8), -EEXIST (a key twice in an object), -EINVAL (no object, no usable id); or -ENOMEM. */
int inbox_record_from_text(const char *text, size_t len, struct inbox_record *ret_record);

/* A record of which only the id is known: what mail named. 0, -EINVAL (no usable id), -ENOMEM. */
int inbox_record_from_id(const char *id, struct inbox_record *ret_record);

void inbox_record_release(struct inbox_record *record);

/* The request that creates an inbox: id null, name the local part. Caller frees. 0, -EINVAL (no address that
 * a folder can be called after), -ENOMEM. */
int inbox_request_create(const char *address, char **ret_request);

/* The record after creation, from what was asked and the reply's id: for services whose reply carries the id
 * alone. */
int inbox_record_created(const char *request, const char *id, struct inbox_record *ret_record);

/* The upsert request for a record `current` (just read from the service) edited into `edited` (what a user
 * wrote): every field of `current`, overridden by those of `edited`; the id is always the record's; read-only
 * fields (`updated_at`, `webhook_secret`) are left out. `ret_reason`: words for the user on -EINVAL (caller
 * frees). 0, -EINVAL (no JSON object, another id), -ENOMEM. */
int inbox_request_update(const struct inbox_record *current, const char *edited, size_t edited_len,
                         char **ret_request, char **ret_reason);

/* Returns true if the text is one complete JSON object or array: when a write to inbox.json commits. */
bool inbox_text_is_complete(const char *text, size_t len);

#endif
