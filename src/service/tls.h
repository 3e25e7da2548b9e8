/* SPDX-License-Identifier: MIT */
/*
 * The certificate with which the service shows itself where STARTTLS is said (smtp_server.h). OpenSSL does
 * the rest; libcurl loads it anyway.
 */
#ifndef INBOXFS_SERVICE_TLS_H
#define INBOXFS_SERVICE_TLS_H

#include <openssl/ssl.h>

struct tls_config {
    const char *certificate_file; /* PEM: the certificate, and those of authorities between; NULL: no TLS */
    const char *key_file;         /* PEM, not encrypted, closed to others as a secret is */
};

/* Reads both files. *ret_context: to be freed with SSL_CTX_free(), NULL where there is no TLS. 0 or -errno,
 * then with the words in *ret_reason (the caller frees; NULL without memory). */
int tls_context_new(const struct tls_config *config, SSL_CTX **ret_context, char **ret_reason);

/* Why the last call of OpenSSL on this thread failed, in words. */
const char *tls_describe_error(void);

#endif
