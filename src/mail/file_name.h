/* SPDX-License-Identifier: MIT */
/*
 * Makes and checks file names. No text of a sender can produce a `/`, a control character, a leading dot or
 * dash, invalid UTF-8 or a name over 255 bytes (filesystem contract, "Received mail"). The caller frees every
 * name that is returned. NULL means out of memory, unless stated otherwise.
 */
#ifndef INBOXFS_MAIL_FILE_NAME_H
#define INBOXFS_MAIL_FILE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FILE_NAME_MAX_BYTES = 255,
    FILE_NAME_SLUG_MAX_BYTES = 60,
};

/* Makes "20261120T101436Z_subject-slug_3c90c3cc": date or "nodate", slug or "no-subject", and the first 8
 * usable characters of the key. Two emails may get the same stem: the store makes names unique
 * (store/index_changes.h). `subject` may be NULL or invalid UTF-8. */
char *file_name_stem(bool has_date, int64_t date_ms, const char *subject, const char *key);

/* Makes "re-dinner" of "Re: Dinner!", or "no-subject" if no usable character is left. A slug has at most
 * FILE_NAME_SLUG_MAX_BYTES. */
char *file_name_slug(const char *subject);

/* Appends a part of the key's digest to the stem. The caller passes `attempt` 1, 2 and so on until no other
 * email has the name. Equal arguments give equal stems. */
char *file_name_stem_unique(const char *stem, const char *key, unsigned int attempt);

/* Makes the name of an inbox's folder from its address or id: the text itself if it is harmless, else a
 * harmless form. */
char *file_name_from_text(const char *text);

/* Returns true if a file of this name is temporary: starts with ".", ends in "~" or one of the usual endings,
 * or is "4913" (vim's probe). */
bool file_name_is_temporary(const char *name);
/* Returns true if a file of this name is a backup of another: "draft.bak", "#draft#". */
bool file_name_is_backup(const char *name);

/* Makes "report-2.pdf" of "report.pdf" and 2. Names over 255 bytes are cut at a character boundary. A leading
 * dot starts no extension. */
char *file_name_numbered(const char *name, unsigned int number);

/* Reverses file_name_numbered(): "report.pdf" of "report-2.pdf". NULL also if there is no number. */
char *file_name_unnumbered(const char *name);

/* Cuts the name to `max_bytes` (at least 64), before its extension and at a character boundary. */
char *file_name_shortened(const char *name, size_t max_bytes);

/* Returns true if a directory and JSON can hold the name: 1 to 255 bytes of valid UTF-8 without `/`, neither
 * "." nor "..". */
bool file_name_is_text(const char *name);
/* Returns true if a multipart header can hold the name as well: it has no control characters. */
bool file_name_is_valid(const char *name);
/* Returns true if a sender may choose the name: it is valid, and has no leading dot, and no leading dash that
 * would make it an option of a program called with `*`. */
bool file_name_is_harmless(const char *name);

/* Returns a text that is equal for all names that differ only in case or in Unicode normalisation. A
 * folder in which no two texts are equal can be copied to any file system. NULL also if the name is not
 * UTF-8. */
char *file_name_fold(const char *name);

#endif
