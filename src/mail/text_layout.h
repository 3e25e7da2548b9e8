/* SPDX-License-Identifier: MIT */
/*
 * Lays out running text: white space, line breaks, and what stands before each line, such as the marks of
 * quotes and lists. Breaks and blanks are owed until text follows, so that none doubles, none begins the text
 * and none ends a line.
 */
#ifndef INBOXFS_MAIL_TEXT_LAYOUT_H
#define INBOXFS_MAIL_TEXT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

enum {
    TEXT_LAYOUT_LEVELS_MAX = 12, /* deeper ones do not show: a line must not be mostly its prefix */
    TEXT_LAYOUT_MARK_SIZE = 16,
};

struct text_layout {
    struct strbuf *out; /* borrowed */
    size_t begin;       /* where this text begins in it */
    unsigned int owed_breaks;
    unsigned int owed_blanks;
    bool keeps_blanks; /* at the beginning of lines, too: set by the caller */
    char prefix[TEXT_LAYOUT_LEVELS_MAX * TEXT_LAYOUT_MARK_SIZE];
    size_t prefix_ends[TEXT_LAYOUT_LEVELS_MAX + 1]; /* of the prefix of each level; [0] is 0 */
    unsigned int level;                             /* may pass TEXT_LAYOUT_LEVELS_MAX */
    unsigned int lowest_level;                      /* since the last text: what blank lines begin with */
    char mark[TEXT_LAYOUT_MARK_SIZE];               /* owed to the next line in place of its last prefix */
};

void text_layout_init(struct text_layout *layout, struct strbuf *out);

/* At least `breaks` line ends before what follows: 1 ends the line, 2 leaves a blank one. */
void text_layout_break(struct text_layout *layout, unsigned int breaks);

/* One line end more: blank lines that the writer asked for. */
void text_layout_line_end(struct text_layout *layout);

/* At least `blanks` before what follows, where that is on the same line. */
void text_layout_space(struct text_layout *layout, unsigned int blanks);

/* Text without white space and control characters, as it is. */
void text_layout_append(struct text_layout *layout, const char *text, size_t len);

/* From here on every line begins with `prefix` besides; the next one with `mark`, if not NULL, in its place.
 * Both are shorter than TEXT_LAYOUT_MARK_SIZE. */
void text_layout_push(struct text_layout *layout, const char *prefix, const char *mark);
void text_layout_pop(struct text_layout *layout);
void text_layout_pop_all(struct text_layout *layout);

/* Nothing was appended yet. */
bool text_layout_is_empty(const struct text_layout *layout);

/* Ends the last line. */
void text_layout_finish(struct text_layout *layout);

#endif
