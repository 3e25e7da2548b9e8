/* SPDX-License-Identifier: MIT */
/*
 * The metadata record of a received email (interface, GET /api/v1/email): what the rest of the program needs
 * of it, the text that is shown as its file, and that text as a line of index.jsonl. Every field that the
 * service sent is in that text, known or not.
 */
#ifndef INBOXFS_MAIL_EMAIL_RECORD_H
#define INBOXFS_MAIL_EMAIL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EMAIL_RECORD_MAX_BYTES = 4 * 1024 * 1024,
    EMAIL_RECORD_MAX_FIELDS = 1024,
};

struct email_record {
    const char *key; /* what tells this email from others: its id, or "~" and a hash of the record without
                        one */
    const char *inbox_id; /* or NULL: the record names none */
    const char *stem;     /* its file name without ".json" (file_name.h); index_put_email() makes it unique */
    const char
        *json;       /* the file's content: two-space indent, final newline, unescaped UTF-8; `id`, `date`,
                        `from_address`, `to_addresses`, `subject` first, then the rest in the order received */
    size_t json_len; /* bytes */
    size_t line_len; /* bytes of the same record in index.jsonl: email_record_write_line(), without the file
                        name */
    int64_t date_ms; /* `date` since 1970 UTC; 0 when has_date is false */
    bool has_date;
    bool is_held; /* rules or checks hold it back: its `status` is not "valid", and nobody marked it valid */
    char *owned;  /* where these texts are, when they are the record's own */
};

/* Reads the JSON text of one record. Odd types of known fields are carried, not refused. 0, or for a record
 * that cannot be read: -EBADMSG (not a JSON object), -EILSEQ (not UTF-8), -EEXIST (a key twice), -EMSGSIZE
 * (longer than EMAIL_RECORD_MAX_BYTES, too many fields, or nested too deep); or -ENOMEM. */
int email_record_from_text(const char *text, size_t len, struct email_record *ret_record);

void email_record_release(struct email_record *record);

/* Writes the record as a line of index.jsonl and its line break: compact JSON, with its file name as the last
 * field. `json` is a record's text, `line_len` goes with it; `name` needs no escapes, as file_name_stem()
 * makes them. Exactly line_len + name_len bytes are written, whatever the text is. */
void email_record_write_line(const char *json, size_t json_len, const char *name, size_t name_len,
                             size_t line_len, char *ret_line);

#endif
