/* SPDX-License-Identifier: MIT */
#include "fs/session.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "fs/operations.h"
#include "fs/request.h"
#include "fs/request_loop.h"
#include "tree/tree.h"

enum {
    OPTIONS_MAX_BYTES = 64 * 1024
};

/* A borrowed buffer for libfuse's messages while this thread parses options. It is a variable of the thread,
 * since libfuse's log function has no context argument. */
static _Thread_local struct strbuf *collected;

__attribute__((format(printf, 2, 0))) static void log_library_message(enum fuse_log_level level,
                                                                      const char *format, va_list arguments)
{
    if (level > FUSE_LOG_WARNING)
        return;
    if (collected != NULL) {
        strbuf_vappendf(collected, format, arguments);
        return;
    }
    g_autofree char *line = g_strdup_vprintf(format, arguments);
    line[strcspn(line, "\n")] = '\0';
    log_error("%s", line);
}

/* ---------------------------------------------------------------- unmounting by fusermount3 */

/* The daemon does not call umount(2) itself: a thread that waits in it for the daemon's own answers would
 * keep a killed daemon from dying. */
int fs_mountpoint_unmount(const char *mountpoint, bool is_lazy)
{
    const char *const arguments[] = {"fusermount3", "-u", is_lazy ? "-z" : "-q", "--", mountpoint, NULL};
    g_autoptr(GError) error = NULL;
    int status = 0;
    if (g_spawn_sync(NULL, (char **)(uintptr_t)arguments, NULL,
                     G_SPAWN_SEARCH_PATH | G_SPAWN_CHILD_INHERITS_STDIN, NULL, NULL, NULL, NULL, &status,
                     &error))
        return status == 0 ? 0 : -EBUSY;
    return g_error_matches(error, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT) ? -ENOENT : -EIO;
}

/* Without AT_STATX_FORCE_SYNC the kernel answers from its cache. */
bool fs_mountpoint_is_dead(const char *mountpoint)
{
    struct statx status;
    return statx(AT_FDCWD, mountpoint, AT_STATX_FORCE_SYNC | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &status) !=
               0 &&
           errno == ENOTCONN;
}

struct fs_session {
    char *mountpoint;
    dev_t device; /* st_dev of the mount */
    bool is_mounted;
    bool is_stopped;
    struct operations operations;
    struct request_loop loop;
    struct watch_helper *watch_helper; /* borrowed */
    struct watch_helper message_helper;
};

/* ---------------------------------------------------------------- options */

/* Returns the options for the kernel and libfuse (caller frees), or NULL when out of memory. */
static char *mount_options(const struct fs_session_config *config)
{
    const char *given = config->mount_options;
    char *options = NULL;
    g_autofree char *source = g_strdup_printf("fsname=%s", config->source);
    if (fuse_opt_add_opt(&options, "default_permissions,noatime,subtype=inboxfs") == 0 &&
        fuse_opt_add_opt_escaped(&options, source) == 0 &&
        (given == NULL || given[0] == '\0' || fuse_opt_add_opt(&options, given) == 0))
        return options;
    free(options);
    return NULL;
}

/* Converts "fuse: unknown option(s): `-o x'\n" to "unknown option(s): `-o x'". */
static char *make_option_reason(const struct strbuf *messages)
{
    static const char prefix[] = "fuse: ";
    const char *text = strbuf_str(messages);
    if (strncmp(text, prefix, strlen(prefix)) == 0)
        text += strlen(prefix);
    size_t len = strcspn(text, "\n");
    return len > 0 ? strndup(text, len) : strdup("a mount option is not known");
}

static int new_fuse_session(struct fs_session *session, const struct fs_session_config *config,
                            char **ret_reason)
{
    /* libfuse passes max_read to the kernel, and expects op_init() to set the same number. */
    static const struct fuse_opt known[] = {
        {"max_read=%u", offsetof(struct operations, max_read), 0},
        {"max_read=", UINT_MAX, FUSE_OPT_KEY_KEEP}, /* FUSE_OPT_KEY() without clang's warning */
        FUSE_OPT_END,
    };
    _cleanup_strbuf_ struct strbuf messages = STRBUF_INIT(OPTIONS_MAX_BYTES);
    struct fuse_args arguments = FUSE_ARGS_INIT(0, NULL);
    _cleanup_free_ char *options = mount_options(config);
    if (options == NULL)
        return -ENOMEM;
    if (!config->is_debug)
        fuse_set_log_func(log_library_message); /* applies to the whole program */
    collected = &messages;
    if (fuse_opt_add_arg(&arguments, "inboxfs") == 0 && fuse_opt_add_arg(&arguments, "-o") == 0 &&
        fuse_opt_add_arg(&arguments, options) == 0 &&
        (!config->is_debug || fuse_opt_add_arg(&arguments, "-d") == 0) &&
        fuse_opt_parse(&arguments, &session->operations, known, NULL) == 0)
        session->operations.fuse = fuse_session_new(&arguments, operations_table(),
                                                    sizeof(struct fuse_lowlevel_ops), &session->operations);
    collected = NULL;
    fuse_opt_free_args(&arguments);
    if (session->operations.fuse == NULL)
        *ret_reason = make_option_reason(&messages);
    return session->operations.fuse == NULL ? -EINVAL : 0;
}

/* ---------------------------------------------------------------- gone */

/*
 * Returns true if the filesystem does not exist any more: it is mounted nowhere, and none of its files is
 * open. The kernel then drops requests that it has not sent yet, including last closes. Returns false if
 * there is no ustat(2) (machines other than x86, some containers).
 *
 * ustat(2) is the only call that finds a filesystem by its device number, mounted or not. The call waits for
 * a filesystem that is being removed, and fails with ENOTCONN if ours was cut off while files are open. If
 * the call succeeds, the number belongs to another filesystem.
 */
static bool is_filesystem_gone(const struct fs_session *session)
{
#ifdef SYS_ustat
    char status[64]; /* struct ustat, which no header declares, has 32 bytes at most */
    struct pollfd fuse = {.fd = fuse_session_fd(session->operations.fuse)};
    bool is_cut_off = poll(&fuse, 1, 0) > 0 && (fuse.revents & POLLERR) != 0;
    return is_cut_off && (syscall(SYS_ustat, (unsigned int)session->device, status) == 0 || errno == EINVAL);
#else
    return false;
#endif
}

/* ---------------------------------------------------------------- made and mounted */

static int init_session(struct fs_session *session, const struct fs_session_config *config, char **ret_reason)
{
    session->operations.tree = config->tree;
    stream_readers_init(&session->operations.readers);
    session->watch_helper = config->watch_helper;
    session->mountpoint = g_strdup(config->mountpoint);
    watch_helper_init_without_process(&session->message_helper);
    request_list_init(&session->operations.requests, &session->loop);
    int error = new_fuse_session(session, config, ret_reason);
    notifier_init(&session->operations.notifier, session->operations.fuse, config->tree,
                  &session->operations.readers, session->watch_helper, &session->message_helper);
    int loop_error = request_loop_init(&session->loop, session->operations.fuse);
    return error != 0 ? error : loop_error;
}

int fs_session_new(const struct fs_session_config *config, struct fs_session **ret_session, char **ret_reason)
{
    struct fs_session *session = g_new0(struct fs_session, 1);
    int error = init_session(session, config, ret_reason);
    if (error != 0) {
        fs_session_free(session);
        return error;
    }
    *ret_session = session;
    return 0;
}

/* Sends no request to the filesystem, since this program would have to answer it. */
static dev_t find_device_at(const char *mountpoint)
{
    struct statx status;
    if (statx(AT_FDCWD, mountpoint, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &status) != 0)
        return 0;
    return makedev(status.stx_dev_major, status.stx_dev_minor);
}

char *fs_find_device_problem(void)
{
    _cleanup_close_ int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device >= 0)
        return NULL;
    bool is_missing = errno == ENOENT || errno == ENODEV || errno == ENXIO;
    const char *advice = is_missing ? " (modprobe fuse loads it; a container needs --device /dev/fuse)" : "";
    return g_strdup_printf("/dev/fuse: %s%s", strerror(errno), advice);
}

static int start_threads(struct fs_session *session)
{
    const struct tree_listener listener = notifier_listener(&session->operations.notifier);
    tree_set_listener(session->operations.tree, &listener);
    watch_helper_start(session->watch_helper, session->device, session->mountpoint);
    watch_helper_start(&session->message_helper, session->device, session->mountpoint);
    int error = notifier_start(&session->operations.notifier);
    return error != 0 ? error : request_loop_start(&session->loop);
}

int fs_session_mount(struct fs_session *session, char **ret_reason)
{
    struct rlimit limit;
    errno = 0;
    if (fuse_session_mount(session->operations.fuse, session->mountpoint) != 0) {
        int error = errno != 0 ? -errno : -EIO;
        _cleanup_free_ char *trouble = fs_find_device_problem();
        *ret_reason = g_strdup_printf("%s: cannot be mounted on: %s", session->mountpoint,
                                      trouble != NULL ? trouble : strerror(-error));
        return error;
    }
    session->is_mounted = true;
    session->device = find_device_at(session->mountpoint);
    /* Each file in drafts/ that the kernel knows takes a descriptor, and each open file. */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            log_debug("cannot raise the number of open files");
    }
    return start_threads(session);
}

/* ---------------------------------------------------------------- stopped */

/* Returns true if the mount point shows our mount. After `fusermount3 -uz` it does not: the session continues
 * while files are open, and another filesystem may be mounted at the mount point. */
static bool is_at_mountpoint(const struct fs_session *session)
{
    return !fuse_session_exited(session->operations.fuse) &&
           find_device_at(session->mountpoint) == session->device;
}

static void end_and_detach_mount(struct fs_session *session)
{
    int ends[2];
    /* libfuse would unmount whatever is at the mount point. If our mount is not there, the device is replaced
     * by a descriptor that poll(2) reports as broken: libfuse then assumes that the mount has ended. */
    if (!is_at_mountpoint(session) && pipe2(ends, O_CLOEXEC) == 0) {
        close(ends[0]);
        if (dup3(ends[1], fuse_session_fd(session->operations.fuse), O_CLOEXEC) < 0)
            log_debug("cannot close the FUSE device before the end");
        close(ends[1]);
    }
    fuse_session_unmount(session->operations.fuse);
    /* libfuse does not unmount a mount that has been cut off (umount -f). */
    if (fs_mountpoint_is_dead(session->mountpoint))
        fs_mountpoint_unmount(session->mountpoint, true);
}

/* The order matters. Waiting requests are cancelled before the unmount, which waits for them. The first
 * attempt to unmount is made while requests are still answered, so that the kernel can write out pages
 * changed through mmap(2). A mount in use is cut off last. */
void fs_session_stop(struct fs_session *session)
{
    if (session->is_stopped || !session->is_mounted)
        return;
    session->is_stopped = true;
    tree_set_listener(session->operations.tree, NULL);
    session->loop.is_end_known = true;
    stream_readers_close(&session->operations.readers);
    request_list_close(&session->operations.requests);
    notifier_stop(&session->operations.notifier);
    watch_helper_stop(session->watch_helper);
    watch_helper_stop(&session->message_helper);
    if (is_at_mountpoint(session))
        fs_mountpoint_unmount(session->mountpoint, false);
    request_loop_stop(&session->loop);
    if (is_filesystem_gone(session))
        tree_close_handles(session->operations.tree);
    end_and_detach_mount(session);
}

void fs_session_free(struct fs_session *session)
{
    if (session == NULL)
        return;
    fs_session_stop(session);
    if (session->is_mounted)
        tree_abandon_handles(session->operations.tree);
    if (session->operations.fuse != NULL)
        fuse_session_destroy(session->operations.fuse);
    request_loop_release(&session->loop);
    request_list_release(&session->operations.requests);
    notifier_release(&session->operations.notifier);
    watch_helper_release(&session->message_helper);
    stream_readers_release(&session->operations.readers);
    free(session->mountpoint);
    free(session);
}
