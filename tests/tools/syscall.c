/* SPDX-License-Identifier: MIT */
/*
 * Makes one system call on a file, for tests: prints "ok" or the name of the error ("EBUSY"). If the
 * operation takes several calls, the name of the failed one comes first ("close EINVAL"). Exits with 0 only
 * for "ok". The shell's own commands translate errors into messages, retry, or do something else instead.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Each function returns 0, or -1 with errno set. It sets *step to the name of the failed call, unless the
 * operation itself failed. */
typedef int operation_function(char **operand, const char **step);

static int do_rename(char **operand, const char **step)
{
    return rename(operand[0], operand[1]);
}

static int do_rename_noreplace(char **operand, const char **step)
{
    return renameat2(AT_FDCWD, operand[0], AT_FDCWD, operand[1], RENAME_NOREPLACE);
}

static int do_rename_exchange(char **operand, const char **step)
{
    return renameat2(AT_FDCWD, operand[0], AT_FDCWD, operand[1], RENAME_EXCHANGE);
}

static int do_link(char **operand, const char **step)
{
    return link(operand[0], operand[1]);
}

static int do_symlink(char **operand, const char **step)
{
    return symlink(operand[0], operand[1]);
}

static int do_mkdir(char **operand, const char **step)
{
    return mkdir(operand[0], 0777);
}

static int do_rmdir(char **operand, const char **step)
{
    return rmdir(operand[0]);
}

static int do_unlink(char **operand, const char **step)
{
    return unlink(operand[0]);
}

static int do_mkfifo(char **operand, const char **step)
{
    return mkfifo(operand[0], 0600);
}

static int do_truncate(char **operand, const char **step)
{
    return truncate(operand[0], atoll(operand[1]));
}

static int do_chmod(char **operand, const char **step)
{
    return chmod(operand[0], (mode_t)strtol(operand[1], NULL, 8));
}

static int do_touch(char **operand, const char **step)
{
    return utimensat(AT_FDCWD, operand[0], NULL, 0);
}

static int do_getxattr(char **operand, const char **step)
{
    char value[256];
    return getxattr(operand[0], "user.test", value, sizeof(value)) < 0 ? -1 : 0;
}

/* Opens with flags as letters: r, w or rw; a append, t truncate, c create, x exclusive, d directory. */
static int open_as(const char *path, const char *letters)
{
    bool reads = strchr(letters, 'r') != NULL;
    bool writes = strchr(letters, 'w') != NULL;
    int flags = reads && writes ? O_RDWR : writes ? O_WRONLY : O_RDONLY;

    flags |= strchr(letters, 'a') != NULL ? O_APPEND : 0;
    flags |= strchr(letters, 't') != NULL ? O_TRUNC : 0;
    flags |= strchr(letters, 'c') != NULL ? O_CREAT : 0;
    flags |= strchr(letters, 'x') != NULL ? O_EXCL : 0;
    flags |= strchr(letters, 'd') != NULL ? O_DIRECTORY : 0;
    return open(path, flags | O_CLOEXEC, 0666);
}

static int do_open(char **operand, const char **step)
{
    int fd = open_as(operand[0], operand[1]);
    return fd < 0 ? -1 : close(fd);
}

/* Opens as the letters say, writes the text, closes. */
static int do_write(char **operand, const char **step)
{
    *step = "open";
    int fd = open_as(operand[0], operand[1]);
    if (fd < 0)
        return -1;
    *step = "write";
    size_t len = strlen(operand[2]);
    if (write(fd, operand[2], len) != (ssize_t)len)
        return -1;
    *step = "close";
    return close(fd);
}

/* Writes one byte at an offset, which leaves a hole before the byte. */
static int do_write_at(char **operand, const char **step)
{
    *step = "open";
    int fd = open_as(operand[0], "wc");
    if (fd < 0)
        return -1;
    *step = "write";
    if (pwrite(fd, "x", 1, atoll(operand[1])) != 1)
        return -1;
    *step = "close";
    return close(fd);
}

static int do_fallocate(char **operand, const char **step)
{
    *step = "open";
    int fd = open_as(operand[0], "wc");
    if (fd < 0)
        return -1;
    *step = "fallocate";
    if (fallocate(fd, 0, 0, atoll(operand[1])) < 0)
        return -1;
    *step = "close";
    return close(fd);
}

/* Does fsync(2) of a file or directory. */
static int do_fsync(char **operand, const char **step)
{
    *step = "open";
    int fd = open(operand[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    *step = NULL;
    return fsync(fd);
}

/* Writes the text at the start of a file, through a shared mapping. */
static int do_mmap(char **operand, const char **step)
{
    *step = "open";
    int fd = open_as(operand[0], "rw");
    if (fd < 0)
        return -1;
    *step = "mmap";
    size_t len = strlen(operand[1]);
    char *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -1;
    memcpy(map, operand[1], len);
    *step = "msync";
    if (msync(map, len, MS_SYNC) < 0)
        return -1;
    *step = "munmap";
    if (munmap(map, len) < 0)
        return -1;
    *step = "close";
    return close(fd);
}

/* Maps a file for writing, closes it, prints "mapped", and keeps the mapping until standard input ends. */
static int do_mmap_hold(char **operand, const char **step)
{
    *step = "open";
    int fd = open_as(operand[0], "rw");
    if (fd < 0)
        return -1;
    *step = "mmap";
    char *map = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -1;
    close(fd);
    puts("mapped");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}

static const struct {
    const char *name;
    int operands;
    operation_function *run;
} operations[] = {
    {"rename", 2, do_rename},
    {"rename-noreplace", 2, do_rename_noreplace},
    {"rename-exchange", 2, do_rename_exchange},
    {"link", 2, do_link},
    {"symlink", 2, do_symlink},
    {"mkdir", 1, do_mkdir},
    {"rmdir", 1, do_rmdir},
    {"unlink", 1, do_unlink},
    {"mkfifo", 1, do_mkfifo},
    {"truncate", 2, do_truncate},
    {"chmod", 2, do_chmod},
    {"touch", 1, do_touch},
    {"getxattr", 1, do_getxattr},
    {"open", 2, do_open},
    {"write", 3, do_write},
    {"write-at", 2, do_write_at},
    {"fallocate", 2, do_fallocate},
    {"fsync", 1, do_fsync},
    {"mmap", 2, do_mmap},
    {"mmap-hold", 1, do_mmap_hold},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        const char *step = NULL;

        if (argc < 2 || strcmp(argv[1], operations[i].name) != 0 || argc != 2 + operations[i].operands)
            continue;
        if (operations[i].run(argv + 2, &step) == 0) {
            puts("ok");
            return 0;
        }
        const char *error = strerrorname_np(errno);
        printf("%s%s%s\n", step != NULL ? step : "", step != NULL ? " " : "", error != NULL ? error : "?");
        return 1;
    }
    fprintf(stderr, "usage: syscall OPERATION OPERAND...; operations:");
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        fprintf(stderr, " %s", operations[i].name);
    fprintf(stderr, "\n");
    return 2;
}
