/* SPDX-License-Identifier: MIT */
/*
 * File names from what strangers wrote. Nothing a sender writes can produce a `/`, a control character, a
 * leading dot or dash, invalid UTF-8 or a name over 255 bytes (filesystem contract, "Received mail").
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

/* "20261120T101436Z_subject-slug_3c90c3cc" (no extension): date or "nodate", slug or "no-subject", the first
 * 8 usable characters of the key. Two emails may get the same stem: the store makes names unique
 * (store/index_changes.h). The caller frees; NULL without memory. `subject` may be NULL or invalid UTF-8. */
char *file_name_stem(bool has_date, int64_t date_ms, const char *subject, const char *key);

/* "re-dinner" of "Re: Dinner!"; "no-subject" where nothing is left. At most FILE_NAME_SLUG_MAX_BYTES. Caller
 * frees; NULL without memory. */
char *file_name_slug(const char *subject);

/* `stem` with more of the key, for the `attempt`th (1, 2, …) name that was taken: deterministic. The caller
 * checks whether this one is taken, too, and frees it. */
char *file_name_stem_unique(const char *stem, const char *key, unsigned int attempt);

/* A directory name from a text that should be an address or an id (an inbox's): as it is when it is harmless,
 * else made so. Caller frees. */
char *file_name_from_text(const char *text);

/* Returns true if a file of this name is temporary: starts with ".", ends in "~" or one of the usual endings,
 * or is "4913" (vim's probe). */
bool file_name_is_temporary(const char *name);
/* Returns true if a file of this name holds what another one was before: "draft.bak", "#draft#". */
bool file_name_is_backup(const char *name);

/* "report.pdf", 2 → "report-2.pdf"; shortened where it would pass 255 bytes, at a character boundary. A
 * leading dot starts no extension. Caller frees. */
char *file_name_numbered(const char *name, unsigned int number);

/* "report.pdf" of "report-2.pdf": what file_name_numbered() made, or may have made. NULL: no number, or no
 * memory. Caller frees. */
char *file_name_unnumbered(const char *name);

/* The name, or, where it has more bytes than that (at least 64), with as many taken away before its
 * extension, at a character boundary. Caller frees. */
char *file_name_shortened(const char *name, size_t max_bytes);

/* Returns true if the name can stand in a directory and in JSON: 1 to 255 bytes of valid UTF-8 without `/`,
 * not "." or "..". */
bool file_name_is_text(const char *name);
/* Returns true if the name can stand in a multipart header, too: no control characters. */
bool file_name_is_valid(const char *name);
/* Returns true if the name can be shown where a stranger chose it: valid, not hidden, and no option to
 * whoever runs `program *`. */
bool file_name_is_harmless(const char *name);

/* Returns a text that is the same for all names that differ only in case or in Unicode normalisation, so that
 * a folder copied to where such names are one loses none. Caller frees; NULL: it is not UTF-8. */
char *file_name_fold(const char *name);

#endif
