/* SPDX-License-Identifier: MIT */
/*
 * A session of SMTP (RFC 5321) or LMTP (RFC 2033), from a client's bytes to the answers, without a socket.
 *
 * The two differ in two things. LMTP begins with LHLO, and it answers a message once for each recipient. All
 * recipients of a message get it, or none of them.
 *
 * A message ends at <CR><LF>.<CR><LF> alone. Line feeds and carriage returns that stand by themselves are
 * bytes of it, so that nobody can hide a second message in one. Commands end with <CR><LF>; one that does not
 * is refused.
 *
 * AUTH (RFC 4954) lets everybody in, for programs that insist on it. User and password are wiped once the
 * line that holds them was read.
 *
 * Nothing is kept of a message whose end did not come. All is bounded: a line, the message, all messages that
 * are under way at once, the number of recipients, and how many wrong commands are listened to.
 */
#ifndef INBOXFS_MAIL_SMTP_SESSION_H
#define INBOXFS_MAIL_SMTP_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

enum {
    SMTP_RECIPIENTS_MAX = 1000,
    SMTP_ANSWER_MAX_BYTES = 500, /* of an answer of the host's; RFC 5321 allows 512 with the line end */
    SMTP_MISTAKES_MAX = 20,      /* that a client may make, before it is sent away */
    SMTP_FIRST_MISTAKES_MAX = 2, /* that it may make before it says EHLO */
};

enum smtp_dialect {
    DIALECT_SMTP,
    DIALECT_LMTP,
};

/* A message whose end came. */
struct smtp_message {
    const char *sender; /* of the envelope; "": nobody */
    const char *const *recipients;
    size_t recipients_len; /* 1 to SMTP_RECIPIENTS_MAX */
    const char *text;      /* any bytes */
    size_t text_len;
};

/* The program that takes the messages: what its sessions offer, and its functions. An answer that a function
 * returns is a code and words, as in "550 5.1.1 No inbox has this address". It stays valid until the session
 * calls the next function. In the client's line all but ASCII that can be printed is replaced. */
struct smtp_host {
    void *context;
    enum smtp_dialect dialect;
    const char *program;    /* its name, for the greeting */
    const char *domain;     /* that it calls itself */
    bool takes_login;       /* offers AUTH, and takes any user and password */
    bool offers_tls;        /* by STARTTLS */
    bool keeps_local_names; /* a recipient without a domain is handed on without one; else gets `domain` */
    size_t message_max_bytes;
    size_t texts_max_bytes;    /* of the messages that all its sessions have under way */
    atomic_size_t *text_bytes; /* that these have now */
    /* Returns NULL if the recipient is taken, else the answer that refuses it. */
    const char *(*check_recipient)(void *context, const char *address);
    /* Returns the answer, which begins with 250 only if the message is durable. May wait. */
    const char *(*deliver)(void *context, const struct smtp_message *message);
};

struct smtp_session;

/* Appends the greeting to `answers`. The caller sends and clears them. Both arguments are borrowed until the
 * session is freed. 0 or -ENOMEM. */
int smtp_session_new(const struct smtp_host *host, struct strbuf *answers, struct smtp_session **ret_session);

/* NULL-safe. */
void smtp_session_free(struct smtp_session *session);

/* Carries out what these bytes complete, and appends the answers. Waits where a delivery waits. */
void smtp_session_receive(struct smtp_session *session, const char *bytes, size_t len);

/* Returns true if a message's text is under way. */
bool smtp_session_is_in_message(const struct smtp_session *session);

/* Returns true from the answer to STARTTLS on, until smtp_session_encrypt(). What is received meanwhile is
 * thrown away: it came in the clear, and from anybody who is on the way. */
bool smtp_session_wants_tls(const struct smtp_session *session);

/* Begins the session anew, for the handshake is over: nothing that was said before it counts. */
void smtp_session_encrypt(struct smtp_session *session);

/* Returns true if the connection is to be closed once the answers are sent. What is received from then on is
 * thrown away. */
bool smtp_session_is_over(const struct smtp_session *session);

#endif
