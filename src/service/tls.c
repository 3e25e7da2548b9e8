/* SPDX-License-Identifier: MIT */
#include "service/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/secret_file.h"
#include "mail/reason.h"

enum {
    KEY_MAX_BYTES = 64 * 1024
};

const char *tls_describe_error(void)
{
    unsigned long error = ERR_peek_error();
    const char *words = error == 0                ? "the connection ended"
                        : ERR_SYSTEM_ERROR(error) ? strerrordesc_np(ERR_GET_REASON(error))
                                                  : ERR_reason_error_string(error);
    ERR_clear_error();
    return words != NULL ? words : "unknown error";
}

/* By default OpenSSL would ask for the passphrase on the terminal, and wait. */
static int give_no_passphrase(char *passphrase, int size, int is_writing, void *context)
{
    (void)passphrase, (void)size, (void)is_writing, (void)context;
    return -1;
}

static int read_key(const char *path, EVP_PKEY **ret_key, char **ret_reason)
{
    char *text = NULL;
    size_t len = 0;
    int error = secret_file_read_all(path, "the key file", KEY_MAX_BYTES, &text, &len, ret_reason);
    if (error != 0)
        return error;
    BIO *bio = BIO_new_mem_buf(text, (int)len);
    *ret_key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, give_no_passphrase, NULL) : NULL;
    BIO_free(bio);
    explicit_bzero(text, len);
    free(text);
    if (*ret_key == NULL)
        return reason_give(ret_reason, -EINVAL,
                           "the key file %s holds no key in PEM that is not encrypted: %s", path,
                           tls_describe_error());
    return 0;
}

static int use_files(SSL_CTX *context, const struct tls_config *config, char **ret_reason)
{
    EVP_PKEY *key = NULL;
    if (SSL_CTX_use_certificate_chain_file(context, config->certificate_file) != 1)
        return reason_give(ret_reason, -EINVAL, "the certificate %s: %s", config->certificate_file,
                           tls_describe_error());
    int error = read_key(config->key_file, &key, ret_reason);
    if (error == 0 && SSL_CTX_use_PrivateKey(context, key) != 1)
        error = reason_give(ret_reason, -EINVAL, "the key in %s is not that of the certificate %s: %s",
                            config->key_file, config->certificate_file, tls_describe_error());
    EVP_PKEY_free(key);
    return error;
}

int tls_context_new(const struct tls_config *config, SSL_CTX **ret_context, char **ret_reason)
{
    *ret_context = NULL;
    if (config->certificate_file == NULL)
        return 0;
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == NULL)
        return -ENOMEM;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CLEANSE_PLAINTEXT);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    int error = use_files(context, config, ret_reason);
    if (error == 0)
        *ret_context = context;
    else
        SSL_CTX_free(context);
    return error;
}
