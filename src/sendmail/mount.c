/* SPDX-License-Identifier: MIT */
/*
 * The message is written to drafts/ and moved to outbox/: the rename makes it durable, and returns the result
 * of the outbox's check. The program does not wait for the service.
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
#include "mail/reason.h"
#include "mail/receipt.h"
#include "sendmail/maildrop.h"
#include "sendmail/sendmail.h"

enum {
    EVENTS_TAIL_BYTES = 64 * 1024,
    SYSTEM_UID_MAX = 999, /* the greatest uid of a system account on most systems */
    PAUSE_MIN_MS = 20,    /* the first pause between two checks for an outcome */
    PAUSE_MAX_MS = 640,
};

/* ---------------------------------------------------------------- the mount */

/* A folder that is not the root of a mount could take a message that no program would send. */
static bool is_mount_root(int fd)
{
    struct statfs file_system;
    return fstatfs(fd, &file_system) == 0 && file_system.f_type == FUSE_SUPER_MAGIC &&
           faccessat(fd, "outbox", X_OK, 0) == 0 && faccessat(fd, "drafts", X_OK, 0) == 0;
}

/* Opens the only mount that this user can enter. Ignores mounts of other users, except system accounts,
 * because any user can mount a file system of this type and let root enter it. */
static int open_only_mount(char **ret_reason)
{
    _cleanup_mountinfo_ struct mount *mounts = mountinfo_list(MOUNTINFO_INBOXFS);
    _cleanup_close_ int found = -1;
    bool is_denied = false;
    if (mounts == NULL)
        return reason_give(ret_reason, -EX_TEMPFAIL, "cannot read /proc/self/mountinfo");
    for (const struct mount *mount = mounts; mount->path != NULL; mount++) {
        bool is_trusted = mount->owner == geteuid() || (mount->owner >= 0 && mount->owner <= SYSTEM_UID_MAX);
        _cleanup_close_ int fd = is_trusted ? open(mount->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        struct stat status;
        is_denied = is_denied || !is_trusted || (fd < 0 && errno == EACCES);
        /* Another file system may have been mounted over the path, or the mount may have ended. */
        if (fd < 0 || fstat(fd, &status) != 0 || status.st_dev != mount->device || !is_mount_root(fd))
            continue;
        if (found >= 0)
            return reason_give(ret_reason, -EX_USAGE,
                               "several accounts are mounted: name one by --mount=DIR or INBOXFS_MOUNT");
        found = TAKE_FD(fd);
    }
    if (found >= 0)
        return TAKE_FD(found);
    if (!is_denied)
        return reason_give(ret_reason, -EX_TEMPFAIL, "no inboxfs is mounted");
    return reason_give(ret_reason, -EX_NOPERM,
                       "the inboxfs mount is another user's, or another group's: to use it all the same, "
                       "name it by --mount=DIR");
}

int mount_open(const struct invocation *invocation, char **ret_reason)
{
    if (invocation->mount == NULL)
        return open_only_mount(ret_reason);
    _cleanup_close_ int fd = open(invocation->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && is_mount_root(fd))
        return TAKE_FD(fd);
    int status = fd < 0 && errno == EACCES ? EX_NOPERM : EX_TEMPFAIL;
    return reason_give(ret_reason, -status, "%s: %s", invocation->mount,
                       fd < 0 ? strerrordesc_np(errno) : "no inboxfs is mounted there");
}

/* ---------------------------------------------------------------- handing in */

/* Returns the error in the last event of this path (the caller frees it), or NULL if there is none. */
static char *find_refusal(int mount, const char *path)
{
    _cleanup_close_ int fd = openat(mount, "events.jsonl", O_RDONLY | O_CLOEXEC);
    char tail[EVENTS_TAIL_BYTES + 1];
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    off_t begin = end > EVENTS_TAIL_BYTES ? end - EVENTS_TAIL_BYTES : 0;
    ssize_t len = end > 0 ? file_pread_all(fd, tail, (size_t)(end - begin), begin) : 0;
    char *reason = NULL;
    char *position = NULL;
    tail[len > 0 ? len : 0] = '\0';
    for (char *line = strtok_r(tail, "\n", &position); line != NULL; line = strtok_r(NULL, "\n", &position)) {
        json_auto_t *event = json_loads(line, JSON_ALLOW_NUL, NULL);
        const char *error = json_string_value(json_object_get(event, "error"));
        if (error != NULL && g_strcmp0(json_string_value(json_object_get(event, "path")), path) == 0) {
            free(reason);
            reason = g_strdup(error);
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

int mount_hand_in(int mount, const char *name, const struct strbuf *draft)
{
    char draft_path[80];
    char outbox_path[100];
    snprintf(draft_path, sizeof(draft_path), "drafts/.%s", name);
    snprintf(outbox_path, sizeof(outbox_path), "outbox/%s", name);
    unlinkat(mount, draft_path, 0); /* left by a crash: a message of the maildrop keeps its name */
    _cleanup_close_ int fd = openat(mount, draft_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int error = fd < 0 ? -errno : file_write_all(fd, draft->data, draft->len);
    if (error == 0 && close(TAKE_FD(fd)) != 0)
        error = -errno;
    if (error != 0) {
        unlinkat(mount, draft_path, 0);
        return complain(status_of_errno(-error), "cannot write to drafts/: %s", strerrordesc_np(-error));
    }
    if (renameat(mount, draft_path, mount, outbox_path) == 0)
        return EX_OK;
    int number = errno;
    if (number == ECONNABORTED)
        return complain(EX_UNAVAILABLE,
                        "the mount ended before it answered: the message may be accepted; if it is neither "
                        "in outbox/ nor in sent/, it is %s",
                        draft_path);
    _cleanup_free_ char *reason = find_refusal(mount, draft_path);
    unlinkat(mount, draft_path, 0);
    return complain(status_of_errno(number), "refused: %s",
                    reason != NULL ? reason : strerrordesc_np(number));
}

void mount_make_name(char ret_name[MESSAGE_NAME_SIZE])
{
    char random[9];
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    _cleanup_free_ char *date = g_date_time_format(now, "%Y%m%dT%H%M%SZ");
    random_hex(random, 4);
    snprintf(ret_name, MESSAGE_NAME_SIZE, "%s_%s.eml", date, random);
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
static int report_outcome(int mount, const char *name)
{
    json_auto_t *sent = read_receipt(mount, "sent", name);
    const char *id = json_string_value(json_object_get(sent, "id"));
    if (id != NULL)
        puts(id);
    if (sent != NULL)
        return EX_OK;
    json_auto_t *failed = read_receipt(mount, "failed", name);
    const char *state = json_string_value(json_object_get(failed, "state"));
    const char *error = json_string_value(json_object_get(failed, "error"));
    return failed == NULL ? -1
                          : complain(EX_UNAVAILABLE, "%s: %s", state != NULL ? state : "failed",
                                     error != NULL ? error : "");
}

/* The pauses grow to 0.6 s, for the mount may be offline for hours. */
int mount_wait_for_service(int mount, const char *name)
{
    char path[100];
    struct stat status;
    snprintf(path, sizeof(path), "outbox/%s", name);
    for (int pause_ms = PAUSE_MIN_MS;; pause_ms = pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : pause_ms) {
        bool is_waiting = fstatat(mount, path, &status, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
        int settled = report_outcome(mount, name);
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

/* Prints the messages of a folder, sorted by name. Returns their number, or -errno. */
static int print_folder(int dir, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandirat(dir, folder, &entries, NULL, alphasort);
    int printed = 0;
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
            printed++;
        }
        free(entries[i]);
    }
    free(entries);
    return printed;
}

int mount_print_queue(const struct invocation *invocation)
{
    _cleanup_free_ char *reason = NULL;
    int maildrop_messages = print_folder(AT_FDCWD, MAILDROP_FOLDER);
    _cleanup_close_ int mount = mount_open(invocation, &reason);
    if (mount < 0 && (maildrop_messages < 0 || invocation->mount != NULL))
        log_error("%s", reason);
    if (mount < 0)
        return maildrop_messages < 0 ? -mount : EX_OK;
    int outbox_messages = print_folder(mount, "outbox");
    if (outbox_messages < 0)
        return complain(status_of_errno(-outbox_messages), "outbox: %s", strerrordesc_np(-outbox_messages));
    if (outbox_messages == 0 && maildrop_messages <= 0)
        puts("Mail queue is empty");
    return EX_OK;
}
