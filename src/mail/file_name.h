/* SPDX-License-Identifier: MIT */
/*
 * Makes and checks file names. No text of a sender can produce a `/`, a control character, a leading dot or
 * dash, invalid UTF-8 or a name over 255 bytes (docs/FILESYSTEM.md, "Received mail"). The caller frees every
 * name that is returned.
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

/* Makes "20261120T101436Z_subject-slug_3c90c3cc" of the date (or "nodate"), the slug, and the first 8 letters
 * and digits of the key (of the key's digest if the key has fewer). Two emails may get the same stem; the
 * store makes names unique (store/index_changes.h). `subject` may be NULL or invalid UTF-8. */
char *file_name_stem(bool has_date, int64_t date_ms, const char *subject, const char *key);

/* Turns "Re: Dinner!" into "re-dinner", and a subject without letters and digits into "no-subject". A slug
 * has at most FILE_NAME_SLUG_MAX_BYTES. */
char *file_name_slug(const char *subject);

/* Appends a part of the key's digest to the stem. The caller passes `attempt` 1, 2 and so on until no other
 * email has the name. Equal arguments give equal stems. */
char *file_name_stem_unique(const char *stem, const char *key, unsigned int attempt);

/* Turns the address or id of an inbox into the name of its folder: the text itself if it is harmless, else a
 * harmless form with a part of the text's digest. */
char *file_name_from_text(const char *text);

/* Returns true for the name of a temporary file: ".x", "x~", "x.tmp", "x.part", "x.swp" or "4913" (vim's
 * probe). */
bool file_name_is_temporary(const char *name);
/* Returns true if a file of this name is a backup of another: "draft.bak", "#draft#". */
bool file_name_is_backup(const char *name);

/* Turns "report.pdf" and 2 into "report-2.pdf". Cuts the part before the number at a character boundary, so
 * that the name has at most 255 bytes. A leading dot does not start an extension. */
char *file_name_numbered(const char *name, unsigned int number);

/* Turns "report-2.pdf" into "report.pdf". Returns NULL if the name has no number. */
char *file_name_unnumbered(const char *name);

/* Cuts the name to `max_bytes` (at least 64), before its extension and at a character boundary. */
char *file_name_shortened(const char *name, size_t max_bytes);

/* Returns true if a directory and JSON can hold the name: 1 to 255 bytes of valid UTF-8 without `/`, neither
 * "." nor "..". */
bool file_name_is_text(const char *name);
/* Returns true if the name is text without control characters, so that a multipart header can hold it. */
bool file_name_is_valid(const char *name);
/* Returns true if a sender may choose the name: it is valid, and begins neither with a dot nor with a dash,
 * which a program called with `*` would take for an option. */
bool file_name_is_harmless(const char *name);

/* Folds a name: names that differ only in case or in Unicode normalisation give the same text. A folder can
 * be copied to any file system if the folds of its names differ. Returns NULL for invalid UTF-8. */
char *file_name_fold(const char *name);

#endif
