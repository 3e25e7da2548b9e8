/* SPDX-License-Identifier: MIT */
/*
 * inboxfs-sendmail: the program that others call as `sendmail`. It sends a message by a mount that this user
 * can enter, else leaves the message in the maildrop. Its exit status shows whether the message is accepted.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/process.h"
#include "sendmail/maildrop.h"
#include "sendmail/sendmail.h"

static const char usage[] =
    "Usage: inboxfs-sendmail [OPTIONS] [--] [ADDRESS...] < MESSAGE\n"
    "       inboxfs-sendmail -bp | -bs\n"
    "\n"
    "Hands a message to the outbox of an inboxfs mount, as sendmail does.\n"
    "\n"
    "  -t               send to those whom the headers name, too\n"
    "  -i, -oi          a line of a single dot does not end the message\n"
    "  -f, -r ADDRESS   who sends it, where the message has no usable From\n"
    "  -F NAME          the sender's name, likewise\n"
    "  -bp              list what waits to be sent (also as mailq)\n"
    "  -q               hand in what waits in the maildrop, as its owner\n"
    "  -bs              speak SMTP on standard input and output\n"
    "  -bi, -I          do nothing, as newaliases\n"
    "  --mount=DIR      the mount (default $INBOXFS_MOUNT, else the only trusted one)\n"
    "  --aliases=FILE   addresses for local names (default /etc/aliases)\n"
    "  --root=ADDRESS   who gets the mail of local names without an alias\n"
    "  --rewrite-from   let the mount's sender stand in for a From that is no inbox\n"
    "  --wait           wait until the service has it, and print its id\n"
    "  --help, --version\n"
    "\n"
    "-A -B -bm -C -c -D -d -E -e -G -h -L -M -m -N -n -O -o -p -Q -R -S -s -T -U -V -v\n"
    "-X -x, which other sendmails have, are taken with their arguments and passed over.\n";

/* ---------------------------------------------------------------- arguments */

/* Parses -b. Returns -1 to continue, else the exit status. */
static int set_mode(const char *letter, struct invocation *invocation)
{
    if (strcmp(letter, "i") == 0)
        return EX_OK; /* there is nothing to do: each call reads the alias file */
    if (strcmp(letter, "p") == 0)
        invocation->mode = MODE_LIST_QUEUE;
    else if (strcmp(letter, "s") == 0)
        invocation->mode = MODE_SMTP;
    else if (strcmp(letter, "m") != 0)
        return complain(EX_USAGE, "-b%s is not supported: there is no SMTP server, and no test of addresses",
                        letter);
    return -1;
}

/* Parses -o. Other sendmails attach an argument to the flag; for some flags Exim takes the next argument, as
 * in "-oMr local". */
static void parse_o_option(struct invocation *invocation, char *const *argv)
{
    static const char *const followed[] = {"A",   "P",  "X",  "Ma", "Maa", "Mai",
                                           "Mas", "Mi", "Mm", "Mr", "Ms",  "Mt"};
    if (strcmp(optarg, "i") == 0)
        invocation->ignores_dots = true;
    for (size_t i = 0; i < ARRAY_LEN(followed); i++)
        if (strcmp(optarg, followed[i]) == 0 && argv[optind] != NULL) {
            optind++;
            return;
        }
}

/* Sets an option that may not be given twice, so that a user cannot override the value in a line of sudoers.
 * Returns -1 to continue, else the exit status. */
static int set_once(const char *name, const char **value)
{
    if (*value != NULL)
        return complain(EX_USAGE, "--%s is given twice", name);
    *value = optarg;
    return -1;
}

/* Returns -1 to continue, else the exit status. */
static int parse_arguments(int argc, char **argv, struct invocation *invocation)
{
    enum {
        MOUNT = UCHAR_MAX + 1,
        ALIASES,
        ROOT,
        REWRITE_FROM,
        WAIT,
        HELP,
        VERSION,
    };
    static const struct option options[] = {
        {"mount", required_argument, NULL, MOUNT}, {"aliases", required_argument, NULL, ALIASES},
        {"root", required_argument, NULL, ROOT},   {"rewrite-from", no_argument, NULL, REWRITE_FROM},
        {"wait", no_argument, NULL, WAIT},         {"help", no_argument, NULL, HELP},
        {"version", no_argument, NULL, VERSION},   {NULL, 0, NULL, 0},
    };
    static const char short_options[] =
        "+A:B:C:D:EF:GIL:M:N:O:Q::R:STUV:X:b:cd::e:f:h:imno:p:q::r:stvx"; /* of Postfix, sendmail and Exim */
    int option;
    int status = -1;
    while (status < 0 && (option = getopt_long(argc, argv, short_options, options, NULL)) != -1) {
        if (option == MOUNT)
            status = set_once("mount", &invocation->mount);
        else if (option == ALIASES && invocation->is_delegated)
            return complain(EX_USAGE, "--aliases is not for who sends with another user's rights (sudo)");
        else if (option == ALIASES)
            status = set_once("aliases", &invocation->aliases);
        else if (option == ROOT)
            status = set_once("root", &invocation->root);
        else if (option == REWRITE_FROM)
            invocation->rewrites_from = true;
        else if (option == WAIT)
            invocation->waits = true;
        else if (option == 'f' || option == 'r')
            invocation->sender = optarg;
        else if (option == 'F')
            invocation->name = optarg;
        else if (option == 't')
            invocation->reads_headers = true;
        else if (option == 'q')
            invocation->mode = MODE_RUN_QUEUE;
        else if (option == 'i')
            invocation->ignores_dots = true;
        else if (option == 'o')
            parse_o_option(invocation, argv);
        else if (option == 'b')
            status = set_mode(optarg, invocation);
        else if (option == 'I')
            return EX_OK;
        else if (option == HELP || option == VERSION) {
            fputs(option == HELP ? usage : "inboxfs-sendmail " INBOXFS_VERSION "\n", stdout);
            return EX_OK;
        } else if (option == '?')
            return complain(EX_USAGE, "try --help");
    }
    invocation->recipients = argv + optind;
    return status;
}

/* ---------------------------------------------------------------- sending */

/* Sets *ret_mount to -1 if no mount can be opened, but the machine has a maildrop. Returns a status. */
static int open_mount(const struct invocation *invocation, int *ret_mount)
{
    _cleanup_free_ char *reason = NULL;
    int mount = mount_open(invocation, &reason);
    if (mount < 0 && (invocation->mount != NULL || !maildrop_exists()))
        return complain(-mount, "%s", reason);
    *ret_mount = mount < 0 ? -1 : mount;
    return EX_OK;
}

int submit_to_mount(const struct invocation *invocation, int mount, const char *name)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf draft = STRBUF_INIT(DRAFT_MAX_BYTES);
    int status = message_compose(invocation, mount, &text, &draft);
    return status == EX_OK ? mount_hand_in(mount, name, &draft) : status;
}

/* First makes all checks that need no mount, so that the caller gets their errors. */
static int leave_message(const struct invocation *caller)
{
    struct invocation invocation = *caller;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf draft = STRBUF_INIT(DRAFT_MAX_BYTES);
    invocation.is_delegated = true;
    if (invocation.aliases != NULL || invocation.waits)
        return complain(EX_USAGE, "--aliases and --wait need a mount that this user can enter");
    int status = message_compose(&invocation, -1, &text, &draft);
    if (status != EX_OK)
        return status;
    int error = maildrop_leave(&invocation, strbuf_str(&text), text.len);
    return complain(EX_TEMPFAIL, "cannot leave the message in the maildrop: %s", strerrordesc_np(-error));
}

int submit_message(const struct invocation *invocation)
{
    char name[MESSAGE_NAME_SIZE];
    _cleanup_close_ int mount = -1;
    int status = open_mount(invocation, &mount);
    if (status != EX_OK)
        return status;
    if (mount < 0)
        return leave_message(invocation);
    mount_make_name(name);
    status = submit_to_mount(invocation, mount, name);
    return status == EX_OK && invocation->waits ? mount_wait_for_service(mount, name) : status;
}

int submit_check_recipient(const struct invocation *invocation, const char *recipient)
{
    _cleanup_addresses_ struct address_list recipients = {0};
    _cleanup_close_ int mount = -1;
    int status = open_mount(invocation, &mount);
    if (status != EX_OK)
        return status;
    _cleanup_local_names_ struct local_names names;
    status = local_names_init(&names, invocation, mount);
    return status == EX_OK ? local_names_resolve(&names, recipient, &recipients) : status;
}

/* ---------------------------------------------------------------- the call */

/* Returns true if a user without the rights of this process chose its arguments and the message. */
static bool is_delegated(void)
{
    const char *caller = getenv("SUDO_UID");
    unsigned long uid = caller != NULL ? strtoul(caller, NULL, 10) : 0;
    return getauxval(AT_SECURE) != 0 || (uid != 0 && uid != geteuid());
}

static int run(struct invocation *invocation)
{
    if (invocation->mode == MODE_RUN_QUEUE && (invocation->reads_headers || *invocation->recipients != NULL))
        invocation->mode = MODE_SEND;
    switch (invocation->mode) {
    case MODE_LIST_QUEUE:
        return mount_print_queue(invocation);
    case MODE_RUN_QUEUE:
        return maildrop_send_all(invocation);
    case MODE_SMTP:
        return *invocation->recipients == NULL
                   ? sendmail_smtp_run(invocation)
                   : complain(EX_USAGE, "-bs takes no recipients: the client names them by RCPT");
    default:
        return submit_message(invocation);
    }
}

int main(int argc, char **argv)
{
    const char *mount_path = getenv("INBOXFS_MOUNT");
    struct invocation invocation = {.recipients = argv, .is_delegated = is_delegated()};
    descriptors_open_standard();
    log_set_prefix("inboxfs-sendmail: ");
    if (strcmp(program_invocation_short_name, "newaliases") == 0)
        return EX_OK;
    if (strcmp(program_invocation_short_name, "mailq") == 0)
        invocation.mode = MODE_LIST_QUEUE;
    int status = parse_arguments(argc, argv, &invocation);
    if (status >= 0)
        return status;
    if (invocation.mount == NULL && mount_path != NULL && *mount_path != '\0')
        invocation.mount = mount_path;
    if (invocation.mount == NULL && maildrop_exists())
        invocation.rewrites_from = true;
    status = run(&invocation);
    /* An accepted message keeps status 0: after a failure the caller would send the message again. */
    if (fflush(stdout) != 0)
        status = complain(invocation.mode == MODE_LIST_QUEUE ? EX_IOERR : status,
                          "cannot write to standard output");
    return status;
}
