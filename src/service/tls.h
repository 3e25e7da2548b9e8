/* SPDX-License-Identifier: MIT */
/*
 * The certificate that the service shows after STARTTLS (smtp_server.h), for OpenSSL, which libcurl loads
 * anyway.
 */
#ifndef INBOXFS_SERVICE_TLS_H
#define INBOXFS_SERVICE_TLS_H

#include <openssl/ssl.h>

struct tls_config {
    const char *certificate_file; /* PEM: the certificate and the intermediate ones; NULL: no TLS */
    const char *key_file;         /* PEM, not encrypted; only its owner can read it */
};

/* Reads both files. The caller frees *ret_context with SSL_CTX_free(); it is NULL without TLS. Return: 0, or
 * -errno with a reason (the caller frees it; NULL without memory). */
int tls_context_new(const struct tls_config *config, SSL_CTX **ret_context, char **ret_reason);

/* Returns why the last call of OpenSSL on this thread failed, in words. */
const char *tls_describe_error(void);

#endif
