/* SPDX-License-Identifier: MIT */
/*
 * Chooses the service, the API key and the state directory by the options, and opens the mail_service. For
 * SOURCE `local[:DIR]` this starts the local service inside the program, on a Unix socket.
 */
#ifndef INBOXFS_MAIL_ACCOUNT_H
#define INBOXFS_MAIL_ACCOUNT_H

#include <stdbool.h>

#include "mail/mail_service.h"
#include "options.h"

struct service;

struct mail_account {
    struct service *local; /* the local service; NULL if the service is elsewhere */
    struct mail_service *service;
    char *shown_source; /* for users and the mount table: base URL or "local:DIR", never a key */
    int state_dir_fd;
    int data_dir_fd; /* the local service's; else -1 */
    int lock_fd;     /* holds the state directory's lock */
    bool is_local;
};

/* Reads the key, in the order of the filesystem contract: file, environment, command, configuration. The
 * caller frees it with secret_free(). Returns 0 or -errno, which is logged. */
int mail_account_read_key(const struct options *options, char **ret_key);

/* Checks the file or directory with the authorities to trust, if `url` is encrypted. Returns 0 or -errno;
 * *ret_reason (the caller frees it) is the text for the user, or NULL. */
int mail_account_check_authorities(const struct options *options, const char *url, char **ret_reason);

bool mail_account_is_local(const char *source);

/* Returns the path of the data directory of `local[:DIR]` (the caller frees it), or NULL if it names none and
 * the default has no home directory. */
char *mail_account_local_path(const char *source);

/* Opens the account, without a request. Returns 0 or -errno, which is logged. The caller always releases
 * *ret_account. */
int mail_account_open(const struct options *options, struct mail_account *ret_account);

void mail_account_release(struct mail_account *account);

#endif
