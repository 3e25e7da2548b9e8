/* SPDX-License-Identifier: MIT */
/*
 * The command line (read by fuse_opt, so that -o works as in every FUSE program), the environment and the
 * configuration file fill in `struct given`: a text for each row of the table of options. set_values()
 * converts these texts to `struct options`.
 */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_opt.h>
#include <glib.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mountinfo.h"
#include "base/secret_file.h"
#include "base/strbuf.h"
#include "mail/address.h"

enum {
    CONFIG_MAX_BYTES = 64 * 1024
};

/* ---------------------------------------------------------------- the table */

/* The value is a text for the kinds before OPTION_FLAG, and a number for the kinds after OPTION_FLAG. */
enum option_kind {
    OPTION_TEXT,
    OPTION_PATH, /* a text that is or contains a path */
    OPTION_ADDRESS,
    OPTION_FLAG, /* without a value on the command line; yes or no in the configuration */
    OPTION_NUMBER,
    OPTION_OCTAL,
    OPTION_LIMIT, /* a number, or a word that stands for a number */
};

enum option_scope {
    ON_COMMAND_LINE = 1 << 0, /* --name=VALUE, and -o name=VALUE */
    IN_CONFIGURATION = 1 << 1,
    EVERYWHERE = ON_COMMAND_LINE | IN_CONFIGURATION,
};

/* Indices of the rows that functions of this file refer to. */
enum option {
    OPTION_API_KEY_FILE,
    OPTION_API_KEY_COMMAND,
    OPTION_API_KEY,
    OPTION_CA_FILE,
    OPTION_CONFIG,
    OPTION_STATE_DIR,
    OPTION_SOURCE,
    OPTION_BASE_URL, /* another name for OPTION_SOURCE */
};

#define VALUE(member) offsetof(struct options, member)
#define NO_VALUE SIZE_MAX
#define NO_HELP NULL, NULL
#define NO_RANGE NULL, 0, 0, 0

static const struct option_row {
    const char *name;
    enum option_kind kind;
    enum option_scope scope;
    size_t value;          /* offset of the value in struct options, or NO_VALUE */
    const char *example;   /* the text for the value in --help; NULL if the option takes no value */
    const char *help;      /* the description in --help; NULL if --help leaves out the option */
    const char *expected;  /* the error text for a wrong number or address */
    int64_t default_value; /* used only for numbers, like `min` and `max` */
    int64_t min;
    int64_t max;
} option_rows[] = {
    [OPTION_API_KEY_FILE] = {"api-key-file", OPTION_PATH, EVERYWHERE, VALUE(api_key_file), "FILE",
                             "file with the API key, readable by its owner only", NO_RANGE},
    [OPTION_API_KEY_COMMAND] = {"api-key-command", OPTION_TEXT, EVERYWHERE, VALUE(api_key_command), "CMD",
                                "command that prints the API key", NO_RANGE},
    [OPTION_API_KEY] = {"api-key", OPTION_TEXT, IN_CONFIGURATION, VALUE(api_key), NO_HELP, NO_RANGE},
    [OPTION_CA_FILE] = {"ca-file", OPTION_PATH, EVERYWHERE, VALUE(ca_file), "FILE",
                        "authorities to trust instead of the system's, in PEM", NO_RANGE},
    [OPTION_CONFIG] = {"config", OPTION_TEXT, ON_COMMAND_LINE, NO_VALUE, "FILE",
                       "configuration (default $XDG_CONFIG_HOME/inboxfs/config)", NO_RANGE},
    [OPTION_STATE_DIR] = {"state-dir", OPTION_PATH, EVERYWHERE, VALUE(state_dir), "DIR",
                          "spool and cache (default under $XDG_STATE_HOME/inboxfs)", NO_RANGE},
    [OPTION_SOURCE] = {"source", OPTION_PATH, IN_CONFIGURATION, VALUE(source), NO_HELP, NO_RANGE},
    [OPTION_BASE_URL] = {"base-url", OPTION_TEXT, IN_CONFIGURATION, NO_VALUE, NO_HELP, NO_RANGE},
    {"poll-interval", OPTION_NUMBER, EVERYWHERE, VALUE(poll_interval_s), "SECONDS",
     "how often to ask for new mail (default 30; 0: only when told to)",
     "a number of seconds from 0 to 86400 is wanted", 30, 0, 24 * 60 * 60},
    {"daily-limit", OPTION_LIMIT, EVERYWHERE, VALUE(daily_limit), "LIMIT",
     "free, paid, none, or emails a day (default none)", "free, paid, none or a number is wanted", -1, 0,
     1000 * 1000 * 1000},
    {"from", OPTION_ADDRESS, EVERYWHERE, VALUE(default_from), "ADDRESS",
     "sending inbox where a message names none", "an email address is wanted", 0, 0, 0},
    {"trust-idempotency", OPTION_FLAG, EVERYWHERE, VALUE(trusts_idempotency), NULL,
     "the service honours idempotency keys", NO_RANGE},
    {"allow-http", OPTION_FLAG, EVERYWHERE, VALUE(allows_http), NULL,
     "allow plain HTTP to a host that is not this machine", NO_RANGE},
    {"adopt-state", OPTION_FLAG, EVERYWHERE, VALUE(adopts_state), NULL,
     "take over a state directory of another account", NO_RANGE},
    {"metadata-only", OPTION_FLAG, EVERYWHERE, VALUE(is_metadata_only), NULL,
     "no folders with what emails hold", NO_RANGE},
    {"content-cache", OPTION_NUMBER, EVERYWHERE, VALUE(content_cache_mb), "MB",
     "how much of that is kept on disk (default 1000)", "a number of megabytes is wanted, at least 1", 1000,
     1, 1000 * 1000 * 1000},
    {"webhook-listen", OPTION_PATH, EVERYWHERE, VALUE(webhook_listen), "ADDR:PORT",
     "where the service's webhooks tell of new mail", NO_RANGE},
    {"webhook-secret-file", OPTION_PATH, EVERYWHERE, VALUE(webhook_secret_file), "FILE",
     "file with the secret that these are signed with", NO_RANGE},
    {"uid", OPTION_NUMBER, EVERYWHERE, VALUE(shown_uid), "UID", "show everything as this user's",
     "the number of a user is wanted", -1, 0, UINT32_MAX - 1},
    {"gid", OPTION_NUMBER, EVERYWHERE, VALUE(shown_gid), "GID", "show everything as this group's",
     "the number of a group is wanted", -1, 0, UINT32_MAX - 1},
    {"umask", OPTION_OCTAL, EVERYWHERE, VALUE(shown_umask), "MASK",
     "let others do what this leaves of what the owner may", "an octal number up to 777 is wanted", -1, 0,
     0777},
};

#define OPTION_COUNT ((int)ARRAY_LEN(option_rows))

struct given {
    char *values[OPTION_COUNT]; /* by row; NULL if not given. The value of a flag is "yes" or "no" */
    struct options *options;    /* borrowed; some fields are set while the arguments are read */
    char *mountpoint;
    int foreground;
    int debug;
    int help;
    int version;
    int fake; /* the options are only checked, and nothing is mounted */
};

/* Switches that have no row in the table, in libfuse's form. */
static const struct fuse_opt switches[] = {
    {"-f", offsetof(struct given, foreground), 1},     {"-d", offsetof(struct given, debug), 1},
    {"debug", offsetof(struct given, debug), 1},       {"-h", offsetof(struct given, help), 1},
    {"--help", offsetof(struct given, help), 1},       {"-V", offsetof(struct given, version), 1},
    {"--version", offsetof(struct given, version), 1}, FUSE_OPT_END,
};

/* Switches that mount(8) passes to its helpers. Here -f only checks the options. */
static const struct fuse_opt helper_switches[] = {
    {"-f", offsetof(struct given, fake), 1},
    {"-n", UINT_MAX, FUSE_OPT_KEY_DISCARD},
    {"-s", UINT_MAX, FUSE_OPT_KEY_DISCARD},
    {"-v", UINT_MAX, FUSE_OPT_KEY_DISCARD},
    {"-t ", UINT_MAX, FUSE_OPT_KEY_DISCARD},
    {"debug", offsetof(struct given, debug), 1},
    FUSE_OPT_END,
};

static void print_help(void)
{
    fputs("usage: inboxfs [OPTIONS] [SOURCE] MOUNTPOINT\n"
          "       inboxfs check [OPTIONS] [SOURCE]    say what works and what does not, and change nothing\n"
          "       inboxfs status [MOUNTPOINT]         say how a running mount is\n"
          "       inboxfs umount MOUNTPOINT           unmount, or say what uses it\n"
          "\n"
          "SOURCE is the base URL of an email inbox service, local[:DIR] for the local service inside this "
          "program,\n"
          "or the name of an account: a [section] of the configuration.\n"
          "\n"
          "    -f                         stay in the foreground\n"
          "    -d, -o debug               foreground, and show every request of the kernel\n"
          "    -o OPT[,OPT...]            mount options; each option below is also -o name=value with _ for "
          "-\n",
          stdout);
    for (const struct option_row *row = option_rows; row < option_rows + OPTION_COUNT; row++) {
        char usage[32];
        snprintf(usage, sizeof(usage), "--%s%s%s", row->name, row->example != NULL ? "=" : "",
                 row->example != NULL ? row->example : "");
        if (row->help != NULL)
            printf("    %-27s%s\n", usage, row->help);
    }
    fputs(
        "    -h, --help; -V, --version\n"
        "\n"
        "The API key comes from --api-key-file, INBOXFS_API_KEY, --api-key-command or the configuration. See "
        "inboxfs(8).\n",
        stdout);
}

/* Returns the row that has this name (_ may stand for -) and is allowed in this scope; OPTION_COUNT if there
 * is none. */
static int find_option(const char *name, size_t len, enum option_scope scope)
{
    _cleanup_free_ char *dashed = g_strdelimit(g_strndup(name, len), "_", '-');
    int found = 0;
    while (found < OPTION_COUNT &&
           ((option_rows[found].scope & scope) == 0 || strcmp(dashed, option_rows[found].name) != 0))
        found++;
    return found;
}

static void set_text(struct given *given, int option, const char *value)
{
    free(given->values[option]);
    given->values[option] = g_strdup(value);
}

static void given_release(struct given *given)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        secret_free(given->values[i]);
    free(given->mountpoint);
}

/* ---------------------------------------------------------------- the command line */

enum {
    DISCARD = 0,
    FAIL = -1
};

/* Returns true for options of fstab that only mount(8) uses, and for options about access times, which files
 * of a mount do not have. */
static bool is_ignored_mount_option(const char *argument)
{
    static const char *const patterns[] = {
        "x-*",        "X-*",        "comment=*",   "user=*",        "helper=*", "uhelper=*",  "defaults",
        "auto",       "noauto",     "nofail",      "_netdev",       "user",     "nouser",     "users",
        "nousers",    "owner",      "noowner",     "group",         "nogroup",  "relatime",   "norelatime",
        "diratime",   "nodiratime", "strictatime", "nostrictatime", "lazytime", "nolazytime", "iversion",
        "noiversion", "mand",       "nomand",      "silent",        "loud",
    };
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
        if (g_pattern_match_simple(patterns[i], argument))
            return true;
    return false;
}

/* Called by fuse_opt_parse() for each argument that is not a switch. */
static int parse_argument(void *data, const char *argument, int key, struct fuse_args *unused)
{
    struct given *given = data;
    if (key == FUSE_OPT_KEY_NONOPT) {
        bool is_check = given->options->is_check;
        if (given->values[OPTION_SOURCE] != NULL && (is_check || given->mountpoint != NULL)) {
            log_error("too many arguments, from '%s' on; see inboxfs --help", argument);
            return FAIL;
        }
        /* The first argument is the mount point, until a second one shows that the first is the source. */
        given->values[OPTION_SOURCE] = is_check ? g_strdup(argument) : TAKE_PTR(given->mountpoint);
        given->mountpoint = is_check ? NULL : g_strdup(argument);
        return DISCARD;
    }
    bool is_long = strncmp(argument, "--", 2) == 0;
    const char *name = argument + (is_long ? 2 : 0);
    size_t len = strcspn(name, "=");
    bool has_value = name[len] == '=';
    bool is_key = has_value && find_option(name, len, IN_CONFIGURATION) == OPTION_API_KEY;
    int option = find_option(name, len, ON_COMMAND_LINE);
    /* Names are written with - after `--`, and with _ after -o. */
    if (option != OPTION_COUNT && (option_rows[option].kind == OPTION_FLAG) != has_value &&
        memchr(name, is_long ? '_' : '-', len) == NULL) {
        set_text(given, option, has_value ? name + len + 1 : "yes");
        return DISCARD;
    }
    if (is_ignored_mount_option(argument))
        return DISCARD;
    if (argument[0] != '-' && !is_key)
        return fuse_opt_add_opt_escaped(&given->options->mount_options, argument) == 0 ? DISCARD : FAIL;
    if (is_key) /* the key must not be shown, because the message may go to a log */
        log_error(
            "a key is never taken from the command line, where everyone can read it: use --api-key-file");
    else if (strcmp(argument, "-s") == 0)
        log_error("-s cannot be had: with one thread, a request that waits for the service would hold up "
                  "all others");
    else if (is_long && !has_value && option != OPTION_COUNT)
        log_error("%s needs its value behind an equals sign: %s=VALUE", argument, argument);
    else
        log_error("unknown option %s; see inboxfs --help", argument);
    return FAIL;
}

/* ---------------------------------------------------------------- the environment */

static bool has_key(const struct given *given)
{
    return given->values[OPTION_API_KEY] != NULL || given->values[OPTION_API_KEY_FILE] != NULL ||
           given->values[OPTION_API_KEY_COMMAND] != NULL;
}

/* If an account was named, the caller has read the configuration before, and a key of the configuration
 * precedes the environment's key, which may be for another service. Otherwise the environment's key precedes
 * a key command. */
static void read_environment(struct given *given)
{
    /* The variables that curl(1) reads; if several are set, the first one counts. */
    static const char *const names[] = {"CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"};
    bool has_account = given->options->account != NULL;
    const char *url = getenv("INBOXFS_BASE_URL");
    if (!has_account && given->values[OPTION_SOURCE] == NULL && url != NULL && *url != '\0')
        set_text(given, OPTION_SOURCE, url);
    for (size_t i = 0; i < ARRAY_LEN(names) && given->values[OPTION_CA_FILE] == NULL; i++) {
        const char *path = getenv(names[i]);
        if (path != NULL && *path != '\0')
            set_text(given, OPTION_CA_FILE, path);
    }
    char *key = getenv("INBOXFS_API_KEY");
    if (key == NULL)
        return;
    bool is_wanted = has_account ? !has_key(given) : given->values[OPTION_API_KEY_FILE] == NULL;
    given->options->is_key_of_environment = is_wanted && *key != '\0';
    if (given->options->is_key_of_environment)
        set_text(given, OPTION_API_KEY, key);
    explicit_bzero(key, strlen(key));
    unsetenv("INBOXFS_API_KEY");
}

/* ---------------------------------------------------------------- the configuration file */

/*
 * Lines of `name = value`; `#` begins a comment line. The lines before the first `[ACCOUNT]` apply to all
 * accounts. A section applies only to its account, and its values precede the values for all accounts. Any
 * mistake in the file is an error with its line number, but without the line, which may contain a key.
 */

enum {
    ACCOUNT_MAX_BYTES = 64,
    NAMES_MAX_BYTES = 1024
};

struct config {
    const char *account;        /* the name of the user's account; NULL if none was named */
    bool is_private;            /* only the owner can read the file */
    bool is_found;              /* the file has a section of the account */
    char *shared[OPTION_COUNT]; /* the values before the first section, by row */
    char *own[OPTION_COUNT];    /* the values of the account's section, by row */
    char **current;             /* `shared` or `own`; NULL in another account's section */
    struct strbuf names;        /* names of the sections, for an error text */
};

static const char bad_line[] = "not 'name = value', or a value that is not allowed";
static const char bad_section[] =
    "not '[ACCOUNT]': a name has up to 64 letters, digits and ._-@+, begins with one of the "
    "first two, and means nothing else to inboxfs";
static const char stands_twice[] = "this stands in the file twice";

static void config_release(struct config *config)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        secret_free(config->shared[i]);
        secret_free(config->own[i]);
    }
    strbuf_release(&config->names);
}

/* Parses `name = value`. Returns NULL, or the error text. */
static const char *parse_value_line(struct config *config, char *line)
{
    static const char *const yes[] = {"true", "yes", "1", NULL};
    static const char *const no[] = {"false", "no", "0", NULL};
    char *value = strchr(line, '=');
    if (value == NULL)
        return bad_line;
    *value++ = '\0';
    const char *name = g_strstrip(line);
    int option = find_option(name, strlen(name), IN_CONFIGURATION);
    if (option == OPTION_COUNT)
        return "unknown option";
    if (option == OPTION_API_KEY && !config->is_private)
        return "a secret in a file that others can read: chmod 600 it";
    const char *text = g_strstrip(value);
    if (option_rows[option].kind == OPTION_FLAG) {
        bool is_yes = g_strv_contains(yes, text);
        if (!is_yes && !g_strv_contains(no, text))
            return bad_line;
        text = is_yes ? "yes" : "no";
    }
    if (option == OPTION_BASE_URL)
        option = OPTION_SOURCE;
    if (config->current != NULL && config->current[option] != NULL)
        return stands_twice;
    if (config->current != NULL)
        config->current[option] = g_strdup(text);
    return NULL;
}

/* Returns true if an account may have this name, which must not be a source, command or option, and must be
 * harmless in a path and in the name of a systemd unit. */
static bool is_account_name(const char *name)
{
    static const char *const reserved[] = {"local", "check", "status", "umount", NULL};
    size_t len = strlen(name);
    if (len == 0 || len > ACCOUNT_MAX_BYTES || g_strv_contains(reserved, name))
        return false;
    for (const char *c = name; *c != '\0'; c++) {
        if (!g_ascii_isalnum(*c) && (c == name || strchr("._-@+", *c) == NULL))
            return false;
    }
    return true;
}

/* Parses a line that begins with a bracket. Returns NULL, or the error text. */
static const char *parse_section_line(struct config *config, char *line)
{
    size_t len = strlen(line);
    if (line[len - 1] != ']')
        return bad_section;
    line[len - 1] = '\0';
    const char *name = g_strstrip(line + 1);
    if (!is_account_name(name))
        return bad_section;
    bool is_own = config->account != NULL && strcmp(config->account, name) == 0;
    if (is_own && config->is_found)
        return stands_twice;
    config->is_found |= is_own;
    config->current = is_own ? config->own : NULL;
    strbuf_appendf(&config->names, "%s%s", config->names.len > 0 ? ", " : "", name);
    return NULL;
}

static int parse_lines(struct config *config, const char *path, char *text)
{
    char *next = text;
    char *line;
    for (unsigned int number = 1; (line = strsep(&next, "\n")) != NULL; number++) {
        line = g_strstrip(line);
        const char *error = *line == '\0' || *line == '#' ? NULL
                            : *line == '['                ? parse_section_line(config, line)
                                                          : parse_value_line(config, line);
        if (error != NULL) {
            log_error("%s:%u: %s", path, number, error);
            return -EINVAL;
        }
    }
    return 0;
}

/* Moves the values to the options that have none in `given`. If `given` has a key, ignores all options about
 * the key. */
static void merge_values(struct given *given, char **values)
{
    bool had_key = has_key(given);
    for (int i = 0; i < OPTION_COUNT; i++) {
        bool is_about_key = i == OPTION_API_KEY || i == OPTION_API_KEY_FILE || i == OPTION_API_KEY_COMMAND;
        if (given->values[i] == NULL && !(is_about_key && had_key))
            given->values[i] = TAKE_PTR(values[i]);
    }
}

static int merge_config(struct given *given, struct config *config, const char *path)
{
    if (config->account != NULL && !config->is_found) {
        log_error("there is no account '%s' in %s; it has: %s", config->account, path,
                  config->names.len > 0 ? strbuf_str(&config->names) : "none");
        return -ENOENT;
    }
    merge_values(given, config->own);
    if (config->account != NULL && given->values[OPTION_STATE_DIR] == NULL &&
        config->shared[OPTION_STATE_DIR] != NULL) {
        log_error("%s: state-dir before the first section would be that of all accounts: give each its own",
                  path);
        return -EINVAL;
    }
    merge_values(given, config->shared);
    return 0;
}

/* Checks that only this user and root can change the configuration, if it is a regular file. Returns 0 or
 * -EPERM, which is logged. */
static int check_config_owner(const struct stat *status, const char *path)
{
    if (!S_ISREG(status->st_mode))
        return 0;
    if (status->st_uid != geteuid() && status->st_uid != 0) {
        log_error("the configuration %s belongs to another user: it must be yours, or root's", path);
        return -EPERM;
    }
    if ((status->st_mode & 022) != 0) {
        log_error("the configuration %s can be written by others: chmod go-w %s", path, path);
        return -EPERM;
    }
    return 0;
}

static int read_config_file(struct given *given, const char *path, bool is_required)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && given->options->account != NULL) {
        log_error(
            "'%s' is no URL, nor local, and the accounts are not known: cannot read the configuration %s: "
            "%s",
            given->options->account, path, strerror(errno));
        return -ENOENT;
    }
    /* mount(8) may start the program for a user with root's HOME, whose file the user cannot read. */
    if (fd < 0 && !is_required && (errno == ENOENT || errno == EACCES)) {
        if (errno != ENOENT)
            log_warning("going on without the configuration %s: %s", path, strerror(errno));
        return 0;
    }
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    struct stat status = {0};
    int error =
        fd < 0 || fstat(fd, &status) != 0 ? -errno : file_read_input(fd, CONFIG_MAX_BYTES, &text, &len);
    if (error != 0 || text == NULL) {
        log_error("cannot read the configuration %s: %s", path, strerror(-error));
        return error;
    }
    _cleanup_(config_release) struct config config = {.account = given->options->account,
                                                      .is_private = (status.st_mode & 077) == 0,
                                                      .names = STRBUF_INIT(NAMES_MAX_BYTES)};
    config.current = config.shared;
    error = check_config_owner(&status, path);
    if (error == 0)
        error = parse_lines(&config, path, text);
    explicit_bzero(text, len);
    return error != 0 ? error : merge_config(given, &config, path);
}

char *options_user_path(const char *variable, const char *folder, const char *name)
{
    const char *base = getenv(variable);
    const char *home = getenv("HOME");
    if (base != NULL && base[0] == '/')
        return g_strdup_printf("%s/%s", base, name);
    return home != NULL && home[0] == '/' ? g_strdup_printf("%s/%s/%s", home, folder, name) : NULL;
}

static int read_config(struct given *given)
{
    _cleanup_free_ char *path = options_user_path("XDG_CONFIG_HOME", ".config", "inboxfs/config");
    if (given->values[OPTION_CONFIG] != NULL)
        return read_config_file(given, given->values[OPTION_CONFIG], true);
    if (path != NULL)
        return read_config_file(given, path, false);
    if (given->options->account == NULL)
        return 0;
    log_error("'%s' is no URL, nor local, and the accounts are not known: give --config, or set HOME",
              given->options->account);
    return -ENOENT;
}

/* ---------------------------------------------------------------- values */

static bool parse_number(const struct option_row *row, const char *text, int64_t *ret_number)
{
    static const struct {
        const char *word;
        int64_t limit;
    } limits[] = {{"none", -1}, {"free", 10}, {"paid", 1000}};
    for (size_t i = 0; i < ARRAY_LEN(limits) && row->kind == OPTION_LIMIT; i++)
        if (strcmp(text, limits[i].word) == 0) {
            *ret_number = limits[i].limit;
            return true;
        }
    return g_ascii_string_to_signed(text, row->kind == OPTION_OCTAL ? 8 : 10, row->min, row->max, ret_number,
                                    NULL);
}

/* Sets the value of a row from the text, or to the default if the text is NULL. */
static int set_value(const struct option_row *row, const char *text, void *value)
{
    bool is_valid = true;
    /* Only shells replace "~" by the home directory: this program would make a folder of that name. */
    if (row->kind == OPTION_PATH && text != NULL &&
        (*text == '~' || g_str_has_prefix(text, "local:~") || g_str_has_prefix(text, "unix:~"))) {
        log_error("%s: only shells know '~': write the whole path", text);
        return -EINVAL;
    }
    if (row->kind == OPTION_FLAG) {
        *(bool *)value = g_strcmp0(text, "yes") == 0;
    } else if (row->kind > OPTION_FLAG) {
        *(int64_t *)value = row->default_value;
        is_valid = text == NULL || parse_number(row, text, value);
    } else {
        *(char **)value = g_strdup(text);
        is_valid = row->kind != OPTION_ADDRESS || text == NULL || address_is_valid(text);
    }
    if (!is_valid)
        log_error("--%s=%s: %s", row->name, text, row->expected);
    return is_valid ? 0 : -EINVAL;
}

/* Makes the path after the prefix absolute, because the daemon leaves the working directory. Does not change
 * a value without the prefix. Does not resolve links, because the system may change its link to the
 * certificate authorities while the daemon runs. Returns 0; or -errno, which is logged, if the working
 * directory was deleted. */
static int make_absolute(char **value, const char *prefix)
{
    size_t len = strlen(prefix);
    if (*value == NULL || strncmp(*value, prefix, len) != 0 || (*value)[len] == '/' || (*value)[len] == '\0')
        return 0;
    /* In a deleted directory g_get_current_dir() would return "/". */
    _cleanup_free_ char *directory = getcwd(NULL, 0);
    if (directory == NULL) {
        int error = -errno;
        log_error("cannot find %s, which is relative: %s", *value, strerror(-error));
        return error;
    }
    _cleanup_free_ char *relative = *value;
    *value = g_strdup_printf("%s%s/%s", prefix, directory, relative + len);
    return 0;
}

/* Refuses a call without a mount point or a service. Returns 0 or -EINVAL, which is logged. */
static int check_required(const struct given *given)
{
    if (given->mountpoint == NULL && !given->options->is_check) {
        log_error("no mount point given; see inboxfs --help");
        return -EINVAL;
    }
    if (given->values[OPTION_SOURCE] == NULL && given->options->account != NULL) {
        log_error("the account '%s' has no 'source' in the configuration", given->options->account);
        return -EINVAL;
    }
    if (given->values[OPTION_SOURCE] == NULL) {
        log_error("no service given: name its base URL, 'local' or an account%s, or set INBOXFS_BASE_URL",
                  given->options->is_check ? "" : " before the mount point");
        return -EINVAL;
    }
    return 0;
}

static int set_values(struct given *given)
{
    struct options *options = given->options;
    int error = check_required(given);
    if (error != 0)
        return error;
    if (!options->is_check) {
        /* If there is no real path, there is no such folder; the daemon reports that before it mounts. */
        options->mountpoint = mountinfo_real_path(given->mountpoint);
        if (options->mountpoint == NULL) {
            options->mountpoint = g_strdup(given->mountpoint);
            error = make_absolute(&options->mountpoint, "");
        }
    }
    for (int i = 0; i < OPTION_COUNT && error == 0; i++)
        if (option_rows[i].value != NO_VALUE)
            error = set_value(&option_rows[i], given->values[i], (char *)options + option_rows[i].value);
    if (error == 0)
        error = make_absolute(&options->webhook_listen, "unix:");
    if (error == 0)
        error = make_absolute(&options->ca_file, "");
    if (error == 0 && (options->webhook_listen == NULL) != (options->webhook_secret_file == NULL)) {
        log_error("webhooks need both --webhook-listen and --webhook-secret-file");
        error = -EINVAL;
    }
    /* Without root's rights, the daemon could neither open files that are shown as another user's, nor
     * announce them by inotify. */
    if (error == 0 && options->shown_uid >= 0 && geteuid() != 0 && options->shown_uid != geteuid()) {
        log_error("--uid=%jd: only root can show a mount as another user's", (intmax_t)options->shown_uid);
        error = -EPERM;
    }
    options->is_foreground = given->foreground != 0 || given->debug != 0;
    options->is_debug = given->debug != 0;
    return error;
}

bool options_is_mount_helper(void)
{
    return g_str_has_prefix(program_invocation_short_name, "mount.");
}

enum options_result options_read(int argc, char **argv, struct options *ret_options)
{
    _cleanup_(given_release) struct given given = {.options = ret_options};
    *ret_options = (struct options){.is_check = argc > 1 && strcmp(argv[1], "check") == 0};
    argc -= ret_options->is_check;
    argv += ret_options->is_check;
    struct fuse_args arguments = FUSE_ARGS_INIT(argc, argv);
    bool is_helper = !ret_options->is_check && options_is_mount_helper();
    int failed = fuse_opt_parse(&arguments, &given, is_helper ? helper_switches : switches, parse_argument);
    fuse_opt_free_args(&arguments);
    if (failed)
        return OPTIONS_FAILED;
    if (given.help) {
        print_help();
        return OPTIONS_DONE;
    }
    if (given.version) {
        puts("inboxfs " INBOXFS_VERSION);
        return OPTIONS_DONE;
    }
    bool has_account = given.values[OPTION_SOURCE] != NULL && is_account_name(given.values[OPTION_SOURCE]);
    if (has_account)
        ret_options->account = TAKE_PTR(given.values[OPTION_SOURCE]);
    else
        read_environment(&given);
    if (read_config(&given) != 0)
        return OPTIONS_FAILED;
    if (has_account)
        read_environment(&given);
    if (set_values(&given) != 0)
        return OPTIONS_FAILED;
    return given.fake ? OPTIONS_DONE : OPTIONS_RUN;
}

void options_release(struct options *options)
{
    for (const struct option_row *row = option_rows; row < option_rows + OPTION_COUNT; row++)
        if (row->kind < OPTION_FLAG && row->value != NO_VALUE)
            secret_free(*(char **)((char *)options + row->value));
    free(options->account);
    free(options->mountpoint);
    free(options->mount_options);
}
