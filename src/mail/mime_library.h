/* SPDX-License-Identifier: MIT */
/*
 * GMime, made ready once. It takes header sections apart and writes messages; what their text says is read by
 * header_text.h and charset.h.
 */
#ifndef INBOXFS_MAIL_MIME_LIBRARY_H
#define INBOXFS_MAIL_MIME_LIBRARY_H

/* Initialises GMime on first use, from any thread. */
void mime_library_init(void);

#endif
