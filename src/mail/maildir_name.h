/* SPDX-License-Identifier: MIT */
/*
 * Names of messages in a Maildir: "EPOCH.ID.HOST,U=n", and ":2,FLAGS" after a program has marked the message.
 * Only the numbers in a name depend on senders and servers.
 *
 * Flags are ASCII letters: D F P R S T mean draft, flagged, passed, replied, seen and trashed; other letters
 * are kept for the programs that set them. A set of flags is a number with a bit for each letter.
 */
#ifndef INBOXFS_MAIL_MAILDIR_NAME_H
#define INBOXFS_MAIL_MAILDIR_NAME_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MAILDIR_LETTERS = 52,
    MAILDIR_NAME_SIZE = 128 /* memory for any name made here, with its NUL */
};

/* The parts of a name. */
struct maildir_name {
    int64_t epoch;  /* seconds since 1970; when formatted, clamped to the range from 0 to 999999999999 */
    uint64_t id;    /* the beginning of a digest of the email's id, which names show in hexadecimal */
    uint64_t flags; /* 0 if has_info is false */
    uint32_t uid;   /* the U number; never 0 */
    bool has_info;  /* ":2," follows, with or without flags */
};

/* Returns the bit of a letter; 0 for any other character. */
uint64_t maildir_flag_bit(char letter);

void maildir_name_format(const struct maildir_name *name, char ret_text[MAILDIR_NAME_SIZE]);

/* Returns false if the text is not a name of this form. Flags may be in any order, and repeat. */
bool maildir_name_parse(const char *text, struct maildir_name *ret);

/* Returns true if both are names of one message, regardless of flags. */
bool maildir_name_is_same_message(const struct maildir_name *a, const struct maildir_name *b);

#endif
