/* SPDX-License-Identifier: MIT */
/*
 * Names of messages in a Maildir: "EPOCH.ID.HOST,U=n" and, where anybody has marked the message,
 * ":2,FLAGS" behind it. Nothing in them comes from a sender or a server but numbers.
 *
 * Flags are ASCII letters: D F P R S T mean draft, flagged, passed, replied, seen and trashed; what others
 * mean is their programs' business, and they are kept. A set of them is a number, a bit for each letter.
 */
#ifndef INBOXFS_MAIL_MAILDIR_NAME_H
#define INBOXFS_MAIL_MAILDIR_NAME_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MAILDIR_LETTERS = 52,
    MAILDIR_ID_BYTES = 8,   /* of a digest of the email's id, shown in hexadecimal */
    MAILDIR_NAME_SIZE = 128 /* every name made here and its NUL */
};

/* The parts of a name. */
struct maildir_name {
    int64_t epoch; /* seconds since 1970; shown as 0 before */
    unsigned char id[MAILDIR_ID_BYTES];
    uint32_t uid;   /* never 0 */
    bool has_info;  /* ":2," follows, with or without flags */
    uint64_t flags; /* 0 without info */
};

/* The bit of a letter; 0: no flag. */
uint64_t maildir_flag(char letter);

void maildir_name_format(const struct maildir_name *name, char ret_text[MAILDIR_NAME_SIZE]);

/* False where the text is no such name, whoever made it. Flags may stand in any order, and repeat. */
bool maildir_name_parse(const char *text, struct maildir_name *ret);

/* Returns true if both are names of one message, however marked. */
bool maildir_name_is_same_message(const struct maildir_name *a, const struct maildir_name *b);

#endif
