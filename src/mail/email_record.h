/* SPDX-License-Identifier: MIT */
/*
 * The metadata record of a received email (interface, GET /api/v1/email): the fields that the program uses,
 * the text of the email's .json file, and that text as a line of index.jsonl. The text has every field that
 * the service sent, known or not.
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
    const char *key;      /* the email's id; if the record has none, "~" and a hash of the record */
    const char *inbox_id; /* NULL if the record has none */
    const char
        *stem; /* file name of the email without ".json" (file_name.h); index_put_email() makes it unique */
    const char
        *json;       /* the file's content: two-space indent, final newline, unescaped UTF-8; `id`, `date`,
                        `from_address`, `to_addresses`, `subject` first, then the rest in the order received */
    size_t json_len; /* length of `json` */
    size_t line_len; /* length of the line that email_record_write_line() makes, without the file name */
    int64_t date_ms; /* `date` since 1970 UTC; 0 when has_date is false */
    bool has_date;
    bool is_quarantined; /* rules or checks held the email back: the record has a `status` other than "valid",
                            and no user marked the email valid */
    char *owned;         /* the memory of the texts above if the record owns them, else NULL */
};

/* Reads the JSON text of one record. Known fields may have any type. The caller releases the record. Return:
 * 0; -EBADMSG if the text is not a JSON object; -EILSEQ if it is not UTF-8; -EEXIST if two of its fields have
 * the same key; -EMSGSIZE if it is longer than EMAIL_RECORD_MAX_BYTES, has too many fields, or is nested too
 * deep. */
int email_record_from_text(const char *text, size_t len, struct email_record *ret_record);

void email_record_release(struct email_record *record);

/* Writes the record as a line of index.jsonl with its line break: compact JSON, with the file name as the
 * last field. `json` and `line_len` are those of one record. `name` must not need JSON escapes; no name of
 * file_name_stem() needs them. Exactly line_len + name_len bytes are written, even if `json` is damaged. */
void email_record_write_line(const char *json, size_t json_len, const char *name, size_t name_len,
                             size_t line_len, char *ret_line);

#endif
