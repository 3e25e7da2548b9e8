/* SPDX-License-Identifier: MIT */
/*
 * Reads /proc/PID of all processes. The links there are followed by statx(2), which is asked for nothing but
 * the device number: the kernel has that in memory, and refuses it to nobody.
 */
#include "base/mount_users.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/mountinfo.h"

/* The folder of the next process in /proc; NULL: there are no more. */
static DIR *next_process(DIR *proc, struct mount_user *ret_user)
{
    const struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        char *end = NULL;
        long pid = strtol(entry->d_name, &end, 10);
        DIR *process = pid > 0 && *end == '\0' ? file_opendirat(dirfd(proc), entry->d_name) : NULL;
        if (process == NULL)
            continue; /* no process, or it ended meanwhile */
        *ret_user = (struct mount_user){.pid = (pid_t)pid};
        return process;
    }
    return NULL;
}

static void read_command(DIR *process, char ret_command[MOUNT_USER_COMMAND_BYTES])
{
    _cleanup_close_ int fd = openat(dirfd(process), "comm", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? file_pread_all(fd, ret_command, MOUNT_USER_COMMAND_BYTES - 1, 0) : 0;
    ret_command[len > 0 ? len : 0] = '\0';
    ret_command[strcspn(ret_command, "\n")] = '\0';
}

/* ---------------------------------------------------------------- what keeps it busy */

static bool leads_to(int dir_fd, const char *link, dev_t device)
{
    struct statx status;
    return statx(dir_fd, link, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &status) == 0 &&
           makedev(status.stx_dev_major, status.stx_dev_minor) == device;
}

/* *ret_path: where the link leads, by its text. */
static bool find_link(int dir_fd, const char *link, dev_t device, char ret_path[PATH_MAX])
{
    if (!leads_to(dir_fd, link, device))
        return false;
    ssize_t len = readlinkat(dir_fd, link, ret_path, PATH_MAX - 1);
    ret_path[len > 0 ? len : 0] = '\0';
    return true;
}

static bool find_open_file(DIR *process, dev_t device, char ret_path[PATH_MAX])
{
    _cleanup_closedir_ DIR *files = file_opendirat(dirfd(process), "fd");
    const struct dirent *entry;
    while (files != NULL && (entry = readdir(files)) != NULL)
        if (entry->d_name[0] != '.' && find_link(dirfd(files), entry->d_name, device, ret_path))
            return true;
    return false;
}

/* "START-END MODE OFFSET MAJOR:MINOR INODE PATH" (proc_pid_maps(5)); a program that runs is mapped, too. */
static bool find_mapped_file(DIR *process, dev_t device, char ret_path[PATH_MAX])
{
    _cleanup_fclose_ FILE *maps = file_fopenat(dirfd(process), "maps");
    _cleanup_free_ char *line = NULL;
    size_t capacity = 0;
    while (maps != NULL && getline(&line, &capacity, maps) > 0) {
        int at_device = 0;
        int at_path = 0;
        char *end;
        sscanf(line, "%*s %*s %*s %n%*s %*s %n", &at_device, &at_path);
        if (at_path > 0 && mountinfo_read_device(line + at_device, 16, &end) == device) {
            snprintf(ret_path, PATH_MAX, "%.*s", (int)strcspn(line + at_path, "\n"), line + at_path);
            return true;
        }
    }
    return false;
}

/* In words; NULL: nothing is seen. */
static const char *find_reason(DIR *process, dev_t device, char ret_path[PATH_MAX])
{
    return find_link(dirfd(process), "cwd", device, ret_path)    ? "its working folder"
           : find_link(dirfd(process), "root", device, ret_path) ? "its root"
           : find_open_file(process, device, ret_path)           ? "an open file"
           : find_mapped_file(process, device, ret_path)         ? "a mapped file"
                                                                 : NULL;
}

int mount_users_list(dev_t device, void (*found)(void *context, const struct mount_user *user), void *context)
{
    _cleanup_closedir_ DIR *proc = file_opendirat(AT_FDCWD, "/proc");
    struct mount_user user;
    DIR *process;
    int count = 0;
    if (proc == NULL)
        return -errno;
    while ((process = next_process(proc, &user)) != NULL) {
        char path[PATH_MAX];
        user.how = find_reason(process, device, path);
        user.path = path;
        read_command(process, user.command);
        closedir(process);
        if (user.how == NULL)
            continue;
        found(context, &user);
        count++;
    }
    return count;
}

/* ---------------------------------------------------------------- who has it mounted */

/* Where; NULL: nowhere. The caller frees. */
static char *find_mount_point(DIR *process, const char *type, dev_t device)
{
    _cleanup_mountinfo_ struct mount *mounts = NULL;
    (void)mountinfo_list_of(dirfd(process), type, &mounts);
    for (struct mount *mount = mounts; mount != NULL && mount->path != NULL; mount++)
        if (mount->device == device)
            return strdup(mount->path);
    return NULL;
}

bool mount_users_find_mounted(const char *type, dev_t device, struct mount_user *ret_user)
{
    _cleanup_closedir_ DIR *proc = file_opendirat(AT_FDCWD, "/proc");
    struct mount_user user;
    DIR *process;
    while (proc != NULL && (process = next_process(proc, &user)) != NULL) {
        user.path = find_mount_point(process, type, device);
        if (user.path != NULL)
            read_command(process, user.command);
        closedir(process);
        if (user.path != NULL) {
            *ret_user = user;
            return true;
        }
    }
    return false;
}
