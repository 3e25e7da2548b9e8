/* SPDX-License-Identifier: MIT */
/*
 * A session of SMTP (RFC 5321) or LMTP (RFC 2033): it turns the bytes of a client into answers, without a
 * socket. LMTP differs in two points: it begins with LHLO, and answers a message once for each recipient.
 * Either all recipients of a message get it, or none.
 *
 * Only <CR><LF>.<CR><LF> ends a message. A line feed or carriage return alone is a byte of the message, so
 * that a client cannot hide a second message in one. A command without <CR><LF> at its end is refused.
 *
 * AUTH (RFC 4954) accepts every user, for programs that require a login. The line with user and password is
 * wiped from memory after it has been read.
 *
 * An incomplete message is dropped. Bounds apply to a line, a message, all messages under way together, the
 * number of recipients, and the number of wrong commands.
 */
#ifndef INBOXFS_MAIL_SMTP_SESSION_H
#define INBOXFS_MAIL_SMTP_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

enum {
    SMTP_RECIPIENTS_MAX = 1000,
    SMTP_ANSWER_MAX_BYTES = 500, /* length of a host's answer; RFC 5321 allows 512 with the line end */
    SMTP_MISTAKES_MAX = 20,      /* wrong commands before the session ends */
    SMTP_FIRST_MISTAKES_MAX = 2, /* likewise, but for a client that has not sent EHLO, HELO or LHLO */
};

enum smtp_dialect {
    DIALECT_SMTP,
    DIALECT_LMTP,
};

/* A complete message. */
struct smtp_message {
    const char *sender; /* the envelope's sender; "" for the null sender */
    const char *const *recipients;
    size_t recipients_len; /* 1 to SMTP_RECIPIENTS_MAX */
    const char *text;      /* any bytes */
    size_t text_len;
};

/* The program that receives the messages, and what its sessions offer. A callback returns an answer with its
 * code, such as "550 5.1.1 No inbox has this address". The answer stays valid until the session calls the
 * next callback. The session sends it with "?" for all bytes but printable ASCII. */
struct smtp_host {
    void *context;
    enum smtp_dialect dialect;
    const char *program;    /* name of the program, for the greeting */
    const char *domain;     /* name of the host */
    bool takes_login;       /* offers AUTH, and accepts any user and password */
    bool offers_tls;        /* offers STARTTLS */
    bool keeps_local_names; /* passes recipients without a domain unchanged; if false, appends `domain` */
    size_t message_max_bytes;
    size_t texts_max_bytes;    /* bound for the incomplete messages of all sessions together */
    atomic_size_t *text_bytes; /* current size of these messages */
    /* Returns NULL if the recipient is accepted, else the answer that refuses it. */
    const char *(*check_recipient)(void *context, const char *address);
    /* Returns the answer, which begins with 250 only if the message is durable. May wait. */
    const char *(*deliver)(void *context, const struct smtp_message *message);
};

struct smtp_session;

/* Appends the greeting to `answers`. The caller sends and clears them. Both arguments are borrowed until the
 * session is freed. */
struct smtp_session *smtp_session_new(const struct smtp_host *host, struct strbuf *answers);

void smtp_session_free(struct smtp_session *session);

/* Carries out the commands that these bytes complete, and appends the answers. Waits for deliver(). */
void smtp_session_receive(struct smtp_session *session, const char *bytes, size_t len);

/* Returns true while the text of a message is being received. */
bool smtp_session_is_in_message(const struct smtp_session *session);

/* Returns true from the answer to STARTTLS until smtp_session_restart_with_tls(). The session ignores the
 * bytes that it receives meanwhile: they are not encrypted, and anyone on the network may have added them. */
bool smtp_session_wants_tls(const struct smtp_session *session);

/* Restarts the session after the TLS handshake: earlier commands have no effect. */
void smtp_session_restart_with_tls(struct smtp_session *session);

/* Returns true if the caller has to close the connection after sending the answers. The session ignores the
 * bytes that it receives from then on. */
bool smtp_session_must_close(const struct smtp_session *session);

#endif
