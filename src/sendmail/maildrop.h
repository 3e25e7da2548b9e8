/* SPDX-License-Identifier: MIT */
/*
 * The maildrop: where users of this machine leave mail for a mount that they cannot enter, or that does not
 * run. The package inboxfs-mta makes it. It is two folders and a program:
 *
 *   /var/spool/inboxfs           inboxfs:inboxfs-mta  0710   lets nobody in but the group
 *   /var/spool/inboxfs/maildrop  inboxfs:inboxfs      3777   whoever is in there can add files
 *   inboxfs-maildrop             root:inboxfs-mta     2755   copies its standard input into a new file there
 *
 * So a user can add a message by that program, and can do nothing else: not see or change a message, nor put
 * there a link, a FIFO or half a file. The file is the user's own, so it counts in the user's quota and says
 * who left it; its group is the folder's, so that the mount's owner can read it. Should the program be
 * tricked, its group opens the outer folder, and no message.
 *
 * The mount's owner takes the messages out (`inboxfs-sendmail -q`, started by inboxfs-mta.path), and trusts
 * nothing in them: each is sent as mail of a user who has no rights on the mount but to send.
 */
#ifndef INBOXFS_SENDMAIL_MAILDROP_H
#define INBOXFS_SENDMAIL_MAILDROP_H

#include <stdbool.h>
#include <stddef.h>

#define MAILDROP_FOLDER "/var/spool/inboxfs/maildrop"
#define MAILDROP_FAILED "/var/spool/inboxfs/failed"

enum {
    MAILDROP_NAME_SIZE = 40, /* of a file there, with its NUL and the dot before it while it is written */
    MAILDROP_FILE_MAX_BYTES = 32 * 1000 * 1000, /* a message and its call */
};

struct invocation;

/* Returns true if this machine has a maildrop, whether or not it can be used now. */
bool maildrop_exists(void);

/* Leaves a message there, with the recipients, -t, -f, -F and --root of the call. The line ends of the text
 * are LF, and a line of one dot is text. This process becomes inboxfs-maildrop, whose exit status says
 * whether the message is durable. Returns only with -errno. */
int maildrop_leave(const struct invocation *invocation, const char *text, size_t len);

/* Sends one message, by a call that has the rights of the user who left it: to send, and no more. `name` is
 * the file's: after a crash the same message comes again under this name. Returns a status of sysexits.h. */
typedef int maildrop_send_fn(void *context, const struct invocation *invocation, const char *text, size_t len,
                             const char *name);

/* Hands all messages to `send`, in the order in which they came. Removes a sent message; moves one that can
 * never be sent to MAILDROP_FAILED, and counts it in *ret_failed; leaves one that may be sent later. Does
 * nothing for any user but the maildrop's owner. Returns 0, or -EAGAIN if messages are left. */
int maildrop_run(maildrop_send_fn *send, void *context, unsigned int *ret_failed);

#endif
