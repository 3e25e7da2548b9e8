/* SPDX-License-Identifier: MIT */
/*
 * inboxfs-maildrop: copies its standard input into a new file of the maildrop (sendmail/maildrop.h), for the
 * user who calls it. It is setgid, and so it takes no arguments, reads no environment and no other file, and
 * does not parse its input.
 *
 * Status 0: the file is durable under its name. With any other status there is no file, and standard
 * error has the reason.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "base/random.h"
#include "sendmail/maildrop.h"

enum {
    USER_MAX_FILES = 1000,
    USER_MAX_BYTES = 500 * 1000 * 1000,
    FREE_MIN_BYTES = 100 * 1000 * 1000, /* space of the disk that is left to other users */
    FREE_MIN_FILES = 1000,              /* inodes of the disk that are left to other users */
};

static int refuse(int status, const char *text, int error)
{
    fprintf(stderr, "inboxfs-maildrop: %s%s%s\n", text, error != 0 ? ": " : "",
            error != 0 ? strerrordesc_np(error) : "");
    return status;
}

/* Makes a unique name that sorts by time, with a dot that hides the file until it is complete. */
static void make_name(char ret_name[MAILDROP_NAME_SIZE])
{
    char random[17];
    struct timespec now;
    struct tm utc;
    random_hex(random, 8);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t len = strftime(ret_name, MAILDROP_NAME_SIZE, ".%Y%m%dT%H%M%S", &utc);
    snprintf(ret_name + len, MAILDROP_NAME_SIZE - len, "%03ldZ_%s", now.tv_nsec / 1000000, random);
}

/* This user's files in the folders, including the new file. */
struct usage {
    uint64_t bytes;
    unsigned int files;
};

/* A file that is being written counts with the greatest size, so that parallel writers cannot exceed the
 * limit. Returns false if the folder cannot be read. */
static bool add_usage(const char *folder, struct usage *usage)
{
    _cleanup_closedir_ DIR *entries = file_opendirat(AT_FDCWD, folder);
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        struct stat status;
        if (fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode) || status.st_uid != getuid())
            continue;
        usage->files++;
        usage->bytes += entry->d_name[0] == '.' ? MAILDROP_FILE_MAX_BYTES : (uint64_t)status.st_size;
    }
    return entries != NULL;
}

/* Returns EX_OK, or the exit status of a failure. */
static int copy_input(int file)
{
    char bytes[64 * 1024];
    size_t len = 0;
    for (;;) {
        ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return refuse(EX_TEMPFAIL, "cannot read the message", errno);
        len += (size_t)count;
        if (len > MAILDROP_FILE_MAX_BYTES)
            return refuse(EX_DATAERR, "the message is too large", 0);
        int error = count > 0 ? file_write_all(file, bytes, (size_t)count) : file_sync(file);
        if (error != 0)
            return refuse(EX_TEMPFAIL, "cannot write the message to " MAILDROP_FOLDER, -error);
        if (count == 0)
            return len > 0 ? EX_OK : refuse(EX_DATAERR, "there is no message", 0);
    }
}

/* Copies the input to the file, which gets its name when it is durable. Returns EX_OK or another status. */
static int write_message(int folder, int file, const char *name)
{
    struct usage usage = {0};
    if (!add_usage(MAILDROP_FOLDER, &usage) || !add_usage(MAILDROP_FAILED, &usage))
        return refuse(EX_TEMPFAIL, "cannot look into " MAILDROP_FOLDER " and " MAILDROP_FAILED, errno);
    if (getuid() != 0 && (usage.files > USER_MAX_FILES || usage.bytes > USER_MAX_BYTES))
        return refuse(EX_TEMPFAIL,
                      "too much mail of this user waits in " MAILDROP_FOLDER " or " MAILDROP_FAILED, 0);
    int status = copy_input(file);
    if (status != EX_OK)
        return status;
    if (renameat(folder, name, folder, name + 1) != 0)
        return refuse(EX_TEMPFAIL, "cannot name the message", errno);
    int error = file_sync(folder);
    if (error != 0)
        unlinkat(folder, name + 1, 0);
    return error == 0 ? EX_OK : refuse(EX_TEMPFAIL, "cannot make the message durable", -error);
}

int main(int argc, char **argv)
{
    char name[MAILDROP_NAME_SIZE];
    descriptors_open_standard();
    if (argc > 1)
        return refuse(EX_USAGE, "it takes no arguments: inboxfs-sendmail calls it", 0);
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the caller's limits then causes an error */
    signal(SIGPIPE, SIG_IGN); /* the file is removed even if no program reads the reason */
    umask(0);
    _cleanup_close_ int folder = open(MAILDROP_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return refuse(EX_TEMPFAIL, "cannot open " MAILDROP_FOLDER, errno);
    struct statvfs disk;
    if (fstatvfs(folder, &disk) != 0 ||
        (uint64_t)disk.f_bavail * disk.f_frsize < FREE_MIN_BYTES + (uint64_t)MAILDROP_FILE_MAX_BYTES ||
        (disk.f_files != 0 && disk.f_favail < FREE_MIN_FILES))
        return refuse(EX_TEMPFAIL, "the disk of " MAILDROP_FOLDER " is full", 0);
    make_name(name);
    _cleanup_close_ int file =
        openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (file < 0)
        return refuse(EX_TEMPFAIL, "cannot write to " MAILDROP_FOLDER, errno);
    int status = write_message(folder, file, name);
    if (status != EX_OK)
        unlinkat(folder, name, 0);
    return status;
}
