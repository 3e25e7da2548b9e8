/* SPDX-License-Identifier: MIT */
/*
 * The maildrop: where users of this machine leave mail for a mount that they cannot enter, or that does not
 * run. The package inboxfs-mta makes it. It is two folders and a program:
 *
 *   /var/spool/inboxfs           inboxfs:inboxfs-mta  0710   only the group can enter
 *   /var/spool/inboxfs/maildrop  inboxfs:inboxfs      3777   who can enter can add files
 *   inboxfs-maildrop             root:inboxfs-mta     2755   copies its standard input into a new file there
 *
 * So a user can add a message by that program, and can do nothing else: not see or change a message, nor add
 * a link, a FIFO or an incomplete file. The file belongs to the user, so it counts in the user's quota and
 * shows who left it; its group is the folder's, so that the mount's owner can read it. A flaw in the program
 * could let a user into the outer folder, but not read a message.
 *
 * The mount's owner sends the messages (`inboxfs-sendmail -q`, started by inboxfs-mta.path), and trusts
 * nothing in them: each is sent as mail of a user whose only right on the mount is to send.
 */
#ifndef INBOXFS_SENDMAIL_MAILDROP_H
#define INBOXFS_SENDMAIL_MAILDROP_H

#include <stdbool.h>
#include <stddef.h>

#define MAILDROP_FOLDER "/var/spool/inboxfs/maildrop"
#define MAILDROP_FAILED "/var/spool/inboxfs/failed"

enum {
    MAILDROP_NAME_SIZE = 40, /* size of a file's name with its NUL, and with the dot of an incomplete file */
    MAILDROP_FILE_MAX_BYTES = 32 * 1000 * 1000, /* size of a file, which has a message and its call */
};

struct invocation;

/* Returns true if this machine has a maildrop, which may be unusable. */
bool maildrop_exists(void);

/* Leaves a message in the maildrop, with the recipients, -t, -f, -F and --root of the call. The line ends of
 * the text are LF, and a line of one dot is text. This process becomes inboxfs-maildrop, whose exit status
 * shows whether the message is durable. Returns only on failure: -errno. */
int maildrop_leave(const struct invocation *invocation, const char *text, size_t len);

/* Sends all messages of the maildrop, the oldest first, by the mount of the call. Moves messages that can
 * never be sent to MAILDROP_FAILED, and mails root about them; leaves messages that may be sent later. Does
 * nothing unless this user owns the maildrop. Returns EX_OK; EX_TEMPFAIL if messages are left or cannot be
 * listed. */
int maildrop_send_all(const struct invocation *invocation);

#endif
