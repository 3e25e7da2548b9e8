/* SPDX-License-Identifier: MIT */
/*
 * The daemon: builds the layers on each other, goes into the background, waits for its end, and takes them
 * down.
 */
#include "daemon.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "account.h"
#include "background.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fs/session.h"
#include "fs/watch_helper.h"
#include "mountpoint.h"
#include "outbox/outbox.h"
#include "store/store.h"
#include "tree/tree.h"

enum {
    EXIT_USAGE = 2 /* a wrong command line */
};

struct daemon {
    const struct options *options; /* borrowed */
    struct account account;
    struct tree *tree;
    struct store *store;
    struct outbox *outbox;
    struct fs_session *session;
    struct watch_helper watch_helper;
    int failure_status; /* what the program exits with where it cannot start */
};

/* Says what failed, with the reason where a layer gave one (and frees it). */
static int fail(const char *what, int error, char *reason)
{
    log_error("%s: %s", what, reason != NULL ? reason : strerror(-error));
    free(reason);
    return error;
}

/* ---------------------------------------------------------------- wiring */

static int find_sender(void *context, const char *address, char **ret_address)
{
    return store_find_sender(context, address, ret_address);
}

/* What sending finds out of the service, status.json and the events are to say. */
static void report_contact(void *context, bool is_reached)
{
    store_report_contact(context, is_reached);
}

static int open_tree(struct daemon *daemon)
{
    const struct tree_config config = {
        .clock = clock_system(),
        .service = daemon->account.service,
        .state_dir_fd = daemon->account.state_dir_fd,
        .source = daemon->account.shown_source,
        .poll_interval_ms = daemon->options->poll_interval_s * 1000,
    };
    char *reason = NULL;
    int error = tree_new(&config, &daemon->tree, &reason);
    return error == 0 ? 0 : fail("cannot open the drafts and events", error, reason);
}

static int open_store(struct daemon *daemon)
{
    const struct store_config config = {
        .service = daemon->account.service,
        .clock = clock_system(),
        .state_dir_fd = daemon->account.state_dir_fd,
        .poll_interval_ms = daemon->options->poll_interval_s * 1000,
        .adopt_state = daemon->options->adopts_state,
        .content_cache_bytes =
            daemon->options->is_metadata_only ? 0 : (uint64_t)daemon->options->content_cache_mb * 1000 * 1000,
        .listener = tree_store_listener(daemon->tree),
        .events = tree_event_listener(daemon->tree),
    };
    char *reason = NULL;
    int error = store_open(&config, &daemon->store, &reason);
    return error == 0 ? 0 : fail("cannot open the cache", error, reason);
}

static int open_outbox(struct daemon *daemon)
{
    const struct outbox_config config = {
        .service = daemon->account.service,
        .clock = clock_system(),
        .state_dir_fd = daemon->account.state_dir_fd,
        .senders = {.find_sender = find_sender, .context = daemon->store},
        .default_from = daemon->options->default_from,
        .trusts_idempotency = daemon->options->trusts_idempotency || daemon->account.is_local,
        .daily_limit = daemon->options->daily_limit,
        .listener = tree_outbox_listener(daemon->tree),
        .contact = {.asked = report_contact, .context = daemon->store},
        .events = tree_event_listener(daemon->tree),
    };
    char *reason = NULL;
    int error = outbox_open(&config, &daemon->outbox, &reason);
    return error == 0 ? 0 : fail("cannot open the spool", error, reason);
}

/* The service is asked before anything else depends on it: a wrong key ends the program, a dead service does
 * not. */
static int contact_service(struct daemon *daemon)
{
    char *reason = NULL;
    int error = store_first_contact(daemon->store, NULL, &reason);
    if (error == -EHOSTUNREACH) {
        log_warning("the service does not answer, showing what is known from before: %s",
                    reason != NULL ? reason : strerror(-error));
        free(reason);
        return 0;
    }
    return error == 0 ? 0 : fail("cannot mount", error, reason);
}

static int open_layers(struct daemon *daemon)
{
    int error;
    if ((error = open_tree(daemon)) != 0 || (error = open_store(daemon)) != 0 ||
        (error = contact_service(daemon)) != 0 || (error = open_outbox(daemon)) != 0)
        return error;
    tree_attach(daemon->tree, daemon->store, daemon->outbox);
    return 0;
}

/* ---------------------------------------------------------------- the mount */

/* Called by a thread of the session when the mount ended from outside: the main thread, which alone has the
 * signal unblocked or waits for it, ends as it does on a SIGTERM of a user. */
static void mount_ended(void *context)
{
    (void)context;
    kill(getpid(), SIGTERM);
}

static int mount_session(struct daemon *daemon)
{
    const struct fs_session_config config = {
        .tree = daemon->tree,
        .watch_helper = &daemon->watch_helper,
        .mountpoint = daemon->options->mountpoint,
        .source = daemon->account.shown_source,
        .mount_options = daemon->options->mount_options,
        .is_debug = daemon->options->is_debug,
        .ended = mount_ended,
    };
    char *reason = NULL;
    int error = fs_session_new(&config, &daemon->session, &reason);
    if (error == -EINVAL)
        daemon->failure_status = EXIT_USAGE;
    if (error == 0)
        error = fs_session_mount(daemon->session, &reason);
    if (error != 0)
        return fail("cannot mount", error, reason);
    return 0;
}

static int start_layers(struct daemon *daemon)
{
    int error;
    if ((error = fs_session_start(daemon->session)) != 0 || (error = store_start(daemon->store)) != 0 ||
        (error = outbox_start(daemon->outbox)) != 0)
        return fail("cannot start", error, NULL);
    return 0;
}

/* Half-built daemons too. The service inside goes last: the senders may still be talking to it. */
static void stop_layers(struct daemon *daemon)
{
    account_announce_end(&daemon->account);
    if (daemon->session != NULL)
        fs_session_stop(daemon->session);
    if (daemon->store != NULL)
        store_stop(daemon->store);
    if (daemon->outbox != NULL)
        outbox_stop(daemon->outbox);
    fs_session_free(daemon->session);
    watch_helper_release(&daemon->watch_helper);
    outbox_free(daemon->outbox);
    store_free(daemon->store);
    tree_free(daemon->tree);
    account_release(&daemon->account);
}

/* ---------------------------------------------------------------- signals */

static void block_signals(sigset_t *ret_ending)
{
    sigemptyset(ret_ending);
    sigaddset(ret_ending, SIGTERM);
    sigaddset(ret_ending, SIGINT);
    sigaddset(ret_ending, SIGHUP);
    pthread_sigmask(SIG_BLOCK, ret_ending, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void wait_for_end(const sigset_t *ending)
{
    int number = 0;
    while (sigwait(ending, &number) != 0)
        ;
    log_debug("ending on signal %d", number);
}

/* Keys are in memory: none of it goes into a core file. 1 is what the kernel takes for "not even through a
 * pipe". */
static void forbid_core_files(void)
{
    const struct rlimit limit = {1, 1};
    setrlimit(RLIMIT_CORE, &limit);
}

/* First of all, so that it has nothing of what follows: locks, threads, keys, the mount. Without it there is
 * no more amiss than that inotify sees less. */
static void start_watch_helper(struct daemon *daemon)
{
    int error = watch_helper_init(&daemon->watch_helper);
    if (error != 0)
        log_warning("inotify will not see what arrives: %s", strerror(-error));
}

static int serve(struct daemon *daemon, int ready_fd)
{
    sigset_t ending;
    block_signals(&ending);
    start_watch_helper(daemon);

    int error = account_open(daemon->options, &daemon->account);
    if (error == 0)
        error = open_layers(daemon);
    if (error == 0)
        error = mount_session(daemon);
    if (error == 0)
        error = start_layers(daemon);
    if (error == 0) {
        if (ready_fd >= 0)
            background_ready(ready_fd);
        wait_for_end(&ending);
    }
    stop_layers(daemon);
    return error;
}

int daemon_run(const struct options *options)
{
    int ready_fd = -1;
    int error = mountpoint_prepare(options->mountpoint);
    if (error != 0)
        return EXIT_FAILURE;
    if (!options->is_debug)
        forbid_core_files();
    if (!options->is_foreground && (error = background_start(&ready_fd)) != 0) {
        log_error("cannot go into the background: %s", strerror(-error));
        return EXIT_FAILURE;
    }
    struct daemon daemon = {.options = options, .failure_status = EXIT_FAILURE};
    return serve(&daemon, ready_fd) == 0 ? EXIT_SUCCESS : daemon.failure_status;
}
