/* SPDX-License-Identifier: MIT */
/*
 * inboxfs-sendmail in four parts: a call of the program becomes a message that names all its recipients
 * (message.c), whose local names become addresses (names.c), and that is moved into the outbox of a mount
 * (mount.c). main.c reads the arguments, and submit.c joins the parts.
 *
 * A function that returns a status returns one of sysexits.h, and has reported by complain() what is wrong.
 */
#ifndef INBOXFS_SENDMAIL_H
#define INBOXFS_SENDMAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <sysexits.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "mail/address.h"
#include "mail/draft.h"
#include "mail/mime.h"

enum {
    MESSAGE_MAX_BYTES =
        DRAFT_MAX_BYTES - 1000 * 1000, /* leaves room in a draft for the fields that are added */
    MESSAGE_NAME_SIZE = 40,
};

enum mode {
    MODE_SEND,       /* -bm */
    MODE_LIST_QUEUE, /* -bp, mailq */
    MODE_RUN_QUEUE,  /* -q: the messages in the maildrop; a mount sends by itself */
    MODE_SMTP,       /* -bs */
    MODE_ALIASES,    /* -bi, -I, newaliases: nothing is to be done, for the alias file is read each time */
};

/* A call of the program. */
struct invocation {
    enum mode mode;
    const char *mount;     /* --mount, else INBOXFS_MOUNT; NULL: the only one that is trusted */
    const char *aliases;   /* a file as /etc/aliases */
    const char *root;      /* recipient of mail for local names without an alias; or NULL */
    const char *sender;    /* -f, or NULL */
    const char *name;      /* -F, or NULL */
    bool reads_headers;    /* -t: recipients are in the headers, too */
    bool ignores_dots;     /* -i: a line with only a dot is text */
    bool waits;            /* --wait */
    bool rewrites_from;    /* --rewrite-from */
    bool is_delegated;     /* another user runs it with our rights, which are to send and no more */
    bool is_from_maildrop; /* the message was left in the maildrop */
    char **recipients;     /* NULL behind the last */
};

/* Logs the words, and has the value `status`. */
#define complain(status, ...) (log_error(__VA_ARGS__), (status))

static inline int complain_of_memory(void)
{
    return complain(EX_TEMPFAIL, "out of memory");
}

/* ---------------------------------------------------------------- addresses and local names */

/* How a domain belongs to this machine. The machine's name may be unknown elsewhere, or be a domain that has
 * other addresses, too. */
enum host {
    HOST_OTHER,
    HOST_LOCAL, /* without a domain, "localhost", or the machine's name without dots: unknown elsewhere */
    HOST_NAMED, /* the full name, or that of /etc/mailname */
};

/* The domain that address_list_parse_at() adds to a local name. No address has it. */
#define NO_DOMAIN "localhost."

/* The names of this machine, and its alias file. */
struct local_names {
    char host[256];            /* "": it has none */
    struct strbuf other_hosts; /* the lines of /etc/hosts that have the name, and /etc/mailname */
    int mount;                 /* whose inboxes are no local names; -1 if there is no mount */
    char *aliases;             /* the text of the alias file; NULL if there is none */
    const char *path;          /* of the alias file */
    const char *root;          /* recipient of mail for local names without an alias; or NULL */
    bool defers_names;         /* keep names without an alias: the maildrop's owner may have an alias */
};

/* Reads the files. `mount` (-1: none) is borrowed. The caller always releases `names`. Returns a status. */
int local_names_init(struct local_names *names, const struct invocation *invocation, int mount);
void local_names_release(struct local_names *names);
#define _cleanup_local_names_ _cleanup_(local_names_release)
#define _cleanup_addresses_ _cleanup_(address_list_release)

/* Appends the recipients of a list, each once, with local names replaced by aliases. Returns a status. */
int local_names_resolve(const struct local_names *names, const char *text, struct address_list *list);

enum host local_names_host(const struct local_names *names, const char *address);

/* Returns true if the mount has an inbox of this address. */
bool local_names_has_inbox(const struct local_names *names, const char *address);

bool address_list_has(const struct address_list *list, const char *address);

/* ---------------------------------------------------------------- the message */

/* Reads standard input. Returns a status; message_compose() reports a text that is too long. */
int message_read(struct strbuf *text);

/* Writes the draft of the message in `text`: its recipients are those of the call, its sender is one that the
 * mount can send from. Makes the line ends of the text LF, and cuts it off at its end. If `mount` is -1, the
 * message is for the maildrop, and is only checked. Returns a status. */
int message_compose(const struct invocation *invocation, int mount, struct strbuf *text, struct strbuf *out);

/* ---------------------------------------------------------------- the mount */

/* Opens the root folder of the mount that the call names, else of the only one that this user can look into.
 * Returns -1 on an error: *ret_status is the exit status; *ret_reason is the reason, or NULL if complain()
 * reported it. */
int mount_open(const struct invocation *invocation, int *ret_status, const char **ret_reason);

/* Makes a unique name that sorts by time. Returns 0 or -errno. */
int mount_make_name(char ret_name[MESSAGE_NAME_SIZE]);

/* Puts the message into outbox/, as NAME. Returns EX_OK: it is accepted and durable; EX_UNAVAILABLE: it may
 * be accepted; or another status. */
int mount_hand_in(int mount, const char *name, const struct strbuf *message);

/* Returns true if outbox/, sent/ or failed/ has a message of this name. */
bool mount_has_message(int mount, const char *name);

/* Waits until the message has left outbox/, and prints the id that the service gave it. Returns a status. */
int mount_wait_for_service(int mount, const char *name);

/* Prints the messages that wait in outbox/, as mailq does, and in the maildrop if the user may look into it.
 * Returns a status. */
int mount_list_queue(const struct invocation *invocation);

/* ---------------------------------------------------------------- all together (submit.c) */

/* Each returns a status of sysexits.h. */

/* Sends the message on standard input; it is durable when this returns EX_OK. */
int submit_message(const struct invocation *invocation);
/* Sends the message of an SMTP client. `sender` is "" for none, and `recipients` ends with NULL. */
int submit_from_session(const struct invocation *caller, const char *sender, char **recipients);
/* Checks a recipient of such a client: an address or a local name. */
int submit_check_recipient(const struct invocation *invocation, const char *recipient);
/* Sends all messages of the maildrop. */
int submit_queue(const struct invocation *invocation);

/* ---------------------------------------------------------------- SMTP */

/* Serves a client on standard input and output until it says QUIT, or ends its input. Returns the exit
 * status.
 */
int sendmail_smtp_run(const struct invocation *invocation);

#endif
