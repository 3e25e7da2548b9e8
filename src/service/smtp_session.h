/* SPDX-License-Identifier: MIT */
/*
 * A session of SMTP (RFC 5321) or LMTP (RFC 2033), from a client's bytes to the answers, without a socket.
 *
 * The two differ in two things. LMTP begins with LHLO, and it answers a message once for each recipient. All
 * recipients of a message get it, or none of them. A recipient without an inbox is refused, unless the
 * message makes it.
 *
 * A message ends at <CR><LF>.<CR><LF> alone. Line feeds and carriage returns that stand by themselves are
 * bytes of it, so that nobody can hide a second message in one. Commands end with <CR><LF>; one that does not
 * is refused.
 *
 * Nothing is kept of a message whose end did not come. All is bounded: a line, the message, all messages that
 * are under way at once, the number of recipients, and how many wrong commands are listened to.
 */
#ifndef INBOXFS_SERVICE_SMTP_SESSION_H
#define INBOXFS_SERVICE_SMTP_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "service/delivery.h"

enum {
    SMTP_TEXTS_MAX_BYTES = 250 * 1000 * 1000, /* of the messages that all sessions have under way */
    SMTP_MISTAKES_MAX = 20,                   /* that a client may make, before it is sent away */
    SMTP_FIRST_MISTAKES_MAX = 2,              /* that it may make before it says EHLO */
};

enum smtp_dialect {
    DIALECT_SMTP,
    DIALECT_LMTP,
};

/* What the session asks of the service; borrowed. */
struct smtp_mailboxes {
    void *context;
    /* 0: there is an inbox; -ENOENT or -errno. Asked where mail does not make it. */
    int (*find)(void *context, const char *address);
    /* As delivery_receive(): the message is durable when this returns 0. */
    int (*deliver)(void *context, const struct delivery *delivery);
    atomic_size_t *text_bytes; /* that its sessions hold of messages */
    const char *new_inboxes;   /* as struct delivery has it */
};

struct smtp_session;

/* Appends the greeting to `answers`, which is borrowed until the session is freed, and is the caller's to
 * send and to clear. `domain` is what the service calls itself, and what a recipient without a domain gets.
 * 0 or -ENOMEM. */
int smtp_session_new(enum smtp_dialect dialect, const char *domain, const struct smtp_mailboxes *mailboxes,
                     struct strbuf *answers, struct smtp_session **ret_session);

/* NULL-safe. */
void smtp_session_free(struct smtp_session *session);

/* Carries out what these bytes complete, and appends the answers. Waits where a delivery waits. */
void smtp_session_receive(struct smtp_session *session, const char *bytes, size_t len);

/* Whether a message's text is under way. */
bool smtp_session_is_in_message(const struct smtp_session *session);

/* Whether the connection is to be closed once the answers are sent. What is received from then on is thrown
 * away. */
bool smtp_session_is_over(const struct smtp_session *session);

#endif
