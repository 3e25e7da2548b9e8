/* SPDX-License-Identifier: MIT */
/*
 * The kernel refuses to unmount a mount in use, and does not name the processes that use it; so this file
 * looks through all processes.
 */
#include "commands.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/mountinfo.h"
#include "fs/session.h"

enum {
    EXIT_USAGE = 2,
    TRIES = 30, /* while only the daemon's own helper has a file open, as it does for a moment */
    PAUSE_MS = 100,
};

/* ---------------------------------------------------------------- the processes that use it */

/* Only root sees the links of other users' processes. The search sends no request to the file system, which
 * may not answer: it follows the links of /proc/PID by statx(2), and only for the device number, which the
 * kernel has in memory and refuses to no user. */
struct user_search {
    const char *mountpoint;
    bool is_logged;
    int count; /* of the processes found; without the daemon's helpers unless is_logged */
};

/* Returns the process's command name (the caller frees it), or "" if the process has ended. */
static char *read_command(pid_t pid)
{
    _cleanup_free_ char *path = g_strdup_printf("/proc/%d/comm", (int)pid);
    char *command = NULL;
    return g_file_get_contents(path, &command, NULL, NULL) ? g_strchomp(command) : g_strdup("");
}

/* Returns true if the process's link leads to the device. *ret_path: the link's text. */
static bool find_link(pid_t pid, const char *name, dev_t device, char ret_path[PATH_MAX])
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

static bool find_open_file(pid_t pid, dev_t device, char ret_path[PATH_MAX])
{
    char name[NAME_MAX + 8];
    snprintf(name, sizeof(name), "/proc/%d/fd", (int)pid);
    g_autoptr(GDir) files = g_dir_open(name, 0, NULL);
    const char *file;
    while (files != NULL && (file = g_dir_read_name(files)) != NULL) {
        snprintf(name, sizeof(name), "fd/%s", file);
        if (find_link(pid, name, device, ret_path))
            return true;
    }
    return false;
}

/* Returns, for the user, how the process uses the device, or NULL if no use is seen. */
static const char *find_reason(pid_t pid, dev_t device, char ret_path[PATH_MAX])
{
    return find_link(pid, "cwd", device, ret_path)    ? "its working folder"
           : find_link(pid, "root", device, ret_path) ? "its root"
           : find_link(pid, "exe", device, ret_path)  ? "its program"
           : find_open_file(pid, device, ret_path)    ? "an open file"
                                                      : NULL;
}

/* Looks for processes that keep the file system of this device number (st_dev) busy, and names each with the
 * first reason that is seen. Sets search->count. Returns 0 or -errno. */
static int find_users(dev_t device, struct user_search *search)
{
    _cleanup_closedir_ DIR *proc = opendir("/proc");
    const struct dirent *entry;
    if (proc == NULL)
        return -errno;
    while ((entry = readdir(proc)) != NULL) {
        char path[PATH_MAX];
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        const char *how = pid > 0 ? find_reason(pid, device, path) : NULL;
        if (how == NULL)
            continue;
        _cleanup_free_ char *command = read_command(pid);
        /* Any user can give a process the helper's name, so the last search, which is logged, counts it. */
        if (!search->is_logged && strcmp(command, "inboxfs-watch") == 0)
            continue;
        search->count++;
        if (search->is_logged)
            log_error("%s is in use: process %d (%s) has it as %s, %s", search->mountpoint, (int)pid, command,
                      how, path);
    }
    return 0;
}

/* ---------------------------------------------------------------- the mount */

/* Makes the path absolute, without symbolic links. realpath(3) would wait for a mount that does not answer,
 * so it does not get the last component unless that is "." or "..". Returns 0 or -errno. */
static int resolve(const char *path, char ret_path[PATH_MAX])
{
    _cleanup_free_ char *parent_of = strdup(path);
    _cleanup_free_ char *name_of = strdup(path);
    if (parent_of == NULL || name_of == NULL)
        return -ENOMEM;
    const char *name = basename(name_of);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "/") == 0)
        return realpath(path, ret_path) != NULL ? 0 : -errno;
    char parent[PATH_MAX];
    if (realpath(dirname(parent_of), parent) == NULL)
        return -errno;
    int len = snprintf(ret_path, PATH_MAX, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, name);
    return len < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Finds the mount at the path, or the last of several. The path may also be a symbolic link to the mount
 * point. Returns 0 or -errno. */
static int find_mount(const char *path, char ret_path[PATH_MAX], dev_t *ret_device)
{
    int error = resolve(path, ret_path);
    if (error != 0)
        return error;
    bool is_found =
        mountinfo_find(MOUNTINFO_INBOXFS, ret_path, 0, ret_device) ||
        (realpath(path, ret_path) != NULL && mountinfo_find(MOUNTINFO_INBOXFS, ret_path, 0, ret_device));
    return is_found ? 0 : -ENOENT;
}

/* Return: 0 or -errno, which is logged. */
static int unmount(const char *path, dev_t device)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    struct user_search search = {.mountpoint = path};
    int error = 0;
    for (int tries = TRIES; (error = fs_mountpoint_unmount(path)) != 0 && tries > 0; tries--) {
        search.count = 0;
        if (error != -EBUSY || find_users(device, &search) < 0 || search.count > 0)
            break;
        nanosleep(&pause, NULL);
    }
    if (error == 0)
        return 0;
    search = (struct user_search){.mountpoint = path, .is_logged = true};
    if (error != -EBUSY)
        log_error("cannot run fusermount3: %s", strerror(-error));
    else if (find_users(device, &search) >= 0 && search.count > 0)
        log_error(
            "let these go on, or end them, and try again; or take it from sight with fusermount3 -uz %s",
            path);
    else
        log_error("cannot unmount %s: fusermount3 -u %s says why; %s", path, path,
                  geteuid() == 0 ? "no process is seen that uses it"
                                 : "only root sees whether others use it");
    return error;
}

/* This process must not keep the mount busy itself, by descriptors that the caller left open. */
static void leave_mounts(void)
{
    struct inherited_descriptors inherited;
    descriptors_note_inherited(&inherited);
    descriptors_close_inherited(&inherited);
    if (chdir("/") != 0)
        log_debug("cannot leave the working directory");
}

static int run(const char *path)
{
    char mountpoint[PATH_MAX];
    dev_t device = 0;
    int error = find_mount(path, mountpoint, &device);
    if (error != 0) {
        log_error("%s: %s", path, error == -ENOENT ? "no inboxfs is mounted there" : strerror(-error));
        return EXIT_FAILURE;
    }
    leave_mounts();
    return unmount(mountpoint, device) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int umount_command(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        puts("usage: inboxfs umount MOUNTPOINT\n"
             "\n"
             "Unmounts, which ends the program; what is in use stays mounted, and is named. See inboxfs(8).");
        return EXIT_SUCCESS;
    }
    if (argc != 2 || argv[1][0] == '-') {
        log_error("usage: inboxfs umount MOUNTPOINT");
        return EXIT_USAGE;
    }
    return run(argv[1]);
}
