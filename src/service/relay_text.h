/* SPDX-License-Identifier: MIT */
/*
 * A message as every mail server takes it: 7 bits, no NUL, lines of at most 998 bytes that end with CR LF
 * (RFC 5321 section 4.5.3.1.6, RFC 2045 section 6). So the relay's server need not offer 8BITMIME.
 *
 * The text that is kept here has that form, but for three things. It may enclose a message of a stranger, and
 * each part of that one is then encoded anew; where a signature forbids it, the whole message is enclosed as
 * a file instead. An address may have letters beyond ASCII before its "@", which only SMTPUTF8 carries. And
 * the Message-ID that it answers may be too long for a line.
 */
#ifndef INBOXFS_SERVICE_RELAY_TEXT_H
#define INBOXFS_SERVICE_RELAY_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/* Appends the text of a message. `has_utf8`: addresses in its header stay as they are. Otherwise one beyond
 * ASCII becomes a name without an address, to which nobody can answer (RFC 6857 section 3.1.8). 0 or -errno.
 */
int relay_text_write(const char *raw, size_t len, bool has_utf8, struct strbuf *text);

#endif
