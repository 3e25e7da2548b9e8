/* SPDX-License-Identifier: MIT */
/*
 * The record of an inbox (interface, GET /api/v1/inbox), and the upsert requests made from it. An upsert is a
 * full update: the request repeats every field of the record, since the service resets missing fields.
 */
#ifndef INBOXFS_MAIL_INBOX_RECORD_H
#define INBOXFS_MAIL_INBOX_RECORD_H

#include <stdbool.h>
#include <stddef.h>

struct inbox_record {
    char *id;        /* never NULL */
    char *address;   /* NULL if the service sent none, or one that is not valid */
    char *json;      /* inbox.json: the record as received, two-space indent, final newline */
    size_t json_len; /* length of `json` */
};

/* Reads the JSON text of one record; the caller releases it. Return: 0; -EBADMSG if the text is not JSON;
 * -EILSEQ if it is not UTF-8; -EEXIST if an object has a key twice; -EINVAL if it is not an object with a
 * usable id. */
int inbox_record_from_text(const char *text, size_t len, struct inbox_record *ret_record);

/* Makes a record with an id alone, for an inbox that is known only from an email. Return: 0; -EINVAL if the
 * id is not usable. */
int inbox_record_from_id(const char *id, struct inbox_record *ret_record);

void inbox_record_release(struct inbox_record *record);

/* Makes the request that creates an inbox: the id is null, the name is the local part. The caller frees.
 * Return: 0; -EINVAL if the address cannot name a folder. */
int inbox_request_create(const char *address, char **ret_request);

/* Makes the record of a new inbox from the request and the id in the service's answer, since some services
 * answer with the id alone. Return: 0; -EBADMSG if the request is not a JSON object; -EINVAL if the id is not
 * usable. */
int inbox_record_from_request(const char *request, const char *id, struct inbox_record *ret_record);

/* Makes the request that changes an inbox: the fields of `current` (just read from the service), overridden
 * by those of `edited` (the user's text). The id does not change; read-only fields (`updated_at`,
 * `webhook_secret`) are left out. The caller frees. Return: 0; -EINVAL if `edited` is not a JSON object or
 * has another id, with *ret_reason for the user (the caller frees). */
int inbox_request_update(const struct inbox_record *current, const char *edited, size_t edited_len,
                         char **ret_request, char **ret_reason);

/* Returns true if the text is one complete JSON object or array; no other text of inbox.json takes effect. */
bool inbox_text_is_complete(const char *text, size_t len);

#endif
