/* SPDX-License-Identifier: MIT */
/*
 * How mail programs mark what is not new in a mail, line by line and language by language. For new_text.c
 * alone.
 */
#ifndef INBOXFS_MAIL_HISTORY_LINE_H
#define INBOXFS_MAIL_HISTORY_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* All: one line without its end, or where it is said, several joined; any bytes. */

bool history_is_blank(const char *line, size_t len);

/* "> ". */
bool history_is_quoted(const char *line, size_t len);

/* "-- "; or without the blank, which many programs drop. */
bool history_is_signature(const char *line, size_t len);
bool history_is_signature_without_blank(const char *line, size_t len);

/* Nothing but dashes, underscores or the like. */
bool history_is_rule(const char *line, size_t len);

/* "-----Original Message-----", "Begin forwarded message:". */
bool history_is_separator(const char *line, size_t len);

/* A line of the block that Outlook puts above history: "Sent: Friday". */
enum history_header {
    HISTORY_NO_HEADER,
    HISTORY_FROM,
    HISTORY_DATE,
    HISTORY_TO,
    HISTORY_SUBJECT,
};
enum history_header history_header(const char *line, size_t len);

/* "On Friday Ann wrote:", which may have been broken into lines (joined here by blanks). */
enum history_attribution {
    HISTORY_NO_ATTRIBUTION,
    HISTORY_ATTRIBUTION_OF_QUOTE, /* is one where a quote follows */
    HISTORY_ATTRIBUTION,          /* with date and time or address: is one whatever follows */
};
enum history_attribution history_attribution(const char *text, size_t len);

/* Whether an attribution of several lines can begin with this one. */
bool history_begins_attribution(const char *line, size_t len);

#endif
