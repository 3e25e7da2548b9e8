/* SPDX-License-Identifier: MIT */
/*
 * inboxfs-sendmail: main.c parses the arguments into an invocation, and carries it out. The message gets a
 * header that names all recipients (message.c), whose local names become addresses (names.c). Then the
 * message is moved into the outbox of a mount (mount.c), or left in the maildrop (maildrop.c).
 *
 * A function that returns a status returns one of sysexits.h, and has reported an error by complain().
 */
#ifndef INBOXFS_SENDMAIL_H
#define INBOXFS_SENDMAIL_H

#include <glib.h>
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
    MESSAGE_MAX_BYTES = DRAFT_MAX_BYTES - 1000 * 1000, /* the rest of a draft is for fields that are added */
    MESSAGE_NAME_SIZE = 40,
};

enum mode {
    MODE_SEND,       /* -bm */
    MODE_LIST_QUEUE, /* -bp, mailq */
    MODE_RUN_QUEUE,  /* -q: sends the messages in the maildrop; a mount sends its messages without a call */
    MODE_SMTP,       /* -bs */
};

/* A call of the program. */
struct invocation {
    enum mode mode;
    const char *mount;   /* --mount, else INBOXFS_MOUNT; NULL: the only mount that is trusted */
    const char *aliases; /* the alias file's path; NULL: /etc/aliases */
    const char *root;    /* recipient of mail for local names without an alias; or NULL */
    const char *sender;  /* -f, or NULL */
    const char *name;    /* -F, or NULL */
    bool reads_headers;  /* -t: the headers name recipients as well */
    bool ignores_dots;   /* -i: a line with only a dot is text */
    bool waits;          /* --wait */
    bool rewrites_from;  /* --rewrite-from */
    bool is_delegated;   /* another user chose the arguments and the message, and must not profit from the
                            rights of this process */
    char **recipients;   /* ends with NULL */
    struct span text;    /* the message; `bytes` is NULL if it is to be read from standard input */
};

/* ---------------------------------------------------------------- addresses and local names */

/* How a domain belongs to this machine. The machine's name may be unknown elsewhere, or be a domain with
 * addresses that are not on this machine. */
enum host {
    HOST_OTHER,
    HOST_LOCAL, /* no domain, "localhost", or a name of the machine without dots, which others do not know */
    HOST_NAMED, /* the machine's full name, or the one in /etc/mailname */
};

/* The domain that address_list_parse() adds to a local name. No real address has this domain. */
#define NO_DOMAIN "localhost."

bool recipients_has(const struct address_list *recipients, const char *address);

/* Appends the address unless the list has it. Returns a status. */
int recipients_add(struct address_list *recipients, const struct address *address);

/* The names of this machine, and its alias file. */
struct local_names {
    GHashTable *hosts; /* the machine's names, in small letters */
    int mount;         /* root folder of the mount, whose inboxes are not local names; -1 if there is none */
    char *aliases;     /* the content of the alias file; NULL if there is none */
    const char *path;  /* path of the alias file */
    const char *root;  /* recipient of mail for local names without an alias; or NULL */
};

/* Reads the files. `mount` (-1: none) is borrowed. The caller always releases `names`. Returns a status. */
int local_names_init(struct local_names *names, const struct invocation *invocation, int mount);
void local_names_release(struct local_names *names);

#define _cleanup_addresses_ _cleanup_(address_list_release)
#define _cleanup_local_names_ _cleanup_(local_names_release)

/* Adds the recipients of an address list, with local names replaced by their aliases. Returns a status. */
int local_names_resolve(const struct local_names *names, const char *text, struct address_list *recipients);

enum host local_names_classify(const struct local_names *names, const char *address);

/* Returns true if the mount has an inbox of this address. */
bool local_names_has_inbox(const struct local_names *names, const char *address);

/* ---------------------------------------------------------------- the message */

/* Reads the message into `text`, with LF line ends; without -i only up to a line of one dot. Writes the
 * draft: its header names all recipients, and a sender that the mount can send from. If `mount` is -1, the
 * message is for the maildrop, and the draft serves only to find errors. Returns a status. */
int message_compose(const struct invocation *invocation, int mount, struct strbuf *text,
                    struct strbuf *draft);

/* ---------------------------------------------------------------- the mount */

/* Opens the root folder of the mount that the call names, else of the only mount that this user can enter.
 * Returns the descriptor; or a negative status, with *ret_reason (the caller frees it). */
int mount_open(const struct invocation *invocation, char **ret_reason);

/* Makes a unique name that sorts by time. */
void mount_make_name(char ret_name[MESSAGE_NAME_SIZE]);

/* Puts the draft into outbox/ as `name`. Returns EX_OK if the draft is accepted and durable; EX_UNAVAILABLE
 * if it may have been accepted; or another status. */
int mount_hand_in(int mount, const char *name, const struct strbuf *draft);

/* Returns true if outbox/, sent/ or failed/ has a message of this name. */
bool mount_has_message(int mount, const char *name);

/* Waits until the message has left outbox/, and prints the id that the service gave it. Returns a status. */
int mount_wait_for_service(int mount, const char *name);

/* Prints the messages in outbox/ as mailq does, and those in the maildrop if this user can read it. Returns a
 * status. */
int mount_print_queue(const struct invocation *invocation);

/* ---------------------------------------------------------------- all together (main.c, smtp.c) */

/* Sends the message, or leaves it in the maildrop. Returns EX_OK if it is durable; or another status. */
int submit_message(const struct invocation *invocation);

/* Checks a recipient of an SMTP client: an address or a local name. Returns a status. */
int submit_check_recipient(const struct invocation *invocation, const char *recipient);

/* Sends the message of the call by this mount, as `name`. Returns a status. */
int submit_to_mount(const struct invocation *invocation, int mount, const char *name);

/* Serves an SMTP client on standard input and output until QUIT or the end of the input. Returns the exit
 * status. */
int sendmail_smtp_run(const struct invocation *invocation);

#endif
