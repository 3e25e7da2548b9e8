/* SPDX-License-Identifier: MIT */
/*
 * inboxfs: mounts an account of an email inbox service as directories. The daemon opens and starts the
 * layers, goes into the background, waits for its end, and closes the layers.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <jansson.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mountinfo.h"
#include "base/process.h"
#include "commands.h"
#include "fs/session.h"
#include "fs/watch_helper.h"
#include "mail_account.h"
#include "options.h"
#include "outbox/outbox.h"
#include "outbox/writer_fate.h"
#include "state_dir.h"
#include "store/store.h"
#include "tree/tree.h"
#include "webhook_server.h"

enum {
    /* The exit statuses that mount(8) expects of its helpers, and passes on. */
    MOUNT_EXIT_USAGE = 1,
    MOUNT_EXIT_FAILURE = 32,

    LARGE_BLOCK_BYTES = 1024 * 1024
};

/* Returns the exit status as mount(8) expects it, if mount(8) started the program. */
static int exit_status(int status)
{
    if (status == EXIT_SUCCESS || !options_is_mount_helper())
        return status;
    return status == EXIT_USAGE ? MOUNT_EXIT_USAGE : MOUNT_EXIT_FAILURE;
}

/* ---------------------------------------------------------------- the background */

/* Exits with 0 when the child writes a byte to the pipe, or with the child's status if it ends before. */
static _Noreturn void wait_for_child(int fd, pid_t child)
{
    char ready;
    int status = 0;
    if (TEMP_FAILURE_RETRY(read(fd, &ready, 1)) == 1)
        _exit(EXIT_SUCCESS);
    TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
    if (WIFSIGNALED(status))
        log_error("ended by signal %d before the mount answered", WTERMSIG(status));
    _exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : exit_status(EXIT_FAILURE));
}

/* Forks before any thread exists, for threads do not survive fork(2). The parent, which is the command that
 * the user typed, exits in wait_for_child(). Returns 0 in the child, with *ret_ready_fd; or -errno. */
static int background_start(int *ret_ready_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    _cleanup_close_ int read_end = ends[0];
    _cleanup_close_ int write_end = ends[1];
    pid_t child = fork();
    if (child < 0)
        return -errno;
    if (child > 0) {
        close(TAKE_FD(write_end));
        wait_for_child(read_end, child);
    }
    *ret_ready_fd = TAKE_FD(write_end);
    return 0;
}

/* Leaves the terminal and its process group, and ends the wait of the parent with success. Consumes
 * `ready_fd`. Called after the mount was made: until then systemd's automount lets only the process group of
 * mount(8) access the mount point. */
static void background_ready(int ready_fd)
{
    log_to_syslog("inboxfs");
    setsid();
    if (chdir("/") != 0)
        log_warning("cannot leave the working directory, which stays busy: %s", strerror(errno));
    _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
    }
    if (write(ready_fd, "\0", 1) != 1)
        log_warning("the command that started this mount is gone");
    close(ready_fd);
}

/* ---------------------------------------------------------------- the service manager */

enum {
    MANAGER_WAIT_S = 5 /* the longest wait for a busy manager */
};

/* Sends lines to the socket of systemd's Type=notify (sd_notify(3)), unless `path` is NULL or "". A path that
 * begins with @ is an abstract address, which has no file. */
static void notify_manager(const char *path, const char *lines)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval wait = {.tv_sec = MANAGER_WAIT_S};
    if (path == NULL || *path == '\0')
        return;
    size_t len = MIN(strlen(path), sizeof(address.sun_path)); /* no socket has a longer path */
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) != 0 ||
        sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
        log_warning("cannot reach the service manager on %s: %s", path, strerror(errno));
}

/* ---------------------------------------------------------------- the mount point */

/* Checks that the path is a directory that can be mounted on. Unmounts a mount there whose daemon died
 * ("Transport endpoint is not connected"). Returns 0 or -errno, which is logged. */
static int mountpoint_prepare(const char *path)
{
    struct stat status;
    if (fs_mountpoint_is_dead(path)) {
        int error = fs_mountpoint_unmount(path, true);
        /* It also fails if a fusermount3 of the killed daemon has unmounted meanwhile. */
        if (error != 0 && fs_mountpoint_is_dead(path))
            return complain(error,
                            "a dead mount is in the way on %s and cannot be removed: try fusermount3 -uz %s",
                            path, path);
        log_warning("removed a dead mount from %s", path);
    }
    int error = stat(path, &status) == 0 ? 0 : -errno;
    if (error == 0 && !S_ISDIR(status.st_mode))
        error = -ENOTDIR;
    if (error != 0)
        return complain(error, "cannot mount on %s: %s", path, strerror(-error));
    /* An inboxfs that another mount hides counts as well: when it ends, it would unmount the mount on top. */
    if (mountinfo_find(MOUNTINFO_INBOXFS, path, NULL))
        return complain(-EBUSY, "an inboxfs is mounted on %s already: inboxfs umount %s ends it", path, path);
    g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
    if (directory != NULL && g_dir_read_name(directory) != NULL)
        log_warning("%s is not empty: what it holds is hidden meanwhile", path);
    return 0;
}

/* ---------------------------------------------------------------- the daemon */

struct daemon {
    const struct options *options; /* borrowed */
    struct mail_account account;
    struct tree *tree;
    struct store *store;
    struct outbox *outbox;
    struct webhook_server *webhook_server; /* NULL without --webhook-listen */
    struct fs_session *session;
    struct watch_helper watch_helper;
    struct inherited_descriptors inherited; /* the descriptors that the caller left open */
    char *manager;      /* path of the service manager's socket; NULL without one or in the background */
    int failure_status; /* the exit status if the daemon cannot start */
};

/* Logs what failed, with the layer's reason or, if it is NULL, the errno. Frees the reason. */
static int log_failure(const char *what, int error, char *reason)
{
    log_error("%s: %s", what, reason != NULL ? reason : strerror(-error));
    free(reason);
    return error;
}

/* ---------------------------------------------------------------- opening the layers */

static int find_sender(void *context, const char *address, char **ret_address)
{
    return store_find_sender(context, address, ret_address);
}

static int find_email(void *context, const char *message_id, const char *from, char **ret_email_id)
{
    return store_find_by_message_id(context, message_id, from, ret_email_id);
}

/* Called by the outbox after each request: the store records whether the service can be reached. A request to
 * the local service may have delivered mail, so a sync follows at once. */
static void report_contact(void *context, bool is_reached)
{
    struct daemon *daemon = context;
    store_report_contact(daemon->store, is_reached);
    if (is_reached && daemon->account.local != NULL && daemon->options->poll_interval_s > 0)
        store_request_sync(daemon->store, NULL);
}

static bool is_service_lost(void *context)
{
    const struct daemon *daemon = context;
    return store_is_offline(daemon->store);
}

static int open_tree(struct daemon *daemon)
{
    const struct options *options = daemon->options;
    const struct tree_config config = {
        .clock = clock_system(),
        .service = daemon->account.service,
        .state_dir_fd = daemon->account.state_dir_fd,
        .source = daemon->account.shown_source,
        .account = options->account,
        .poll_interval_ms = options->poll_interval_s * 1000,
        .shown_as = options->shown_as,
    };
    char *reason = NULL;
    int error = tree_new(&config, &daemon->tree, &reason);
    return error == 0 ? 0 : log_failure("cannot open the drafts and events", error, reason);
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
    return error == 0 ? 0 : log_failure("cannot open the cache", error, reason);
}

static int open_outbox(struct daemon *daemon)
{
    const struct outbox_config config = {
        .service = daemon->account.service,
        .clock = clock_system(),
        .state_dir_fd = daemon->account.state_dir_fd,
        .senders = {.find_sender = find_sender, .context = daemon->store},
        .emails = {.find_email = find_email, .context = daemon->store},
        .default_from = daemon->options->default_from,
        .trusts_idempotency = daemon->options->trusts_idempotency || daemon->account.local != NULL,
        .daily_limit = daemon->options->daily_limit,
        .contact = {.asked = report_contact, .is_lost = is_service_lost, .context = daemon},
        .events = tree_event_listener(daemon->tree),
    };
    char *reason = NULL;
    int error = outbox_open(&config, &daemon->outbox, &reason);
    return error == 0 ? 0 : log_failure("cannot open the spool", error, reason);
}

/* Sends the first request. A wrong key is an error; an unreachable service is not. */
static int contact_service(struct daemon *daemon)
{
    char *reason = NULL;
    int error = store_first_contact(daemon->store, NULL, &reason);
    if (error == -EHOSTUNREACH) {
        struct store_status status;
        store_get_status(daemon->store, &status);
        log_warning("the service does not answer, %s: %s",
                    status.inboxes > 0 ? "showing what is known from before"
                                       : "and nothing is known from before",
                    reason != NULL ? reason : strerror(-error));
        free(reason);
        return 0;
    }
    return error == 0 ? 0 : log_failure("cannot mount", error, reason);
}

/* The store remembers a webhook that arrives before store_start(). */
static int start_webhook_server(struct daemon *daemon)
{
    const struct options *options = daemon->options;
    if (options->webhook_listen == NULL)
        return 0;
    if (strncmp(options->webhook_listen, "unix:", 5) == 0 &&
        file_is_below(options->webhook_listen + 5, options->mountpoint))
        return complain(-EDEADLK, "nobody could reach %s: the mount on %s hides it", options->webhook_listen,
                        options->mountpoint);
    return webhook_server_start(options->webhook_listen, options->webhook_secret_file, daemon->store,
                                &daemon->webhook_server);
}

/* Returns what the mount table shows as the source: for an account its name, as in fstab, because mount(8)
 * finds its mounts by this name. */
static const char *mount_name(const struct daemon *daemon)
{
    return daemon->options->account != NULL ? daemon->options->account : daemon->account.shown_source;
}

static int mount_session(struct daemon *daemon)
{
    const struct fs_session_config config = {
        .tree = daemon->tree,
        .watch_helper = &daemon->watch_helper,
        .mountpoint = daemon->options->mountpoint,
        .source = mount_name(daemon),
        .mount_options = daemon->options->mount_options,
        .is_debug = daemon->options->is_debug,
    };
    char *reason = NULL;
    int error = fs_session_new(&config, &daemon->session, &reason);
    if (error == -EINVAL)
        daemon->failure_status = EXIT_USAGE;
    if (error == 0)
        error = fs_session_mount(daemon->session, &reason);
    if (error != 0)
        return log_failure("cannot mount", error, reason);
    state_dir_announce_mount(daemon->account.lock_fd, daemon->options->mountpoint);
    return 0;
}

/* Opens all layers before it starts any, so that errors are found before the mount exists. Forks the watch
 * helper first, so that it has no lock, thread, key or mount of the daemon. If the fork fails, only inotify
 * reports less. The mount answers requests before the outbox and the store start. */
static int open_and_start(struct daemon *daemon)
{
    int error = watch_helper_init(&daemon->watch_helper);
    if (error != 0)
        log_warning("inotify will not see what arrives: %s", strerror(-error));
    if ((error = mail_account_open(daemon->options, &daemon->account)) != 0 ||
        (error = open_tree(daemon)) != 0 || (error = open_store(daemon)) != 0 ||
        (error = start_webhook_server(daemon)) != 0 || (error = contact_service(daemon)) != 0 ||
        (error = open_outbox(daemon)) != 0)
        return error;
    tree_attach(daemon->tree, daemon->store, daemon->outbox);
    if (writer_fate_unseen_reason() != NULL)
        log_warning("%s", writer_fate_unseen_reason());
    /* All secrets have been read by now, also those in files that the caller left open. */
    descriptors_close_inherited(&daemon->inherited);
    if ((error = mount_session(daemon)) != 0)
        return error;
    if ((error = outbox_start(daemon->outbox)) != 0 || (error = store_start(daemon->store)) != 0)
        return log_failure("cannot start", error, NULL);
    return 0;
}

/* Ends the mount before the outbox and the store, so that these get no requests while they stop. Frees each
 * layer before the layers that it uses; the local service is freed after all that send requests to it. */
static void stop_and_close(struct daemon *daemon)
{
    state_dir_announce_end(daemon->account.lock_fd);
    if (daemon->session != NULL)
        fs_session_stop(daemon->session);
    if (daemon->outbox != NULL)
        outbox_stop(daemon->outbox);
    webhook_server_free(daemon->webhook_server);
    if (daemon->store != NULL)
        store_stop(daemon->store);
    fs_session_free(daemon->session);
    outbox_free(daemon->outbox);
    store_free(daemon->store);
    tree_free(daemon->tree);
    mail_account_release(&daemon->account);
    watch_helper_release(&daemon->watch_helper);
}

/* ---------------------------------------------------------------- the progress on the terminal */

/* With -f, one line on the terminal shows the work under way: the first sync, files to upload, messages to
 * send, counted as in status.json. The log and this line share the terminal without a lock: each line of the
 * log first wipes the progress line, and each is written by one write(2). */

#define LOG_PREFIX "inboxfs: "
#define WIPE "\r\033[K" /* moves the cursor to the start of the line, and erases the line */

enum {
    PROGRESS_REFRESH_MS = 400, /* shorter work is not shown */
    USUAL_COLUMNS = 80,
};

struct progress {
    bool is_active;  /* standard error is a terminal that can show the line */
    bool is_shown;   /* the terminal has the line */
    bool is_lasting; /* the last refresh found work */
};

/* Wipes the line, and writes the text, which may be "", in its place. */
static void write_progress(struct progress *progress, const char *text)
{
    struct winsize size = {0};
    /* If the user has stopped the output (Ctrl-S), the terminal is not writable, and a write would wait. */
    struct pollfd terminal = {.fd = STDERR_FILENO, .events = POLLOUT};
    /* If a shell put the daemon into the background, other programs use the terminal. */
    pid_t group = tcgetpgrp(STDERR_FILENO);
    if (group >= 0 && group != getpgrp())
        progress->is_shown = false;
    else if ((text[0] != '\0' || progress->is_shown) && poll(&terminal, 1, 0) == 1 &&
             (terminal.revents & POLLOUT) != 0) {
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size); /* some terminals do not know their size, which stays 0 */
        /* One column is left free, so that no terminal begins another line. */
        int columns = (size.ws_col > 0 ? size.ws_col : USUAL_COLUMNS) - 1;
        g_autofree char *output = g_strdup_printf(WIPE "%.*s", columns, text);
        progress->is_shown = write(STDERR_FILENO, output, strlen(output)) > 0 && text[0] != '\0';
    }
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

/* Rewrites the line, or wipes it. Called every PROGRESS_REFRESH_MS. */
static void refresh_progress(struct progress *progress, const struct daemon *daemon)
{
    struct store_status store;
    struct outbox_status outbox;
    g_autoptr(GString) text = g_string_new(NULL);
    store_get_status(daemon->store, &store);
    outbox_get_status(daemon->outbox, &outbox);
    /* Without polling the first sync waits for the user's request. */
    if (!store.has_synced && store.next_poll_ms != 0)
        g_string_append_printf(text, ", first sync, %zu inbox%s, %zu email%s%s", store.inboxes,
                               store.inboxes == 1 ? "" : "es", store.emails, plural(store.emails),
                               !store.is_online || store.sync_error[0] != '\0' ? ", trying again" : "");
    if (outbox.uploading > 0)
        g_string_append_printf(text, ", %zu file%s to upload", outbox.uploading, plural(outbox.uploading));
    if (outbox.queued > 0)
        g_string_append_printf(text, ", %zu message%s to send", outbox.queued, plural(outbox.queued));
    if (outbox.uploading + outbox.queued > 0 && outbox.is_paused)
        g_string_append(text, ", waiting for the service");
    bool is_idle = text->len == 0;
    if (!is_idle)
        g_string_prepend(g_string_erase(text, 0, strlen(", ")), LOG_PREFIX);
    if (is_idle || progress->is_lasting)
        write_progress(progress, text->str);
    progress->is_lasting = !is_idle;
}

/* Makes each line of the log wipe the progress line first. Does nothing in the background, nor with -d, whose
 * requests would mix with the line. */
static void begin_progress(struct progress *progress, const struct options *options)
{
    const char *terminal = getenv("TERM");
    progress->is_active = options->is_foreground && !options->is_debug && isatty(STDERR_FILENO) &&
                          terminal != NULL && strcmp(terminal, "dumb") != 0;
    if (progress->is_active)
        log_set_prefix(WIPE LOG_PREFIX);
}

static void end_progress(struct progress *progress)
{
    if (!progress->is_active)
        return;
    write_progress(progress, "");
    log_set_prefix(LOG_PREFIX);
}

/* ---------------------------------------------------------------- start and end */

/* Discards one report or error (ENOBUFS if reports were lost). Does not read more reports, so that no flood
 * of reports delays a signal. */
static void discard_report(int fd)
{
    char report[8192];
    while (read(fd, report, sizeof(report)) < 0 && errno == EINTR)
        ;
}

/* Waits for one of these signals, which are blocked in all threads, and returns its number. Meanwhile shows
 * the progress, and reports to the store when the route to the service may have changed: the kernel reports
 * that an address or a route was added or removed (netlink, route(7)), or that the wall clock jumped, as it
 * does when a machine wakes from a suspend (timerfd_create(2)). If signalfd(2) fails, only waits for the
 * signals. */
static int wait_for_signal(const sigset_t *ending, const struct daemon *daemon)
{
    const struct sockaddr_nl address = {
        .nl_family = AF_NETLINK,
        .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE,
    };
    /* The timer would expire in 2242; it serves only to be cancelled by a jump of the clock. */
    const struct itimerspec never = {.it_value = {.tv_sec = (time_t)1 << 33}};
    _cleanup_close_ int signals = signalfd(-1, ending, SFD_CLOEXEC | SFD_NONBLOCK);
    _cleanup_close_ int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    _cleanup_close_ int timer = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    struct pollfd fds[] = {{signals, POLLIN, 0}, {netlink, POLLIN, 0}, {timer, POLLIN, 0}};
    struct signalfd_siginfo ended;
    struct progress progress = {.is_active = false};
    bool is_bound = bind(netlink, (const struct sockaddr *)&address, sizeof(address)) == 0;
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) != 0 || !is_bound)
        log_debug("a change of the network, or a suspend, is not noticed at once");
    if (signals < 0)
        return process_wait_for_ending_signal(ending);
    begin_progress(&progress, daemon->options);
    while (read(signals, &ended, sizeof(ended)) != sizeof(ended)) {
        if (progress.is_active)
            refresh_progress(&progress, daemon);
        if (poll(fds, ARRAY_LEN(fds), progress.is_active ? PROGRESS_REFRESH_MS : -1) <= 0 ||
            (fds[1].revents == 0 && fds[2].revents == 0))
            continue;
        discard_report(netlink);
        discard_report(timer);
        store_network_changed(daemon->store);
    }
    end_progress(&progress);
    return (int)ended.ssi_signo;
}

static int serve(struct daemon *daemon, int ready_fd)
{
    sigset_t ending;
    process_block_ending_signals(&ending);
    int error = open_and_start(daemon);
    if (error == 0) {
        if (ready_fd >= 0)
            background_ready(ready_fd);
        _cleanup_free_ char *ready = g_strdup_printf("READY=1\nSTATUS=%s is mounted on %s",
                                                     mount_name(daemon), daemon->options->mountpoint);
        g_strdelimit(ready + strlen("READY=1\n"), "\n", '?'); /* a path may have line ends */
        notify_manager(daemon->manager, ready);
        int number = wait_for_signal(&ending, daemon);
        log_debug("ending on signal %d", number);
        notify_manager(daemon->manager, "STOPPING=1");
    }
    stop_and_close(daemon);
    return error;
}

static int daemon_run(const struct options *options)
{
    struct daemon daemon = {.options = options, .failure_status = EXIT_FAILURE};
    int ready_fd = -1;
    /* The memory of a large file returns to the kernel; what zlib and libcurl need stays, in few arenas. */
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES);
    mallopt(M_TRIM_THRESHOLD, LARGE_BLOCK_BYTES);
    mallopt(M_ARENA_MAX, 4);
    int error = mountpoint_prepare(options->mountpoint);
    if (error != 0)
        return EXIT_FAILURE;
    descriptors_list_inherited(&daemon.inherited);
    if (!options->is_foreground && (error = background_start(&ready_fd)) != 0)
        return complain(EXIT_FAILURE, "cannot go into the background: %s", strerror(-error));
    /* In the background the daemon is not the main process of a service; its child processes never are. */
    daemon.manager = options->is_foreground ? g_strdup(getenv("NOTIFY_SOCKET")) : NULL;
    unsetenv("NOTIFY_SOCKET");
    /* Only a request to the daemon's own mount would be a true sign of life. But such a request would wake an
     * idle daemon, and a thread that waits for the answer would keep a killed daemon from ending. */
    if (daemon.manager != NULL && getenv("WATCHDOG_USEC") != NULL) {
        log_warning("WatchdogSec= is switched off: this program gives no sign of life at intervals");
        notify_manager(daemon.manager, "WATCHDOG_USEC=0");
    }
    error = serve(&daemon, ready_fd);
    free(daemon.manager);
    return error == 0 ? EXIT_SUCCESS : daemon.failure_status;
}

int main(int argc, char **argv)
{
    struct options options;
    descriptors_open_standard();
    json_set_alloc_funcs(g_malloc, g_free); /* jansson ends a program without memory, as GLib does */
    /* `inboxfs status --help` prints the usage of all commands, as `inboxfs check --help` does. */
    bool is_help = argc == 3 && (strcmp(argv[2], "-h") == 0 || strcmp(argv[2], "--help") == 0);
    if (argc > 1 && !is_help && strcmp(argv[1], "status") == 0)
        return status_command(argc - 1, argv + 1);
    if (argc > 1 && !is_help && strcmp(argv[1], "umount") == 0)
        return umount_command(argc - 1, argv + 1);
    int status = options_read(argc, argv, &options);
    if (status < 0) {
        if (options.is_debug)
            log_set_level(LOG_LEVEL_DEBUG);
        else
            process_forbid_core_files();
        status = options.is_check ? check_command(&options) : daemon_run(&options);
    }
    options_release(&options);
    return exit_status(status);
}
