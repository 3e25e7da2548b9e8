/* SPDX-License-Identifier: MIT */
/*
 * The message is written to drafts/ and moved to outbox/, so that the rename returns the result of the
 * outbox's check. The message is durable then, and the caller does not wait for the service.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <jansson.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/character.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mountinfo.h"
#include "base/random.h"
#include "mail/receipt.h"
#include "sendmail/maildrop.h"
#include "sendmail/sendmail.h"

enum {
    EVENTS_TAIL_BYTES = 64 * 1024,
    SYSTEM_UID_MAX = 999, /* accounts of programs, as most systems number them */
    LOOK_MIN_MS = 20,     /* the first pause between looks for an outcome; the pauses grow */
    LOOK_MAX_MS = 640,
};

/* ---------------------------------------------------------------- the mount */

/* Folders of these names outside a mount would accept the message, and no program would send it. */
static bool is_mount(int fd)
{
    struct statfs file_system;
    return fstatfs(fd, &file_system) == 0 && file_system.f_type == FUSE_SUPER_MAGIC &&
           faccessat(fd, "outbox", X_OK, 0) == 0 && faccessat(fd, "drafts", X_OK, 0) == 0;
}

/* The path may lead elsewhere by now: another file system may be mounted over it, or over a folder above. */
static bool is_of_device(int fd, dev_t device)
{
    struct stat stat;
    return fstat(fd, &stat) == 0 && stat.st_dev == device;
}

/* Returns true if mail may go to the mount without --mount: any user can mount a file system of this type,
 * and let root in. */
static bool is_trusted(const struct mount *mount)
{
    return mount->owner == geteuid() || (mount->owner >= 0 && mount->owner <= SYSTEM_UID_MAX);
}

/* Opens the only mount that this user can look into. Returns -1, with the exit status and reason, on an
 * error. */
static int open_only_mount(int *ret_status, const char **ret_reason)
{
    _cleanup_mountinfo_ struct mount *mounts = NULL;
    _cleanup_close_ int found = -1;
    bool is_denied = false;
    *ret_status = EX_TEMPFAIL;
    *ret_reason = "cannot read /proc/self/mountinfo";
    if (mountinfo_list(MOUNTINFO_INBOXFS, &mounts) != 0)
        return -1;
    for (const struct mount *mount = mounts; mount->path != NULL; mount++) {
        _cleanup_close_ int fd =
            is_trusted(mount) ? open(mount->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        is_denied = is_denied || !is_trusted(mount) || (fd < 0 && errno == EACCES);
        if (fd < 0 || !is_of_device(fd, mount->device) || !is_mount(fd)) /* the mount ended, or is hidden */
            continue;
        if (found >= 0) {
            *ret_status = EX_USAGE;
            *ret_reason = "several accounts are mounted: name one by --mount=DIR or INBOXFS_MOUNT";
            return -1;
        }
        found = TAKE_FD(fd);
    }
    *ret_status = is_denied ? EX_NOPERM : EX_TEMPFAIL;
    *ret_reason = is_denied ? "the inboxfs mount is another user's, or another group's: to use it all the "
                              "same, name it by --mount=DIR"
                            : "no inboxfs is mounted";
    return TAKE_FD(found);
}

static int open_named_mount(const char *path, int *ret_status)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && is_mount(fd))
        return TAKE_FD(fd);
    *ret_status =
        fd < 0 ? complain(errno == EACCES ? EX_NOPERM : EX_TEMPFAIL, "%s: %s", path, strerrordesc_np(errno))
               : complain(EX_TEMPFAIL, "%s: no inboxfs is mounted there", path);
    return -1;
}

int mount_open(const struct invocation *invocation, int *ret_status, const char **ret_reason)
{
    *ret_reason = NULL;
    return invocation->mount != NULL ? open_named_mount(invocation->mount, ret_status)
                                     : open_only_mount(ret_status, ret_reason);
}

/* ---------------------------------------------------------------- handing in */

/* Returns the error in the last event of the mount that has this path, or NULL if there is none. The caller
 * frees. */
static char *find_reason(int mount, const char *path)
{
    _cleanup_close_ int fd = openat(mount, "events.jsonl", O_RDONLY | O_CLOEXEC);
    char tail[EVENTS_TAIL_BYTES + 1];
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    off_t begin = end > EVENTS_TAIL_BYTES ? end - EVENTS_TAIL_BYTES : 0;
    ssize_t len = end > 0 ? file_pread_all(fd, tail, (size_t)(end - begin), begin) : 0;
    char *reason = NULL;
    char *rest = NULL;
    tail[len > 0 ? len : 0] = '\0';
    for (char *line = strtok_r(tail, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        json_auto_t *event = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char *told = json_string_value(json_object_get(event, "path"));
        const char *words = json_string_value(json_object_get(event, "error"));
        if (told != NULL && words != NULL && strcmp(told, path) == 0) {
            free(reason);
            reason = g_strdup(words);
        }
    }
    return reason;
}

static int status_of_errno(int number)
{
    switch (number) {
    case EBADMSG:
    case EDESTADDRREQ:
    case EMSGSIZE:
    case EFBIG:
    case ENODATA:
    case EADDRNOTAVAIL:
        return EX_DATAERR;
    case EACCES:
    case EPERM:
    case EROFS:
        return EX_NOPERM;
    default:
        return EX_TEMPFAIL;
    }
}

static int write_draft(int drafts, const char *name, const struct strbuf *message)
{
    _cleanup_close_ int fd = openat(drafts, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int error = file_write_all(fd, message->data, message->len);
    return error != 0 ? error : close(TAKE_FD(fd)) == 0 ? 0 : -errno;
}

int mount_hand_in(int mount, const char *name, const struct strbuf *message)
{
    char draft[80];
    char path[100];
    snprintf(draft, sizeof(draft), "drafts/.%s", name);
    snprintf(path, sizeof(path), "outbox/%s", name);
    unlinkat(mount, draft, 0); /* a crash may have left it: messages of the maildrop keep their names */
    int error = write_draft(mount, draft, message);
    if (error != 0) {
        unlinkat(mount, draft, 0);
        return complain(status_of_errno(-error), "cannot write to drafts/: %s", strerrordesc_np(-error));
    }
    if (renameat(mount, draft, mount, path) == 0)
        return EX_OK;
    int number = errno;
    if (number == ECONNABORTED)
        return complain(
            EX_UNAVAILABLE,
            "the mount ended before it answered: the message may be accepted; if it is neither in "
            "outbox/ nor in sent/, it is %s",
            draft);
    _cleanup_free_ char *reason = find_reason(mount, draft);
    unlinkat(mount, draft, 0);
    return complain(status_of_errno(number), "refused: %s",
                    reason != NULL ? reason : strerrordesc_np(number));
}

int mount_make_name(char ret_name[MESSAGE_NAME_SIZE])
{
    char random[9];
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    _cleanup_free_ char *date = g_date_time_format(now, "%Y%m%dT%H%M%SZ");
    int error = random_hex(random, 4);
    if (error == 0)
        snprintf(ret_name, MESSAGE_NAME_SIZE, "%s_%s.eml", date, random);
    return error;
}

bool mount_has_message(int mount, const char *name)
{
    static const char *const folders[] = {"outbox", "sent", "failed"};
    char path[NAME_MAX];
    struct stat status;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        snprintf(path, sizeof(path), "%s/%s", folders[i], name);
        if (fstatat(mount, path, &status, AT_SYMLINK_NOFOLLOW) == 0)
            return true;
    }
    return false;
}

/* ---------------------------------------------------------------- waiting for the service */

/* Returns the receipt of a settled message, or NULL if there is none yet. */
static json_t *read_receipt(int mount, const char *folder, const char *name)
{
    char path[100];
    _cleanup_free_ char *text = NULL;
    size_t len = 0;
    snprintf(path, sizeof(path), "%s/%s" RECEIPT_SUFFIX, folder, name);
    return file_read_at(mount, path, RECEIPT_MAX_BYTES, &text, &len) == 0
               ? json_loadb(text, len, JSON_ALLOW_NUL, NULL)
               : NULL;
}

/* Returns -1 if the message is neither sent nor failed; else the exit status. */
static int settled_status(int mount, const char *name)
{
    json_auto_t *sent = read_receipt(mount, "sent", name);
    const char *id = json_string_value(json_object_get(sent, "id"));
    if (id != NULL)
        puts(id);
    if (sent != NULL)
        return EX_OK;
    json_auto_t *failed = read_receipt(mount, "failed", name);
    const char *state = json_string_value(json_object_get(failed, "state"));
    const char *words = json_string_value(json_object_get(failed, "error"));
    return failed == NULL ? -1
                          : complain(EX_UNAVAILABLE, "%s: %s", state != NULL ? state : "failed",
                                     words != NULL ? words : "");
}

/* Looks often at first, then every 0.6 s: a mount may be offline for hours. */
int mount_wait_for_service(int mount, const char *name)
{
    char path[100];
    struct stat status;
    snprintf(path, sizeof(path), "outbox/%s", name);
    for (int pause_ms = LOOK_MIN_MS;; pause_ms = pause_ms < LOOK_MAX_MS ? 2 * pause_ms : pause_ms) {
        bool is_waiting = fstatat(mount, path, &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
        int settled = settled_status(mount, name);
        if (settled >= 0)
            return settled;
        if (!is_waiting)
            return complain(EX_UNAVAILABLE, "%s was taken out of outbox/", name);
        if (fstatat(mount, "outbox", &status, 0) != 0)
            return complain(EX_UNAVAILABLE, "accepted, but the mount is gone; it goes out when it is back");
        poll(NULL, 0, pause_ms);
    }
}

/* ---------------------------------------------------------------- the queue */

/* Prints the messages of a folder, in order of names. Return: their number, or -errno. */
static int list_folder(int dir, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandirat(dir, folder, &entries, NULL, alphasort);
    int waiting = 0;
    if (count < 0)
        return -errno;
    for (int i = 0; i < count; i++) {
        char path[NAME_MAX + sizeof(MAILDROP_FOLDER) + 1];
        char date[32] = "";
        struct tm utc;
        struct stat status;
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && fstatat(dir, path, &status, AT_SYMLINK_NOFOLLOW) == 0) {
            if (gmtime_r(&status.st_mtime, &utc) != NULL)
                strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
            character_replace(entries[i]->d_name, CHARACTER_NOT_PLAIN, '?');
            printf("%s %9lld %s\n", date, (long long)status.st_size, entries[i]->d_name);
            waiting++;
        }
        free(entries[i]);
    }
    free(entries);
    return waiting;
}

int mount_list_queue(const struct invocation *invocation)
{
    int status = EX_OK;
    const char *reason;
    int left = list_folder(AT_FDCWD, MAILDROP_FOLDER);
    _cleanup_close_ int mount = mount_open(invocation, &status, &reason);
    if (mount < 0 && left >= 0)
        return EX_OK;
    if (mount < 0)
        return reason != NULL ? complain(status, "%s", reason) : status;
    int waiting = list_folder(mount, "outbox");
    if (waiting < 0)
        return complain(status_of_errno(-waiting), "outbox: %s", strerrordesc_np(-waiting));
    if (waiting == 0 && left <= 0)
        puts("Mail queue is empty");
    return EX_OK;
}
