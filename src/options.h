/* SPDX-License-Identifier: MIT */
/*
 * The options that a user gave. A value is taken from the command line, else from the environment, else from
 * the configuration file, else it is the default (filesystem contract, "Starting"; inboxfs(8)); if an account
 * was named, the configuration comes before the environment. Each option is a row of the table in options.c:
 * its name, what it takes, its default, where it may stand, and its line of --help.
 */
#ifndef INBOXFS_OPTIONS_H
#define INBOXFS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    char *source;       /* base URL, or "local[:DIR]"; never NULL after options_read() */
    char *account;      /* the section of the configuration that was named; NULL if none was */
    char *mountpoint;   /* absolute; NULL when is_check */
    char *api_key_file; /* this and the next texts are NULL when not given */
    char *api_key_command;
    char *api_key; /* from the environment or the configuration; wiped by options_release() */
    char *ca_file; /* or a directory; absolute */
    char *state_dir;
    char *default_from;
    char *webhook_listen; /* given together with the file, or not at all */
    char *webhook_secret_file;
    int64_t poll_interval_s;
    int64_t daily_limit;      /* -1: none */
    int64_t content_cache_mb; /* millions of bytes */
    int64_t shown_uid;        /* shown for everything in the mount; -1: not changed. Likewise the next two */
    int64_t shown_gid;
    int64_t shown_umask;
    bool trusts_idempotency;
    bool allows_http;
    bool adopts_state;
    bool is_metadata_only;
    bool is_key_of_environment; /* api_key comes from the environment */
    bool is_check;              /* `inboxfs check`: nothing is to be mounted */
    bool is_foreground;
    bool is_debug;
    char *mount_options; /* the options of -o for libfuse and the kernel; or NULL */
};

enum options_result {
    OPTIONS_RUN,    /* go on */
    OPTIONS_DONE,   /* help or version was printed, or mount(8) wanted only a check */
    OPTIONS_FAILED, /* standard error has the reason */
};

/* Returns true if mount(8) started the program, as mount.inboxfs: the switches and exit statuses are those of
 * mount(8) then. */
bool options_is_mount_helper(void);

/* Reads all options. The caller always releases *ret_options. Wipes a key from the environment, so that the
 * key shows neither in /proc/PID/environ nor in children. */
enum options_result options_read(int argc, char **argv, struct options *ret_options);

void options_release(struct options *options);

/* Returns the path of a user's folder or file: $VARIABLE/REST if the variable holds an absolute path, else
 * ~/FOLDER/REST. The caller frees it; NULL if HOME is no absolute path either. */
char *options_user_path(const char *variable, const char *folder, const char *rest);

#endif
