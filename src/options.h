/* SPDX-License-Identifier: MIT */
/*
 * The options that a user gave. A value is taken from the command line, else from the environment, else from
 * the configuration file, else it is the default (filesystem contract, "Starting"; inboxfs(8)). If an account
 * was named, the configuration precedes the environment.
 */
#ifndef INBOXFS_OPTIONS_H
#define INBOXFS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tree/tree.h"

/* A text is NULL if it is not given. */
struct options {
    char *source;       /* base URL, or "local[:DIR]"; not NULL after options_read() */
    char *account;      /* the name of the account's section of the configuration */
    char *mountpoint;   /* the real path if the folder exists; NULL if is_check */
    char *config;       /* path of the configuration file */
    char *api_key_file; /* a path */
    char *api_key_command;
    char *api_key; /* from the environment or the configuration; wiped by options_release() */
    char *ca_file; /* absolute path of a file or directory */
    char *state_dir;
    char *default_from;
    char *webhook_listen; /* NULL if and only if webhook_secret_file is NULL */
    char *webhook_secret_file;
    int64_t poll_interval_s;
    int64_t daily_limit;      /* emails per UTC day; -1: no limit */
    int64_t content_cache_mb; /* millions of bytes */
    struct tree_ownership shown_as;
    bool trusts_idempotency;
    bool allows_http;
    bool adopts_state;
    bool is_metadata_only;
    bool is_key_of_environment; /* api_key comes from INBOXFS_API_KEY */
    bool is_check;              /* `inboxfs check` */
    bool is_foreground;
    bool is_debug;
    char *mount_options; /* the options of -o for libfuse and the kernel */
};

/* Returns true if the program was started as mount.inboxfs: by mount(8), which has switches of its own. */
bool options_is_mount_helper(void);

/* Reads all options. The caller always releases *ret_options. Wipes a key from the environment, so that it is
 * neither in /proc/PID/environ nor inherited by children. Returns -1 to continue, or the exit status:
 * EXIT_SUCCESS if help or the version was printed, or if mount(8) only checks the options, which are valid;
 * EXIT_USAGE after the reason was logged. */
int options_read(int argc, char **argv, struct options *ret_options);

void options_release(struct options *options);

#endif
