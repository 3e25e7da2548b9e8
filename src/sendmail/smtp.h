/* SPDX-License-Identifier: MIT */
/*
 * `inboxfs-sendmail -bs`: SMTP (RFC 5321) on standard input and output, for one client. It has the grammar of
 * mail/smtp_session.h.
 *
 * A recipient is checked, and a message is sent, by a call in a process of its own, which reports as the
 * whole program does: by a status of sysexits.h and words on standard error. The session makes its answer of
 * both. So one message leaves nothing behind for the next.
 *
 * A client whose first line ends with LF alone may end all its lines so, as people and scripts do. For any
 * other client LF alone is no line end, so that no text of a message ends that message.
 */
#ifndef INBOXFS_SENDMAIL_SMTP_H
#define INBOXFS_SENDMAIL_SMTP_H

#include <stddef.h>

/* The calls return a status of sysexits.h. EX_OK: taken; for a message: accepted and durable. */
struct sendmail_calls {
    void *context;
    size_t message_max_bytes;
    /* `recipient`: an address or a local name. */
    int (*check)(void *context, const char *recipient);
    /* The message is on standard input. `sender`: "" for none. `recipients`: NULL behind the last. */
    int (*send)(void *context, const char *sender, char **recipients);
};

/* Serves until the client says QUIT, or ends its input. Returns the exit status. */
int sendmail_smtp_run(const struct sendmail_calls *calls);

#endif
