/* SPDX-License-Identifier: MIT */
/*
 * Naming, opening and locking the state directory.
 */
#include "state_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/strbuf.h"

enum {
    PATH_MAX_BYTES = 4096,
    DIGEST_SHOWN = 12,
    LOCK_WAIT_MS = 20000,
    LOCK_PAUSE_MS = 20,
    ENDING_MARK = 'E',
};

static int append_base(struct strbuf *path)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (state != NULL && state[0] == '/')
        return strbuf_appendf(path, "%s/inboxfs/", state);
    if (home != NULL && home[0] == '/')
        return strbuf_appendf(path, "%s/.local/state/inboxfs/", home);
    return -ENOENT;
}

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
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(PATH_MAX_BYTES);
    int error = append_base(&path);
    if (error != 0)
        return error;
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

/* The lock file's first byte says whether its holder is ending. */
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
    /* Whoever can write there could have messages sent in this account's name. */
    const char *why = file_why_not_private(dir_fd);
    if (why != NULL) {
        log_error("the state directory %s: %s", path, why);
        return -EPERM;
    }
    _cleanup_close_ int lock_fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = lock_fd < 0 ? -errno : lock(lock_fd);
    if (error == -EBUSY)
        log_error("another inboxfs uses the state directory %s", path);
    else if (error != 0)
        log_error("cannot lock the state directory %s: %s", path, strerror(-error));
    if (error != 0)
        return error;
    *ret_lock_fd = TAKE_FD(lock_fd);
    return TAKE_FD(dir_fd);
}
