/* SPDX-License-Identifier: MIT */
/*
 * Charsets: bytes of strangers' text become UTF-8.
 *
 * A charset is named by a label, which senders write in many ways and often wrongly: text labelled iso-8859-1
 * is windows-1252 in truth, and gb2312 is GB 18030. The labels are read as the WHATWG Encoding Standard says,
 * as browsers and the large mail services do. A label that it does not have is given to iconv(3).
 */
#ifndef INBOXFS_MAIL_CHARSET_H
#define INBOXFS_MAIL_CHARSET_H

#include <stddef.h>

#include "base/strbuf.h"

/* The treatment of bytes that are no text in their charset, nor in UTF-8. */
enum charset_damage {
    CHARSET_REFUSE,  /* nothing is appended: -EILSEQ */
    CHARSET_REPLACE, /* U+FFFD stands for each; of a charset that is not known, they are windows-1252 */
};

/* Appends bytes of a charset in UTF-8. Those that do not fit it, or whose label is unknown, are appended as
 * they are where they are valid UTF-8; to refuse damage is to refuse those too that only look like it, as ISO
 * 2022 and HZ do. No label (`label_len` is 0) and US-ASCII say nothing about bytes
 * beyond ASCII: then they are UTF-8 where they are valid UTF-8, else windows-1252, in which all bytes are
 * text. The label need not end at a NUL. 0, -EILSEQ, or the buffer's error. */
int charset_append(struct strbuf *text, const char *label, size_t label_len, const char *bytes, size_t len,
                   enum charset_damage damage);

#endif
