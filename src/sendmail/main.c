/* SPDX-License-Identifier: MIT */
/*
 * inboxfs-sendmail: the program that others call as `sendmail`, on a mount of inboxfs. Its exit status says
 * whether the message is accepted.
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
#include "base/descriptors.h"
#include "base/log.h"
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

/* -1: go on; else the exit status. */
static int set_mode(const char *letter, struct invocation *invocation)
{
    static const enum mode modes[UCHAR_MAX + 1] = {
        ['p'] = MODE_LIST_QUEUE, ['s'] = MODE_SMTP, ['i'] = MODE_ALIASES};
    enum mode mode = modes[(unsigned char)letter[0]];
    if (strlen(letter) != 1 || (mode == MODE_SEND && *letter != 'm'))
        return complain(EX_USAGE, "-b%s is not supported: there is no SMTP server, and no test of addresses",
                        letter);
    invocation->mode = mode;
    return -1;
}

/* Other sendmails take an argument behind some of these only where it is attached. Exim wants it to follow
 * some, as in "-oMr local". */
static void take_flag(struct invocation *invocation, char *const *argv)
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

/* An argument that a line of sudoers fixes cannot be followed by another. -1: go on; else the exit status. */
static int take_once(const char *name, const char **value)
{
    if (*value != NULL)
        return complain(EX_USAGE, "--%s is given twice", name);
    *value = optarg;
    return -1;
}

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
            status = take_once("mount", &invocation->mount);
        else if (option == ALIASES && invocation->is_delegated)
            return complain(EX_USAGE, "--aliases is not for who sends with another user's rights (sudo)");
        else if (option == ALIASES)
            status = take_once("aliases", &invocation->aliases);
        else if (option == ROOT)
            status = take_once("root", &invocation->root);
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
            take_flag(invocation, argv);
        else if (option == 'b')
            status = set_mode(optarg, invocation);
        else if (option == 'I')
            invocation->mode = MODE_ALIASES;
        else if (option == HELP || option == VERSION) {
            fputs(option == HELP ? usage : "inboxfs-sendmail " INBOXFS_VERSION "\n", stdout);
            return EX_OK;
        } else if (option == '?')
            return complain(EX_USAGE, "try --help");
    }
    invocation->recipients = argv + optind;
    return status;
}

/* ---------------------------------------------------------------- all of it */

static int hand_in(const struct invocation *invocation, int mount, struct strbuf *text, const char *name)
{
    _cleanup_strbuf_ struct strbuf draft = STRBUF_INIT(DRAFT_MAX_BYTES);
    int status = message_compose(invocation, mount, text, &draft);
    return status == EX_OK ? mount_hand_in(mount, name, &draft) : status;
}

/* Sends what is read from standard input. */
static int send_message(const struct invocation *invocation, int mount)
{
    char name[MESSAGE_NAME_SIZE];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    int status = message_read(&text);
    if (status == EX_OK && mount_make_name(name) != 0)
        return complain(EX_TEMPFAIL, "cannot make up a name");
    if (status == EX_OK)
        status = hand_in(invocation, mount, &text, name);
    return status == EX_OK && invocation->waits ? mount_wait_for_service(mount, name) : status;
}

/* ---------------------------------------------------------------- the maildrop */

/* Refuses here all that is wrong without regard to the mount, so that the caller gets the status. */
static int leave_message(const struct invocation *caller)
{
    struct invocation invocation = *caller;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    _cleanup_strbuf_ struct strbuf composed = STRBUF_INIT(DRAFT_MAX_BYTES);
    invocation.is_delegated = true;
    if (invocation.aliases != NULL || invocation.waits)
        return complain(EX_USAGE, "--aliases and --wait need a mount that this user can enter");
    int status = message_read(&text);
    if (status == EX_OK)
        status = message_compose(&invocation, -1, &text, &composed);
    if (status != EX_OK)
        return status;
    int error = maildrop_leave(&invocation, strbuf_str(&text), text.len);
    return complain(EX_TEMPFAIL, "cannot leave the message in the maildrop: %s", strerrordesc_np(-error));
}

/* Hands a message to the mount: to one that this user can enter, else by way of the maildrop. */
static int deliver(const struct invocation *invocation)
{
    int status = EX_OK;
    const char *reason = NULL;
    _cleanup_close_ int mount = mount_open(invocation, &status, &reason);
    if (mount >= 0)
        return send_message(invocation, mount);
    if (reason != NULL && maildrop_exists())
        return leave_message(invocation);
    return reason != NULL ? complain(status, "%s", reason) : status;
}

struct queue_run {
    const struct invocation *invocation;
    int mount;
    int status; /* EX_OK: the mount was not looked for yet */
};

/* Sends a message that any user may have left, with anything in it. */
static int send_left_message(void *context, const struct invocation *left, const char *bytes, size_t len,
                             const char *file_name)
{
    struct queue_run *run = context;
    const char *reason = NULL;
    char name[MAILDROP_NAME_SIZE + sizeof(".eml")];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    struct invocation invocation = *left;
    if (invocation.root == NULL)
        invocation.root = run->invocation->root;
    if (strlen(file_name) >= MAILDROP_NAME_SIZE)
        return EX_DATAERR;
    if (run->mount < 0 && run->status == EX_OK)
        run->mount = mount_open(run->invocation, &run->status, &reason);
    if (run->mount < 0 && reason != NULL)
        log_error("%s", reason);
    if (run->mount < 0)
        return EX_TEMPFAIL;
    snprintf(name, sizeof(name), "%s.eml", file_name);
    if (mount_has_message(run->mount, name))
        return EX_OK;
    strbuf_append(&text, bytes, len);
    return hand_in(&invocation, run->mount, &text, name);
}

/* Mails root, if the alias file names an address: the users who left these messages got status 0 for them. */
static void report_failed(const struct queue_run *run, unsigned int count)
{
    char name[MESSAGE_NAME_SIZE];
    char *nobody = NULL;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MESSAGE_MAX_BYTES);
    const struct invocation invocation = {
        .root = run->invocation->root, .reads_headers = true, .ignores_dots = true, .recipients = &nobody};
    strbuf_appendf(
        &text,
        "To: root\nSubject: Mail of this machine could not be sent\nAuto-Submitted: auto-generated\n\n"
        "%u messages that users of this machine left could not be sent. They are kept in\n%s\n"
        "The journal has the reasons: journalctl -u inboxfs-mta.service\n",
        count, MAILDROP_FAILED);
    if (mount_make_name(name) == 0)
        hand_in(&invocation, run->mount, &text, name);
}

static int run_queue(const struct invocation *invocation)
{
    struct queue_run run = {.invocation = invocation, .mount = -1};
    unsigned int failed = 0;
    int error = maildrop_run(send_left_message, &run, &failed);
    if (failed > 0 && run.mount >= 0)
        report_failed(&run, failed);
    if (run.mount >= 0)
        close(run.mount);
    return error == 0 ? EX_OK : EX_TEMPFAIL;
}

/* ---------------------------------------------------------------- SMTP on standard input and output */

int sendmail_check_recipient(const struct invocation *invocation, const char *recipient)
{
    _cleanup_local_names_ struct local_names names;
    _cleanup_addresses_ struct address_list list = {0};
    int status = EX_OK;
    const char *reason;
    _cleanup_close_ int mount = mount_open(invocation, &status, &reason);
    status = local_names_init(&names, invocation, mount);
    names.defers_names = mount < 0 && maildrop_exists();
    return status == EX_OK ? local_names_resolve(&names, recipient, &list) : status;
}

int sendmail_send(const struct invocation *caller, const char *sender, char **recipients)
{
    struct invocation invocation = *caller;
    invocation.sender = sender;
    invocation.recipients = recipients;
    invocation.reads_headers = false;
    invocation.ignores_dots = true;
    return deliver(&invocation);
}

/* Returns true where a user without the rights of this process chose its arguments and the message. */
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
        return mount_list_queue(invocation);
    case MODE_RUN_QUEUE:
        return run_queue(invocation);
    case MODE_SMTP:
        return *invocation->recipients == NULL
                   ? sendmail_smtp_run(invocation)
                   : complain(EX_USAGE, "-bs takes no recipients: the client names them by RCPT");
    case MODE_ALIASES:
        return EX_OK;
    default:
        return deliver(invocation);
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
    /* A message that is accepted stays so; a failure would have it sent again. */
    if (fflush(stdout) != 0)
        status = complain(invocation.mode == MODE_LIST_QUEUE ? EX_IOERR : status,
                          "cannot write to standard output");
    return status;
}
