/* SPDX-License-Identifier: MIT */
/*
 * The proof that a webhook comes from the service (interface, section 5): it is signed with the secret that
 * only the service and this account know, and was made a moment ago. Nothing of it is read before the
 * signature is found to be right, and nothing of it is believed but which inbox it is about.
 *
 * A body that somebody recorded can be sent again for as long as its timestamp is taken. So the signatures of
 * the newest bodies are remembered, and each body counts once.
 */
#ifndef INBOXFS_MAIL_WEBHOOK_H
#define INBOXFS_MAIL_WEBHOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEBHOOK_SIGNATURE_HEADER "X-BotMailRoom-Signature"

enum {
    WEBHOOK_BODY_MAX_BYTES = 2 * 1000 * 1000,
    WEBHOOK_CLOCK_MAX_MS = 300 * 1000, /* between the timestamp and our clock, either way */
    WEBHOOK_MEMORY_MAX = 4096,
};

/* Checks a body of `len` bytes against the text of its signature header (NULL: there is none) and the time
 * now. 0 and *ret_inbox_id, the inbox it is about (NULL: it does not say; the caller frees); -EACCES: not
 * signed with this secret; -EBADMSG: not what the service sends; -ESTALE: too old, or from the future;
 * -ENOMEM. */
int webhook_check(const char *secret, const char *signature, const void *body, size_t len, int64_t now_ms,
                  char **ret_inbox_id);

/* The newest webhooks that were taken; all zeros: none. */
struct webhook_memory {
    uint64_t signatures[WEBHOOK_MEMORY_MAX]; /* the first 64 bits of each */
    size_t next;                             /* to be overwritten */
};

/* Remembers a webhook by its signature, which webhook_check() found to be right. Returns false where the
 * memory has it already. */
bool webhook_memory_add(struct webhook_memory *memory, const char *signature);

#endif
