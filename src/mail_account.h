/* SPDX-License-Identifier: MIT */
/*
 * Opens the service and the state directory that the options name, with the API key. For SOURCE
 * `local[:DIR]`, starts the local service in this process, on a Unix socket.
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
    int data_dir_fd; /* the local service's data directory; -1 if the service is elsewhere */
    int lock_fd;     /* holds the lock of the state directory */
};

/* Reads the key: from the file, else the text, else the command of the options. The caller frees it with
 * secret_free(). Return: 0, or -errno with a reason (the caller frees it). */
int mail_account_read_key(const struct options *options, char **ret_key, char **ret_reason);

/* Checks the file or directory with the certificate authorities to trust, if `url` is https. Return: 0, or
 * -errno with a reason (the caller frees it). */
int mail_account_check_authorities(const struct options *options, const char *url, char **ret_reason);

bool mail_account_is_local(const char *source);

/* Returns the path of the data directory of `local[:DIR]` (the caller frees it). */
char *mail_account_data_dir(const char *source);

/* Opens the account, without a request. Returns 0 or -errno, which is logged. The caller always releases
 * *ret_account. */
int mail_account_open(const struct options *options, struct mail_account *ret_account);

void mail_account_release(struct mail_account *account);

#endif
