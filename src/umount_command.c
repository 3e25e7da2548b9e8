/* SPDX-License-Identifier: MIT */
/*
 * The kernel refuses to unmount a file system in use, and does not name the processes that use it; so this
 * file searches all processes.
 */
#include "commands.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mountinfo.h"
#include "fs/session.h"

enum {
    TRIES = 10, /* the daemon's watch helper may have a file open, which it soon closes */
    PAUSE_MS = 100,
};

/* ---------------------------------------------------------------- the processes that use the mount */

/* Returns true if this link of the process leads to the device; *ret_path is the link's text. Asks statx(2)
 * only for the device number, which the kernel has in memory: a file system that hangs is sent no request.
 * The links of other users' processes are readable by root alone. */
static bool is_link_on_device(pid_t pid, const char *name, dev_t device, char ret_path[PATH_MAX])
{
    char link[64 + NAME_MAX];
    struct statx status;
    snprintf(link, sizeof(link), "/proc/%d/%s", (int)pid, name);
    if (statx(AT_FDCWD, link, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &status) != 0 ||
        makedev(status.stx_dev_major, status.stx_dev_minor) != device)
        return false;
    ssize_t len = readlink(link, ret_path, PATH_MAX - 1);
    ret_path[len > 0 ? len : 0] = '\0';
    return true;
}

static bool has_open_file(pid_t pid, dev_t device, char ret_path[PATH_MAX])
{
    char name[NAME_MAX + 8];
    snprintf(name, sizeof(name), "/proc/%d/fd", (int)pid);
    g_autoptr(GDir) files = g_dir_open(name, 0, NULL);
    const char *file;
    while (files != NULL && (file = g_dir_read_name(files)) != NULL) {
        snprintf(name, sizeof(name), "fd/%s", file);
        if (is_link_on_device(pid, name, device, ret_path))
            return true;
    }
    return false;
}

/* Returns words for how the process uses the device, or NULL if no use is visible. */
static const char *describe_use(pid_t pid, dev_t device, char ret_path[PATH_MAX])
{
    return is_link_on_device(pid, "cwd", device, ret_path)    ? "its working folder"
           : is_link_on_device(pid, "root", device, ret_path) ? "its root"
           : is_link_on_device(pid, "exe", device, ret_path)  ? "its program"
           : has_open_file(pid, device, ret_path)             ? "an open file"
                                                              : NULL;
}

/* Logs each process that keeps the file system of this device number (st_dev) busy, with the first reason
 * that is found. Returns the number of these processes; 0 also if /proc cannot be read. */
static int log_users(const char *mountpoint, dev_t device)
{
    _cleanup_closedir_ DIR *proc = opendir("/proc");
    const struct dirent *entry;
    int count = 0;
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        char path[PATH_MAX];
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        const char *reason = pid > 0 ? describe_use(pid, device, path) : NULL;
        if (reason == NULL)
            continue;
        _cleanup_free_ char *command_path = g_strdup_printf("/proc/%d/comm", (int)pid);
        _cleanup_free_ char *command = NULL; /* NULL if the process has ended */
        g_file_get_contents(command_path, &command, NULL, NULL);
        count++;
        log_error("%s is in use: process %d (%s) has it as %s, %s", mountpoint, (int)pid,
                  command != NULL ? g_strchomp(command) : "", reason, path);
    }
    return count;
}

/* ---------------------------------------------------------------- the mount */

/* Returns 0 or -errno, which is logged. */
static int unmount(const char *path, dev_t device)
{
    int error = fs_mountpoint_unmount(path, false);
    for (int tries = 1; error == -EBUSY && tries < TRIES; tries++) {
        g_usleep(PAUSE_MS * 1000);
        error = fs_mountpoint_unmount(path, false);
    }
    if (error == 0)
        return 0;
    if (error != -EBUSY)
        log_error("cannot run fusermount3: %s", strerror(-error));
    else if (log_users(path, device) > 0)
        log_error(
            "let these go on, or end them, and try again; or take it from sight with fusermount3 -uz %s",
            path);
    else
        log_error("cannot unmount %s: fusermount3 -u %s says why; %s", path, path,
                  geteuid() == 0 ? "no process is seen that uses it"
                                 : "only root sees whether others use it");
    return error;
}

int umount_command(int argc, char **argv)
{
    dev_t device = 0;
    if (argc != 2 || argv[1][0] == '-')
        return complain(EXIT_USAGE, "usage: inboxfs umount MOUNTPOINT");
    /* The path may be a symbolic link to the mount point. */
    _cleanup_free_ char *mountpoint = mountinfo_real_path(argv[1]);
    if (mountpoint == NULL || !mountinfo_find(MOUNTINFO_INBOXFS, mountpoint, &device))
        return complain(EXIT_FAILURE, "%s: %s", argv[1],
                        mountpoint == NULL && errno != ENOENT ? strerror(errno)
                                                              : "no inboxfs is mounted there");
    /* This process must not keep the mount busy itself, by descriptors that its caller left open. */
    closefrom(STDERR_FILENO + 1);
    if (chdir("/") != 0)
        log_debug("cannot leave the working directory");
    return unmount(mountpoint, device) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
