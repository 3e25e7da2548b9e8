/* SPDX-License-Identifier: MIT */
/*
 * Charsets: converts the text of senders to UTF-8.
 *
 * A label names a charset. Senders write labels in many ways and often wrongly, such as iso-8859-1 for
 * windows-1252, or gb2312 for GB 18030. Labels are read by the WHATWG Encoding Standard, as in browsers and
 * the large mail services. iconv(3) reads every label that the standard lacks.
 */
#ifndef INBOXFS_MAIL_CHARSET_H
#define INBOXFS_MAIL_CHARSET_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/* The treatment of bytes that are valid neither in their charset nor in UTF-8. */
enum charset_damage {
    CHARSET_REFUSE,  /* append nothing, and return false */
    CHARSET_REPLACE, /* append U+FFFD for each; if the charset is unknown, read the text as windows-1252 */
};

/* Converts bytes to UTF-8 and appends them. Bytes that do not fit their charset, or whose label is unknown,
 * are appended unchanged if they are valid UTF-8. CHARSET_REFUSE also refuses damaged ISO 2022 and HZ, whose
 * bytes are always valid UTF-8. Without a label (`label_len` is 0) and for US-ASCII, the bytes are read as
 * UTF-8 if they are valid, else as windows-1252, in which all bytes are text. The label need not end at a
 * NUL. Returns false if the bytes are refused. */
bool charset_append_utf8(GString *text, const char *label, size_t label_len, const char *bytes, size_t len,
                         enum charset_damage damage);

#endif
