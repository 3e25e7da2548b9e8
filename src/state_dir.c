/* SPDX-License-Identifier: MIT */
/*
 * Naming, opening and locking the state directory, and naming who else has it.
 */
#include "state_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mountinfo.h"
#include "base/strbuf.h"
#include "options.h"

enum {
    PATH_MAX_BYTES = 4096,
    DIGEST_SHOWN = 12,
    LOCK_WAIT_MS = 20000,
    LOCK_PAUSE_MS = 20,
    ENDING_MARK = 'E',
    MOUNTED_MARK = 'M',
};

/* The host, for people who look into the directory; the digest that follows is what tells services apart. */
static void append_host(struct strbuf *path, const char *base_url)
{
    const char *host = strstr(base_url, "://");
    host = host == NULL ? base_url : host + 3;
    size_t len = strcspn(host, "/");
    for (size_t i = 0; i < len; i++)
        if (isalnum((unsigned char)host[i]) || host[i] == '.' || host[i] == '-')
            strbuf_append_char(path, host[i]);
        else
            strbuf_append_char(path, '_');
}

static void append_digest(struct strbuf *path, const char *text)
{
    char digest[65];
    hash_sha256(text, strlen(text), digest);
    strbuf_appendf(path, "-%.*s", DIGEST_SHOWN, digest);
    explicit_bzero(digest, sizeof(digest));
}

int state_dir_default(const char *base_url, const char *key, char **ret_path)
{
    char base[PATH_MAX];
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(PATH_MAX_BYTES);
    int error = options_user_path("XDG_STATE_HOME", ".local/state", "inboxfs", base);
    if (error != 0)
        return error;
    strbuf_appendf(&path, "%s/", base);
    if (key == NULL)
        strbuf_append_str(&path, "local");
    else
        append_host(&path, base_url);
    append_digest(&path, base_url);
    if (key != NULL)
        append_digest(&path, key);
    *ret_path = strbuf_take(&path, NULL);
    return *ret_path == NULL ? -ENOMEM : 0;
}

/* ---------------------------------------------------------------- what the lock file says */

/* A mark, then "MAJOR:MINOR MOUNTPOINT" of its holder, once that is mounted. The first byte says whether its
 * holder is ending. */
static bool is_holder_ending(int lock_fd)
{
    char mark = 0;
    return pread(lock_fd, &mark, 1, 0) == 1 && mark == ENDING_MARK;
}

void state_dir_announce_end(int lock_fd)
{
    const char mark = ENDING_MARK;
    if (lock_fd >= 0 && file_pwrite_all(lock_fd, &mark, 1, 0) != 0)
        log_debug("cannot say that this daemon is ending");
}

void state_dir_announce_mount(int lock_fd, dev_t device, const char *mountpoint)
{
    _cleanup_free_ char *text = NULL;
    int len = asprintf(&text, "%c%u:%u %s", MOUNTED_MARK, major(device), minor(device), mountpoint);
    if (len < 0)
        text = NULL;
    else if (file_pwrite_all(lock_fd, text, (size_t)len, 0) != 0)
        log_debug("cannot say where this daemon is mounted");
}

/* The mount point and the device of the holder's mount; false: it has none yet, or did not say. */
static bool read_mount(int lock_fd, char ret_mountpoint[PATH_MAX_BYTES], dev_t *ret_device)
{
    char text[PATH_MAX_BYTES];
    char *end;
    ssize_t len = file_pread_all(lock_fd, text, sizeof(text) - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    if (text[0] == '\0') /* else it is a mark, and one mark replaces another */
        return false;
    *ret_device = mountinfo_read_device(text + 1, 10, &end);
    snprintf(ret_mountpoint, PATH_MAX_BYTES, "%s", end + (*end == ' '));
    return ret_mountpoint[0] != '\0';
}

/* ---------------------------------------------------------------- who holds the lock */

/* The holder that a line of /proc/locks names, when it is a flock(2) on this file: "1: FLOCK ADVISORY WRITE
 * PID MAJOR:MINOR:INODE ..." (proc_locks(5)). 0: another lock. If a file system shows another device there
 * than stat(2) does, the inode and the holder's name decide. */
static long read_lock_line(const char *line, const struct stat *status)
{
    char kind[16];
    char pid[16];
    char file[64];
    char path[64];
    char command[16] = "";
    char *end;
    if (sscanf(line, "%*s %15s %*s %*s %15s %63s", kind, pid, file) != 3 || strcmp(kind, "FLOCK") != 0)
        return 0;
    bool is_same_device = mountinfo_read_device(file, 16, &end) == status->st_dev;
    unsigned long long inode = strtoull(end + (*end == ':'), NULL, 10);
    if (inode != status->st_ino)
        return 0;
    snprintf(path, sizeof(path), "/proc/%s/comm", pid);
    _cleanup_fclose_ FILE *name = fopen(path, "re");
    bool is_ours =
        name != NULL && fgets(command, sizeof(command), name) != NULL && strcmp(command, "inboxfs\n") == 0;
    return is_same_device || is_ours ? strtol(pid, NULL, 10) : 0;
}

long state_dir_find_holder(const struct stat *lock)
{
    _cleanup_fclose_ FILE *locks = fopen("/proc/locks", "re");
    char line[256];
    long holder = 0;
    while (locks != NULL && holder <= 0 && fgets(line, sizeof(line), locks) != NULL)
        holder = read_lock_line(line, lock);
    return holder;
}

static bool is_mounted_here(dev_t device)
{
    _cleanup_mountinfo_ struct mount *mounts = NULL;
    bool is_found = false;
    (void)mountinfo_list(MOUNTINFO_INBOXFS, &mounts);
    for (struct mount *mount = mounts; mount != NULL && mount->path != NULL && !is_found; mount++)
        is_found = mount->device == device;
    return is_found;
}

/* Names who has it, and what ends that. */
static void log_holder(const char *path, int lock_fd)
{
    char mountpoint[PATH_MAX_BYTES];
    char process[64] = "not seen from here";
    dev_t device = 0;
    struct stat lock;
    long holder = fstat(lock_fd, &lock) == 0 ? state_dir_find_holder(&lock) : 0;
    if (holder > 0)
        snprintf(process, sizeof(process), "process %ld", holder);
    if (!read_mount(lock_fd, mountpoint, &device)) {
        log_error("another inboxfs, %s, uses the state directory %s", process, path);
    } else if (is_mounted_here(device)) {
        log_error(
            "another inboxfs, %s, uses the state directory %s, mounted on %s: inboxfs umount %s ends it",
            process, path, mountpoint, mountpoint);
    } else {
        log_error(
            "another inboxfs, %s, uses the state directory %s; its mount on %s was taken from sight, and is "
            "still in use",
            process, path, mountpoint);
    }
}

/* ---------------------------------------------------------------- opened and locked */

/* flock(2) has no time limit, so one that will soon be free is tried again and again. */
static int lock(int lock_fd)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000L};
    for (int tries = LOCK_WAIT_MS / LOCK_PAUSE_MS; flock(lock_fd, LOCK_EX | LOCK_NB) != 0; tries--) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        if (tries == 0 || !is_holder_ending(lock_fd))
            return -EBUSY;
        nanosleep(&pause, NULL);
    }
    return ftruncate(lock_fd, 0) == 0 ? 0 : -errno;
}

int state_dir_open(const char *path, int *ret_lock_fd)
{
    _cleanup_close_ int dir_fd = file_open_dir(AT_FDCWD, path);
    if (dir_fd < 0) {
        log_error("cannot use the state directory %s: %s", path, strerror(-dir_fd));
        return dir_fd;
    }
    /* A user who can write there could have messages sent in this account's name. */
    const char *why = file_why_not_private(dir_fd);
    if (why != NULL) {
        log_error("the state directory %s: %s", path, why);
        return -EPERM;
    }
    _cleanup_close_ int lock_fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = lock_fd < 0 ? -errno : lock(lock_fd);
    if (error == -EBUSY)
        log_holder(path, lock_fd);
    else if (error != 0)
        log_error("cannot lock the state directory %s: %s", path, strerror(-error));
    if (error != 0)
        return error;
    *ret_lock_fd = TAKE_FD(lock_fd);
    return TAKE_FD(dir_fd);
}
