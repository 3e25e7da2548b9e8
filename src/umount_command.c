/* SPDX-License-Identifier: MIT */
/*
 * The kernel refuses to unmount what is in use, and does not name the user; so all processes are looked
 * through for it.
 */
#include "umount_command.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/mount_users.h"
#include "base/mountinfo.h"
#include "fs/session.h"

enum {
    EXIT_USAGE = 2,
    TRIES = 30, /* while nothing but the daemon's own helper has a file open, for a moment */
    PAUSE_MS = 100,
};

struct user_search {
    const char *mountpoint;
    bool is_logged;
    int count; /* without the daemon's helpers, until it is logged */
};

static void take_user(void *context, const struct mount_user *user)
{
    struct user_search *search = context;
    /* Anybody can give a process this name: what stays is named in the end. */
    if (!search->is_logged && strcmp(user->command, "inboxfs-watch") == 0)
        return;
    search->count++;
    if (search->is_logged)
        log_error("%s is in use: process %d (%s) has it as %s, %s", search->mountpoint, (int)user->pid,
                  user->command, user->how, user->path);
}

/* The absolute path without symbolic links. A mount that does not answer would hold realpath(3), so that its
 * last component is not looked at, unless it is a dot. */
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

/* The device of the last of our mounts there. 0 or -errno. */
static int find_mount(const char *path, dev_t *ret_device)
{
    _cleanup_mountinfo_ struct mount *mounts = NULL;
    int error = mountinfo_list(MOUNTINFO_INBOXFS, &mounts);
    if (error != 0)
        return error;
    error = -ENOENT;
    for (const struct mount *mount = mounts; mount->path != NULL; mount++) {
        if (strcmp(mount->path, path) == 0) {
            *ret_device = mount->device;
            error = 0;
        }
    }
    return error;
}

/* The path may also be a symbolic link to the mount point. */
static int find_mount_of(const char *path, char ret_path[PATH_MAX], dev_t *ret_device)
{
    int error = resolve(path, ret_path);
    if (error == 0)
        error = find_mount(ret_path, ret_device);
    if (error == -ENOENT && realpath(path, ret_path) != NULL)
        error = find_mount(ret_path, ret_device);
    return error;
}

/* 0 or -EBUSY, said on the log. */
static int unmount(const char *path, dev_t device)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    struct user_search search = {.mountpoint = path};
    int error = 0;
    for (int tries = TRIES; (error = fs_mountpoint_unmount(path)) != 0 && tries > 0; tries--) {
        search.count = 0;
        if (error != -EBUSY || mount_users_list(device, take_user, &search) < 0 || search.count > 0)
            break;
        nanosleep(&pause, NULL);
    }
    if (error == 0)
        return 0;
    search = (struct user_search){.mountpoint = path, .is_logged = true};
    if (error != -EBUSY)
        log_error("cannot run fusermount3: %s", strerror(-error));
    else if (mount_users_list(device, take_user, &search) >= 0 && search.count > 0)
        log_error(
            "let these go on, or end them, and try again; or take it from sight with fusermount3 -uz %s",
            path);
    else
        log_error("cannot unmount %s: fusermount3 -u %s says why; %s", path, path,
                  geteuid() == 0 ? "no process is seen that uses it"
                                 : "only root sees whether others use it");
    return error;
}

/* A container that was started meanwhile has a copy of each mount. */
static void warn_of_copies(const char *path, dev_t device)
{
    struct mount_user user;
    if (!mount_users_find_mounted(MOUNTINFO_INBOXFS, device, &user))
        return;
    log_warning(
        "%s is unmounted here, but process %d (%s) still has it, on %s in a mount namespace of its own "
        "(a container): the daemon goes on until that ends, or unmounts it",
        path, (int)user.pid, user.command, user.path);
    free(user.path);
}

/* This process must not keep the mount busy itself, by what the caller has open there. */
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
    int error = find_mount_of(path, mountpoint, &device);
    if (error != 0) {
        log_error("%s: %s", path, error == -ENOENT ? "no inboxfs is mounted there" : strerror(-error));
        return EXIT_FAILURE;
    }
    leave_mounts();
    if (unmount(mountpoint, device) != 0)
        return EXIT_FAILURE;
    warn_of_copies(mountpoint, device);
    return EXIT_SUCCESS;
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
