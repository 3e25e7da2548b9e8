/* SPDX-License-Identifier: MIT */
/*
 * Reads from /proc how writers end. Field numbers are those of proc(5), from 1.
 */
#include "outbox/writer_fate.h"

#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum {
    FIELD_NAME = 2,
    FIELD_FLAGS = 9,
    FIELD_EXIT_CODE = 52,
    FLAG_EXITING = 4, /* PF_EXITING */
    CAPABILITY_PTRACE = 19,
};

#define FIRST_PID_NAMESPACE 0xEFFFFFFC

/* Reads /proc/<pid>/<name>. Returns false on an error. */
static bool read_proc(pid_t pid, const char *name, char *ret_content, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = file_pread_all(fd, ret_content, size - 1, 0);
    if (len <= 0)
        return false;
    ret_content[len] = '\0';
    return true;
}

/* Returns the number after `field` ("\nTgid:") in /proc/<pid>/status, or 0. */
static uint64_t read_status(pid_t pid, const char *field, int base)
{
    char status[4096];
    const char *line = read_proc(pid, "status", status, sizeof(status)) ? strstr(status, field) : NULL;
    return line == NULL ? 0 : strtoull(line + strlen(field), NULL, base);
}

static bool get_field(char **fields, guint wanted, uint64_t *ret_value)
{
    guint index = wanted - FIELD_NAME;
    return index < g_strv_length(fields) &&
           g_ascii_string_to_unsigned(fields[index], 10, 0, UINT64_MAX, ret_value, NULL);
}

/* The name may have parentheses and spaces, so fields are counted from the last ")". */
enum writer_fate writer_fate_parse(const char *stat, bool may_look)
{
    uint64_t flags;
    uint64_t exit_code;
    const char *name_end = strrchr(stat, ')');
    g_auto(GStrv) fields = g_strsplit_set(name_end != NULL ? name_end : "", " \n", -1);
    if (!get_field(fields, FIELD_FLAGS, &flags) || (flags & FLAG_EXITING) == 0)
        return WRITER_LIVES;
    if (!may_look || !get_field(fields, FIELD_EXIT_CODE, &exit_code))
        return WRITER_HIDDEN;
    unsigned int signal_number = exit_code & 0x7f;
    if (signal_number != 0 && signal_number != SIGPIPE)
        return WRITER_KILLED;
    return exit_code == 0 ? WRITER_SUCCEEDED : WRITER_EXITED;
}

/* Returns false if /proc was mounted for another pid namespace, so that its pids mean other processes. */
static bool is_proc_ours(void)
{
    char target[32];
    ssize_t len = readlink("/proc/self", target, sizeof(target) - 1);
    target[len > 0 ? len : 0] = '\0';
    return strtol(target, NULL, 10) == getpid();
}

const char *writer_fate_unseen_reason(void)
{
    struct stat status;
    if (!is_proc_ours())
        return "/proc is not of this program's pid namespace: how programs end that write into outbox/ "
               "is not seen. Write to drafts/ and mv";
    /* The first pid namespace has a fixed number (PROC_PID_INIT_INO of the kernel). */
    if (stat("/proc/self/ns/pid", &status) == 0 && status.st_ino != FIRST_PID_NAMESPACE)
        return "in a pid namespace of its own (a container): how programs outside it end that write into "
               "outbox/ is not seen. There, write to drafts/ and mv";
    return NULL;
}

/* An exiting task frees its memory before it closes its files: its memory size (statm) is 0 then. execve(2)
 * closes files while it holds a lock that some kernels take to read the stat file. The program then waits for
 * the daemon's answer, so a read of the stat file would never end; statm takes no such lock. */
enum writer_fate writer_fate_read(pid_t pid)
{
    char content[2048];
    char path[64];
    struct stat status;
    if (pid <= 0 || !is_proc_ours())
        return WRITER_UNSEEN;
    if (read_proc(pid, "statm", content, sizeof(content)) && strtoull(content, NULL, 10) != 0)
        return WRITER_LIVES;
    if (!read_proc(pid, "stat", content, sizeof(content)))
        return WRITER_UNSEEN;
    /* The folder keeps its owner; its files belong to root once an exiting task has freed its memory. */
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    bool is_own = stat(path, &status) == 0 && status.st_uid == geteuid();
    bool can_trace = (read_status(getpid(), "\nCapEff:", 16) >> CAPABILITY_PTRACE & 1) != 0;
    return writer_fate_parse(content, is_own || can_trace);
}

pid_t writer_process(pid_t pid)
{
    pid_t process = pid > 0 ? (pid_t)read_status(pid, "\nTgid:", 10) : 0;
    return process > 0 ? process : pid;
}

pid_t writer_session(pid_t pid)
{
    pid_t session = pid > 0 ? getsid(pid) : 0;
    return session > 0 ? session : 0;
}
