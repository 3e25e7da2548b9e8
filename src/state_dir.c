/* SPDX-License-Identifier: MIT */
/*
 * Names, opens and locks the state directory, and finds the daemon that uses it.
 */
#include "state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mountinfo.h"

enum {
    DIGEST_SHOWN = 12,
    LOCK_WAIT_MS = 20000,
    LOCK_PAUSE_MS = 20,
    ENDING_MARK = 'E', /* the holder of the lock will soon release it */
    RUNNING_MARK = 'R',
};

char *state_dir_default_path(const char *base_url, const char *key)
{
    char service[65];
    char account[65];
    const char *start = strstr(base_url, "://");
    start = start != NULL ? start + strlen("://") : base_url;
    _cleanup_free_ char *host = g_strndup(start, strcspn(start, "/"));
    g_autofree char *base = g_build_filename(g_get_user_state_dir(), "inboxfs", NULL);
    hash_sha256(base_url, strlen(base_url), service);
    if (key == NULL)
        return g_strdup_printf("%s/local-%.*s", base, DIGEST_SHOWN, service);
    hash_sha256(key, strlen(key), account);
    g_strcanon(host, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS ".-", '_');
    char *path = g_strdup_printf("%s/%s-%.*s-%.*s", base, host, DIGEST_SHOWN, service, DIGEST_SHOWN, account);
    explicit_bzero(account, sizeof(account));
    return path;
}

void state_dir_log_other_keys(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    size_t service_len = (size_t)(strrchr(name, '-') - name) + 1;
    _cleanup_free_ char *parent = g_path_get_dirname(path);
    g_autoptr(GDir) directory = access(path, F_OK) == 0 ? NULL : g_dir_open(parent, 0, NULL);
    const char *other;
    while (directory != NULL && (other = g_dir_read_name(directory)) != NULL)
        if (strncmp(other, name, service_len) == 0)
            log_warning("this key gets a new state directory; queue and drafts of another key of the same "
                        "service stay in %s/%s: --state-dir continues with them",
                        parent, other);
}

/* ---------------------------------------------------------------- the lock file */

/* The file has one of the marks above, then "PID MOUNTPOINT" of the process that holds the lock, or only the
 * PID before the process has mounted. The content is valid only while the lock is held. */

void state_dir_announce_end(int lock_fd)
{
    const char mark = ENDING_MARK;
    if (lock_fd >= 0 && file_pwrite_all(lock_fd, &mark, 1, 0) != 0)
        log_debug("cannot say that this daemon is ending");
}

void state_dir_announce_mount(int lock_fd, const char *mountpoint)
{
    _cleanup_free_ char *text = g_strdup_printf("%c%d %s", RUNNING_MARK, (int)getpid(), mountpoint);
    if (file_pwrite_all(lock_fd, text, strlen(text), 0) != 0)
        log_debug("cannot say where this daemon is mounted");
}

/* Returns the PID of the process that holds the lock, or 0 if it is not known. */
static long read_holder(int lock_fd, char ret_mountpoint[PATH_MAX])
{
    char text[PATH_MAX];
    char *end = text;
    ssize_t len = file_pread_all(lock_fd, text, sizeof(text) - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    long pid = text[0] != '\0' ? strtol(text + 1, &end, 10) : 0;
    snprintf(ret_mountpoint, PATH_MAX, "%s", end + (*end == ' '));
    return pid;
}

long state_dir_find_daemon(int dir_fd)
{
    char mountpoint[PATH_MAX];
    _cleanup_close_ int lock_fd = openat(dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (lock_fd < 0 || flock(lock_fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0;
    long pid = read_holder(lock_fd, mountpoint);
    return mountinfo_find(MOUNTINFO_INBOXFS, mountpoint, NULL) ? pid : -1;
}

/* Logs which process holds the lock, and how to end it. */
static void log_holder(const char *path, int lock_fd)
{
    char mountpoint[PATH_MAX];
    long pid = read_holder(lock_fd, mountpoint);
    if (mountpoint[0] == '\0')
        log_error("another inboxfs, process %ld, uses the state directory %s", pid, path);
    else if (mountinfo_find(MOUNTINFO_INBOXFS, mountpoint, NULL))
        log_error("another inboxfs, process %ld, uses the state directory %s, mounted on %s: inboxfs umount "
                  "%s ends it",
                  pid, path, mountpoint, mountpoint);
    else
        log_error("another inboxfs, process %ld, uses the state directory %s; its mount on %s was taken from "
                  "sight, and is still in use",
                  pid, path, mountpoint);
}

/* ---------------------------------------------------------------- opening */

/* flock(2) has no time limit, so this function tries again while the holder is ending, and at least twice,
 * because `inboxfs check` may hold the lock for a moment (state_dir_find_daemon()). */
static int lock_or_wait(int lock_fd)
{
    for (int tries = 0; flock(lock_fd, LOCK_EX | LOCK_NB) != 0; tries++) {
        char mark = 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        bool is_ending = pread(lock_fd, &mark, 1, 0) == 1 && mark == ENDING_MARK;
        if (tries == LOCK_WAIT_MS / LOCK_PAUSE_MS || (tries > 0 && !is_ending))
            return -EBUSY;
        g_usleep(LOCK_PAUSE_MS * 1000);
    }
    if (ftruncate(lock_fd, 0) != 0)
        return -errno;
    dprintf(lock_fd, "%c%d", RUNNING_MARK, (int)getpid());
    return 0;
}

int state_dir_open(const char *path, int *ret_lock_fd)
{
    _cleanup_close_ int dir_fd = file_open_dir(AT_FDCWD, path);
    if (dir_fd < 0)
        return complain(dir_fd, "cannot use the state directory %s: %s", path, strerror(-dir_fd));
    /* Another user who can write there could add messages to the spool. */
    const char *why = file_why_not_private(dir_fd);
    if (why != NULL)
        return complain(-EPERM, "the state directory %s: %s", path, why);
    _cleanup_close_ int lock_fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = lock_fd < 0 ? -errno : lock_or_wait(lock_fd);
    if (error == -EBUSY)
        log_holder(path, lock_fd);
    else if (error != 0)
        log_error("cannot lock the state directory %s: %s", path, strerror(-error));
    if (error != 0)
        return error;
    *ret_lock_fd = TAKE_FD(lock_fd);
    return TAKE_FD(dir_fd);
}
