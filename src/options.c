/* SPDX-License-Identifier: MIT */
/*
 * The command line (by fuse_opt, so that -o works as in every FUSE program), the environment, the
 * configuration file.
 */
#include "options.h"

#include <errno.h>
#include <fuse_opt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "config_file.h"
#include "mail/address.h"

enum {
    CONFIG_MAX_BYTES = 64 * 1024,
    POLL_INTERVAL_DEFAULT_S = 30,
    POLL_INTERVAL_MAX_S = 24 * 60 * 60,
    CONTENT_CACHE_DEFAULT_MB = 1000,
    CONTENT_CACHE_MAX_MB = 1000 * 1000 * 1000,
};

/* What is given as text, before it is checked. */
struct raw_options {
    char *source;
    char *mountpoint;
    char *api_key_file;
    char *api_key_command;
    char *api_key; /* configuration and environment only */
    char *config;
    char *state_dir;
    char *poll_interval;
    char *daily_limit;
    char *content_cache;
    char *from;
    char *mount_options;
    int trust_idempotency;
    int allow_http;
    int adopt_state;
    int metadata_only;
    int foreground;
    int debug;
    int help;
    int version;
};

#define TEXT_OPTION(dashed, underscored, member)                   \
    {"--" dashed "=%s", offsetof(struct raw_options, member), 0},  \
    {                                                              \
        underscored "=%s", offsetof(struct raw_options, member), 0 \
    }
#define FLAG_OPTION(dashed, underscored, member)             \
    {"--" dashed, offsetof(struct raw_options, member), 1},  \
    {                                                        \
        underscored, offsetof(struct raw_options, member), 1 \
    }

static const struct fuse_opt specification[] = {
    TEXT_OPTION("api-key-file", "api_key_file", api_key_file),
    TEXT_OPTION("api-key-command", "api_key_command", api_key_command),
    TEXT_OPTION("config", "config", config),
    TEXT_OPTION("state-dir", "state_dir", state_dir),
    TEXT_OPTION("poll-interval", "poll_interval", poll_interval),
    TEXT_OPTION("daily-limit", "daily_limit", daily_limit),
    TEXT_OPTION("content-cache", "content_cache", content_cache),
    TEXT_OPTION("from", "from", from),
    FLAG_OPTION("trust-idempotency", "trust_idempotency", trust_idempotency),
    FLAG_OPTION("allow-http", "allow_http", allow_http),
    FLAG_OPTION("adopt-state", "adopt_state", adopt_state),
    FLAG_OPTION("metadata-only", "metadata_only", metadata_only),
    {"-f", offsetof(struct raw_options, foreground), 1},
    {"-d", offsetof(struct raw_options, debug), 1},
    {"debug", offsetof(struct raw_options, debug), 1},
    {"-s", UINT_MAX, FUSE_OPT_KEY_DISCARD}, /* FUSE_OPT_KEY(), which clang finds fault with */
    {"-h", offsetof(struct raw_options, help), 1},
    {"--help", offsetof(struct raw_options, help), 1},
    {"-V", offsetof(struct raw_options, version), 1},
    {"--version", offsetof(struct raw_options, version), 1},
    FUSE_OPT_END,
};

static const char usage[] =
    "usage: inboxfs [OPTIONS] [SOURCE] MOUNTPOINT\n"
    "\n"
    "SOURCE is the base URL of an email inbox service, or local[:DIR] for the local service inside this "
    "program.\n"
    "\n"
    "    -f                         stay in the foreground\n"
    "    -d, -o debug               foreground, and show every request of the kernel\n"
    "    -s                         accepted, to no effect\n"
    "    -o OPT[,OPT...]            mount options; each option below is also -o name=value with _ for -\n"
    "    --api-key-file=FILE        file with the API key, readable by its owner only\n"
    "    --api-key-command=CMD      command that prints the API key\n"
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
    "    -h, --help; -V, --version\n"
    "\n"
    "The API key comes from --api-key-file, INBOXFS_API_KEY, --api-key-command or the configuration. See "
    "inboxfs(8).\n";

/* A secret is overwritten where it stood before its memory is given back. */
static void wipe_and_free(char **secret)
{
    if (*secret != NULL)
        explicit_bzero(*secret, strlen(*secret));
    free(*secret);
    *secret = NULL;
}

static void raw_options_release(struct raw_options *raw)
{
    free(raw->source);
    free(raw->mountpoint);
    free(raw->api_key_file);
    free(raw->api_key_command);
    wipe_and_free(&raw->api_key);
    free(raw->config);
    free(raw->state_dir);
    free(raw->poll_interval);
    free(raw->daily_limit);
    free(raw->content_cache);
    free(raw->from);
    free(raw->mount_options);
}

/* ---------------------------------------------------------------- command line */

enum {
    KEEP = 1,
    DISCARD = 0,
    FAIL = -1
};

static bool is_key(const char *argument)
{
    return strncmp(argument, "--api-key=", 10) == 0 || strncmp(argument, "api_key=", 8) == 0;
}

/* Not with the key in the words: they may go to a log. */
static void refuse_option(const char *argument)
{
    size_t len = strlen(argument);
    if (is_key(argument)) {
        log_error(
            "a key is never taken from the command line, where everyone can read it: use --api-key-file");
        return;
    }
    for (const struct fuse_opt *option = specification; option->templ != NULL; option++) {
        if (strncmp(option->templ, argument, len) == 0 && strcmp(option->templ + len, "=%s") == 0) {
            log_error("%s needs its value behind an equals sign: %s=VALUE", argument, argument);
            return;
        }
    }
    log_error("unknown option %s; see inboxfs --help", argument);
}

/* What fstab says to mount(8) alone, and times of reading, of which there are none here. */
static bool is_without_effect(const char *argument)
{
    static const char *const words[] = {
        "defaults",   "auto",       "noauto",     "nofail",      "_netdev",       "user",     "nouser",
        "users",      "nousers",    "owner",      "noowner",     "group",         "nogroup",  "relatime",
        "norelatime", "diratime",   "nodiratime", "strictatime", "nostrictatime", "lazytime", "nolazytime",
        "iversion",   "noiversion", "mand",       "nomand",      "silent",        "loud",
    };
    static const char *const beginnings[] = {"x-", "X-", "comment=", "user=", "helper=", "uhelper="};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(words[i], argument) == 0)
            return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
        if (strncmp(beginnings[i], argument, strlen(beginnings[i])) == 0)
            return true;
    }
    return false;
}

static int take_argument(void *data, const char *argument, int key, struct fuse_args *left)
{
    struct raw_options *raw = data;
    (void)left;
    if (key == FUSE_OPT_KEY_NONOPT) {
        if (raw->mountpoint != NULL && raw->source != NULL) {
            log_error("too many arguments, from '%s' on; see inboxfs --help", argument);
            return FAIL;
        }
        /* The last one is the mount point: what was taken for it moves up when another follows. */
        raw->source = TAKE_PTR(raw->mountpoint);
        raw->mountpoint = strdup(argument);
        return raw->mountpoint == NULL ? FAIL : DISCARD;
    }
    if (argument[0] == '-' || is_key(argument)) {
        refuse_option(argument);
        return FAIL;
    }
    if (is_without_effect(argument))
        return DISCARD;
    return fuse_opt_add_opt_escaped(&raw->mount_options, argument) == 0 ? DISCARD : FAIL;
}

/* ---------------------------------------------------------------- configuration and environment */

/* What is set already weighs more than the configuration; of the ways to get the key, any given one weighs
 * more than all in the configuration. */
static int read_config_file(struct raw_options *raw, const char *path, bool is_required)
{
    bool has_key = raw->api_key != NULL || raw->api_key_file != NULL || raw->api_key_command != NULL;
    const struct config_setting settings[] = {
        {.name = "source", .text = &raw->source},
        {.name = "base-url", .text = &raw->source},
        {.name = "api-key", .text = has_key ? NULL : &raw->api_key, .is_secret = true},
        {.name = "api-key-file", .text = has_key ? NULL : &raw->api_key_file},
        {.name = "api-key-command", .text = has_key ? NULL : &raw->api_key_command},
        {.name = "state-dir", .text = &raw->state_dir},
        {.name = "poll-interval", .text = &raw->poll_interval},
        {.name = "daily-limit", .text = &raw->daily_limit},
        {.name = "content-cache", .text = &raw->content_cache},
        {.name = "from", .text = &raw->from},
        {.name = "trust-idempotency", .flag = &raw->trust_idempotency},
        {.name = "allow-http", .flag = &raw->allow_http},
        {.name = "adopt-state", .flag = &raw->adopt_state},
        {.name = "metadata-only", .flag = &raw->metadata_only},
    };
    return config_file_read(path, is_required, settings, ARRAY_LEN(settings));
}

static int read_config(struct raw_options *raw)
{
    if (raw->config != NULL)
        return read_config_file(raw, raw->config, true);

    char path[PATH_MAX];
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (base != NULL && base[0] == '/')
        snprintf(path, sizeof(path), "%s/inboxfs/config", base);
    else if (home != NULL && home[0] == '/')
        snprintf(path, sizeof(path), "%s/.config/inboxfs/config", home);
    else
        return 0;
    return read_config_file(raw, path, false);
}

static int read_environment(struct raw_options *raw)
{
    const char *url = getenv("INBOXFS_BASE_URL");
    if (raw->source == NULL && url != NULL && *url != '\0') {
        raw->source = strdup(url);
        if (raw->source == NULL)
            return -ENOMEM;
    }
    char *key = getenv("INBOXFS_API_KEY");
    if (key == NULL)
        return 0;
    if (raw->api_key_file == NULL && *key != '\0') {
        raw->api_key = strdup(key);
        if (raw->api_key == NULL)
            return -ENOMEM;
    }
    explicit_bzero(key, strlen(key));
    unsetenv("INBOXFS_API_KEY");
    return 0;
}

/* ---------------------------------------------------------------- values */

static int parse_number(const char *text, int64_t min, int64_t max, int64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < min || number > max)
        return -EINVAL;
    *ret_number = number;
    return 0;
}

static int parse_poll_interval(const char *text, int64_t *ret_seconds)
{
    *ret_seconds = POLL_INTERVAL_DEFAULT_S;
    if (text == NULL || parse_number(text, 0, POLL_INTERVAL_MAX_S, ret_seconds) == 0)
        return 0;
    log_error("--poll-interval=%s: a number of seconds from 0 to %d is wanted", text, POLL_INTERVAL_MAX_S);
    return -EINVAL;
}

static int parse_daily_limit(const char *text, int64_t *ret_limit)
{
    *ret_limit = -1;
    if (text == NULL || strcmp(text, "none") == 0)
        return 0;
    if (strcmp(text, "free") == 0)
        *ret_limit = 10;
    else if (strcmp(text, "paid") == 0)
        *ret_limit = 1000;
    else if (parse_number(text, 0, 1000000000, ret_limit) != 0) {
        log_error("--daily-limit=%s: free, paid, none or a number is wanted", text);
        return -EINVAL;
    }
    return 0;
}

static int parse_content_cache(const char *text, int64_t *ret_mb)
{
    *ret_mb = CONTENT_CACHE_DEFAULT_MB;
    if (text == NULL || parse_number(text, 1, CONTENT_CACHE_MAX_MB, ret_mb) == 0)
        return 0;
    log_error("--content-cache=%s: a number of megabytes is wanted, at least 1", text);
    return -EINVAL;
}

/* The daemon leaves this directory, so the path must not depend on it. What realpath(3) cannot resolve
 * (nothing there, or a mount whose daemon died) is left to be judged when it is mounted on. */
static int make_absolute(const char *path, char **ret_path)
{
    char *absolute = realpath(path, NULL);
    char directory[PATH_MAX];
    if (absolute == NULL && path[0] == '/')
        absolute = strdup(path);
    else if (absolute == NULL && getcwd(directory, sizeof(directory)) == NULL)
        return -errno;
    else if (absolute == NULL && asprintf(&absolute, "%s/%s", directory, path) < 0)
        absolute = NULL;
    *ret_path = absolute;
    return absolute == NULL ? -ENOMEM : 0;
}

static int check_from(const char *from)
{
    if (from == NULL || address_is_valid(from))
        return 0;
    log_error("--from=%s: an email address is wanted", from);
    return -EINVAL;
}

static int check_values(struct raw_options *raw, struct options *options)
{
    if (raw->mountpoint == NULL) {
        log_error("no mount point given; see inboxfs --help");
        return -EINVAL;
    }
    if (raw->source == NULL) {
        log_error(
            "no service given: name its base URL or 'local' before the mount point, or set INBOXFS_BASE_URL");
        return -EINVAL;
    }
    int error = make_absolute(raw->mountpoint, &options->mountpoint);
    if (error != 0) {
        log_error("cannot mount on %s: %s", raw->mountpoint, strerror(-error));
        return error;
    }
    if ((error = check_from(raw->from)) != 0 ||
        (error = parse_poll_interval(raw->poll_interval, &options->poll_interval_s)) != 0 ||
        (error = parse_daily_limit(raw->daily_limit, &options->daily_limit)) != 0 ||
        (error = parse_content_cache(raw->content_cache, &options->content_cache_mb)) != 0)
        return error;

    options->source = TAKE_PTR(raw->source);
    options->api_key_file = TAKE_PTR(raw->api_key_file);
    options->api_key_command = TAKE_PTR(raw->api_key_command);
    options->api_key = TAKE_PTR(raw->api_key);
    options->config = TAKE_PTR(raw->config);
    options->state_dir = TAKE_PTR(raw->state_dir);
    options->default_from = TAKE_PTR(raw->from);
    options->mount_options = TAKE_PTR(raw->mount_options);
    options->trusts_idempotency = raw->trust_idempotency != 0;
    options->allows_http = raw->allow_http != 0;
    options->adopts_state = raw->adopt_state != 0;
    options->is_metadata_only = raw->metadata_only != 0;
    options->is_foreground = raw->foreground != 0 || raw->debug != 0;
    options->is_debug = raw->debug != 0;
    return 0;
}

enum options_result options_read(int argc, char **argv, struct options *ret_options)
{
    _cleanup_(raw_options_release) struct raw_options raw = {0};
    *ret_options = (struct options){0};

    struct fuse_args arguments = FUSE_ARGS_INIT(argc, argv);
    int failed = fuse_opt_parse(&arguments, &raw, specification, take_argument);
    fuse_opt_free_args(&arguments);
    if (failed)
        return OPTIONS_FAILED;
    if (raw.help) {
        fputs(usage, stdout);
        return OPTIONS_DONE;
    }
    if (raw.version) {
        puts("inboxfs " INBOXFS_VERSION);
        return OPTIONS_DONE;
    }
    if (read_environment(&raw) != 0 || read_config(&raw) != 0 || check_values(&raw, ret_options) != 0)
        return OPTIONS_FAILED;
    return OPTIONS_RUN;
}

void options_release(struct options *options)
{
    free(options->source);
    free(options->mountpoint);
    free(options->api_key_file);
    free(options->api_key_command);
    wipe_and_free(&options->api_key);
    free(options->config);
    free(options->state_dir);
    free(options->default_from);
    free(options->mount_options);
}
