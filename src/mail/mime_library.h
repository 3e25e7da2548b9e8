/* SPDX-License-Identifier: MIT */
/*
 * GMime, made ready once, with the settings that all of its uses here share: text that names no charset is
 * UTF-8 where it is valid UTF-8, else windows-1252, whatever the locale.
 */
#ifndef INBOXFS_MAIL_MIME_LIBRARY_H
#define INBOXFS_MAIL_MIME_LIBRARY_H

#include <gmime/gmime.h>

/* Initialises GMime on first use, from any thread. */
void mime_library_init(void);

/* Initialises too. Freed with g_mime_parser_options_free(). */
GMimeParserOptions *mime_parser_options_new(void);

#endif
