/* SPDX-License-Identifier: MIT */
/*
 * The certificate that the service shows to a mail client after STARTTLS (smtp_server.h).
 */
#ifndef INBOXFS_SERVICE_TLS_H
#define INBOXFS_SERVICE_TLS_H

#include <openssl/ssl.h>

struct tls_config {
    const char *certificate_file; /* PEM, with the intermediate certificates; NULL for no TLS */
    const char *key_file;         /* PEM, not encrypted; other users must not be able to read it */
};

/* Reads both files. The caller frees *ret_context with SSL_CTX_free(); it is NULL without TLS. Return: 0, or
 * -errno with a reason (the caller frees it; NULL when out of memory). */
int tls_context_new(const struct tls_config *config, SSL_CTX **ret_context, char **ret_reason);

/* Returns a static text that says why the last call of OpenSSL on this thread failed. */
const char *tls_describe_error(void);

#endif
