/* SPDX-License-Identifier: MIT */
/*
 * Recovery of a state directory after a power cut: an outbox opens it, sends all waiting messages to a
 * service in memory that accepts everything, and is closed. If the caller wants, it is opened once more.
 *
 * Each text has a token: a text of the token T7 has a line "begin T7", and ends with a line "end T7 CHECKSUM"
 * (CRC-32 of the bytes from its "begin" to before its "end", 8 hex digits). A file may have several, one
 * after the other.
 */
#ifndef INBOXFS_TESTS_CUT_RECOVERY_H
#define INBOXFS_TESTS_CUT_RECOVERY_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

struct token {
    char *name;
    bool is_whole;
};

/* Returns the tokens in a text (in the plain_text of a JSON object), in their order: a GArray of struct
 * token, which owns its names. */
GArray *tokens_find(const char *text, size_t len);

struct sent {
    char *key;
    char *request; /* JSON */
};

/* One file in which a token was found after recovery. */
struct found_file {
    char *token;
    bool is_whole;
    char *folder; /* outbox, sent, failed, attachments, drafts, or quarantine */
    char *name;
    char *state; /* the state in the receipt; NULL if there is no receipt */
    char *error; /* the error in the receipt, or NULL */
};

struct recovered {
    char *failure;     /* why the outbox could not be opened or did not settle; else NULL */
    GArray *sent;      /* of struct sent, in order of arrival */
    GArray *files;     /* of struct found_file */
    guint sent_at_end; /* number of members of `sent` that came after the second opening */
};

/* Recovers the state directory `path`, and lists its files after the last opening. Never returns NULL. */
struct recovered *recover(const char *path, bool is_trusted, bool is_opened_again);
/* NULL-safe. */
void recovered_free(struct recovered *recovered);

#endif
