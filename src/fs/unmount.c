/* SPDX-License-Identifier: MIT */
/*
 * Unmounting by fusermount3.
 */
#include "fs/unmount.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/session.h"

/* With no signal blocked. `how`: an option beside -u. 0 when it ran and succeeded, else -EBUSY or -errno. */
static int run_fusermount(const char *how, const char *mountpoint)
{
    const char *const arguments[] = {"fusermount3", "-u", how, "--", mountpoint, NULL};
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child;
    int status = 0;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int error = posix_spawnp(&child, arguments[0], NULL, &attributes, (char *const *)(const void *)arguments,
                             environ);
    posix_spawnattr_destroy(&attributes);
    if (error != 0)
        return -error;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

int unmount_cleanly(const char *mountpoint)
{
    return run_fusermount("-q", mountpoint);
}

/* The one call that finds a filesystem by its device alone, mounted somewhere or not. It waits for one that
 * is just going; one whose connection was cut while files are open is still found. */
bool unmount_is_complete(dev_t device)
{
#ifdef SYS_ustat
    char status[64]; /* struct ustat has 32 bytes at most; nothing in it is of interest */
    return syscall(SYS_ustat, (unsigned int)device, status) != 0 && errno == EINVAL;
#else
    (void)device;
    return false;
#endif
}

/* By force, for the kernel answers from its cache even when the daemon is gone. */
bool fs_mountpoint_is_dead(const char *mountpoint)
{
    struct statx status;
    return statx(AT_FDCWD, mountpoint, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &status) != 0 &&
           errno == ENOTCONN;
}

int fs_mountpoint_detach(const char *mountpoint)
{
    return run_fusermount("-z", mountpoint);
}
