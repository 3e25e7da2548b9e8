/* SPDX-License-Identifier: MIT */
/*
 * inboxd, the local email inbox service as a program: its arguments, signals and error texts.
 *
 * `inboxd deliver` is called by mail servers, which know the statuses of sysexits.h. After EX_TEMPFAIL they
 * try again later, so each error that is not the fault of the message or a recipient has this status.
 */
#include <errno.h>
#include <getopt.h>
#include <glib.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/process.h"
#include "base/strbuf.h"
#include "service/backup.h"
#include "service/delivery.h"
#include "service/keys.h"
#include "service/listener.h"
#include "service/service.h"
#include "service/tables.h"

enum {
    EXIT_USAGE = 2,
    OPTION_WORD = 1, /* getopt_long(3) returns this value for an argument that is not an option */
    /* Each of these values, plus a number, is an option's value for getopt_long(3). */
    OPTION_DOOR = 1024,  /* added to the protocol */
    OPTION_VALUE = 2048, /* added to the offset of a text in struct arguments; given once at most */
    OPTION_FLAG = 4096,  /* added to the offset of a bool in struct arguments */
};

struct arguments {
    struct service_config config;
    struct service_door *doors;
    size_t doors_len;
    size_t http_doors; /* number of `doors` for HTTP */
    const char **hosts;
    size_t hosts_len;
    const char *tier;
    const char *sender; /* sender of the message to deliver */
    char **words;       /* the arguments that are not options */
    size_t words_len;
};
_Static_assert(sizeof(struct arguments) <= OPTION_FLAG - OPTION_VALUE, "the ranges of options overlap");

static const char usage[] =
    "Usage: inboxd --listen=ADDRESS:PORT|unix:PATH --data=DIR [OPTIONS]\n"
    "       inboxd key add|list --data=DIR\n"
    "       inboxd key revoke ID --data=DIR\n"
    "       inboxd deliver --data=DIR [-f SENDER] [--] RECIPIENT... <MESSAGE\n"
    "       inboxd backup --data=DIR TARGET\n"
    "\n"
    "The local email inbox service: a REST interface to inboxes whose mail stays on this machine.\n"
    "\n"
    "  --listen=ADDRESS:PORT  where to answer; port 0: any that is free\n"
    "  --listen=unix:PATH     the same on a Unix socket; this, --smtp and --lmtp may be repeated\n"
    "  --smtp=ADDRESS:PORT|unix:PATH\n"
    "                         take mail by SMTP, for any address (with a relay, of the domain\n"
    "                         alone): each gets an inbox\n"
    "  --lmtp=ADDRESS:PORT|unix:PATH\n"
    "                         take mail by LMTP, for inboxes that exist\n"
    "  --tls-cert=FILE, --tls-key=FILE\n"
    "                         certificate and key (PEM), with which --smtp and --lmtp offer STARTTLS\n"
    "  --data=DIR             where everything is kept; made at the first start, with an API key in "
    "DIR/api-key\n"
    "  --domain=DOMAIN        of all inboxes (default inbox.localhost)\n"
    "  --allow-host=NAME      a name that clients know it by, beside its address and domain; may be "
    "repeated\n"
    "  --relay=smtp[s]://HOST[:PORT]\n"
    "                         the mail server that takes mail for other domains (default: none, and\n"
    "                         such mail bounces)\n"
    "  --relay-credentials-file=FILE\n"
    "                         USER:PASSWORD for it, in a file that only you can read\n"
    "  --relay-in-clear       smtp:// to another machine may go without TLS\n"
    "  --webhook-secret-file=FILE\n"
    "                         sends webhooks of inboxes that have a webhook_url, signed with this file's "
    "line\n"
    "  --webhook-anywhere     to other machines, too\n"
    "  --tier=TIER            emails sent a day: free (10), paid (1000), none (no limit; default)\n"
    "  -f SENDER              deliver: who sent the message, where it does not say\n"
    "  --help, --version\n";

static const struct {
    const char *name;
    int64_t daily_limit;
} tiers[] = {{"none", 0}, {"free", 10}, {"paid", 1000}};

static int report_usage_error(const char *what)
{
    return complain(EXIT_USAGE, "%s; try 'inboxd --help'", what);
}

/* take_once() and the next two functions return -1 to continue, or the exit status. */
static int take_once(const char *name, const char **value)
{
    if (*value != NULL)
        return complain(EXIT_USAGE, "%s%s is given twice", name[0] == '-' ? "" : "--", name);
    *value = optarg;
    return -1;
}

#define MEMBER(member) ((int)offsetof(struct arguments, member))

static const struct option options[] = {
    {"listen", required_argument, NULL, OPTION_DOOR + SERVICE_HTTP},
    {"smtp", required_argument, NULL, OPTION_DOOR + SERVICE_SMTP},
    {"lmtp", required_argument, NULL, OPTION_DOOR + SERVICE_LMTP},
    {"allow-host", required_argument, NULL, 'a'},
    {"relay-in-clear", no_argument, NULL, OPTION_FLAG + MEMBER(config.relay.is_clear_allowed)},
    {"webhook-anywhere", no_argument, NULL, OPTION_FLAG + MEMBER(config.webhook.is_anywhere_allowed)},
    {"data", required_argument, NULL, OPTION_VALUE + MEMBER(config.data_dir)},
    {"domain", required_argument, NULL, OPTION_VALUE + MEMBER(config.domain)},
    {"tier", required_argument, NULL, OPTION_VALUE + MEMBER(tier)},
    {"relay", required_argument, NULL, OPTION_VALUE + MEMBER(config.relay.url)},
    {"relay-credentials-file", required_argument, NULL, OPTION_VALUE + MEMBER(config.relay.credentials_file)},
    {"tls-cert", required_argument, NULL, OPTION_VALUE + MEMBER(config.tls.certificate_file)},
    {"tls-key", required_argument, NULL, OPTION_VALUE + MEMBER(config.tls.key_file)},
    {"webhook-secret-file", required_argument, NULL, OPTION_VALUE + MEMBER(config.webhook.secret_file)},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static int take_option(int option, int index, struct arguments *arguments)
{
    if (option >= OPTION_FLAG) {
        *(bool *)((char *)arguments + option - OPTION_FLAG) = true;
    } else if (option >= OPTION_VALUE) {
        return take_once(options[index].name, (const char **)((char *)arguments + option - OPTION_VALUE));
    } else if (option >= OPTION_DOOR) {
        enum service_protocol protocol = (enum service_protocol)(option - OPTION_DOOR);
        arguments->doors[arguments->doors_len++] = (struct service_door){protocol, optarg};
        arguments->http_doors += protocol == SERVICE_HTTP;
    } else if (option == OPTION_WORD) {
        arguments->words[arguments->words_len++] = optarg;
    } else if (option == 'a') {
        arguments->hosts[arguments->hosts_len++] = optarg;
    } else if (option == 'f') {
        return take_once("-f", &arguments->sender);
    } else if (option == 'h' || option == 'V') {
        fputs(option == 'h' ? usage : "inboxd " INBOXFS_VERSION "\n", stdout);
        return EXIT_SUCCESS;
    } else {
        fputs("Try 'inboxd --help'.\n", stderr);
        return EXIT_USAGE;
    }
    return -1;
}

static int parse_arguments(int argc, char **argv, struct arguments *arguments)
{
    int option;
    int index = 0;
    int status = -1;
    arguments->words = argv + 1; /* overwrites arguments that were parsed already */
    /* No argument after the first recipient is an option: senders choose the names of recipients. */
    while (status < 0 && (arguments->words_len < 2 || strcmp(arguments->words[0], "deliver") != 0) &&
           (option = getopt_long(argc, argv, "-f:hV", options, &index)) != -1)
        status = take_option(option, index, arguments);
    while (optind < argc)
        arguments->words[arguments->words_len++] = argv[optind++];
    if (arguments->config.domain == NULL)
        arguments->config.domain = "inbox.localhost";
    if (arguments->sender != NULL && strcmp(arguments->sender, "<>") == 0)
        arguments->sender = "";
    size_t tier = 0;
    while (arguments->tier != NULL && tier < ARRAY_LEN(tiers) &&
           strcmp(tiers[tier].name, arguments->tier) != 0)
        tier++;
    if (tier < ARRAY_LEN(tiers))
        arguments->config.daily_limit = tiers[tier].daily_limit;
    else if (status < 0)
        return complain(EXIT_USAGE, "--tier must be free, paid or none");
    return status;
}

/* ---------------------------------------------------------------- commands */

/* A command opens the database, which run_command() closes, and returns its exit status; or -errno, and then
 * run_command() reports the failure. */

static int run_key_command(const struct arguments *arguments, struct database **database)
{
    const char *command = arguments->words[1];
    int error = tables_open_existing(arguments->config.data_dir, database);
    if (error != 0)
        return error;
    if (strcmp(command, "add") == 0 && arguments->words_len == 2)
        error = keys_add(*database, stdout);
    else if (strcmp(command, "list") == 0 && arguments->words_len == 2)
        error = keys_list(*database, stdout);
    else if (strcmp(command, "revoke") == 0 && arguments->words_len == 3)
        error = keys_revoke(*database, arguments->words[2]);
    else
        return report_usage_error("key: add, list, or revoke ID");
    if (error == -ENOKEY)
        return complain(EXIT_FAILURE, "key: no key in force has this id; 'inboxd key list' shows them");
    return error == 0 && fflush(stdout) != 0 ? -errno : error;
}

static int run_backup_command(const struct arguments *arguments, struct database **database)
{
    _cleanup_free_ char *reason = NULL;
    int error = tables_open_existing(arguments->config.data_dir, database);
    if (error == 0)
        error = backup_make(*database, arguments->config.data_dir, arguments->words[1], &reason);
    return reason != NULL ? complain(EXIT_FAILURE, "backup: %s", reason) : error;
}

/* Reads the message first: while the database is open, inboxfs cannot mount it. */
static int run_deliver_command(const struct arguments *arguments, struct database **database)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(DELIVERY_MAX_BYTES);
    int error = strbuf_read_to_end(&text, STDIN_FILENO);
    if (error == -EMSGSIZE)
        return complain(EX_DATAERR, "deliver: the message is larger than 50,000,000 bytes");
    if (error == 0)
        error = tables_open_existing(arguments->config.data_dir, database);
    if (error != 0)
        return error;
    const struct smtp_message message = {
        .sender = arguments->sender != NULL ? arguments->sender : "",
        .recipients = (const char *const *)arguments->words + 1,
        .recipients_len = arguments->words_len - 1,
        .text = strbuf_str(&text),
        .text_len = text.len,
    };
    size_t unknown = 0;
    error = delivery_receive(*database, &message, NULL, &unknown);
    if (error == -ENOENT)
        return complain(EX_NOUSER, "deliver: no inbox has the address %s; nobody got the message",
                        message.recipients[unknown]);
    return error;
}

struct command {
    const char *name;
    size_t words_min, words_max; /* with its name */
    const char *usage;           /* the mistake if there are fewer or more words */
    int failure;                 /* exit status */
    int (*run)(const struct arguments *arguments, struct database **database);
};

static const struct command commands[] = {
    {"deliver", 2, 1 + SMTP_RECIPIENTS_MAX,
     "deliver: a recipient is missing, or there are over 1000 recipients: give the others to another call",
     EX_TEMPFAIL, run_deliver_command},
    {"key", 2, 3, "key: add, list, or revoke ID", EXIT_FAILURE, run_key_command},
    {"backup", 2, 2, "backup: the name of a new directory is missing, or more than that is given",
     EXIT_FAILURE, run_backup_command},
};

static int run_command(const struct command *command, const struct arguments *arguments)
{
    const char *data_dir = arguments->config.data_dir;
    if (data_dir == NULL)
        return report_usage_error("--data is missing");
    if (arguments->words_len < command->words_min || arguments->words_len > command->words_max)
        return report_usage_error(command->usage);
    _cleanup_(cleanup_database_free) struct database *database = NULL;
    int status = command->run(arguments, &database);
    if (status == -ENOENT && database == NULL)
        return complain(command->failure, "%s: there are no data of a service in %s", command->name,
                        data_dir);
    if (status == -EBUSY)
        return complain(command->failure,
                        "%s: %s is in use: inboxfs has it mounted (unmount it first), or much is written",
                        command->name, data_dir);
    return status >= 0 ? status
                       : complain(command->failure, "%s: %s", command->name, strerrordesc_np(-status));
}

/* ---------------------------------------------------------------- the service */

static void announce_door(enum service_protocol protocol, const char *address)
{
    static const char *const texts[] = {
        [SERVICE_SMTP] = "SMTP on ", [SERVICE_LMTP] = "LMTP on ", [SERVICE_HTTP] = "listening on "};
    bool is_http = protocol == SERVICE_HTTP;
    bool is_url = is_http && strncmp(address, "unix:", 5) != 0;
    if (listener_accepts_other_machines(address))
        log_error("warning: other machines can reach %s, %s", address,
                  is_http ? "and keys and mail cross the network in the clear: put a proxy with TLS before it"
                          : "where anybody may hand in mail");
    printf("inboxd: %s%s%s\n", texts[protocol], is_url ? "http://" : "", address);
}

/* Announces HTTP first, because programs wait for the first line. */
static void announce(const struct service *service, const struct arguments *arguments)
{
    for (int is_http = 1; is_http >= 0; is_http--)
        for (size_t i = 0; i < arguments->doors_len; i++)
            if ((arguments->doors[i].protocol == SERVICE_HTTP) == is_http)
                announce_door(arguments->doors[i].protocol, service_address(service, i));
    fflush(stdout);
}

static int run_service(const struct arguments *arguments)
{
    sigset_t ending;
    process_block_ending_signals(&ending);

    struct inherited_descriptors inherited;
    descriptors_list_inherited(&inherited);
    struct service *service = NULL;
    _cleanup_free_ char *reason = NULL;
    int error = service_start(&arguments->config, &service, &reason);
    /* An inherited descriptor may be a secret's file, which has been read by now. */
    descriptors_close_inherited(&inherited);
    if (error != 0)
        return complain(error == -EINVAL ? EXIT_USAGE : EXIT_FAILURE, "%s",
                        reason != NULL ? reason : strerrordesc_np(-error));
    announce(service, arguments);

    process_wait_for_ending_signal(&ending);
    service_stop(service);
    return EXIT_SUCCESS;
}

static int run(int argc, char **argv, struct arguments *arguments)
{
    int status = parse_arguments(argc, argv, arguments);
    if (status >= 0)
        return status;
    const char *name = arguments->words_len > 0 ? arguments->words[0] : "";
    if (arguments->sender != NULL && strcmp(name, "deliver") != 0)
        return report_usage_error("-f is for deliver");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return run_command(&commands[i], arguments);
    if (arguments->words_len > 0)
        return report_usage_error("unknown command");
    if (arguments->http_doors == 0 || arguments->config.data_dir == NULL)
        return report_usage_error("--listen and --data are needed");
    if (arguments->config.relay.url == NULL &&
        (arguments->config.relay.credentials_file != NULL || arguments->config.relay.is_clear_allowed))
        return report_usage_error("--relay-credentials-file and --relay-in-clear need --relay");
    if (arguments->config.webhook.is_anywhere_allowed && arguments->config.webhook.secret_file == NULL)
        return report_usage_error("--webhook-anywhere needs --webhook-secret-file");
    bool has_certificate = arguments->config.tls.certificate_file != NULL;
    if (has_certificate != (arguments->config.tls.key_file != NULL))
        return report_usage_error("--tls-cert and --tls-key need each other");
    if (has_certificate && arguments->http_doors == arguments->doors_len)
        return report_usage_error("--tls-cert and --tls-key need --smtp or --lmtp");
    return run_service(arguments);
}

int main(int argc, char **argv)
{
    descriptors_open_standard();
    /* Both arrays have room for all arguments and a last empty element. */
    _cleanup_free_ const char **hosts = g_new0(const char *, (size_t)argc + 1);
    _cleanup_free_ struct service_door *doors = g_new0(struct service_door, (size_t)argc + 1);
    json_set_alloc_funcs(g_malloc, g_free); /* jansson ends a program without memory, as GLib does */
    log_set_prefix("inboxd: ");
    process_forbid_core_files();
    struct arguments arguments = {
        .config = {.doors = doors, .hosts = hosts},
        .doors = doors,
        .hosts = hosts,
    };
    return run(argc, argv, &arguments);
}
