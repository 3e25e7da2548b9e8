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
#include "commands.h"
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

/* Indices of the rows that functions of this file refer to; those about the key are first. */
enum option {
    OPTION_API_KEY_FILE,
    OPTION_API_KEY_COMMAND,
    OPTION_API_KEY,
    OPTION_CA_FILE,
    OPTION_CONFIG,
    OPTION_STATE_DIR,
    OPTION_SOURCE,
};

#define VALUE(member) offsetof(struct options, member)
#define NO_RANGE NULL, 0, 0, 0

static const struct option_row {
    const char *name;
    enum option_kind kind;
    enum option_scope scope;
    size_t value;          /* offset of the value in struct options */
    const char *expected;  /* the error text for a wrong number or address */
    int64_t default_value; /* used only for numbers, like `min` and `max` */
    int64_t min;
    int64_t max;
} option_rows[] = {
    [OPTION_API_KEY_FILE] = {"api-key-file", OPTION_PATH, EVERYWHERE, VALUE(api_key_file), NO_RANGE},
    [OPTION_API_KEY_COMMAND] = {"api-key-command", OPTION_TEXT, EVERYWHERE, VALUE(api_key_command), NO_RANGE},
    [OPTION_API_KEY] = {"api-key", OPTION_TEXT, IN_CONFIGURATION, VALUE(api_key), NO_RANGE},
    [OPTION_CA_FILE] = {"ca-file", OPTION_PATH, EVERYWHERE, VALUE(ca_file), NO_RANGE},
    [OPTION_CONFIG] = {"config", OPTION_TEXT, ON_COMMAND_LINE, VALUE(config), NO_RANGE},
    [OPTION_STATE_DIR] = {"state-dir", OPTION_PATH, EVERYWHERE, VALUE(state_dir), NO_RANGE},
    [OPTION_SOURCE] = {"source", OPTION_PATH, IN_CONFIGURATION, VALUE(source), NO_RANGE},
    {"poll-interval", OPTION_NUMBER, EVERYWHERE, VALUE(poll_interval_s),
     "a number of seconds from 0 to 86400 is wanted", 30, 0, 24 * 60 * 60},
    {"daily-limit", OPTION_LIMIT, EVERYWHERE, VALUE(daily_limit), "free, paid, none or a number is wanted",
     -1, 0, 1000 * 1000 * 1000},
    {"from", OPTION_ADDRESS, EVERYWHERE, VALUE(default_from), "an email address is wanted", 0, 0, 0},
    {"trust-idempotency", OPTION_FLAG, EVERYWHERE, VALUE(trusts_idempotency), NO_RANGE},
    {"allow-http", OPTION_FLAG, EVERYWHERE, VALUE(allows_http), NO_RANGE},
    {"adopt-state", OPTION_FLAG, EVERYWHERE, VALUE(adopts_state), NO_RANGE},
    {"metadata-only", OPTION_FLAG, EVERYWHERE, VALUE(is_metadata_only), NO_RANGE},
    {"content-cache", OPTION_NUMBER, EVERYWHERE, VALUE(content_cache_mb),
     "a number of megabytes is wanted, at least 1", 1000, 1, 1000 * 1000 * 1000},
    {"webhook-listen", OPTION_PATH, EVERYWHERE, VALUE(webhook_listen), NO_RANGE},
    {"webhook-secret-file", OPTION_PATH, EVERYWHERE, VALUE(webhook_secret_file), NO_RANGE},
    {"uid", OPTION_NUMBER, EVERYWHERE, VALUE(shown_as.uid), "the number of a user is wanted", -1, 0,
     UINT32_MAX - 1},
    {"gid", OPTION_NUMBER, EVERYWHERE, VALUE(shown_as.gid), "the number of a group is wanted", -1, 0,
     UINT32_MAX - 1},
    {"umask", OPTION_OCTAL, EVERYWHERE, VALUE(shown_as.umask), "an octal number up to 777 is wanted", -1, 0,
     0777},
};

#define OPTION_COUNT ((int)ARRAY_LEN(option_rows))

static const char usage[] =
    "usage: inboxfs [OPTIONS] [SOURCE] MOUNTPOINT\n"
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
    "    -o OPT[,OPT...]            mount options; each option below is also -o name=value with _ for -\n"
    "    --api-key-file=FILE        file with the API key, readable by its owner only\n"
    "    --api-key-command=CMD      command that prints the API key\n"
    "    --ca-file=FILE             authorities to trust instead of the system's, in PEM\n"
    "    --config=FILE              configuration (default $XDG_CONFIG_HOME/inboxfs/config)\n"
    "    --state-dir=DIR            spool and cache (default under $XDG_STATE_HOME/inboxfs)\n"
    "    --poll-interval=SECONDS    how often to ask for new mail (default 30; 0: only when told to)\n"
    "    --daily-limit=LIMIT        free, paid, none, or emails a day (default none)\n"
    "    --from=ADDRESS             sending inbox where a message names none\n"
    "    --trust-idempotency        the service honours idempotency keys\n"
    "    --allow-http               allow plain HTTP to a host that is not this machine\n"
    "    --adopt-state              take over a state directory of another account\n"
    "    --metadata-only            no folders with what emails hold\n"
    "    --content-cache=MB         how much of that is kept on disk (default 1000)\n"
    "    --webhook-listen=ADDR:PORT where the service's webhooks tell of new mail\n"
    "    --webhook-secret-file=FILE file with the secret that these are signed with\n"
    "    --uid=UID                  show everything as this user's\n"
    "    --gid=GID                  show everything as this group's\n"
    "    --umask=MASK               let others do what this leaves of what the owner may\n"
    "    -h, --help; -V, --version\n"
    "\n"
    "The API key comes from --api-key-file, INBOXFS_API_KEY, --api-key-command or the configuration. See "
    "inboxfs(8).\n";

/* ---------------------------------------------------------------- given values */

struct given {
    char *values[OPTION_COUNT]; /* by row; NULL if not given */
    char *own[OPTION_COUNT];    /* likewise, in the account's section of the configuration */
    char *shared[OPTION_COUNT]; /* likewise, in the configuration before the first section */
    struct options *options;    /* borrowed; some fields are set while the arguments are read */
    int foreground;
    int debug;
    int help;
    int version;
    int fake; /* the options are only checked, and nothing is mounted */
};

/* Returns the row of this name that is allowed in this scope, or OPTION_COUNT. */
static int find_option(const char *name, enum option_scope scope)
{
    int found = 0;
    while (found < OPTION_COUNT &&
           ((option_rows[found].scope & scope) == 0 || strcmp(name, option_rows[found].name) != 0))
        found++;
    return found;
}

static const char *const yes[] = {"yes", "true", "1", NULL};
static const char *const no[] = {"no", "false", "0", NULL};

static bool parse_number(const struct option_row *row, const char *text, int64_t *ret_number)
{
    bool is_limit = row->kind == OPTION_LIMIT;
    *ret_number = -1;
    if (is_limit && strcmp(text, "none") == 0)
        return true;
    if (is_limit && strcmp(text, "free") == 0)
        text = "10";
    else if (is_limit && strcmp(text, "paid") == 0)
        text = "1000";
    return g_ascii_string_to_signed(text, row->kind == OPTION_OCTAL ? 8 : 10, row->min, row->max, ret_number,
                                    NULL);
}

/* Returns the error text if the row cannot have this value, else NULL. */
static const char *find_objection(const struct option_row *row, const char *text)
{
    int64_t number;
    /* Only shells replace "~" by the home directory: this program would make a folder of that name. */
    if (row->kind == OPTION_PATH && g_regex_match_simple("^(local:|unix:)?~", text, G_REGEX_RAW, 0))
        return "only shells know '~': write the whole path";
    if (row->kind == OPTION_FLAG)
        return g_strv_contains(yes, text) || g_strv_contains(no, text) ? NULL : "yes or no is wanted";
    bool is_valid = row->kind == OPTION_ADDRESS ? address_is_valid(text)
                                                : row->kind < OPTION_FLAG || parse_number(row, text, &number);
    return is_valid ? NULL : row->expected;
}

static void set_text(struct given *given, int option, const char *value)
{
    free(given->values[option]);
    given->values[option] = g_strdup(value);
}

static void given_release(struct given *given)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        secret_free(given->values[i]);
        secret_free(given->own[i]);
        secret_free(given->shared[i]);
    }
}

/* ---------------------------------------------------------------- the command line */

enum {
    DISCARD = 0,
    FAIL = -1
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

/* Returns true for options of fstab that only mount(8) uses, and for options about access times, which files
 * of a mount do not have. */
static bool is_ignored_mount_option(const char *argument)
{
    return g_regex_match_simple("^(([xX]-|comment=|user=|u?helper=).*|defaults|nofail|_netdev|silent|loud"
                                "|(no)?(auto|users?|owner|group|iversion|mand)"
                                "|(no)?(relatime|diratime|strictatime|lazytime))$",
                                argument, G_REGEX_DOTALL | G_REGEX_RAW, 0);
}

/* The first operand is the mount point, until a second one shows that the first is the source. */
static int parse_operand(struct given *given, const char *operand)
{
    struct options *options = given->options;
    if (given->values[OPTION_SOURCE] != NULL && (options->is_check || options->mountpoint != NULL))
        return complain(FAIL, "too many arguments, from '%s' on; see inboxfs --help", operand);
    given->values[OPTION_SOURCE] = options->is_check ? g_strdup(operand) : options->mountpoint;
    options->mountpoint = options->is_check ? NULL : g_strdup(operand);
    return DISCARD;
}

/* Called by fuse_opt_parse() for each argument that is not a switch. */
static int parse_argument(void *data, const char *argument, int key, struct fuse_args *unused)
{
    struct given *given = data;
    if (key == FUSE_OPT_KEY_NONOPT)
        return parse_operand(given, argument);
    bool is_long = strncmp(argument, "--", 2) == 0;
    const char *value = strchr(argument, '=');
    const char *start = argument + (is_long ? 2 : 0);
    _cleanup_free_ char *name = g_strndup(start, strcspn(start, "="));
    int option = find_option(g_strdelimit(name, "_", '-'), ON_COMMAND_LINE); /* with _ after -o */
    bool is_key = value != NULL && strcmp(name, option_rows[OPTION_API_KEY].name) == 0;
    if (option != OPTION_COUNT && (option_rows[option].kind == OPTION_FLAG) == (value == NULL)) {
        set_text(given, option, value != NULL ? value + 1 : "yes");
        return DISCARD;
    }
    if (is_ignored_mount_option(argument))
        return DISCARD;
    if (argument[0] != '-' && !is_key)
        return fuse_opt_add_opt_escaped(&given->options->mount_options, argument) == 0 ? DISCARD : FAIL;
    if (is_key) /* the key must not be shown, because the message may go to a log */
        return complain(
            FAIL,
            "a key is never taken from the command line, where everyone can read it: use --api-key-file");
    if (strcmp(argument, "-s") == 0)
        return complain(FAIL,
                        "-s cannot be had: with one thread, a request that waits for the service would hold "
                        "up all others");
    if (is_long && value == NULL && option != OPTION_COUNT)
        return complain(FAIL, "%s needs its value behind an equals sign: %s=VALUE", argument, argument);
    return complain(FAIL, "unknown option %s; see inboxfs --help", argument);
}

/* ---------------------------------------------------------------- the environment */

static bool has_key(const struct given *given)
{
    return given->values[OPTION_API_KEY] != NULL || given->values[OPTION_API_KEY_FILE] != NULL ||
           given->values[OPTION_API_KEY_COMMAND] != NULL;
}

/* Unsets variables with a relative path, which XDG's specification declares invalid; GLib then takes the next
 * place. Otherwise mail and state would be in whatever folder the program is started from. */
static void ignore_relative_places(void)
{
    static const char *const names[] = {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HOME"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *path = getenv(names[i]);
        if (path != NULL && path[0] != '/')
            unsetenv(names[i]);
    }
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

struct config {
    struct given *given; /* borrowed; gets the values */
    bool is_private;     /* only the owner can read the file */
    bool is_found;       /* the file has a section of the account */
    char **current;      /* given->shared or given->own; NULL in another account's section */
    GString *names;      /* borrowed; names of the sections, for an error text */
};

static const char bad_section[] =
    "not '[ACCOUNT]': a name has up to 64 letters, digits and ._-@+, begins with one of the "
    "first two, and means nothing else to inboxfs";
static const char stands_twice[] = "this stands in the file twice";

/* Parses `name = value`. Returns NULL, or the error text. */
static const char *parse_value_line(struct config *config, char *line)
{
    char *value = strchr(line, '=');
    if (value == NULL)
        return "not 'name = value'";
    *value++ = '\0';
    const char *name = g_strdelimit(g_strstrip(line), "_", '-'); /* also as after -o */
    const char *text = g_strstrip(value);
    int option = find_option(strcmp(name, "base-url") == 0 ? "source" : name, IN_CONFIGURATION);
    if (option == OPTION_COUNT)
        return "unknown option";
    if (option == OPTION_API_KEY && !config->is_private)
        return "a secret in a file that others can read: chmod 600 it";
    const char *objection = find_objection(&option_rows[option], text);
    if (objection != NULL || config->current == NULL)
        return objection;
    if (config->current[option] != NULL)
        return stands_twice;
    config->current[option] = g_strdup(text);
    return NULL;
}

/* Returns true if an account may have this name, which must not be a source, command or option, and must be
 * harmless in a path and in the name of a systemd unit. */
static bool is_account_name(const char *name)
{
    return g_regex_match_simple("^(?!(local|check|status|umount)$)[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$", name,
                                G_REGEX_RAW | G_REGEX_DOLLAR_ENDONLY, 0);
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
    bool is_own = g_strcmp0(config->given->options->account, name) == 0;
    if (is_own && config->is_found)
        return stands_twice;
    config->is_found |= is_own;
    config->current = is_own ? config->given->own : NULL;
    g_string_append_printf(config->names, "%s%s", config->names->len > 0 ? ", " : "", name);
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
        if (error != NULL)
            return complain(-EINVAL, "%s:%u: %s", path, number, error);
    }
    return 0;
}

/* Moves the values to the options that have none in `given`. If `given` has a key, ignores all options about
 * the key. */
static void merge_values(struct given *given, char **values)
{
    bool had_key = has_key(given);
    for (int i = 0; i < OPTION_COUNT; i++)
        if (given->values[i] == NULL && !(had_key && i <= OPTION_API_KEY))
            given->values[i] = TAKE_PTR(values[i]);
}

/* Returns 0 or -errno, which is logged. */
static int merge_config(struct given *given, const struct config *config, const char *path)
{
    const char *account = given->options->account;
    if (account != NULL && !config->is_found)
        return complain(-ENOENT, "there is no account '%s' in %s; it has: %s", account, path,
                        config->names->len > 0 ? config->names->str : "none");
    merge_values(given, given->own);
    if (account != NULL && given->values[OPTION_STATE_DIR] == NULL && given->shared[OPTION_STATE_DIR] != NULL)
        return complain(
            -EINVAL,
            "%s: state-dir before the first section would be that of all accounts: give each its own", path);
    merge_values(given, given->shared);
    return 0;
}

/* Checks that only this user and root can change the configuration, if it is a regular file. Returns 0 or
 * -EPERM, which is logged. */
static int check_config_owner(const struct stat *status, const char *path)
{
    if (!S_ISREG(status->st_mode))
        return 0;
    if (status->st_uid != geteuid() && status->st_uid != 0)
        return complain(-EPERM, "the configuration %s belongs to another user: it must be yours, or root's",
                        path);
    if ((status->st_mode & 022) != 0)
        return complain(-EPERM, "the configuration %s can be written by others: chmod go-w %s", path, path);
    return 0;
}

static int apply_config(struct given *given, int fd, const char *path)
{
    g_autoptr(GString) names = g_string_new(NULL);
    struct config config = {.given = given, .current = given->shared, .names = names};
    _cleanup_free_ char *text = NULL;
    struct stat status;
    size_t len = 0;
    int error = fstat(fd, &status) != 0 ? -errno : file_read_fd(fd, CONFIG_MAX_BYTES, &text, &len);
    if (error != 0 || text == NULL)
        return complain(error, "cannot read the configuration %s: %s", path, strerror(-error));
    config.is_private = (status.st_mode & 077) == 0;
    error = check_config_owner(&status, path);
    if (error == 0)
        error = parse_lines(&config, path, text);
    explicit_bzero(text, len);
    return error != 0 ? error : merge_config(given, &config, path);
}

/* Reads the file of --config, else the default file if it exists. Returns 0 or -errno, which is logged. */
static int read_config(struct given *given)
{
    g_autofree char *default_path = g_build_filename(g_get_user_config_dir(), "inboxfs/config", NULL);
    const char *account = given->options->account;
    bool is_default = given->values[OPTION_CONFIG] == NULL;
    const char *path = is_default ? default_path : given->values[OPTION_CONFIG];
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return apply_config(given, fd, path);
    const char *why = strerror(errno);
    bool is_needed = !is_default || account != NULL || (errno != ENOENT && errno != EACCES);
    if (account != NULL)
        log_error("'%s' is no URL, nor local, and the accounts are not known: cannot read the configuration "
                  "%s: %s",
                  account, path, why);
    else if (is_needed)
        log_error("cannot read the configuration %s: %s", path, why);
    else if (errno == EACCES) /* mount(8) may start the program for a user with root's HOME */
        log_warning("going on without the configuration %s: %s", path, why);
    return is_needed ? -ENOENT : 0;
}

/* ---------------------------------------------------------------- values */

/* Sets the value of a row from the text, or to the default if the text is NULL. */
static int set_value(const struct option_row *row, const char *text, void *value)
{
    const char *objection = text != NULL ? find_objection(row, text) : NULL;
    if (objection != NULL)
        return complain(-EINVAL, "%s=%s: %s", row->name, text, objection);
    if (row->kind < OPTION_FLAG)
        *(char **)value = g_strdup(text);
    else if (row->kind == OPTION_FLAG)
        *(bool *)value = text != NULL && g_strv_contains(yes, text);
    else if (text == NULL || !parse_number(row, text, value))
        *(int64_t *)value = row->default_value;
    return 0;
}

/* Makes the path after the prefix absolute, because the daemon leaves the working directory. Does not change
 * a value without the prefix. Does not resolve links, because the system may change its link to the
 * certificate authorities while the daemon runs. Returns false, after a log, if the working directory was
 * deleted. */
static bool make_absolute(char **value, const char *prefix)
{
    size_t len = strlen(prefix);
    if (*value == NULL || strncmp(*value, prefix, len) != 0 || (*value)[len] == '/' || (*value)[len] == '\0')
        return true;
    _cleanup_free_ char *directory = getcwd(NULL, 0); /* g_get_current_dir() would return "/" */
    if (directory == NULL)
        return complain(false, "cannot find %s, which is relative: %s", *value, strerror(errno));
    _cleanup_free_ char *relative = *value;
    *value = g_strdup_printf("%s%s/%s", prefix, directory, relative + len);
    return true;
}

/* Refuses a call without a mount point or a service. Returns 0 or -EINVAL, which is logged. */
static int check_required(const struct given *given)
{
    const struct options *options = given->options;
    if (options->mountpoint == NULL && !options->is_check)
        return complain(-EINVAL, "no mount point given; see inboxfs --help");
    if (given->values[OPTION_SOURCE] != NULL)
        return 0;
    if (options->account != NULL)
        return complain(-EINVAL, "the account '%s' has no 'source' in the configuration", options->account);
    if (options->is_check)
        return complain(-EINVAL, "no service given: name its base URL, 'local' or an account, or set "
                                 "INBOXFS_BASE_URL");
    return complain(-EINVAL,
                    "no service given before the mount point '%s': name its base URL, 'local' or an account, "
                    "or set INBOXFS_BASE_URL",
                    options->mountpoint);
}

/* Refuses values that do not fit together. Returns 0 or -errno, which is logged. */
static int check_together(const struct options *options)
{
    if ((options->webhook_listen == NULL) != (options->webhook_secret_file == NULL))
        return complain(-EINVAL, "webhooks need both --webhook-listen and --webhook-secret-file");
    /* Without root's rights, the daemon could neither open files that are shown as another user's, nor
     * announce them by inotify. */
    if (options->shown_as.uid >= 0 && geteuid() != 0 && options->shown_as.uid != geteuid())
        return complain(-EPERM, "--uid=%jd: only root can show a mount as another user's",
                        (intmax_t)options->shown_as.uid);
    return 0;
}

static int set_values(struct given *given)
{
    struct options *options = given->options;
    int error = check_required(given);
    for (int i = 0; i < OPTION_COUNT && error == 0; i++)
        error = set_value(&option_rows[i], given->values[i], (char *)options + option_rows[i].value);
    if (error != 0)
        return error;
    /* If there is no real path, there is no such folder; the daemon reports that before it mounts. */
    char *real = options->mountpoint != NULL ? mountinfo_real_path(options->mountpoint) : NULL;
    if (real != NULL) {
        free(options->mountpoint);
        options->mountpoint = real;
    }
    if (!make_absolute(&options->webhook_listen, "unix:") || !make_absolute(&options->ca_file, ""))
        return -ENOENT;
    options->is_foreground = given->foreground != 0 || given->debug != 0;
    options->is_debug = given->debug != 0;
    return check_together(options);
}

bool options_is_mount_helper(void)
{
    return g_str_has_prefix(program_invocation_short_name, "mount.");
}

int options_read(int argc, char **argv, struct options *ret_options)
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
        return EXIT_USAGE;
    if (given.help || given.version) {
        fputs(given.help ? usage : "inboxfs " INBOXFS_VERSION "\n", stdout);
        return EXIT_SUCCESS;
    }
    ignore_relative_places();
    bool has_account = given.values[OPTION_SOURCE] != NULL && is_account_name(given.values[OPTION_SOURCE]);
    if (has_account)
        ret_options->account = TAKE_PTR(given.values[OPTION_SOURCE]);
    else
        read_environment(&given);
    if (read_config(&given) != 0)
        return EXIT_USAGE;
    if (has_account)
        read_environment(&given);
    if (set_values(&given) != 0)
        return EXIT_USAGE;
    return given.fake ? EXIT_SUCCESS : -1;
}

void options_release(struct options *options)
{
    for (const struct option_row *row = option_rows; row < option_rows + OPTION_COUNT; row++)
        if (row->kind < OPTION_FLAG)
            secret_free(*(char **)((char *)options + row->value));
    free(options->account);
    free(options->mountpoint);
    free(options->mount_options);
}
