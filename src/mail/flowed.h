/* SPDX-License-Identifier: MIT */
/*
 * Flowed text (RFC 3676, `format=flowed`): a mail program wraps each paragraph and leaves a blank at the end
 * of the lines that continue. With DelSp that blank is no part of the text. A blank before a line hides what
 * the line begins with ("From ", ">") and is no part of the text either.
 */
#ifndef INBOXFS_MAIL_FLOWED_H
#define INBOXFS_MAIL_FLOWED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/* Appends the text with each paragraph on one line. Lines of different quote depth, blank lines and the
 * separator of a signature ("-- ") stay lines of their own; quote marks and line ends stay as they are
 * written. Takes UTF-8 and any other bytes. 0 or the buffer's error. */
int flowed_append(struct strbuf *out, const char *text, size_t len, bool is_delsp);

#endif
