/* SPDX-License-Identifier: MIT */
/*
 * Which service to speak to, as whom, and where its state is kept: from the options to an open mail_service.
 * For SOURCE `local[:DIR]` this starts the local service inside the program, on a Unix socket.
 */
#ifndef INBOXFS_MAIL_ACCOUNT_H
#define INBOXFS_MAIL_ACCOUNT_H

#include <stdbool.h>

#include "mail/mail_service.h"
#include "options.h"

struct service;

struct mail_account {
    struct service *local; /* the service inside; NULL for one elsewhere */
    struct mail_service *service;
    char *shown_source; /* for users and the mount table: base URL or "local:DIR", never a key */
    int state_dir_fd;
    int data_dir_fd; /* the local service's; else -1 */
    int lock_fd;     /* holds the state directory's lock */
    bool is_local;
};

/* The key, by the order of the filesystem contract: file, environment, command, configuration. The caller
 * frees it with secret_free(). 0 or -errno, said on the log. */
int mail_account_read_key(const struct options *options, char **ret_key);

/* Looks at the file or directory with the authorities to trust, where `url` is encrypted. 0 or -errno;
 * *ret_reason (the caller frees) says what is wrong, or is NULL. */
int mail_account_check_authorities(const struct options *options, const char *url, char **ret_reason);

bool mail_account_is_local(const char *source);

/* The path of the data directory that `local[:DIR]` names. The caller frees. Return: NULL if it names none,
 * and there is no home for the default. */
char *mail_account_local_path(const char *source);

/* Opens everything, makes no request. 0 or -errno, said on the log; *ret_account is to be released in any
 * case. */
int mail_account_open(const struct options *options, struct mail_account *ret_account);

void mail_account_release(struct mail_account *account);

#endif
