/* SPDX-License-Identifier: MIT */
/*
 * Checks that a webhook comes from the service (interface, section 5): it is signed with the secret that only
 * the service and this account know, and its timestamp is recent. The body is parsed only after its signature
 * was verified, and only the id of its inbox is used.
 *
 * An attacker can send a recorded body again while its timestamp is recent. So the signatures of the newest
 * bodies are remembered, and each body counts once.
 */
#ifndef INBOXFS_MAIL_WEBHOOK_H
#define INBOXFS_MAIL_WEBHOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEBHOOK_SIGNATURE_HEADER "X-BotMailRoom-Signature"

enum {
    WEBHOOK_BODY_MAX_BYTES = 2 * 1000 * 1000,
    WEBHOOK_CLOCK_MAX_MS = 300 * 1000, /* largest difference between the timestamp and our clock */
    WEBHOOK_MEMORY_MAX = 4096,
};

/* Checks a body of `len` bytes against its signature header (NULL if there is none) and the current time.
 * *ret_inbox_id (the caller frees) is NULL if the body names no inbox. Return: 0; -EACCES if the body is not
 * signed with this secret; -EBADMSG if it is not JSON or has no timestamp; -ESTALE if the timestamp differs
 * from `now_ms` by more than WEBHOOK_CLOCK_MAX_MS. */
int webhook_check(const char *secret, const char *signature, const void *body, size_t len, int64_t now_ms,
                  char **ret_inbox_id);

/* The newest accepted webhooks; all zeros if there are none. */
struct webhook_memory {
    uint64_t signatures[WEBHOOK_MEMORY_MAX]; /* first 64 bits of each signature; 0 if unused */
    size_t next;                             /* index of the signature to overwrite next */
};

/* Remembers a webhook by its signature, which webhook_check() must have verified. Returns false if the memory
 * has the signature already. */
bool webhook_memory_add(struct webhook_memory *memory, const char *signature);

#endif
