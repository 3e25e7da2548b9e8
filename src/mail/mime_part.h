/* SPDX-License-Identifier: MIT */
/*
 * The content of one MIME part: decoded strictly, since what cannot be read whole must not be sent in part.
 */
#ifndef INBOXFS_MAIL_MIME_PART_H
#define INBOXFS_MAIL_MIME_PART_H

#include <gmime/gmime.h>
#include <stddef.h>

/* Both: `ret_reason` gets words on -EBADMSG; *ret_bytes and *ret_text are the caller's (free) and
 * NUL-terminated. 0, -EBADMSG, -ENOMEM. */

/* The bytes of a leaf without their transfer encoding, or a message/rfc822 part's message with CRLF line
 * ends. -EBADMSG: unknown encoding, or base64 that is cut off or holds anything else. */
int mime_part_read_bytes(GMimeObject *part, char **ret_bytes, size_t *ret_len, char **ret_reason);

/* A text leaf as UTF-8 with LF line ends. A charset that is unknown, or that the bytes do not fit, is passed
 * over where the bytes are valid UTF-8, else -EBADMSG. No charset, or US-ASCII: UTF-8 where they are valid
 * UTF-8, else windows-1252. -EBADMSG too: a NUL in the text. */
int mime_part_read_text(GMimeObject *part, char **ret_text, char **ret_reason);

/* The part's file name without any folders, or NULL when it gives none that is valid (file_name.h). Caller
 * frees. */
char *mime_part_file_name(GMimeObject *part);

/* "type/subtype"; application/octet-stream where it is malformed. Caller frees; NULL without memory. */
char *mime_part_content_type(GMimeObject *part);

#endif
