/* SPDX-License-Identifier: MIT */
/*
 * A record as a line of index.jsonl: compact JSON, with its file name as the last field. How long it is, is
 * known without writing it.
 */
#ifndef INBOXFS_MAIL_INDEX_LINE_H
#define INBOXFS_MAIL_INDEX_LINE_H

#include <stddef.h>

/* The length without the file name, for a record whose compact JSON is `compact_len` bytes long. */
size_t index_line_len(size_t compact_len);

/* Writes the line and its line break. `json` is a record's text (email_record.h), `line_len` goes with it;
 * `name` needs no escapes, as file_name_stem() makes them. Exactly line_len + name_len bytes are written,
 * whatever the text is. */
void index_line_write(const char *json, size_t json_len, const char *name, size_t name_len, size_t line_len,
                      char *ret_line);

#endif
